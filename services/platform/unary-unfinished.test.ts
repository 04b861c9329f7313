// Messages that have begun and do not end: what they may cost.
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { setTimeout as pause } from 'node:timers/promises';
import { Code } from '@connectrpc/connect';
import { Registry } from 'prom-client';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { serve, type Served } from './serve.ts';
import { openLog } from './telemetry.ts';

const maxMessageBytes = 100_000;
const bounds = { bytes: 250_000, ms: 60_000 };

let server: Served | undefined;
let sessions: ClientHttp2Session[] = [];

async function start(unfinished: { bytes: number; ms: number }): Promise<void> {
  server = await serve({
    host: '127.0.0.1',
    port: 0,
    services: [LedgerService],
    routes: (router) => router.service(LedgerService, { postTransaction: () => ({}) }),
    tokens: ['right'],
    maxMessageBytes,
    unfinished,
    logger: openLog('test', 'silent'),
    metrics: new Registry(),
    readiness: () => Promise.resolve({ ready: true, dependencies: {} }),
  });
}

afterEach(async () => {
  for (const session of sessions) session.destroy();
  sessions = [];
  await server?.close();
});

interface Call {
  stream: ClientHttp2Stream;
  /** Status, and the details of a refusal. */
  answer: Promise<{ status: string; details: string }>;
}

/** A call on a connection of its own that has sent an envelope of so many bytes, and so many of them. */
function begin(length: number, sent: number, path = '/ledger.v1.LedgerService/PostTransaction', token = 'right'): Call {
  const session = connect(`http://127.0.0.1:${server!.port}`);
  session.on('error', () => undefined);
  sessions.push(session);
  const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
  const stream = session.request({ ...headers, authorization: `Bearer ${token}` });
  stream.on('error', () => undefined).resume();
  const answer = new Promise<Awaited<Call['answer']>>((done) =>
    stream.on('trailers', (given) => {
      const [status, details] = [String(given['grpc-status']), given['grpc-status-details-bin'] as string | undefined];
      done({ status, details: Buffer.from(details ?? '', 'base64').toString() });
    }),
  );
  const head = Buffer.alloc(5);
  head.writeUInt32BE(length, 1);
  stream.write(Buffer.concat([head, Buffer.alloc(sent)]));
  return { stream, answer };
}

/** The status of a call whose message ends, but is none; whether there was room for it is told before. */
async function ended(bytes: number): Promise<string> {
  const { stream, answer } = begin(bytes, bytes);
  stream.end();
  return (await answer).status;
}

test('unfinished messages of all connections are bounded together: what is one too many is refused, and there is room again', async () => {
  await start(bounds);
  const calls: Call[] = [];
  for (let place = 0; place < 3; place++) {
    const call = begin(maxMessageBytes, 90_000);
    calls.push(call);
    // What was sent before a ping is there before its answer.
    await new Promise((done) => call.stream.session?.ping(done));
  }
  const refused = await Promise.race(calls.map(({ answer }) => answer));
  expect(refused).toEqual({ status: String(Code.ResourceExhausted), details: expect.stringContaining('overloaded') });
  // Two are left, and nothing is kept of the third.
  expect(await ended(90_000)).toBe(String(Code.ResourceExhausted));
  expect(await ended(50_000)).toBe(String(Code.InvalidArgument));
  for (const { stream } of calls) stream.close(8);
  while ((await ended(90_000)) !== String(Code.InvalidArgument)) await pause(5);
});

test('a message that does not end in time is refused', async () => {
  await start({ ...bounds, ms: 200 });
  expect((await begin(100, 10).answer).status).toBe(String(Code.DeadlineExceeded));
});

test('who has no token may send a service’s name when he asks for health, and no more', async () => {
  await start(bounds);
  const path = '/grpc.health.v1.Health/Check';
  expect((await begin(5_000, 5_000, path, 'wrong').answer).status).toBe(String(Code.ResourceExhausted));
  const asked = begin(0, 0, path, 'wrong');
  asked.stream.end();
  expect((await asked.answer).status).toBe('0');
});
