// A server's streams of calls, before callers who write them by hand.
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { create, fromBinary, toBinary, type MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError, type HandlerContext } from '@connectrpc/connect';
import { pino } from 'pino';
import { LedgerService, PostTransactionRequestSchema, type PostTransactionRequest } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { CarryRequestSchema, CarryResponseSchema, type CarryResponse } from '../../proto/gen/platform/v1/calls_pb.js';
import { trailersOf } from '../../test/grpc-endings.ts';
import { startGrpcServer } from '../../test/grpc-server.ts';
import { enveloped } from './envelope.ts';
import type { RunningServer } from './lifetime.ts';
import { Messages } from './messages.ts';
import { refuse } from './errors.ts';
import type { ServeOptions } from './serve.ts';

const maxMessageBytes = 10_000;
const path = '/ledger.v1.LedgerService/PostTransaction';
const carry = '/platform.v1.CallService/Carry';
const known = { authorization: 'Bearer right' };

type Handle = (context: HandlerContext, description: string) => Promise<object>;
let handle: Handle;
let server: RunningServer;
let session: ClientHttp2Session;
const lines: { method: string; code: string }[] = [];
const closing: (() => unknown)[] = [];

async function start(options: Partial<ServeOptions> = {}): Promise<{ server: RunningServer; session: ClientHttp2Session }> {
  const served = await startGrpcServer({
    services: [LedgerService],
    routes: (router) =>
      router.service(LedgerService, {
        postTransaction: ({ posting }: PostTransactionRequest, context) => handle(context, posting?.description ?? ''),
      }),
    tokens: ['right'],
    maxMessageBytes,
    logger: pino({ level: 'info' }, { write: (line) => lines.push(JSON.parse(line) as (typeof lines)[number]) }),
    ...options,
  });
  return { server: served, session: connect(`http://127.0.0.1:${served.port}`, { maxSessionMemory: 1000 }).on('error', () => undefined) };
}

beforeAll(async () => {
  ({ server, session } = await start());
});

afterAll(async () => {
  session.destroy();
  await server.close();
});

beforeEach(() => {
  lines.length = 0;
  handle = () => Promise.resolve({ replayed: true });
});

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** A server and a connection of one test. */
async function other(options: Partial<ServeOptions> = {}): Promise<{ server: RunningServer; session: ClientHttp2Session }> {
  const started = await start(options);
  closing.push(async () => {
    started.session.destroy();
    await started.server.close();
  });
  return started;
}

/** A stream of calls. */
class Stream {
  readonly stream: ClientHttp2Stream;
  readonly answers: CarryResponse[] = [];
  /** Trailers, or the headers of an answer that is no gRPC. */
  readonly end: Promise<Record<string, unknown>>;
  readonly closed: Promise<number | undefined>;

  constructor(headers: Record<string, string> = {}, on = session) {
    const own = { ':method': 'POST', ':path': carry, 'content-type': 'application/grpc', te: 'trailers' };
    this.stream = on.request({ ...own, ...known, ...headers }).on('error', () => undefined);
    const messages = new Messages(1 << 20, (bytes) => this.answers.push(fromBinary(CarryResponseSchema, bytes)));
    this.stream.on('data', (piece: Buffer) => messages.add(piece));
    this.end = new Promise((done) => {
      void trailersOf(this.stream).then(done);
      this.stream.on('response', (given) => given[':status'] === 200 || done(given));
    });
    this.closed = new Promise((done) => this.stream.once('close', () => done(this.stream.rstCode)));
    closing.push(() => this.stream.close(8));
  }

  ask(...asked: MessageInitShape<typeof CarryRequestSchema>[]): this {
    this.stream.write(Buffer.concat(asked.map((each) => enveloped(toBinary(CarryRequestSchema, create(CarryRequestSchema, each))))));
    return this;
  }

  async answered(count: number): Promise<CarryResponse[]> {
    while (this.answers.length < count) await pause(2);
    return this.answers;
  }

  async trailersOf(number: number): Promise<Record<string, string>> {
    for (;;) {
      const answer = this.answers.find((each) => each.number === number)?.answer;
      if (answer) return answer.case === 'refusal' ? answer.value.trailers : { 'grpc-status': '0' };
      await pause(2);
    }
  }
}

const posting = (description = '') =>
  toBinary(PostTransactionRequestSchema, create(PostTransactionRequestSchema, { posting: { description } }));
const message = posting();
const call = (number: number, description?: string) => ({ number, path, message: posting(description) });

/** The trailers of a call that comes alone. */
async function alone(bytes: Uint8Array, headers: Record<string, string> = {}): Promise<Record<string, string>> {
  const own = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
  const stream = session.request({ ...own, ...known, ...headers }).resume();
  stream.end(enveloped(bytes));
  return trailersOf(stream);
}

test('calls are answered as each is ready, with what they would be answered alone, and logged each by itself', async () => {
  const first = Promise.withResolvers<object>();
  const seen: unknown[] = [];
  handle = ({ requestHeader, service, method, url }, description) => {
    seen.push([requestHeader.get('traceparent'), service.typeName, method.name, url]);
    return description === 'slow' ? first.promise : Promise.resolve({ replayed: true });
  };
  const stream = new Stream({ traceparent: 'of-the-stream' }).ask(call(1, 'slow'), call(2), call(3));
  await stream.answered(2);
  first.resolve({});
  expect((await stream.answered(3)).map(({ number, answer }) => [number, answer.case, Buffer.from(answer.value as Uint8Array)])).toEqual([
    [2, 'message', Buffer.from([0x10, 1])],
    [3, 'message', Buffer.from([0x10, 1])],
    [1, 'message', Buffer.alloc(0)],
  ]);
  expect(seen).toEqual(Array.from({ length: 3 }, () => ['of-the-stream', 'ledger.v1.LedgerService', 'PostTransaction', path]));
  stream.stream.end();
  expect(await stream.end).toMatchObject({ 'grpc-status': '0' });
  expect(lines.map(({ method, code }) => [method, code])).toEqual([
    ['platform.v1.CallService/Carry', 'ok'],
    ...Array.from({ length: 3 }, () => ['ledger.v1.LedgerService/PostTransaction', 'ok']),
  ]);
});

test('who ends his side is answered what he has asked, then the stream ends', async () => {
  const held: (() => void)[] = [];
  handle = () => new Promise((done) => held.push(() => done({})));
  const stream = new Stream().ask(call(1), call(2));
  stream.stream.end();
  while (held.length < 2) await pause(2);
  held[1]?.();
  await stream.answered(1);
  held[0]?.();
  expect(await stream.end).toMatchObject({ 'grpc-status': '0' });
  expect(stream.answers.map(({ number }) => number)).toEqual([2, 1]);
  const nothing = new Stream();
  nothing.stream.end();
  expect(await nothing.end).toMatchObject({ 'grpc-status': '0' });
});

test.each<[string, () => Error]>([
  [
    'with details',
    () => refuse(Code.FailedPrecondition, { reason: 'unbalanced', message: 'a, b; 100 % é\n', field: 'entries', retryAfter: 3 }),
  ],
  ['without', () => new ConnectError('not so: 100 %', Code.NotFound)],
  ['of what is no refusal', () => new Error('the password is 1234')],
  ['with metadata of its own', () => new ConnectError('so', Code.Aborted, { other: 'value' })],
])('a refusal %s is that of a call alone', async (_, failure) => {
  handle = () => Promise.reject(failure());
  const stream = new Stream().ask(call(1));
  const trailers = await stream.trailersOf(1);
  expect(Number(trailers['grpc-status'])).toBeGreaterThan(0);
  expect(trailers).toEqual(await alone(message));
});

test.each<[string, Uint8Array]>([
  ['no message', Buffer.from([0xff])],
  ['too many of them', Buffer.alloc(maxMessageBytes - 1, Buffer.from([0x12, 0]))],
  ['a larger one than may be', Buffer.alloc(maxMessageBytes + 1, ' ')],
])('%s is refused as of a call alone, and the next call is answered', async (_, bytes) => {
  const stream = new Stream().ask({ number: 1, path, message: bytes }, call(2));
  expect(await stream.trailersOf(2)).toEqual({ 'grpc-status': '0' });
  const trailers = await stream.trailersOf(1);
  expect(Number(trailers['grpc-status'])).toBeGreaterThan(0);
  expect(trailers).toEqual(await alone(bytes));
});

test('an answer larger than may be, and a refusal that can’t be written, end their calls alone', async () => {
  handle = (_, description) => {
    if (description === 'large') return Promise.resolve({ transaction: { description: 'x'.repeat(maxMessageBytes) } });
    return description === 'half' ? Promise.reject(new ConnectError('\ud83d', Code.NotFound)) : Promise.resolve({});
  };
  const stream = new Stream().ask(call(1, 'large'), call(2, 'half'), call(3));
  expect((await stream.trailersOf(1))['grpc-status']).toBe(String(Code.ResourceExhausted));
  expect((await stream.trailersOf(2))['grpc-status']).toBe(String(Code.Internal));
  expect((await stream.trailersOf(3))['grpc-status']).toBe('0');
});

test('a call larger than may be is refused alone, by the reason that it has alone', async () => {
  const tooLarge = Buffer.alloc(maxMessageBytes + 1);
  const stream = new Stream().ask({ number: 1, path, message: tooLarge }, call(2));
  const refused = await stream.trailersOf(1);
  expect(Buffer.from(refused['grpc-status-details-bin'] ?? '', 'base64').toString()).toContain('payload_too_large');
  expect(refused).toEqual(await alone(tooLarge));
  expect((await stream.trailersOf(2))['grpc-status']).toBe('0');
});

test('what is no unary method is refused alone', async () => {
  const paths = ['/ledger.v1.LedgerService/None', carry, '/grpc.health.v1.Health/Watch', 'none'];
  const stream = new Stream().ask(...paths.map((path, number) => ({ number, path, message })), call(paths.length));
  for (const number of paths.keys()) expect((await stream.trailersOf(number))['grpc-status']).toBe(String(Code.Unimplemented));
  expect((await stream.trailersOf(paths.length))['grpc-status']).toBe('0');
});

test('a deadline ends its call, and one further off than a day is a day', async () => {
  const told: (number | undefined)[] = [];
  handle = ({ signal, timeoutMs }, description) => {
    told.push(timeoutMs());
    if (description !== 'slow') return Promise.resolve({});
    return new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason as Error)));
  };
  const stream = new Stream().ask({ ...call(1, 'slow'), timeoutMs: 50 }, { ...call(2), timeoutMs: 2 ** 32 - 1 }, call(3));
  expect((await stream.trailersOf(1))['grpc-status']).toBe(String(Code.DeadlineExceeded));
  const [soon, late, never] = told;
  expect(soon).toBeLessThanOrEqual(50);
  expect(late).toBeLessThanOrEqual(86_400_000);
  expect(late).toBeGreaterThan(86_340_000);
  expect(never).toBeUndefined();
});

/** Handlers that end when they are told to, and what their calls were ended for. */
function holding() {
  const reasons: Record<string, unknown> = {};
  const held: Record<string, (answer: object) => void> = {};
  handle = ({ signal }, description) => {
    signal.addEventListener('abort', () => (reasons[description] = (signal.reason as ConnectError).code));
    return new Promise((done) => (held[description] = done));
  };
  const taken = async (count: number) => {
    while (Object.keys(held).length < count) await pause(2);
  };
  return { reasons, held, taken };
}

test('a call that is taken back is ended and not answered, and one that there is not is none to take back', async () => {
  const { reasons, held, taken } = holding();
  const stream = new Stream().ask(call(1, 'one'), call(2, 'two'));
  await taken(2);
  stream.ask({ number: 1 }, { number: 7 });
  while (reasons['one'] === undefined) await pause(2);
  held['one']?.({});
  held['two']?.({});
  expect((await stream.answered(1)).map(({ number }) => number)).toEqual([2]);
  // Its number is free again.
  stream.ask(call(1, 'again'));
  await taken(3);
  held['again']?.({});
  expect((await stream.answered(2)).map(({ number }) => number)).toEqual([2, 1]);
  expect(reasons).toEqual({ one: Code.Canceled });
});

test('a call that is taken back in the same piece is not begun', async () => {
  let begun = 0;
  handle = () => Promise.resolve({ replayed: begun++ > 0 });
  const stream = new Stream();
  stream.ask(...Array.from({ length: 100 }, (_, place) => [call(place + 1), { number: place + 1 }]).flat(), call(101));
  expect((await stream.answered(1)).map(({ number }) => number)).toEqual([101]);
  expect(begun).toBe(1);
});

test.each<[string, (stream: Stream, session: ClientHttp2Session) => void]>([
  ['the stream', ({ stream }) => stream.close(8)],
  ['the connection', (_, session) => session.destroy()],
])('with %s end the calls on it', async (_, end) => {
  const { session } = await other();
  const { reasons, taken } = holding();
  const stream = new Stream({}, session).ask(call(1, 'one'), call(2, 'two'));
  await taken(2);
  end(stream, session);
  while (Object.keys(reasons).length < 2) await pause(2);
  expect(reasons).toEqual({ one: Code.Canceled, two: Code.Canceled });
});

test.each<[string, (stream: Stream) => unknown, Code]>([
  ['a number that is in use', (stream) => stream.ask(call(1, 'two')), Code.InvalidArgument],
  ['what is no question', ({ stream }) => stream.write(enveloped(Buffer.from([0xff]))), Code.InvalidArgument],
  [
    'a question of too many parts',
    ({ stream }) => stream.write(enveloped(Buffer.alloc(9_000, Buffer.from([0x7a, 0])))),
    Code.InvalidArgument,
  ],
  ['a compressed question', ({ stream }) => stream.write(Buffer.from([1, 0, 0, 0, 1])), Code.Internal],
  ['the promise of a large one', ({ stream }) => stream.write(Buffer.from([0, 0, 1, 0, 0])), Code.ResourceExhausted],
  ['half a question', ({ stream }) => stream.end(Buffer.from([0, 0, 0, 0, 9, 8])), Code.InvalidArgument],
])('%s ends the stream, and with it the calls on it', async (_, spoil, code) => {
  const { reasons, taken } = holding();
  const stream = new Stream().ask(call(1, 'one'));
  await taken(1);
  spoil(stream);
  expect(await stream.end).toMatchObject({ 'grpc-status': String(code) });
  expect(reasons).toEqual({ one: Code.Canceled });
  // Though he does not end his side.
  expect(await stream.closed).toBe(0);
  expect(stream.answers).toEqual([]);
});

test.each(['', 'Bearer wrong'])('who has no token (%s) is refused as of a call alone, and nothing is begun', async (authorization) => {
  let begun = 0;
  handle = () => (begun++, Promise.resolve({}));
  const stream = new Stream({ authorization }).ask(call(1), call(2));
  expect(Object.fromEntries(Object.entries(await stream.end))).toEqual(await alone(message, { authorization }));
  await stream.closed;
  expect(begun).toBe(0);
});

test.each(['application/grpc+json', 'application/grpc-web+proto', 'application/json', 'application/connect+proto'])(
  'a stream of calls is not had as %s',
  async (type) => {
    expect(await new Stream({ 'content-type': type }).end).toMatchObject({ ':status': 404 });
  },
);

test('a connection has so many calls in work, and what is one too many is refused alone', async () => {
  const { session } = await other();
  const held: (() => void)[] = [];
  handle = () => new Promise((done) => held.push(() => done({})));
  const streams = [new Stream({}, session), new Stream({}, session)];
  for (let number = 0; number < 5_000; number++) streams[number % 2]?.ask({ number, path, message });
  while (held.length < 5_000) await pause(5);
  // Taken back, they are still in work.
  streams[0]?.ask({ number: 0 }, { number: 6_000, path, message });
  const refused = (await streams[0]?.trailersOf(6_000)) ?? {};
  expect(refused['grpc-status']).toBe(String(Code.ResourceExhausted));
  expect(Buffer.from(refused['grpc-status-details-bin'] ?? '', 'base64').toString()).toContain('overloaded');
  held[0]?.();
  streams[1]?.ask({ number: 6_001, path, message });
  while (held.length < 5_001) await pause(5);
  for (const go of held) go();
  expect(await streams[1]?.trailersOf(6_001)).toEqual({ 'grpc-status': '0' });
});

test('who does not take his answers is heard again when he has taken them', async () => {
  const { session } = await other();
  let begun = 0;
  handle = () => (begun++, Promise.resolve({ transaction: { description: 'x'.repeat(5_000) } }));
  session.settings({ initialWindowSize: 0 });
  await new Promise((done) => session.ping(done));
  const stream = new Stream({}, session);
  const all = 5_000;
  for (let number = 0; number < all; number++) stream.ask({ number, path, message });
  await new Promise((done) => session.ping(done));
  // Of a MiB of answers, and of what came in the piece of the last.
  while (begun < 200) await pause(5);
  await pause(200);
  expect(begun).toBeLessThan(4_000);
  session.settings({ initialWindowSize: 1 << 24 });
  await stream.answered(all);
  expect(begun).toBe(all);
});

test('what has begun and not ended counts with all such, and is given back', async () => {
  const { session } = await other({ unfinished: { bytes: 20_000, ms: 60_000 } });
  const whole = enveloped(toBinary(CarryRequestSchema, create(CarryRequestSchema, call(1, 'x'.repeat(9_000)))));
  const half = whole.subarray(0, 8_000);
  const streams = [0, 1, 2].map(() => new Stream({}, session));
  for (const { stream } of streams) stream.write(half);
  expect(await streams[2]?.end).toMatchObject({ 'grpc-status': String(Code.ResourceExhausted) });
  for (const stream of streams.slice(0, 2)) {
    stream.stream.write(whole.subarray(8_000));
    expect((await stream.trailersOf(1))['grpc-status']).toBe('0');
  }
  for (let turn = 2; turn < 10; turn++) {
    const stream = new Stream({}, session);
    stream.stream.write(half);
    stream.stream.write(Buffer.concat([whole.subarray(8_000), half]));
    expect((await stream.trailersOf(1))['grpc-status']).toBe('0');
    stream.stream.close(8);
    await stream.closed;
  }
});

test('a question has to end in time, and a stream has not', async () => {
  const { session } = await other({ unfinished: { bytes: 100_000, ms: 200 } });
  const [idle, late] = [new Stream({}, session), new Stream({}, session)];
  idle.ask(call(1));
  late.stream.write(Buffer.from([0, 0, 0, 0, 9, 8]));
  expect(await late.end).toMatchObject({ 'grpc-status': String(Code.DeadlineExceeded) });
  await pause(400);
  idle.ask(call(2));
  expect(await idle.trailersOf(2)).toEqual({ 'grpc-status': '0' });
});

test('what a call came in is not kept while it is worked on', async () => {
  const { session } = await other({ maxMessageBytes: 2 << 20 });
  const held: (() => void)[] = [];
  handle = () => new Promise((done) => held.push(() => done({})));
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const kept = () => (gc(), process.memoryUsage().arrayBuffers);
  const stream = new Stream({}, session);
  const large = call(0, 'x'.repeat(1_000_000));
  const before = kept();
  for (let number = 0; number < 20; number++) stream.ask({ ...large, number });
  while (held.length < 20) await pause(5);
  while (kept() - before >= 10 * large.message.length) await pause(20);
  for (const go of held) go();
  await stream.answered(20);
});

test('a server that closes answers what it was asked, and what still comes on the stream', async () => {
  const { server, session } = await start();
  const { held, taken } = holding();
  const stream = new Stream({}, session).ask(call(1, 'one'));
  await taken(1);
  const closed = server.close();
  await new Promise((done) => session.once('goaway', done));
  stream.ask(call(2, 'two'));
  await taken(2);
  held['one']?.({});
  held['two']?.({});
  await stream.answered(2);
  stream.stream.end();
  expect(await stream.end).toMatchObject({ 'grpc-status': '0' });
  const began = performance.now();
  await closed;
  expect(performance.now() - began).toBeLessThan(4_000);
});

test('who never ends his stream keeps the server from closing for some seconds only', async () => {
  const { server, session } = await start();
  await new Stream({}, session).ask(call(1)).answered(1);
  await server.close();
  session.destroy();
});
