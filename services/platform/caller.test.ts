// A caller whose replicas stall or are away.
import { connect, createServer, type AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Code, ConnectError, createClient, type HandlerContext } from '@connectrpc/connect';
import { Server, ServerCredentials, type sendUnaryData } from '@grpc/grpc-js';
import { startGrpcServer } from '../../test/grpc-server.ts';
import { openProxy } from '../../test/proxy.ts';
import { Health } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { openCaller } from './caller.ts';
import { refuse } from './errors.ts';

test('a replica that lets a call time out gets no other one while there is another replica', async () => {
  const answered = [0, 0];
  const replicas = await Promise.all(
    answered.map(async (_, place) => {
      const readiness = async () => {
        answered[place]!++;
        return { ready: true, dependencies: {} };
      };
      const served = await startGrpcServer({ readiness });
      return { served, proxy: await openProxy(served.port) };
    }),
  );
  const addresses = replicas.map(({ proxy }) => `127.0.0.1:${proxy.port}`);
  const caller = openCaller({ addresses, token: 'token', maxMessageBytes: 1 << 20 });
  const health = createClient(Health, caller);
  try {
    while (answered.includes(0)) await health.check({});
    replicas[0]?.proxy.hold(true);
    // The one that stalls lets a call time out, and the other one answers all that come then, however busy the machine is.
    const timesOut = () =>
      health.check({}, { timeoutMs: 5_000 }).then(
        () => false,
        () => true,
      );
    while (!(await timesOut()));
    for (let call = 0; call < 12; call++) await health.check({}, { timeoutMs: 20_000 });
    // With the other one away it is asked again.
    replicas[0]?.proxy.hold(false);
    await replicas[1]?.served.close();
    const before = answered[0]!;
    while (answered[0] === before) await health.check({}).catch(() => undefined);
  } finally {
    caller.close();
    for (const { served, proxy } of replicas) {
      await proxy.close();
      await served.close();
    }
  }
});

/** A ledger whose calls all come to `handle`. */
function ledger(handle: (context: HandlerContext) => Promise<object>) {
  const methods = ['getAccount', 'postTransaction'].map((name) => [name, (_: object, context: HandlerContext) => handle(context)]);
  return startGrpcServer({
    services: [LedgerService],
    routes: (router) => router.service(LedgerService, Object.fromEntries(methods) as object),
  });
}

const retried = [LedgerService.method.getAccount];

test('a read that a replica can’t answer is asked of another one, within its deadline, and what writes is not', async () => {
  let asked = 0;
  let left = 0;
  const away = await ledger(async () => {
    asked++;
    await pause(100);
    throw new ConnectError('away', Code.Unavailable);
  });
  const well = await ledger(({ timeoutMs }) => ((left = timeoutMs() ?? Infinity), Promise.resolve({})));
  const addresses = [away, well].map(({ port }) => `127.0.0.1:${port}`);
  const caller = openCaller({ addresses, token: 'token', maxMessageBytes: 1 << 20, retried });
  const client = createClient(LedgerService, caller);
  try {
    while (asked === 0) await client.getAccount({}, { timeoutMs: 20_000 });
    expect(left).toBeLessThan(20_000 - 90);
    const posted = () => client.postTransaction({}).then(String, (error: ConnectError) => error.code);
    expect(await Promise.all([posted(), posted()])).toContain(Code.Unavailable);
    // One line is one replica.
    const lines = caller.lines().map((line) => createClient(LedgerService, line).getAccount({}));
    expect((await Promise.allSettled(lines)).map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  } finally {
    caller.close();
    await Promise.all([away.close(), well.close()]);
  }
});

test('a read that two replicas can’t answer is refused, as is one where there is no other', async () => {
  const asked = [0, 0, 0];
  const ledgers = await Promise.all(
    asked.map((_, place) => ledger(() => (asked[place]!++, Promise.reject(new ConnectError('away', Code.Unavailable))))),
  );
  const addresses = ledgers.map(({ port }) => `127.0.0.1:${port}`);
  const callers = [addresses, addresses.slice(0, 1)].map((each) =>
    openCaller({ addresses: each, token: 'token', maxMessageBytes: 1 << 20, retried }),
  );
  try {
    for (const [place, replicas] of [2, 1].entries()) {
      asked.fill(0);
      await expect(createClient(LedgerService, callers[place]!).getAccount({})).rejects.toThrow('away');
      expect(asked.filter((times) => times > 0)).toHaveLength(replicas);
    }
  } finally {
    for (const caller of callers) caller.close();
    await Promise.all(ledgers.map((each) => each.close()));
  }
});

test('a replica that says that the database is away speaks for all: no other one is asked, and its words reach the caller', async () => {
  let asked = 0;
  const ledgers = await Promise.all(
    ['one', 'other'].map(() =>
      ledger(() => {
        asked++;
        return Promise.reject(refuse(Code.Unavailable, { reason: 'unavailable', message: `the database is away, ${asked}` }));
      }),
    ),
  );
  const addresses = ledgers.map(({ port }) => `127.0.0.1:${port}`);
  const caller = openCaller({ addresses, token: 'token', maxMessageBytes: 1 << 20, retried });
  try {
    await expect(createClient(LedgerService, caller).getAccount({})).rejects.toThrow('the database is away, 1');
    expect(asked).toBe(1);
  } finally {
    caller.close();
    await Promise.all(ledgers.map((each) => each.close()));
  }
});

test('a replica that ends is not asked any more, though it still answers what it was asked, and what writes reaches another one', async () => {
  const held: (() => void)[][] = [[], []];
  let holding = true;
  const replicas = await Promise.all(
    held.map((calls) => ledger(() => new Promise((done) => (holding ? calls.push(() => done({})) : done({}))))),
  );
  const addresses = replicas.map(({ port }) => `127.0.0.1:${port}`);
  const caller = openCaller({ addresses, token: 'token', maxMessageBytes: 1 << 20 });
  const client = createClient(LedgerService, caller);
  const posted: Promise<unknown>[] = [];
  let ended: Promise<void> | undefined;
  try {
    // The one that ends has fewer calls in flight.
    const [one, other] = held as [(() => void)[], (() => void)[]];
    while (one.length === 0 || other.length < 2) {
      posted.push(client.postTransaction({}, { timeoutMs: 60_000 }));
      await pause(5);
      while (one.length > 1) one.pop()?.();
    }
    holding = false;
    ended = replicas[0]!.close();
    const refused = () =>
      new Promise((done) => {
        const socket = connect(replicas[0]!.port, '127.0.0.1', () => done(!socket.destroy()));
        socket.once('error', () => done(true));
      });
    while (!(await refused())) await pause(5);
    for (let call = 0; call < 10; call++) await client.postTransaction({});
  } finally {
    for (const release of held.flat()) release();
    await Promise.all(posted);
    caller.close();
    await Promise.all([ended, replicas[1]!.close()]);
  }
});

test('a name whose look-up hangs holds a call no longer than its caller waits', async () => {
  const asked = { token: 'token', maxMessageBytes: 1 << 20, resolve: () => new Promise<never>(() => undefined) };
  const caller = openCaller({ addresses: ['ledger.test:1'], ...asked });
  const client = createClient(LedgerService, caller);
  const leaving = new AbortController();
  try {
    await expect(client.getAccount({}, { timeoutMs: 50 })).rejects.toMatchObject({ code: Code.DeadlineExceeded });
    const left = client.getAccount({}, { timeoutMs: 300_000, signal: leaving.signal });
    leaving.abort();
    await expect(left).rejects.toMatchObject({ code: Code.Canceled });
  } finally {
    caller.close();
  }
});

test('an answer that is no message of its type is an internal error', async () => {
  const server = new Server();
  const same = (bytes: Buffer) => bytes;
  server.register(
    '/ledger.v1.LedgerService/GetAccount',
    (_: unknown, answer: sendUnaryData<Buffer>) => answer(null, Buffer.of(0xff)),
    same,
    same,
    'unary',
  );
  const port = await promisify(server.bindAsync.bind(server))('127.0.0.1:0', ServerCredentials.createInsecure());
  const caller = openCaller({ addresses: [`127.0.0.1:${port}`], token: 'token', maxMessageBytes: 1 << 20, retried });
  try {
    const asked = createClient(LedgerService, caller).getAccount({});
    await expect(asked).rejects.toMatchObject({ code: Code.Internal, rawMessage: 'the answer is no ledger.v1.GetAccountResponse' });
  } finally {
    caller.close();
    server.forceShutdown();
  }
});

test('a proxy for the world outside is sent neither a call nor the token', async () => {
  const outside = await startServer();
  const inside = await startGrpcServer();
  const before = process.env['http_proxy'];
  process.env['http_proxy'] = `http://127.0.0.1:${outside.port}`;
  const caller = openCaller({ addresses: [`127.0.0.1:${inside.port}`], token: 'token', maxMessageBytes: 1 << 20 });
  try {
    expect(await createClient(Health, caller).check({})).toMatchObject({ status: 1 });
    expect(outside.connections()).toBe(0);
  } finally {
    if (before === undefined) delete process.env['http_proxy'];
    else process.env['http_proxy'] = before;
    caller.close();
    await inside.close();
    outside.close();
  }
});

/** Ends every connection, and counts them. */
async function startServer(): Promise<{ port: number; connections: () => number; close: () => void }> {
  let connections = 0;
  const server = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return { port: (server.address() as AddressInfo).port, connections: () => connections, close: () => void server.close() };
}
