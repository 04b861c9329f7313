// Calls that travel together, before the cluster's own server and before some that break.
import { constants, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import { setTimeout as pause } from 'node:timers/promises';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient, type HandlerContext } from '@connectrpc/connect';
import { startGrpcServer } from '../../test/grpc-server.ts';
import { startBareServer, type BareServer, type StreamHandler } from '../../test/bare-server.ts';
import { said } from '../../test/grpc-endings.ts';
import { openProxy } from '../../test/proxy.ts';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { CarryRequestSchema, CarryResponseSchema, type CarryRequest } from '../../proto/gen/platform/v1/calls_pb.js';
import { openCaller, type Caller } from './caller.ts';
import { Channel, wasBegun, type Question } from './channel.ts';
import { enveloped } from './envelope.ts';
import type { RunningServer } from './lifetime.ts';
import { Messages } from './messages.ts';
import { refuse } from './errors.ts';

const mostBytes = 1000;
const question: Question = {
  path: '/test.Service/Method',
  headers: { authorization: 'Bearer token' },
  message: Buffer.from('asked'),
  isCarried: true,
  patienceMs: 20_000,
  signal: undefined,
};

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A server of Node's own, and a channel to it. */
async function fake(handle: StreamHandler): Promise<BareServer> {
  const made = await startBareServer(handle, mostBytes);
  closing.push(made.close);
  return made;
}

/** Takes each question of a stream. */
function taking(stream: ServerHttp2Stream, take: (asked: CarryRequest) => void): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  const messages = new Messages(1 << 20, (bytes) => take(fromBinary(CarryRequestSchema, bytes)));
  stream.on('data', (piece: Buffer) => messages.add(piece));
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
  stream.on('end', () => stream.end());
}

function answer(stream: ServerHttp2Stream, number: number, text = 'answered'): void {
  const message = create(CarryResponseSchema, { number, answer: { case: 'message', value: Buffer.from(text) } });
  stream.write(enveloped(toBinary(CarryResponseSchema, message)));
}

test('calls of a connection travel on one stream, and each gets its own answer', async () => {
  const held: CarryRequest[] = [];
  const { channel, paths } = await fake((stream) =>
    taking(stream, (asked) => {
      held.push(asked);
      if (held.length === 20) for (const each of held.reverse()) answer(stream, each.number, Buffer.from(each.message).toString());
    }),
  );
  const texts = Array.from({ length: 20 }, (_, place) => `text ${place}`);
  expect(await Promise.all(texts.map((text) => said(channel.call({ ...question, message: Buffer.from(text) }))))).toEqual(texts);
  expect(paths).toEqual(['/platform.v1.CallService/Carry']);
  expect(held[0]).toMatchObject({ path: question.path });
  expect(held[0]?.timeoutMs).toBeGreaterThan(0);
  expect(held[0]?.timeoutMs).toBeLessThanOrEqual(20_000);
});

test('who waits no more is told at once, and so is the other side', async () => {
  const asked: CarryRequest[] = [];
  const leaving = new AbortController();
  let carrying: ServerHttp2Stream | undefined;
  const { channel, paths } = await fake((stream) => {
    carrying = stream;
    taking(stream, (each) => {
      asked.push(each);
      if (asked.length === 1) leaving.abort();
    });
  });
  expect(await said(channel.call({ ...question, signal: leaving.signal }))).toMatchObject({ code: 'Canceled' });
  expect(await said(channel.call({ ...question, patienceMs: 300 }))).toEqual({
    code: 'DeadlineExceeded',
    message: 'no answer within 300 ms',
  });
  while (asked.length < 4) await pause(2);
  expect(asked.map(({ number, path }) => [number, path !== ''])).toEqual([
    [1, true],
    [1, false],
    [2, true],
    [2, false],
  ]);
  // An answer that comes all the same is nobody's.
  const last = said(channel.call(question));
  while (asked.length < 5) await pause(2);
  for (const number of [1, 2, 3]) answer(carrying!, number, `answer ${number}`);
  expect(await last).toBe('answer 3');
  expect(paths).toHaveLength(1);
});

test('a connection that stood still for longer than somebody waits answers the next one', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const other = await openProxy((await fake((stream) => taking(stream, ({ number }) => (answer(stream, number), resolve())))).port);
  closing.push(() => other.close());
  const late = new Channel(`127.0.0.1:${other.port}`, mostBytes);
  closing.push(() => late.close());
  expect(await said(late.call(question))).toBe('answered');
  await promise;
  other.hold(true);
  expect(await said(late.call({ ...question, patienceMs: 200 }))).toMatchObject({ code: 'DeadlineExceeded' });
  other.hold(false);
  expect(await said(late.call(question))).toBe('answered');
});

test('who is not heard any more asks by streams of their own, so that what nobody waits for goes', async () => {
  const { port, paths } = await fake((stream) => stream.respond({ ':status': 200, 'content-type': 'application/grpc' }));
  const channel = new Channel(`127.0.0.1:${port}`, 1 << 20);
  closing.push(() => channel.close());
  const large = { ...question, message: Buffer.alloc(400_000), patienceMs: 50 };
  // On a slow machine several are over before anything of them was sent.
  while (paths.every((path) => path.endsWith('Carry'))) expect(await said(channel.call(large))).toMatchObject({ code: 'DeadlineExceeded' });
  expect(paths.filter((path) => path.endsWith('Carry'))).toHaveLength(1);
});

test('a side that knows of no such streams is asked by others at once, though its stream stays open', async () => {
  const { channel, paths } = await fake((stream, { ':path': path }) => {
    if (String(path).endsWith('Carry')) {
      stream.respond({ ':status': 404 });
      return;
    }
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(enveloped(Buffer.from('alone')));
  });
  // What had not even come to it before its patience was over has learned nothing.
  for (let told: unknown; told !== 'alone';) told = await said(channel.call({ ...question, patienceMs: 300 }));
  expect(await Promise.all([said(channel.call(question)), said(channel.call(question))])).toEqual(['alone', 'alone']);
  expect(paths.filter((path) => path.endsWith('Carry'))).toHaveLength(1);
});

test('too large a message is not sent, and too large an answer is one call’s', async () => {
  let asked = 0;
  const { channel, paths } = await fake((stream) =>
    taking(stream, ({ number }) => (asked++, answer(stream, number, 'x'.repeat(number === 1 ? mostBytes + 1 : mostBytes)))),
  );
  const tooLarge = { code: 'ResourceExhausted', message: 'a message of 1001 bytes is larger than 1000' };
  expect(await said(channel.call({ ...question, message: Buffer.alloc(mostBytes + 1) }))).toEqual(tooLarge);
  expect(asked).toBe(0);
  expect(await Promise.all([said(channel.call(question)), said(channel.call(question))])).toEqual([tooLarge, 'x'.repeat(mostBytes)]);
  expect(paths).toHaveLength(1);
});

test.each<[string, (stream: ServerHttp2Stream) => unknown, string]>([
  ['the end of the connection', ({ session }) => session?.destroy(), 'the connection broke'],
  ['a reset', (stream) => stream.close(constants.NGHTTP2_INTERNAL_ERROR), 'the stream of calls was reset (HTTP/2 error 2)'],
  ['what is no answer', (stream) => stream.write(Buffer.from([0, 0, 0, 0, 1, 0xff])), 'the stream of calls was reset (HTTP/2 error 8)'],
  ['a compressed answer', (stream) => stream.write(Buffer.from([1, 0, 0, 0, 0])), 'the stream of calls was reset (HTTP/2 error 8)'],
  [
    'a refusal of the stream',
    (stream) => {
      stream.removeAllListeners('wantTrailers');
      stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '8', 'grpc-message': 'too much' }));
      stream.end();
    },
    'the stream of calls was ended: too much',
  ],
])('after %s it is open what became of the calls, and the next are answered', async (_, spoil, message) => {
  let streams = 0;
  let asked = 0;
  const { channel } = await fake((stream) => {
    const isFirst = streams++ === 0;
    taking(stream, ({ number }) => {
      asked++;
      if (!isFirst) answer(stream, number);
      else if (asked === 2) spoil(stream);
    });
  });
  const failures = await Promise.all([1, 2].map(() => channel.call(question).catch((error: unknown) => error)));
  for (const failure of failures) {
    expect(failure).toMatchObject({ code: Code.Unavailable, rawMessage: message, details: [] });
    expect(wasBegun(failure)).toBe(true);
  }
  while (!channel.isAvailable) await pause(5);
  expect(await said(channel.call(question))).toBe('answered');
  expect(asked).toBe(3);
});

test('calls on a stream that the other side has refused to begin are asked once more', async () => {
  let streams = 0;
  let asked = 0;
  const { channel } = await fake((stream) => {
    if (++streams !== 4) stream.close(constants.NGHTTP2_REFUSED_STREAM);
    else taking(stream, ({ number }) => (asked++, answer(stream, number)));
  });
  const failures = await Promise.all([1, 2, 3].map(() => channel.call(question).catch((error: unknown) => error)));
  expect(failures.map((failure) => [(failure as ConnectError).code, wasBegun(failure)])).toEqual(
    Array.from({ length: 3 }, () => [Code.Unavailable, false]),
  );
  expect(await Promise.all([1, 2, 3].map(() => said(channel.call(question))))).toEqual(['answered', 'answered', 'answered']);
  expect([streams, asked]).toEqual([4, 3]);
});

test('calls that were begun are not asked again where the other side ends the connection as if it refused', async () => {
  let asked = 0;
  const { channel } = await fake((stream) =>
    taking(stream, () => {
      if (++asked === 2) stream.session?.goaway(constants.NGHTTP2_REFUSED_STREAM, stream.id);
    }),
  );
  const failures = await Promise.all([1, 2].map(() => channel.call(question).catch((error: unknown) => error)));
  expect(failures.map((failure) => [(failure as ConnectError).code, wasBegun(failure)])).toEqual([
    [Code.Unavailable, true],
    [Code.Unavailable, true],
  ]);
  expect(asked).toBe(2);
});

test('no call is lost or asked twice while the other side ends each connection after a few', async () => {
  const asked: string[] = [];
  const { channel, sessions } = await fake((stream) =>
    taking(stream, ({ number, message }) => {
      asked.push(Buffer.from(message).toString());
      if (asked.length % 7 === 0) (stream.session as ServerHttp2Session | undefined)?.close();
      setTimeout(() => answer(stream, number), asked.length % 3);
    }),
  );
  let last = 0;
  const answers = new Set<unknown>();
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      while (last < 400) answers.add(await said(channel.call({ ...question, message: Buffer.from(`call ${last++}`) })));
    }),
  );
  expect([...answers]).toEqual(['answered']);
  expect(new Set(asked).size).toBe(asked.length);
  expect(asked).toHaveLength(last);
  expect(sessions.length).toBeGreaterThan(10);
  // The last stream of each is ended, so that nothing keeps the connection.
  while (sessions.filter(({ destroyed }) => !destroyed).length > 1) await pause(5);
});

test.each<[string, (stream: ServerHttp2Stream) => void]>([
  ['answers 404', (stream) => stream.respond({ ':status': 404 }, { endStream: true })],
  [
    'says that there is no such method',
    (stream) => stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '12' }, { endStream: true }),
  ],
])('where the other side %s to a stream of calls, as one of a version before does, each goes alone', async (_, refuse) => {
  const { channel, paths } = await fake((stream, headers) => {
    if (headers[':path'] !== question.path) {
      refuse(stream.resume());
      return;
    }
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(enveloped(Buffer.from('answered alone')));
  });
  expect(await Promise.all([1, 2, 3].map(() => said(channel.call(question))))).toEqual(Array(3).fill('answered alone'));
  expect(await said(channel.call(question))).toBe('answered alone');
  expect(paths.filter((path) => path !== question.path)).toHaveLength(1);
});

test('a channel that is closed has its calls answered, and its connection ended', async () => {
  const held: (() => void)[] = [];
  const { channel, sessions } = await fake((stream) => taking(stream, ({ number }) => held.push(() => answer(stream, number))));
  const calls = [1, 2].map(() => said(channel.call(question)));
  while (held.length < 2) await pause(2);
  channel.close();
  for (const go of held) go();
  expect(await Promise.all(calls)).toEqual(['answered', 'answered']);
  while (sessions.some(({ destroyed }) => !destroyed)) await pause(2);
});

type Handle = (code: string, context: HandlerContext) => Promise<object>;

/** A ledger, and a caller whose calls of `GetAccount` travel together. */
async function ledger(handle: Handle, token = 'token'): Promise<{ served: RunningServer; caller: Caller; alone: Caller }> {
  const served = await startGrpcServer({
    services: [LedgerService],
    routes: (router) => router.service(LedgerService, { getAccount: ({ tenantId }, context) => handle(tenantId, context) }),
  });
  const options = { addresses: [`127.0.0.1:${served.port}`], token, maxMessageBytes: 1 << 20 };
  const caller = openCaller({ ...options, carried: [LedgerService.method.getAccount] });
  const alone = openCaller(options);
  closing.push(async () => {
    caller.close();
    alone.close();
    await served.close();
  });
  return { served, caller, alone };
}

const failureOf = (caller: Caller, code: string) =>
  createClient(LedgerService, caller)
    .getAccount({ tenantId: code })
    .then(
      () => undefined,
      (error: ConnectError) => ({ code: error.code, rawMessage: error.rawMessage, details: error.details }),
    );

test.each<[string, string]>([
  ['with details', 'details'],
  ['without', 'bare'],
  ['of what is no refusal', 'fault'],
])('a refusal %s is that of a call alone', async (_, code) => {
  const failures: Record<string, Error> = {
    details: refuse(Code.FailedPrecondition, { reason: 'unbalanced', message: 'a, b; 100 % é\n', field: 'entries', retryAfter: 3 }),
    bare: new ConnectError('not so: 100 %', Code.NotFound),
    fault: new Error('the password is 1234'),
  };
  const { caller, alone } = await ledger((code) => Promise.reject(failures[code] ?? new Error('none')));
  const failure = await failureOf(caller, code);
  expect(failure).toBeDefined();
  expect(failure).toEqual(await failureOf(alone, code));
});

test('whose token is wrong is told so as in a call alone', async () => {
  const { caller, alone } = await ledger(() => Promise.resolve({}), 'wrong');
  const failure = await failureOf(caller, '');
  expect(failure).toMatchObject({ code: Code.Unauthenticated });
  expect(failure).toEqual(await failureOf(alone, ''));
});

test('a call whose caller leaves, or has no time left, is ended where it is answered', async () => {
  const reasons: unknown[] = [];
  const leaving = new AbortController();
  const { caller } = await ledger(
    (_, { signal }) =>
      new Promise((_, fail) => {
        signal.addEventListener('abort', () => {
          reasons.push((signal.reason as ConnectError).code);
          fail(signal.reason as Error);
        });
        leaving.abort();
      }),
  );
  const client = createClient(LedgerService, caller);
  await expect(client.getAccount({}, { signal: leaving.signal })).rejects.toMatchObject({ code: Code.Canceled });
  while (reasons.length < 1) await pause(2);
  // On a busy machine the time may be over before the call is taken up: then there is nothing to end.
  while (reasons.length < 2) {
    await expect(client.getAccount({}, { timeoutMs: 100 })).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  }
  expect(reasons[0]).toBe(Code.Canceled);
});

test('a call with headers of its own goes alone, and has them', async () => {
  const seen: unknown[] = [];
  const { caller } = await ledger((_, { requestHeader }) => (seen.push(requestHeader.get('traceparent')), Promise.resolve({})));
  const client = createClient(LedgerService, caller);
  await client.getAccount({});
  await client.getAccount({}, { headers: { traceparent: 'its own' } });
  await client.getAccount({});
  expect(seen).toEqual([null, 'its own', null]);
});

test('a server that closes under load answers all that it has begun, and nothing keeps it', async () => {
  const first = await ledger(async () => (await pause(1), {}));
  const client = createClient(LedgerService, first.caller);
  let closing = false;
  const failures: unknown[] = [];
  const asking = Array.from({ length: 16 }, async () => {
    while (!closing) await client.getAccount({}).catch((error: unknown) => failures.push(error));
  });
  await pause(100);
  const began = performance.now();
  await first.served.close();
  const took = performance.now() - began;
  closing = true;
  await Promise.all(asking);
  // Nobody listens any more: that is all that a call may be told.
  for (const failure of failures) expect(wasBegun(failure)).toBe(false);
  expect(took).toBeLessThan(4_000);
});
