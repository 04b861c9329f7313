import { connect, constants, type ClientHttp2Session } from 'node:http2';
import { setTimeout as pause } from 'node:timers/promises';
import { create, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError, type HandlerContext } from '@connectrpc/connect';
import { pino } from 'pino';
import { LedgerService, PostTransactionRequestSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { trailersOf } from '../../test/grpc-endings.ts';
import { startGrpcServer } from '../../test/grpc-server.ts';
import type { RunningServer } from './lifetime.ts';
import { refuse } from './errors.ts';

const maxMessageBytes = 10_000;
const path = '/ledger.v1.LedgerService/PostTransaction';
const known = { authorization: 'Bearer right' };

let server: RunningServer;
let session: ClientHttp2Session;
let handle: (context: HandlerContext) => Promise<object>;

interface Line {
  level: number;
  code?: string;
}
const lines: Line[] = [];

const start = () =>
  startGrpcServer({
    services: [LedgerService],
    routes: (router) => {
      router.service(LedgerService, { postTransaction: (_, context) => handle(context) });
    },
    tokens: ['right'],
    maxMessageBytes,
    logger: pino({ level: 'info' }, { write: (line) => lines.push(JSON.parse(line) as Line) }),
  });

beforeAll(async () => {
  server = await start();
  session = connect(`http://127.0.0.1:${server.port}`);
});

afterAll(async () => {
  session.close();
  await server.close();
});

beforeEach(() => {
  lines.length = 0;
  handle = () => Promise.resolve({ replayed: true });
});

interface Answer {
  status: string | undefined;
  message: string;
  /** As it was sent. */
  encoded: string;
  details: string;
  body: Buffer;
}

const envelope = (message: Uint8Array, { flags = 0, length = message.length } = {}) => {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, message]);
};

const message = toBinary(PostTransactionRequestSchema, create(PostTransactionRequestSchema, { posting: { description: 'of a test' } }));

function open(headers: Record<string, string>, by = session) {
  return by.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...known, ...headers });
}

async function call(body: Uint8Array | null, headers: Record<string, string> = {}, by = session): Promise<Answer> {
  const stream = open(headers, by);
  const said: Record<string, unknown> = {};
  const chunks: Buffer[] = [];
  stream.on('response', (given) => Object.assign(said, given));
  stream.on('trailers', (given) => Object.assign(said, given));
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  const ended = new Promise((done, fail) => stream.on('end', done).on('error', fail));
  // Null: nothing is sent, and the end is left open.
  if (body !== null) stream.end(body);
  await ended;
  stream.close();
  const raw = (name: string) => (said[name] as string | undefined) ?? '';
  const text = (name: string) => decodeURIComponent(raw(name));
  return {
    status: said['grpc-status'] as string | undefined,
    message: text('grpc-message'),
    encoded: raw('grpc-message'),
    details: text('grpc-status-details-bin'),
    body: Buffer.concat(chunks),
  };
}

test('an answer has its status behind its message', async () => {
  const stream = open({});
  stream.end(envelope(message));
  const [first, last] = await Promise.all(
    ['response', 'trailers'].map((event) => new Promise((done) => stream.on(event, (given: unknown) => done(given)).resume())),
  );
  expect(first).not.toHaveProperty('grpc-status');
  expect(last).toHaveProperty('grpc-status', '0');
});

test('a refusal is one frame, so that clients may ask again as their policies say', async () => {
  handle = () => Promise.reject(new ConnectError('away', Code.Unavailable));
  const stream = open({});
  stream.end(envelope(message));
  const [headers, flags] = await new Promise<[Record<string, unknown>, number]>((done) =>
    stream.on('response', (given, flags) => done([given, flags])),
  );
  stream.resume();
  expect(headers).toMatchObject({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': String(Code.Unavailable) });
  expect(flags & constants.NGHTTP2_FLAG_END_STREAM).not.toBe(0);
});

test('a call is answered with one message', async () => {
  expect(await call(envelope(message))).toEqual({
    status: '0',
    message: '',
    encoded: '',
    details: '',
    body: envelope(Buffer.from([0x10, 1])),
  });
});

const tooMuch = Buffer.alloc(maxMessageBytes + 1, ' ');

test.each<[string, (message: Uint8Array) => Buffer]>([
  ['nothing at all', () => Buffer.alloc(0)],
  ['half an envelope', () => Buffer.from([0, 0])],
  ['less than its envelope promises', (message) => envelope(message, { length: message.length + 1 })],
  ['two messages', (message) => Buffer.concat([envelope(message), envelope(message)])],
  ['a compressed message', (message) => envelope(message, { flags: 1 })],
  ['a message larger than may be', () => envelope(tooMuch)],
  ['the promise of one', (message) => envelope(message, { length: 0xffffffff })],
])('%s is refused, with the status that Connect has for it', async (_, body) => {
  const refused = await call(body(message));
  expect(Number(refused.status)).toBeGreaterThan(0);
  expect(refused.message).not.toBe('');
  // JSON goes through Connect itself.
  expect(refused.status).toBe((await call(body(Buffer.from('{}')), { 'content-type': 'application/grpc+json' })).status);
});

test.each([
  ['has sent a message larger than may be', envelope(tooMuch)],
  ['has promised one', envelope(message, { length: maxMessageBytes + 1 })],
])('who %s is told so by a reason, as he should not try again', async (_, body) => {
  expect(Buffer.from((await call(body)).details, 'base64').toString()).toContain('payload_too_large');
});

test('what is no message is its caller’s fault', async () => {
  expect((await call(envelope(Buffer.from([0xff])))).status).toBe(String(Code.InvalidArgument));
});

test('who compresses and does not say how is told so, in gRPC’s own status for it, and no fault of the cluster is logged', async () => {
  const refused = await call(envelope(message, { flags: 1 }));
  expect(refused).toMatchObject({ status: String(Code.Internal), message: 'the message is compressed, and no grpc-encoding says how' });
  expect(Buffer.from(refused.details, 'base64').toString()).toContain('validation_failed');
  expect(lines).toMatchObject([{ level: pino.levels.values['info'], code: 'internal' }]);
  const unknown = await call(envelope(message, { flags: 1 }), { 'grpc-encoding': 'gzip' });
  expect(unknown.status).toBe(String(Code.Unimplemented));
  expect(lines.filter(({ level }) => level > pino.levels.values['info']!)).toEqual([]);
});

test('what no rule refuses is logged as a fault of the cluster', async () => {
  for (const [error, code] of [
    [new Error('broken'), 'internal'],
    [new ConnectError('broken', Code.Internal), 'internal'],
    [new ConnectError('broken', Code.Unknown), 'unknown'],
    [refuse(Code.Internal, { reason: 'internal', message: 'internal error' }), 'internal'],
  ] as const) {
    lines.length = 0;
    handle = () => Promise.reject(error);
    await call(envelope(message));
    expect(lines).toMatchObject([{ level: pino.levels.values['error'], code, msg: 'call failed' }]);
  }
});

test('an answer larger than may be is refused', async () => {
  handle = () => Promise.resolve({ transaction: { description: 'x'.repeat(maxMessageBytes) } });
  expect((await call(envelope(message))).status).toBe(String(Code.ResourceExhausted));
});

test('who has no token is refused before he has sent anything', async () => {
  for (const authorization of ['', 'Bearer wrong']) {
    expect(await call(null, { authorization })).toMatchObject({ status: String(Code.Unauthenticated), body: Buffer.alloc(0) });
  }
});

test('the word Bearer is taken in any case and before any number of spaces, the token as it is', async () => {
  const status = async (authorization: string) => [authorization, (await call(envelope(message), { authorization })).status];
  for (const right of ['bearer right', 'BEARER right', 'Bearer   right']) expect(await status(right)).toEqual([right, '0']);
  for (const wrong of [
    'Bearer Right',
    'Bearer right x',
    'Bearerright',
    'Basic right',
    'right',
    'Bearer',
    'x Bearer right',
    'Bearer right,right',
  ]) {
    expect(await status(wrong)).toEqual([wrong, String(Code.Unauthenticated)]);
  }
});

test('a refusal comes with its details, and what is no refusal tells nothing', async () => {
  handle = () => Promise.reject(new ConnectError('not so: 100 %', Code.FailedPrecondition));
  expect(await call(envelope(message))).toMatchObject({ status: String(Code.FailedPrecondition), message: 'not so: 100 %' });
  handle = () => Promise.reject(new ConnectError('a, b; c: [0] + 100 % é\n', Code.FailedPrecondition));
  expect((await call(envelope(message))).encoded).toBe('a, b; c: [0] + 100 %25 %C3%A9%0A');
  handle = () => Promise.reject(new Error('the password is 1234'));
  const { status, message: said, details } = await call(envelope(message));
  expect({ status, said }).toEqual({ status: String(Code.Internal), said: 'internal error' });
  expect(Buffer.from(details, 'base64').toString()).toContain('google.rpc.ErrorInfo');
});

test('the deadline of the caller ends the work, and one that can’t be read is refused', async () => {
  handle = ({ signal, timeoutMs }) =>
    new Promise((_, fail) => {
      expect(timeoutMs()).toBeLessThanOrEqual(50);
      signal.addEventListener('abort', () => fail(signal.reason as Error));
    });
  expect((await call(envelope(message), { 'grpc-timeout': '50m' })).status).toBe(String(Code.DeadlineExceeded));
  expect((await call(null, { 'grpc-timeout': '50m' })).status).toBe(String(Code.DeadlineExceeded));
  expect((await call(envelope(message), { 'grpc-timeout': 'soon' })).status).toBe(String(Code.InvalidArgument));
});

test('a call that has no time is not begun', async () => {
  let begun = 0;
  handle = () => (begun++, Promise.resolve({}));
  expect((await call(envelope(message), { 'grpc-timeout': '0m' })).status).toBe(String(Code.DeadlineExceeded));
  expect(begun).toBe(0);
});

test.each<[string, string, string, string | undefined]>([
  ['application/grpc', 'grpc-timeout', '99999999H', '0'],
  ['application/grpc', 'grpc-timeout', '86400001m', '0'],
  ['application/grpc+json', 'grpc-timeout', '99999999H', '0'],
  ['application/json', 'connect-timeout-ms', '9999999999', undefined],
  ['application/grpc', 'grpc-timeout', '100000000H', String(Code.InvalidArgument)],
])('of %s a deadline further off than a day (%s: %s) is a day, and one that is none is refused', async (type, name, value, status) => {
  const told: number[] = [];
  handle = ({ timeoutMs }) => (told.push(timeoutMs() ?? Infinity), Promise.resolve({}));
  const isJson = type.endsWith('json');
  const json = Buffer.from('{}');
  const body = type === 'application/json' ? json : envelope(isJson ? json : message);
  expect((await call(body, { 'content-type': type, [name]: value })).status).toBe(status);
  const day = 86_400_000;
  expect(told.map((ms) => ms <= day && ms > day - 60_000)).toEqual(status === String(Code.InvalidArgument) ? [] : [true]);
});

test('the work of a caller who leaves is ended, and one that was answered is not', async () => {
  const reasons: unknown[] = [];
  let called = 0;
  handle = ({ signal }) => {
    called++;
    signal.addEventListener('abort', () => reasons.push(signal.reason));
    return called === 1 ? Promise.resolve({}) : new Promise(() => undefined);
  };
  await call(envelope(message));
  const stream = open({});
  stream.on('error', () => undefined);
  stream.end(envelope(message));
  while (called < 2) await pause(10);
  stream.close(8);
  while (reasons.length === 0) await pause(10);
  expect(reasons).toMatchObject([{ code: Code.Canceled }]);
});

test('a handler reads headers and takes what else it is told of', async () => {
  let seen: object = {};
  handle = ({ requestHeader, service, method, url }) => {
    seen = {
      trace: requestHeader.get('traceparent'),
      other: requestHeader.get('other'),
      service: service.typeName,
      method: method.name,
      url,
    };
    return Promise.resolve({});
  };
  await call(envelope(message), { traceparent: 'of-the-caller' });
  expect(seen).toEqual({ trace: 'of-the-caller', other: null, service: 'ledger.v1.LedgerService', method: 'PostTransaction', url: path });
});

test('a refusal that can’t be written ends its call, and not the process', async () => {
  const unhandled: unknown[] = [];
  const note = (error: unknown) => unhandled.push(error);
  process.on('unhandledRejection', note);
  try {
    for (const failure of [
      // Cut in the middle of a character.
      refuse(Code.NotFound, { reason: 'account_not_found', message: 'account \ud83d not found' }),
      new ConnectError('\ud83d', Code.NotFound),
    ]) {
      handle = () => Promise.reject(failure);
      const ended = call(envelope(message)).then(
        ({ status }) => status,
        () => 'reset',
      );
      expect(await Promise.race([ended, pause(30_000, 'nothing', { ref: false })])).toMatch(/^(5|13|reset)$/);
    }
    expect(unhandled).toEqual([]);
  } finally {
    process.off('unhandledRejection', note);
  }
});

test.each(['Bearer wrong', 'Bearer right'])(
  'who was answered and never ends his request (%s) does not keep the server from closing',
  async (authorization) => {
    const closed = async () => {
      const other = await start();
      const caller = connect(`http://127.0.0.1:${other.port}`);
      try {
        const stream = caller.request({
          ':method': 'POST',
          ':path': path,
          'content-type': 'application/grpc',
          te: 'trailers',
          authorization,
        });
        const said = trailersOf(stream);
        stream.on('error', () => undefined).resume();
        if (authorization === known.authorization) stream.write(envelope(tooMuch));
        expect((await said)['grpc-status']).toMatch(/^(8|16)$/);
        // It would end every connection after five seconds.
        return await Promise.race([other.close().then(() => true), pause(4_000, false, { ref: false })]);
      } finally {
        caller.destroy();
      }
    };
    // On a busy machine a while may pass for other reasons, but not each time.
    expect((await closed()) || (await closed()) || (await closed())).toBe(true);
  },
);

test('who is not answered, because he never ends his request, keeps the server from closing for some seconds only', async () => {
  const other = await start();
  const caller = connect(`http://127.0.0.1:${other.port}`);
  const stream = caller.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...known });
  stream.on('error', () => undefined);
  caller.on('error', () => undefined);
  stream.write(envelope(message).subarray(0, 3));
  await new Promise((done) => caller.ping(done));
  await other.close();
  caller.destroy();
});

test('calls with messages beyond 1 MiB are worked on one of a connection and two in all, others beside them; eight wait, and what is more is told to', async () => {
  const most = 2 << 20;
  const begun: string[] = [];
  const gate = Promise.withResolvers<void>();
  const roomy = await startGrpcServer({
    services: [LedgerService],
    routes: (router) => {
      router.service(LedgerService, {
        async postTransaction({ posting }) {
          begun.push(posting?.tenantId ?? '');
          if (posting?.tenantId === 'large') await gate.promise;
          return {};
        },
      });
    },
    tokens: ['right'],
    maxMessageBytes: most,
  });
  const clients = [1, 2].map(() => connect(`http://127.0.0.1:${roomy.port}`));
  try {
    const ask = (tenantId: string, bytes: number, place = 0) => {
      const posting = { tenantId, description: 'x'.repeat(bytes) };
      const sent = toBinary(PostTransactionRequestSchema, create(PostTransactionRequestSchema, { posting }));
      return call(envelope(sent), {}, clients[place % 2]);
    };
    const large = Array.from({ length: 11 }, (_, place) => ask('large', (1 << 20) + 1, place));
    // One is more than may wait, and is refused while the others are held.
    const refused = await Promise.race(large);
    expect(refused).toMatchObject({ status: String(Code.ResourceExhausted), message: 'too many calls are waiting' });
    expect(await ask('small', 1_000)).toMatchObject({ status: '0' });
    expect(await ask('of a MiB', (1 << 20) - 100)).toMatchObject({ status: '0' });
    expect(begun).toEqual(['large', 'large', 'small', 'of a MiB']);
    gate.resolve();
    const statuses = (await Promise.all(large)).map(({ status }) => status);
    expect(statuses.filter((status) => status === '0')).toHaveLength(10);
    // And again, as all have given their places back.
    expect(await ask('large', (1 << 20) + 1)).toMatchObject({ status: '0' });
  } finally {
    for (const client of clients) client.close();
    await roomy.close();
  }
});
