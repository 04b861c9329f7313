import { once } from 'node:events';
import { connect } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { create, fromBinary, toBinary, type DescMethod, type Message } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient, type HandlerContext } from '@connectrpc/connect';
import { Http2SessionManager, createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { findTrailerError } from '@connectrpc/connect/protocol-grpc';
import { Client, Metadata, credentials, status, type ChannelOptions, type ServiceError } from '@grpc/grpc-js';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { Health } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { ErrorInfoSchema } from '../../proto/gen/google/rpc/error_details_pb.js';
import {
  LedgerService,
  PostTransactionRequestSchema,
  PostTransactionResponseSchema,
  type PostTransactionRequest,
} from '../../proto/gen/ledger/v1/ledger_pb.js';
import { startGrpcServer } from '../../test/grpc-server.ts';
import { until as untilResult } from '../../test/polling.ts';
import { refuse } from './errors.ts';
import type { RunningServer } from './lifetime.ts';
import { logFields, type ServeOptions } from './serve.ts';

const maxMessageBytes = 10_000;
const { postTransaction, reverseTransaction, getAccount } = LedgerService.method;

const until = (isSo: () => boolean) => untilResult(() => Promise.resolve(isSo()), Boolean);

let server: RunningServer;
let client: Client;
let metrics: Registry;
let handle: (request: PostTransactionRequest, context: HandlerContext) => Promise<object> | object;
const lines: { level: number; code?: string; method?: string }[] = [];

function start(options: Partial<ServeOptions> = {}): Promise<RunningServer> {
  return startGrpcServer({
    services: [LedgerService],
    routes: (router) =>
      router.service(LedgerService, {
        postTransaction: async (request, context) => handle(request, context),
        reverseTransaction: () => ({ replayed: true }),
      }),
    tokens: ['right', 'also right'],
    maxMessageBytes,
    logger: pino({ level: 'info' }, { write: (line) => lines.push(JSON.parse(line) as (typeof lines)[0]) }),
    metrics,
    ...options,
  });
}

beforeEach(async () => {
  metrics = new Registry();
  lines.length = 0;
  handle = () => ({ replayed: true });
  server = await start();
  client = clientOf(server);
});
afterEach(async () => {
  client.close();
  await server.close();
});

function clientOf({ port }: RunningServer, options: ChannelOptions = {}): Client {
  return new Client(`127.0.0.1:${port}`, credentials.createInsecure(), options);
}

interface Asked {
  message?: Uint8Array;
  headers?: Record<string, string>;
  deadline?: number;
  by?: Client;
  signal?: AbortSignal;
}

/** Calls by grpc-js. Resolves with the response's bytes, rejects with a ServiceError. */
function call(
  method: DescMethod | string,
  { message = new Uint8Array(), headers, deadline, by = client, signal }: Asked = {},
): Promise<Buffer> {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries({ authorization: 'Bearer right', ...headers })) metadata.set(name, value);
  const path = typeof method === 'string' ? method : `/${method.parent.typeName}/${method.name}`;
  return new Promise((resolve, reject) => {
    const asIs = (bytes: Buffer) => bytes;
    const options = deadline === undefined ? {} : { deadline: Date.now() + deadline };
    const done = (error: ServiceError | null, answer?: Buffer) => (error ? reject(error) : resolve(answer as Buffer));
    const begun = by.makeUnaryRequest(path, asIs, asIs, Buffer.from(message), metadata, options, done);
    signal?.addEventListener('abort', () => begun.cancel());
  });
}

async function failureOf(
  failed: Promise<unknown>,
): Promise<{ code: number; message: string; reason: string | undefined; metadata: object }> {
  const error = await failed.then(
    () => Promise.reject(new Error('did not fail')),
    (cause: ServiceError) => cause,
  );
  const headers = new Headers();
  for (const bytes of error.metadata.get('grpc-status-details-bin')) {
    headers.set('grpc-status-details-bin', (bytes as Buffer).toString('base64'));
  }
  const [info] = findTrailerError(headers)?.findDetails(ErrorInfoSchema) ?? [];
  return { code: error.code, message: error.details, reason: info?.reason, metadata: info?.metadata ?? {} };
}

function posting(description: string): Uint8Array {
  return toBinary(PostTransactionRequestSchema, create(PostTransactionRequestSchema, { posting: { description } }));
}

test('a call is answered, logged with the fields of its handler, and measured', async () => {
  handle = ({ posting: asked }, context) => {
    context.values.get(logFields)['tenant'] = 'one';
    return { replayed: asked?.description === 'a deposit' };
  };
  const answer = await call(postTransaction, { message: posting('a deposit'), headers: { 'x-request-id': 'req_1' } });
  expect(fromBinary(PostTransactionResponseSchema, answer).replayed).toBe(true);
  await until(() => lines.length > 0);
  expect(lines).toMatchObject([{ method: 'ledger.v1.LedgerService/PostTransaction', code: 'ok', request_id: 'req_1', tenant: 'one' }]);
  expect(await metrics.metrics()).toContain('grpc_server_seconds_count{method="ledger.v1.LedgerService/PostTransaction",code="ok"} 1\n');
});

test('a response of a type with an encoder has the bytes that it makes', async () => {
  const encoders = new Map([[PostTransactionResponseSchema, (_: Message) => Buffer.from('own')]]);
  const other = await start({ encoders, metrics: new Registry() });
  const by = clientOf(other);
  try {
    expect(String(await call(postTransaction, { by }))).toBe('own');
    expect(await call(reverseTransaction, { by })).toEqual(Buffer.from([0x10, 1]));
  } finally {
    by.close();
    await other.close();
  }
});

test.each(['Bearer right', 'bearer right', 'BEARER   right', 'Bearer also right'])('%j is accepted', async (authorization) => {
  await call(postTransaction, { headers: { authorization } });
});

test.each(['', 'Bearer', 'Bearer wrong', 'Bearer rightx', 'Bearer Right', 'right', 'Basic right'])(
  'with the authorization %j nothing is done, whatever the message',
  async (authorization) => {
    let calls = 0;
    handle = () => ({ replayed: calls++ === 0 });
    for (const message of [posting('one'), Buffer.from('no message')]) {
      expect(await failureOf(call(postTransaction, { message, headers: { authorization } }))).toEqual({
        code: status.UNAUTHENTICATED,
        message: 'internal token missing or wrong',
        reason: 'unauthenticated',
        metadata: { credential: 'internal' },
      });
    }
    expect(calls).toBe(0);
  },
);

test.each([
  ['Connect, JSON', createConnectTransport, false],
  ['Connect, protobuf', createConnectTransport, true],
  ['gRPC-Web', createGrpcWebTransport, true],
  ['gRPC, JSON', createGrpcTransport, false],
])('over %s calls are answered and refused, too', async (_, createTransport, useBinaryFormat) => {
  const baseUrl = `http://127.0.0.1:${server.port}`;
  const sessionManager = new Http2SessionManager(baseUrl);
  const ledger = createClient(LedgerService, createTransport({ baseUrl, httpVersion: '2', useBinaryFormat, sessionManager }));
  const headers = { authorization: 'Bearer right' };
  try {
    expect(await ledger.postTransaction({}, { headers })).toMatchObject({ replayed: true });
    await expect(ledger.postTransaction({})).rejects.toMatchObject({ code: Code.Unauthenticated });
    await expect(ledger.getAccount({}, { headers })).rejects.toMatchObject({ code: Code.Unimplemented });
    const description = 'x'.repeat(maxMessageBytes);
    await expect(ledger.postTransaction({ posting: { description } }, { headers })).rejects.toMatchObject({ code: Code.ResourceExhausted });
    handle = () => Promise.reject(refuse(Code.NotFound, { reason: 'tenant_not_found', message: 'no such tenant' }));
    const failure = await ledger.postTransaction({}, { headers }).catch((error: unknown) => ConnectError.from(error));
    expect(failure).toMatchObject({ code: Code.NotFound, rawMessage: 'no such tenant' });
    expect((failure as ConnectError).findDetails(ErrorInfoSchema)).toMatchObject([{ reason: 'tenant_not_found' }]);
  } finally {
    sessionManager.abort();
  }
});

test.each([[getAccount], ['/ledger.v1.LedgerService/Nothing'], ['/nobody.v1.NobodyService/Nothing']])(
  'a method that is not there is unimplemented',
  async (method) => {
    expect(await failureOf(call(method))).toMatchObject({ code: status.UNIMPLEMENTED });
  },
);

test('an error comes with its details and its message as it is', async () => {
  const message = 'not enough: 5, of 10 % in ₦ – try “again”\n';
  handle = () => Promise.reject(refuse(Code.FailedPrecondition, { reason: 'insufficient_funds', message, field: 'entries[0].amount' }));
  expect(await failureOf(call(postTransaction))).toMatchObject({
    code: status.FAILED_PRECONDITION,
    message,
    reason: 'insufficient_funds',
    metadata: { field: 'entries[0].amount' },
  });
  expect(lines).toMatchObject([{ level: 30, code: 'failedprecondition' }]);
});

test('an unexpected error says nothing to the client, and is logged whole', async () => {
  handle = () => Promise.reject(new Error('a secret'));
  expect(await failureOf(call(postTransaction))).toMatchObject({ code: status.INTERNAL, message: 'internal error', reason: 'internal' });
  expect(lines).toMatchObject([{ level: 50, code: 'internal', err: { message: 'a secret' } }]);
});

test('a message larger than the limit is refused, in either direction', async () => {
  const refused = { code: status.RESOURCE_EXHAUSTED, reason: 'payload_too_large' };
  await call(postTransaction, { message: posting('x'.repeat(maxMessageBytes - 10)) });
  expect(await failureOf(call(postTransaction, { message: posting('x'.repeat(maxMessageBytes)) }))).toMatchObject(refused);
  handle = () => ({ transaction: { description: 'x'.repeat(maxMessageBytes) } });
  expect(await failureOf(call(postTransaction))).toMatchObject(refused);
});

const envelope = (message: string, flags = 0, length = message.length) => {
  const head = Buffer.of(flags, 0, 0, 0, 0);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, Buffer.from(message)]);
};

test.each<[string, Buffer, number, Record<string, string>?]>([
  ['half an envelope', Buffer.alloc(3), status.INVALID_ARGUMENT],
  ['less than promised', envelope('', 0, 5), status.INVALID_ARGUMENT],
  ['two messages', Buffer.concat([envelope(''), envelope('')]), status.INVALID_ARGUMENT],
  ['what is no message', envelope('no message'), status.INVALID_ARGUMENT],
  ['a compressed message', envelope('x', 1), status.INVALID_ARGUMENT],
  ['a deadline that is none', envelope(''), status.INVALID_ARGUMENT, { 'grpc-timeout': 'soon' }],
  ['a deadline that has passed', envelope(''), status.DEADLINE_EXCEEDED, { 'grpc-timeout': '0n' }],
])('%s is refused, and is no fault of the server', async (_, body, code, headers = {}) => {
  let calls = 0;
  handle = () => ({ replayed: calls++ === 0 });
  const session = connect(`http://127.0.0.1:${server.port}`);
  const own = { ':method': 'POST', ':path': '/ledger.v1.LedgerService/PostTransaction', authorization: 'Bearer right' };
  const stream = session.request({ ...own, 'content-type': 'application/grpc', te: 'trailers', ...headers });
  stream.end(body);
  const [given] = (await once(stream, 'response')) as [Record<string, string>];
  expect([given['grpc-status'], calls]).toEqual([String(code), 0]);
  expect(lines.filter(({ level }) => level > 30)).toEqual([]);
  session.close();
});

test('the handler knows the deadline, and its signal is aborted there', async () => {
  const left: (number | undefined)[] = [];
  const reasons: unknown[] = [];
  handle = async (_, { timeoutMs, signal }) => {
    left.push(timeoutMs());
    await once(signal, 'abort');
    reasons.push(signal.reason);
    return {};
  };
  expect(await failureOf(call(postTransaction, { deadline: 200 }))).toMatchObject({ code: status.DEADLINE_EXCEEDED });
  await until(() => reasons.length > 0);
  expect(left[0]).toBeGreaterThan(0);
  expect(left[0]).toBeLessThanOrEqual(200);
  handle = (_, { timeoutMs }) => ({ replayed: timeoutMs() === undefined });
  expect(fromBinary(PostTransactionResponseSchema, await call(postTransaction)).replayed).toBe(true);
});

test('the signal of a call whose client cancels is aborted, that of an answered call is not', async () => {
  const signals: AbortSignal[] = [];
  handle = async (_, { signal }) => {
    signals.push(signal);
    if (signals.length === 1) await once(signal, 'abort');
    return {};
  };
  const leaving = new AbortController();
  const left = failureOf(call(postTransaction, { signal: leaving.signal }));
  await until(() => signals.length === 1);
  leaving.abort();
  expect(await left).toMatchObject({ code: status.CANCELLED });
  await until(() => signals[0]?.aborted === true);
  await call(postTransaction);
  await until(() => lines.filter(({ code }) => code === 'ok').length === 2);
  expect(signals[1]?.aborted).toBe(false);
});

test('a server that closes is not healthy, answers what it has begun, and then takes no connection', async () => {
  const begun = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<object>();
  handle = () => (begun.resolve(), answer.promise);
  const posted = call(postTransaction);
  await begun.promise;
  const manager = new Http2SessionManager(`http://127.0.0.1:${server.port}`);
  const health = createClient(Health, createGrpcTransport({ baseUrl: `http://127.0.0.1:${server.port}`, sessionManager: manager }));
  const watching = health.watch({})[Symbol.asyncIterator]();
  expect((await watching.next()).value).toMatchObject({ status: 1 });
  const closed = server.close();
  expect((await watching.next()).value).toMatchObject({ status: 2 });
  manager.abort();
  answer.resolve({ replayed: true });
  expect(fromBinary(PostTransactionResponseSchema, await posted).replayed).toBe(true);
  await closed;
  await expect(once(connectSocket(server.port, '127.0.0.1'), 'connect')).rejects.toThrow('ECONNREFUSED');
});

test('a call without an end, and a connection that says nothing, keep a server from closing for 5 s only', async () => {
  const socket = connectSocket(server.port, '127.0.0.1');
  await once(socket, 'connect');
  const begun = Promise.withResolvers<void>();
  handle = () => (begun.resolve(), new Promise(() => undefined));
  const failure = failureOf(call(postTransaction));
  await begun.promise;
  const began = performance.now();
  await server.close();
  expect(performance.now() - began).toBeGreaterThan(4_000);
  expect(await failure).toMatchObject({ code: status.UNAVAILABLE });
  socket.destroy();
});

test('a connection has so many calls open as the setting says, others wait', async () => {
  const few = await start({ maxStreams: 2, metrics: new Registry() });
  const by = clientOf(few);
  const waiting: ((answer: object) => void)[] = [];
  handle = () => new Promise((resolve) => waiting.push(resolve));
  try {
    const all = [1, 2, 3].map(() => call(postTransaction, { by }));
    await until(() => waiting.length === 2);
    await call(reverseTransaction);
    expect(waiting).toHaveLength(2);
    waiting.shift()?.({});
    await until(() => waiting.length === 2);
    for (const answer of waiting) answer({});
    expect(await Promise.all(all)).toHaveLength(3);
  } finally {
    by.close();
    await few.close();
  }
});
