import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Code, ConnectError, createClient, type Client, type HandlerContext } from '@connectrpc/connect';
import { Server, ServerCredentials, type sendUnaryData } from '@grpc/grpc-js';
import { AuditService } from '../../proto/gen/ledger/v1/audit_pb.js';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { startGrpcServer } from '../../test/grpc-server.ts';
import { until as untilResult } from '../../test/polling.ts';
import { openProxy } from '../../test/proxy.ts';
import { openCaller, refusalOf, type Caller, type CallerOptions } from './caller.ts';
import { refuse } from './errors.ts';
import type { RunningServer } from './lifetime.ts';
import type { ServeOptions } from './serve.ts';

const until = (isSo: () => boolean) => untilResult(() => Promise.resolve(isSo()), Boolean);
const { method } = LedgerService;
const maxMessageBytes = 1 << 20;

// Closed in the opposite order.
const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
});

type Handle = (context: HandlerContext, request: object) => Promise<object> | object;

/** A ledger all of whose calls come to `handle`. */
async function ledger(handle: Handle, options: Partial<ServeOptions> = {}): Promise<RunningServer> {
  const answer = (request: object, context: HandlerContext) => Promise.resolve(handle(context, request));
  const server = await startGrpcServer({
    services: [LedgerService],
    routes: (router) =>
      router.service(LedgerService, { getAccount: answer, getBalance: answer, listTransactions: answer, postTransaction: answer }),
    ...options,
  });
  opened.push(() => server.close());
  return server;
}

function callerOf(servers: { port: number }[] | string[], options: Partial<CallerOptions> = {}): Caller {
  const addresses = servers.map((each) => (typeof each === 'string' ? each : `127.0.0.1:${each.port}`));
  const caller = openCaller({ addresses, token: 'token', maxMessageBytes, retried: [method.getAccount], ...options });
  opened.push(() => caller.close());
  return caller;
}

function clientOf(servers: { port: number }[] | string[], options?: Partial<CallerOptions>): Client<typeof LedgerService> {
  return createClient(LedgerService, callerOf(servers, options));
}

const away = () => Promise.reject(new ConnectError('away', Code.Unavailable));

test('a call goes with its headers and its deadline, and its errors come with their details', async () => {
  const seen: unknown[] = [];
  const served = await ledger(({ requestHeader, timeoutMs }) => {
    seen.push(requestHeader.get('x-request-id'), (timeoutMs() ?? 0) <= 4_000, (timeoutMs() ?? 0) > 2_000);
    const refusal = { reason: 'overloaded', message: 'too much, wait', field: 'entries', value: '5 ₦', retryAfter: 3 };
    return Promise.reject(refuse(Code.ResourceExhausted, refusal));
  });
  const client = clientOf([served]);
  const failure: unknown = await client
    .postTransaction({}, { timeoutMs: 4_000, headers: { 'x-request-id': 'req_1' } })
    .catch((e: unknown) => e);
  expect(seen).toEqual(['req_1', true, true]);
  expect(failure).toMatchObject({ code: Code.ResourceExhausted, rawMessage: 'too much, wait' });
  expect(refusalOf(failure)).toMatchObject({
    reason: 'overloaded',
    message: 'too much, wait',
    field: 'entries',
    value: '5 ₦',
    retryAfter: 3,
  });
  expect(refusalOf(new ConnectError('lost'))).toBeNull();
});

test('a request of a type with an encoder has the bytes that it makes', async () => {
  const requests: object[] = [];
  const served = await ledger((_, request) => (requests.push(request), {}));
  const encoders = new Map([[method.getAccount.input, () => Buffer.from([0x0a, 1, 0x78])]]);
  await clientOf([served], { encoders }).getAccount({ tenantId: 'other' });
  expect(requests).toMatchObject([{ tenantId: 'x' }]);
});

test('a call that is canceled, or waits too long, says so, and its handler is told', async () => {
  const reasons: unknown[] = [];
  const served = await ledger(async ({ signal }) => {
    await once(signal, 'abort');
    reasons.push((signal.reason as ConnectError).code);
    return {};
  });
  const client = clientOf([served]);
  await expect(client.getAccount({}, { timeoutMs: 200 })).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  await until(() => reasons.length === 1);
  const leaving = new AbortController();
  const left = client.getAccount({}, { signal: leaving.signal });
  await pause(50);
  leaving.abort();
  await expect(left).rejects.toMatchObject({ code: Code.Canceled });
  await until(() => reasons.length === 2);
  expect(reasons[1]).toBe(Code.Canceled);
  await expect(client.getAccount({}, { signal: leaving.signal })).rejects.toMatchObject({ code: Code.Canceled });
});

test('messages larger than the limit are refused, in either direction', async () => {
  const served = await ledger(() => ({ transaction: { description: 'x'.repeat(2 * maxMessageBytes) } }), {
    maxMessageBytes: 4 * maxMessageBytes,
  });
  const client = clientOf([served]);
  await expect(client.postTransaction({})).rejects.toMatchObject({ code: Code.ResourceExhausted });
  const description = 'x'.repeat(2 * maxMessageBytes);
  await expect(client.postTransaction({ posting: { description } })).rejects.toMatchObject({ code: Code.ResourceExhausted });
});

test('an answer that is no message of its type is an internal error', async () => {
  const server = new Server();
  const same = (bytes: Buffer) => bytes;
  const broken = (_: unknown, answer: sendUnaryData<Buffer>) => answer(null, Buffer.of(0xff));
  server.register('/ledger.v1.LedgerService/GetAccount', broken, same, same, 'unary');
  const port = await promisify(server.bindAsync.bind(server))('127.0.0.1:0', ServerCredentials.createInsecure());
  opened.push(() => server.forceShutdown());
  await expect(clientOf([{ port }]).getAccount({})).rejects.toMatchObject({ code: Code.Internal });
});

test('calls go to the replicas in turn', async () => {
  const calls = [0, 0, 0];
  const servers = await Promise.all(calls.map((_, place) => ledger(() => (calls[place]!++, {}))));
  const client = clientOf(servers);
  while (calls.includes(0)) await client.postTransaction({});
  const before = [...calls];
  for (let call = 0; call < 9; call++) await client.postTransaction({});
  expect(calls.map((each, place) => each - before[place]!)).toEqual([3, 3, 3]);
});

test('a read that a replica can not answer is tried at another one, within its deadline, and a write is not', async () => {
  let asked = 0;
  let left = 0;
  const bad = await ledger(async () => {
    asked++;
    await pause(100);
    return away();
  });
  const good = await ledger(({ timeoutMs }) => ((left = timeoutMs() ?? Infinity), {}));
  const caller = callerOf([bad, good]);
  const client = createClient(LedgerService, caller);
  while (asked < 3) await client.getAccount({}, { timeoutMs: 20_000 });
  expect(left).toBeLessThan(20_000 - 90);
  const posted = () => client.postTransaction({}).then(String, (error: ConnectError) => error.code);
  expect(await Promise.all([posted(), posted()])).toContain(Code.Unavailable);
  // A transport to one replica tries no other one.
  const each = caller.replicas().map((replica) => createClient(LedgerService, replica).getAccount({}));
  expect((await Promise.allSettled(each)).map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
});

test('a read that nobody can answer fails after three attempts, a write after one', async () => {
  const asked = [0, 0];
  const servers = await Promise.all(asked.map((_, place) => ledger(() => (asked[place]!++, away()))));
  for (const replicas of [servers, servers.slice(0, 1)]) {
    asked.fill(0);
    const client = clientOf(replicas);
    await expect(client.getAccount({})).rejects.toThrow('away');
    expect(asked[0]! + asked[1]!).toBe(3);
    await expect(client.postTransaction({})).rejects.toThrow('away');
    expect(asked[0]! + asked[1]!).toBe(4);
  }
});

test('a service that can be reached and says that its database can not is not asked again', async () => {
  let asked = 0;
  const refusing = () => (asked++, Promise.reject(refuse(Code.Unavailable, { reason: 'unavailable', message: 'the database is away' })));
  const client = clientOf([await ledger(refusing), await ledger(refusing)]);
  await expect(client.getAccount({})).rejects.toThrow('the database is away');
  expect(asked).toBe(1);
});

test('a replica that does not answer any more is not called, reads of it are asked of the other one, and it is called when it is back', async () => {
  const calls = [0, 0];
  const servers = await Promise.all(calls.map((_, place) => ledger(() => (calls[place]!++, {}))));
  const proxies = await Promise.all(servers.map(({ port }) => openProxy(port)));
  opened.push(...proxies.map((proxy) => () => proxy.close()));
  const client = clientOf(proxies);
  while (calls.includes(0)) await client.getAccount({});
  proxies[0]!.isolate(true);
  await Promise.all(Array.from({ length: 8 }, () => client.getAccount({}, { timeoutMs: 60_000 })));
  const before = calls[0]!;
  for (let call = 0; call < 8; call++) await client.postTransaction({});
  expect(calls[0]).toBe(before);
  proxies[0]!.isolate(false);
  while (calls[0] === before) await client.getAccount({});
});

test('of the replicas one that lets a call time out is left out for a while', async () => {
  const handle = ({ method: called }: HandlerContext) => (called === method.getBalance ? new Promise<object>(() => undefined) : {});
  const servers = [await ledger(handle), await ledger(() => ({}))];
  const caller = callerOf(servers);
  await until(() => caller.replicas().length === 2);
  const slow = caller.replicas().find(({ address }) => address === `127.0.0.1:${servers[0]!.port}`)!;
  await expect(createClient(LedgerService, slow).getBalance({}, { timeoutMs: 1_000 })).rejects.toMatchObject({
    code: Code.DeadlineExceeded,
  });
  expect(caller.replicas()).not.toContain(slow);
  await servers[1]!.close();
  await until(() => caller.replicas().includes(slow));
});

test('a replica that closes answers what it has begun and gets nothing more; what writes goes to the other one, and none fails', async () => {
  const held: (() => void)[] = [];
  let isHolding = true;
  const servers = await Promise.all(
    [0, 1].map(() => ledger(() => (isHolding ? new Promise((resolve) => held.push(() => resolve({}))) : {}))),
  );
  const client = clientOf(servers);
  const posted = Array.from({ length: 6 }, () => client.postTransaction({}, { timeoutMs: 60_000 }));
  await until(() => held.length === 6);
  isHolding = false;
  const closed = servers[0]!.close();
  const isRefused = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(servers[0]!.port, '127.0.0.1', () => resolve(!socket.destroy()));
      socket.once('error', () => resolve(true));
    });
  await untilResult(isRefused, Boolean);
  for (let call = 0; call < 10; call++) await client.postTransaction({});
  held.forEach((release) => release());
  expect(await Promise.all(posted)).toHaveLength(6);
  await closed;
});

test('a service that is restarted is called again', async () => {
  const first = await ledger(() => ({}));
  const client = clientOf([first]);
  await client.postTransaction({});
  await first.close();
  const refused = await client.postTransaction({}).catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: Code.Unavailable });
  await ledger(() => ({}), { port: first.port });
  const isBack = () =>
    client.postTransaction({}).then(
      () => true,
      () => false,
    );
  await untilResult(isBack, Boolean);
});

test('no call fails, and none is made twice, while each connection is closed gracefully at its age', async () => {
  let calls = 0;
  const client = clientOf([await ledger(() => (calls++, {}), { connectionAgeMs: 500 })]);
  const ends = performance.now() + 2_000;
  const work = async () => {
    let own = 0;
    for (; performance.now() < ends; own++) await client.postTransaction({});
    return own;
  };
  const all = await Promise.all(Array.from({ length: 16 }, work));
  expect(calls).toBe(all.reduce((sum, each) => sum + each));
});

test('a small answer does not wait for the end of large ones that were asked for before', async () => {
  let begun = 0;
  const page = { transactions: [{ description: 'x'.repeat(4 << 20) }] };
  const served = await ledger((context) => (context.method === method.listTransactions ? (begun++, page) : {}), {
    maxMessageBytes: 8 << 20,
  });
  const client = clientOf([served], { maxMessageBytes: 8 << 20 });
  const order: string[] = [];
  const patient = { timeoutMs: 100_000 };
  const large = Array.from({ length: 20 }, () => client.listTransactions({}, patient).then(() => order.push('large')));
  await until(() => begun === large.length);
  await client.getBalance({}, patient).then(() => order.push('small'));
  await Promise.all(large);
  expect(order.indexOf('small')).toBeLessThan(large.length / 2);
});

test('a name stands for all its addresses, those that are new to it, too', async () => {
  const calls = [0, 0];
  const first = await ledger(() => (calls[0]!++, {}), { host: '127.0.0.1' });
  const second = await ledger(() => (calls[1]!++, {}), { host: '127.0.0.2', port: first.port });
  const found = [{ address: '127.0.0.1', family: 4 }];
  const caller = callerOf([`ledger.test:${first.port}`], { resolve: () => Promise.resolve([...found]) });
  await untilResult(
    () => Promise.resolve(caller.replicas()),
    ([replica]) => replica?.address === `127.0.0.1:${first.port}`,
  );
  const client = createClient(LedgerService, caller);
  await client.postTransaction({});
  found.push({ address: '127.0.0.2', family: 4 });
  while (calls[1] === 0) await client.postTransaction({});
  await until(() => caller.replicas().length === 2);
  expect(caller.replicas().map(({ address }) => address)).toEqual([`127.0.0.1:${first.port}`, `127.0.0.2:${second.port}`]);
  // Gone from the name.
  found.shift();
  await untilResult(
    () => Promise.resolve(caller.replicas()),
    ({ length }) => length === 1,
  );
  const before = calls[0]!;
  for (let call = 0; call < 5; call++) await client.postTransaction({});
  expect(calls[0]).toBe(before);
});

test('a name that has no address, or whose look-up hangs, holds a call no longer than its deadline', async () => {
  for (const resolve of [() => Promise.resolve([]), () => new Promise<never>(() => undefined)]) {
    const client = clientOf(['nobody.invalid:1'], { resolve });
    await expect(client.getAccount({}, { timeoutMs: 50 })).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  }
});

test('the replicas stand in the order of their addresses, without those that are away', async () => {
  const [one, other] = [await ledger(() => ({})), await ledger(() => ({}))];
  const addresses = [one, other].map(({ port }) => `127.0.0.1:${port}`).sort();
  const caller = callerOf(addresses.toReversed());
  const seen = () => caller.replicas().map(({ address }) => address);
  await until(() => seen().length === 2);
  expect(seen()).toEqual(addresses);
  expect(caller.replicas()[0]).toBe(caller.replicas()[0]);
  await one.close();
  await until(() => seen().join() === `127.0.0.1:${other.port}`);
});

test('a call that is in flight when its caller is closed is answered', async () => {
  const begun = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<object>();
  const served = await ledger(() => (begun.resolve(), answer.promise));
  const caller = callerOf([served]);
  const call = createClient(LedgerService, caller).getAccount({});
  await begun.promise;
  caller.close();
  answer.resolve({});
  await call;
});

test('a proxy for the world outside is sent neither a call nor the token', async () => {
  let connections = 0;
  const outside = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  await new Promise<void>((done) => outside.listen(0, '127.0.0.1', done));
  opened.push(() => outside.close());
  const before = process.env['http_proxy'];
  process.env['http_proxy'] = `http://127.0.0.1:${(outside.address() as AddressInfo).port}`;
  try {
    await clientOf([await ledger(() => ({}))]).getAccount({});
    expect(connections).toBe(0);
  } finally {
    if (before === undefined) delete process.env['http_proxy'];
    else process.env['http_proxy'] = before;
  }
});

test('requests that are streamed arrive as fast as they are taken, and an answer before their end ends them', async () => {
  let taken = 0;
  const served = await startGrpcServer({
    services: [AuditService],
    routes: (router) =>
      router.service(AuditService, {
        async importLog(requests) {
          for await (const { part } of requests) {
            if (part.case === 'start') continue;
            if (++taken === 40) throw refuse(Code.FailedPrecondition, { reason: 'books_not_empty', message: 'taken' });
            await pause(2);
          }
          return { job: { id: `job_${taken}` } };
        },
      }),
  });
  opened.push(() => served.close());
  const client = createClient(AuditService, callerOf([served]));
  let sent = 0;
  let hasEnded = false;
  const requests = async function* (count: number) {
    yield { part: { case: 'start' as const, value: { tenantId: 't' } } };
    try {
      for (sent = 0; sent < count; sent++) yield { part: { case: 'bytes' as const, value: Buffer.alloc(500_000) } };
    } finally {
      hasEnded = true;
    }
  };
  expect(await client.importLog(requests(3), { timeoutMs: 20_000 })).toMatchObject({ job: { id: 'job_3' } });
  hasEnded = false;
  taken = 0;
  await expect(client.importLog(requests(10_000), { timeoutMs: 20_000 })).rejects.toMatchObject({ rawMessage: 'taken' });
  await until(() => hasEnded);
  expect(sent).toBeLessThan(200);
  const breaks = async function* () {
    yield* requests(1);
    throw new Error('the client has left');
  };
  await expect(client.importLog(breaks(), { timeoutMs: 20_000 })).rejects.toThrow('the client has left');
});
