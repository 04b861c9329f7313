// Messages that have begun and do not end: what they may cost.
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { create, toBinary } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { pino } from 'pino';
import { startGrpcServer } from '../../test/grpc-server.ts';
import { block, flag, frame, message, open, type } from '../../test/hostile/frames.ts';
import { ServerReflectionRequestSchema } from '../../proto/gen/grpc/reflection/v1/reflection_pb.js';
import { LedgerService, PostTransactionRequestSchema, type PostTransactionRequest } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { trailersOf } from '../../test/grpc-endings.ts';
import type { RunningServer } from './lifetime.ts';
import type { ServeOptions } from './serve.ts';

const posting = '/ledger.v1.LedgerService/PostTransaction';
const check = '/grpc.health.v1.Health/Check';
const watch = '/grpc.health.v1.Health/Watch';
const reflection = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';

let server: RunningServer | undefined;
let sessions: ClientHttp2Session[] = [];
let codes: string[] = [];
let handle: (request: PostTransactionRequest) => Promise<object> = () => Promise.resolve({});

async function start(options: Partial<ServeOptions>): Promise<void> {
  server = await startGrpcServer({
    services: [LedgerService],
    routes: (router) => router.service(LedgerService, { postTransaction: (request) => handle(request) }),
    tokens: ['right'],
    maxMessageBytes: 100_000,
    logger: pino({ level: 'info' }, { write: (line) => codes.push((JSON.parse(line) as { code: string }).code) }),
    ...options,
  });
}

afterEach(async () => {
  for (const session of sessions) session.destroy();
  [sessions, codes] = [[], []];
  handle = () => Promise.resolve({});
  await server?.close();
});

interface Call {
  stream: ClientHttp2Stream;
  /** Status, and the details of a refusal. */
  answer: Promise<{ status: string; details: string }>;
}

interface Kind {
  path?: string;
  type?: string;
  token?: string;
}

/** A call on a connection of its own that has sent an envelope of so many bytes, and so many of them; undefined: nothing at all. */
function begin(length: number, sent: number | undefined, { path = posting, type = 'application/grpc', token = 'right' }: Kind = {}): Call {
  const session = connect(`http://127.0.0.1:${server!.port}`);
  session.on('error', () => undefined);
  sessions.push(session);
  const headers = { ':method': 'POST', ':path': path, 'content-type': type, te: 'trailers' };
  const stream = session.request({ ...headers, authorization: `Bearer ${token}` });
  stream.on('error', () => undefined).resume();
  const answer = trailersOf(stream).then((said) => ({
    status: String(said['grpc-status']),
    details: Buffer.from(said['grpc-status-details-bin'] ?? '', 'base64').toString(),
  }));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(length, 1);
  if (sent !== undefined) stream.write(Buffer.concat([head, Buffer.alloc(sent)]));
  return { stream, answer };
}

/** The status of a call whose message ends, but is none; whether there was room for it is told before. */
async function ended(bytes: number, kind: Kind): Promise<string> {
  const { stream, answer } = begin(bytes, bytes, kind);
  stream.end();
  return (await answer).status;
}

/** What was sent before is there when this resolves, or refused. */
const arrived = ({ stream }: Call) => new Promise<unknown>((done) => stream.session?.ping(done) ?? done(null));

// Those that this cluster reads by itself, and those that Connect reads.
const kinds: [string, number, Kind][] = [
  ['a unary call', 100_000, {}],
  ['a unary call in JSON', 100_000, { type: 'application/grpc+json' }],
  ['a stream of answers', 4_000, { path: watch }],
  ['a stream of answers to a stranger', 4_000, { path: watch, token: 'wrong' }],
];

test.each(kinds)(
  'unfinished messages (%s) are bounded together: what is one too many is refused, and there is room again',
  async (_, most, kind) => {
    await start({ unfinished: { bytes: 2.5 * most, ms: 60_000 } });
    const calls: Call[] = [];
    for (let place = 0; place < 3; place++) {
      const call = begin(most, 0.9 * most, kind);
      calls.push(call);
      await arrived(call);
    }
    const refused = await Promise.race(calls.map(({ answer }) => answer));
    expect(refused).toEqual({ status: String(Code.ResourceExhausted), details: expect.stringContaining('overloaded') });
    // Two are left, and nothing is kept of the third; other kinds count with them.
    expect(await ended(0.9 * most, kind)).toBe(String(Code.ResourceExhausted));
    if (most > 10_000) expect(await ended(0.9 * most, {})).toBe(String(Code.ResourceExhausted));
    expect(await ended(0.5 * most, kind)).toBe(String(Code.InvalidArgument));
    for (const { stream } of calls) stream.close(8);
    while ((await ended(0.9 * most, kind)) !== String(Code.InvalidArgument)) await pause(5);
  },
);

test('who has no token leaves their room to those who have it', async () => {
  await start({ unfinished: { bytes: 10_000, ms: 60_000 } });
  const strangers: Call[] = [];
  for (let place = 0; place < 4; place++) {
    const call = begin(4_000, 3_600, { path: place % 2 === 0 ? check : watch, token: 'wrong' });
    strangers.push(call);
    await arrived(call);
  }
  // Those of them that are one too many were refused; the others still hold what they have sent.
  await Promise.race(strangers.map(({ answer }) => answer));
  expect(await ended(9_000, {})).toBe(String(Code.InvalidArgument));
  expect(await ended(9_000, { type: 'application/grpc+json' })).toBe(String(Code.InvalidArgument));
});

test.each(kinds)('a message (%s) that does not end in time is refused, begun or not', async (_, __, kind) => {
  await start({ unfinished: { bytes: 250_000, ms: 200 } });
  for (const sent of [10, undefined]) {
    expect((await begin(100, sent, kind).answer).status).toBe(String(Code.DeadlineExceeded));
  }
});

test('a stream of questions, and one of answers, stay open for longer than a message may take', async () => {
  await start({ unfinished: { bytes: 250_000, ms: 1_000 } });
  const watching = begin(0, 0, { path: watch });
  watching.stream.end();
  const asking = begin(0, undefined, { path: reflection });
  const left: string[] = [];
  for (const [name, { answer }] of Object.entries({ watching, asking })) void answer.then(() => left.push(name));
  await Promise.all([arrived(watching), arrived(asking)]);
  // One that begins after them is too late before they are.
  for (let call = 0; call < 2; call++) await begin(100, 10).answer;
  const question = create(ServerReflectionRequestSchema, { messageRequest: { case: 'listServices', value: '' } });
  const answered = new Promise<Buffer>((done) => asking.stream.once('data', done));
  asking.stream.write(message(toBinary(ServerReflectionRequestSchema, question)));
  expect((await answered).toString()).toContain(LedgerService.typeName);
  expect(left).toEqual([]);
});

test.each<[string, Kind]>([
  ['plainly', { path: check }],
  ['in JSON', { path: check, type: 'application/grpc+json' }],
  ['for a stream', { path: watch }],
])('who has no token may send a service’s name when he asks for health %s, and no more', async (_, kind) => {
  await start({});
  expect((await begin(5_000, 5_000, { ...kind, token: 'wrong' }).answer).status).toBe(String(Code.ResourceExhausted));
  // Without the length that would give it away.
  expect((await begin(4_000, 5_000, { ...kind, token: 'wrong' }).answer).status).toBe(String(Code.ResourceExhausted));
  const asked = begin(0, 0, { ...kind, path: check, type: 'application/grpc', token: 'wrong' });
  asked.stream.end();
  expect((await asked.answer).status).toBe('0');
});

test('who promises more than a service’s name for health is refused before he sends it', async () => {
  await start({});
  for (const token of ['right', 'wrong']) {
    expect((await begin(5_000, 0, { path: watch, token }).answer).status).toBe(String(Code.ResourceExhausted));
  }
});

test.each<[string, number, Kind]>([
  ['for want of the token', 80_000, { path: reflection, token: 'wrong' }],
  ['for the length of his message', 80_000, { path: watch, token: 'wrong' }],
  ['for a message without an end', 3_000, { path: watch, token: 'wrong' }],
])('who is refused %s and does not end his request has his stream closed', async (_, sent, kind) => {
  await start({ unfinished: { bytes: 250_000, ms: 200 } });
  const { stream, answer } = begin(sent + 10, sent, kind);
  const closed = new Promise((done) => stream.once('close', done));
  expect(Number((await answer).status)).toBeGreaterThan(0);
  await closed;
});

const head = block({ ':method': 'POST', ':scheme': 'http', ':path': posting, ':authority': 'ledger', 'content-type': 'application/grpc' });
const headers = Buffer.concat([head, block({ te: 'trailers', authorization: 'Bearer right' })]);

test('a message that comes byte by byte costs what its pieces do', async () => {
  await start({ unfinished: { bytes: 250_000, ms: 60_000 } });
  const peer = await open(server!.port);
  const bytes = Array<Buffer>(2_500).fill(frame(type.data, flag.none, 1, Buffer.alloc(1)));
  await peer.send(Buffer.concat([frame(type.headers, flag.endHeaders, 1, headers), ...bytes]));
  while (codes.length === 0) await pause(5);
  expect(codes).toEqual(['resourceexhausted']);
  peer.socket.destroy();
});

const json = { 'content-type': 'application/json' };

test.each<[string, Record<string, string>]>([
  ['a plain call without the token', { ':path': posting, 'content-type': 'application/grpc' }],
  ['a call in JSON without the token', { ':path': posting, ...json }],
  ['a method that there is not', { ':path': '/ledger.v1.LedgerService/None', ...json }],
  ['a question for health in JSON', { ':path': check, ...json }],
  ['a question for health with a deadline that is none', { ':path': check, ...json, 'connect-timeout-ms': 'soon' }],
])('who takes no answer to %s is not kept what he goes on to send', async (_, fields) => {
  await start({});
  const peer = await open(server!.port);
  const windowOfNothing = Buffer.from([0, 4, 0, 0, 0, 0]);
  await peer.send(Buffer.concat([frame(type.settings, flag.none, 0, windowOfNothing), frame(type.settings, flag.endStream, 0)]));
  const head = block({ ':method': 'POST', ':scheme': 'http', ':authority': 'ledger', ...fields });
  await peer.send(frame(type.headers, flag.endHeaders, 1, head));
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const before = (gc(), process.memoryUsage().heapUsed);
  const bytes = Buffer.concat(Array<Buffer>(10_000).fill(frame(type.data, flag.none, 1, Buffer.alloc(1))));
  for (let place = 0; place < 30; place++) await peer.send(bytes);
  const allCame = new Promise((done) => peer.socket.on('data', (told: Buffer) => told.includes('all sent') && done(null)));
  await peer.send(frame(type.ping, flag.none, 0, Buffer.from('all sent')));
  await allCame;
  // Each piece that is kept takes more than a hundred bytes.
  while ((gc(), process.memoryUsage().heapUsed) - before > 10_000_000) await pause(20);
  expect(peer.ended).toBe(false);
  peer.socket.destroy();
});

test('what a call came in is not kept while it is worked on', async () => {
  const went: (() => void)[] = [];
  handle = () => new Promise((done) => went.push(() => done({})));
  await start({ maxMessageBytes: 2 << 20 });
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const kept = () => (gc(), process.memoryUsage().arrayBuffers);
  const description = 'x'.repeat(1_000_000);
  const bytes = message(toBinary(PostTransactionRequestSchema, create(PostTransactionRequestSchema, { posting: { description } })));
  const before = kept();
  const calls = Array.from({ length: 20 }, () => begin(0, undefined));
  for (const { stream } of calls) stream.end(bytes);
  while (went.length < calls.length) await pause(5);
  // Once as it was put together, and not once more in pieces; what was read last may be held for a moment.
  while (kept() - before >= 1.5 * calls.length * bytes.length) await pause(20);
  for (const go of went) go();
  await Promise.all(calls.map(({ answer }) => answer));
});

test('a server of small messages has room for 32 MiB of them, and no more', async () => {
  await start({ maxMessageBytes: 1 << 20 });
  const calls: Call[] = [];
  let refused = 0;
  for (let place = 0; place < 34; place++) {
    const call = begin(1 << 20, 1_000_000);
    void call.answer.then(() => refused++);
    calls.push(call);
    await arrived(call);
  }
  await Promise.race(calls.map(({ answer }) => answer));
  for (const call of calls) await arrived(call);
  expect(refused).toBe(1);
});
