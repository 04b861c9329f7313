// A channel before servers that end connections, reset calls and break the protocol. Each is Node's own HTTP/2, without the cluster's bounds.
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setTimeout as pause } from 'node:timers/promises';
import { constants, type ClientHttp2Stream, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import { Code, ConnectError } from '@connectrpc/connect';
import { startBareServer, type BareServer, type StreamHandler } from '../../test/bare-server.ts';
import { answerOrError } from '../../test/grpc-endings.ts';
import { openProxy } from '../../test/proxy.ts';
import { Channel, wasBegun, type Question } from './channel.ts';
import { enveloped } from './envelope.ts';

const question: Question = {
  path: '/test.Service/Method',
  headers: {},
  message: Buffer.from('asked'),
  patienceMs: 20_000,
  signal: undefined,
};
const mostBytes = 1000;

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function listening(server: Server): Promise<number> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return (server.address() as AddressInfo).port;
}

/** A server, and a channel to it. */
async function answering(handle: StreamHandler): Promise<BareServer> {
  const made = await startBareServer(handle, mostBytes);
  closing.push(made.close);
  return made;
}

/** Answers with bytes and a status. */
function answer(stream: ServerHttp2Stream, bytes: Uint8Array, trailers: Record<string, string> = { 'grpc-status': '0' }): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.once('wantTrailers', () => stream.sendTrailers(trailers));
  stream.end(bytes);
}

test('a message is asked and answered as gRPC writes it, with the deadline', async () => {
  const asked: unknown[] = [];
  const { channel } = await answering((stream, headers) => {
    stream.on('data', (piece: Buffer) => {
      asked.push([headers[':path'], headers['te'], Number.parseInt(String(headers['grpc-timeout'])), piece.toString('hex')]);
      answer(stream, enveloped(Buffer.from('answered')));
    });
  });
  expect(await answerOrError(channel.call(question))).toBe('answered');
  const [path, te, timeout, hex] = asked[0] as [string, string, number, string];
  expect([path, te, hex]).toEqual([question.path, 'trailers', `0000000005${Buffer.from('asked').toString('hex')}`]);
  expect(timeout).toBeLessThanOrEqual(20_000);
  expect(timeout).toBeGreaterThan(0);
});

test.each<[string, StreamHandler, unknown]>([
  [
    'a refusal with a message',
    (stream) => answer(stream, Buffer.alloc(0), { 'grpc-status': '9', 'grpc-message': '100%2C not 7' }),
    { code: 'FailedPrecondition', message: '100, not 7' },
  ],
  [
    'a refusal whose message is not encoded',
    (stream) => answer(stream, Buffer.alloc(0), { 'grpc-status': '9', 'grpc-message': '100% of 7' }),
    { code: 'FailedPrecondition', message: '100% of 7' },
  ],
  [
    'a refusal whose details have no code',
    (stream) => answer(stream, enveloped(Buffer.from('answered')), { 'grpc-status': '9', 'grpc-status-details-bin': '' }),
    { code: expect.stringMatching('Internal|FailedPrecondition'), message: expect.any(String) },
  ],
  [
    'a refusal in the headers',
    (stream) => stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '14' }, { endStream: true }),
    { code: 'Unavailable', message: '' },
  ],
  [
    'a proxy that has nobody',
    (stream) => stream.respond({ ':status': 503 }, { endStream: true }),
    { code: 'Unavailable', message: 'HTTP 503' },
  ],
  [
    'no status',
    (stream) => stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { endStream: true }),
    { code: 'Internal', message: 'protocol error: missing status' },
  ],
  ['no message', (stream) => answer(stream, Buffer.alloc(0)), { code: 'Internal', message: 'the answer is not one message, uncompressed' }],
  [
    'two messages',
    (stream) => answer(stream, Buffer.concat([enveloped(Buffer.from('a')), enveloped(Buffer.from('b'))])),
    { code: 'Internal', message: 'the answer is not one message, uncompressed' },
  ],
  ['a compressed one', (stream) => answer(stream, Buffer.from([1, 0, 0, 0, 1, 0])), { code: 'Internal', message: expect.any(String) }],
  [
    'a larger one than may be',
    (stream) => answer(stream, enveloped(Buffer.alloc(mostBytes + 1))),
    { code: 'ResourceExhausted', message: 'a message of 1001 bytes is larger than 1000' },
  ],
  [
    'a reset',
    (stream) => stream.close(constants.NGHTTP2_INTERNAL_ERROR),
    { code: 'Internal', message: 'the call was reset (HTTP/2 error 2)' },
  ],
  [
    'too much',
    (stream) => stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM),
    { code: 'ResourceExhausted', message: 'the call was reset (HTTP/2 error 11)' },
  ],
  ['the end of the connection', (stream) => stream.session?.destroy(), { code: 'Unavailable', message: 'the connection broke' }],
  [
    'half an answer and the end of the connection',
    (stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
      stream.write(enveloped(Buffer.from('answered')), () => stream.session?.destroy());
    },
    { code: 'Unavailable', message: 'the connection broke' },
  ],
])('%s is told as gRPC’s code, and the next call is answered', async (_, handle, expected) => {
  let calls = 0;
  const { channel } = await answering((stream, headers) => {
    if (calls++ === 0) handle(stream, headers);
    else answer(stream, enveloped(Buffer.from('answered')));
  });
  expect(await answerOrError(channel.call(question))).toEqual(expected);
  while (!channel.isAvailable) await new Promise((done) => setImmediate(done));
  expect(await answerOrError(channel.call(question))).toBe('answered');
});

test('a message that is larger than may be is not sent', async () => {
  let calls = 0;
  const { channel } = await answering((stream) => (calls++, answer(stream, enveloped(Buffer.alloc(0)))));
  expect(await answerOrError(channel.call({ ...question, message: Buffer.alloc(mostBytes + 1) }))).toMatchObject({
    code: 'ResourceExhausted',
  });
  expect(await answerOrError(channel.call({ ...question, message: Buffer.alloc(mostBytes) }))).toBe('');
  expect(calls).toBe(1);
});

test('who waits no more is told at once, and so is the other side', async () => {
  const ended: Promise<number>[] = [];
  const { channel } = await answering((stream) => {
    ended.push(new Promise((done) => stream.once('close', () => done(stream.rstCode))));
    leaving.abort();
  });
  const leaving = new AbortController();
  expect(await answerOrError(channel.call({ ...question, signal: leaving.signal }))).toMatchObject({ code: 'Canceled' });
  expect(await answerOrError(channel.call({ ...question, signal: leaving.signal }))).toMatchObject({ code: 'Canceled' });
  expect(await answerOrError(channel.call({ ...question, patienceMs: 300 }))).toMatchObject({
    code: 'DeadlineExceeded',
    message: 'no answer within 300 ms',
  });
  expect(await Promise.all(ended)).toEqual([constants.NGHTTP2_CANCEL, constants.NGHTTP2_CANCEL]);
});

test('no call is lost while the other side ends each connection after a few', async () => {
  let taken = 0;
  const { channel, sessions } = await answering((stream) => {
    if (++taken % 5 === 0) (stream.session as ServerHttp2Session).close();
    answer(stream, enveloped(Buffer.from('answered')));
  });
  const answers = new Set<unknown>();
  const asking = Array.from({ length: 8 }, async () => {
    for (let call = 0; call < 40; call++) {
      answers.add(await answerOrError(channel.call(question)));
    }
  });
  await Promise.all(asking);
  expect([...answers]).toEqual(['answered']);
  expect(sessions.length).toBeGreaterThan(1);
});

test('a call that the other side has refused to begin is asked once more', async () => {
  let taken = 0;
  const { channel } = await answering((stream) => {
    if (++taken % 3 !== 0) stream.close(constants.NGHTTP2_REFUSED_STREAM);
    else answer(stream, enveloped(Buffer.from('answered')));
  });
  expect(await answerOrError(channel.call(question))).toEqual({ code: 'Unavailable', message: 'the call was reset (HTTP/2 error 7)' });
  expect(await answerOrError(channel.call(question))).toBe('answered');
  expect(taken).toBe(3);
});

test('a call that is refused by a connection that ends is asked once more on another one', async () => {
  const { channel, sessions } = await answering((stream) => {
    const { session } = stream;
    if (sessions.length > 1) {
      answer(stream, enveloped(Buffer.from('answered')));
      return;
    }
    stream.close(constants.NGHTTP2_REFUSED_STREAM);
    (session as ServerHttp2Session).close();
  });
  expect(await answerOrError(channel.call(question))).toBe('answered');
});

test('a call that was begun is not asked again where the other side ends the connection as if it refused', async () => {
  let taken = 0;
  const { channel } = await answering((stream) => {
    taken++;
    (stream.session as ServerHttp2Session).goaway(constants.NGHTTP2_REFUSED_STREAM, stream.id);
  });
  const failure: unknown = await channel.call(question).catch((error: unknown) => error);
  expect(ConnectError.from(failure).code).toBe(Code.Unavailable);
  expect([taken, wasBegun(failure)]).toEqual([1, true]);
});

test('calls go on, each asked once, when a connection has no number left for another', async () => {
  const last = 2 ** 31 - 1;
  const asked: number[] = [];
  const { channel, sessions } = await answering(async (stream) => {
    const number = stream.id!;
    asked.push(number);
    // What was begun on the old connection is answered when there is another.
    while (number > 100 && sessions.length === 1) await pause(5);
    answer(stream, enveloped(Buffer.from('answered')));
  });
  const renumber = (message: unknown) => {
    unsubscribe('http2.client.stream.created', renumber);
    const { session } = (message as { stream: ClientHttp2Stream }).stream;
    (session as unknown as { setNextStreamID: (id: number) => void }).setNextStreamID(last - 2);
  };
  subscribe('http2.client.stream.created', renumber);
  expect(await answerOrError(channel.call(question))).toBe('answered');
  const calls = [answerOrError(channel.call(question)), answerOrError(channel.call(question))];
  while (asked.length < 3) await pause(5);
  for (let call = 0; call < 4; call++) calls.push(answerOrError(channel.call(question)));
  expect(await Promise.all(calls)).toEqual(Array.from(calls, () => 'answered'));
  expect(asked).toEqual([1, last - 2, last, 1, 3, 5, 7]);
  expect(channel.isAvailable).toBe(true);
});

test('a call that was answered before it was heard to the end leaves nothing open', async () => {
  const ended = Promise.withResolvers<number>();
  const { port } = await answering((stream) => {
    stream.pause();
    answer(stream, enveloped(Buffer.from('answered')));
    stream.once('close', () => ended.resolve(stream.rstCode));
  });
  const channel = new Channel(`127.0.0.1:${port}`, 1 << 20);
  closing.push(() => channel.close());
  expect(await answerOrError(channel.call({ ...question, message: Buffer.alloc(1 << 20) }))).toBe('answered');
  await ended.promise;
});

test('where nobody listens each call is told so, and connections are begun only now and then', async () => {
  const server = createTcpServer();
  const port = await listening(server);
  await new Promise((done) => server.close(done));
  const channel = new Channel(`127.0.0.1:${port}`, mostBytes);
  closing.push(() => channel.close());
  const told = await Promise.all(Array.from({ length: 50 }, () => answerOrError(channel.call(question))));
  expect(new Set(told.map((each) => JSON.stringify(each))).size).toBe(1);
  expect(told[0]).toEqual({ code: 'Unavailable', message: expect.stringMatching(`^no connection to 127.0.0.1:${port}: .*ECONNREFUSED`) });
  expect(channel.isAvailable).toBe(false);
  let connections = 0;
  const back = createTcpServer((socket) => {
    connections++;
    socket.on('error', () => undefined).destroy();
  });
  await new Promise<void>((done) => back.listen(port, '127.0.0.1', done));
  closing.push(() => back.close());
  const began = performance.now();
  while (connections < 3) await answerOrError(channel.call(question));
  expect(performance.now() - began).toBeGreaterThan(150);
});

test('a connection that says nothing any more is given up, and the calls on it fail', async () => {
  const taken = Promise.withResolvers<void>();
  const { port } = await answering(() => taken.resolve());
  const proxy = await openProxy(port);
  const channel = new Channel(`127.0.0.1:${proxy.port}`, mostBytes);
  const call = answerOrError(channel.call({ ...question, patienceMs: 60_000 }));
  try {
    await taken.promise;
    proxy.forget();
    expect(await call).toEqual({ code: 'Unavailable', message: 'the connection broke' });
  } finally {
    channel.close();
    await proxy.close();
  }
});

test('who takes connections and says nothing does not count as available again', async () => {
  const sockets: Socket[] = [];
  const server = createTcpServer((socket) => sockets.push(socket.on('error', () => undefined)));
  const port = await listening(server);
  const channel = new Channel(`127.0.0.1:${port}`, mostBytes);
  closing.push(() => {
    channel.close();
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const call = answerOrError(channel.call({ ...question, patienceMs: 60_000 }));
  while (sockets.length === 0) await pause(5);
  sockets[0]!.destroy();
  expect(await call).toMatchObject({ code: 'Unavailable' });
  // It is begun again, and there it stands.
  while (sockets.length === 1) {
    expect(channel.isAvailable).toBe(false);
    await pause(5);
  }
  expect(await answerOrError(channel.call({ ...question, patienceMs: 200 }))).toMatchObject({ code: 'DeadlineExceeded' });
  expect(channel.isAvailable).toBe(false);
  expect(await answerOrError(channel.call({ ...question, patienceMs: 60_000 }))).toMatchObject({
    code: 'Unavailable',
    message: expect.stringMatching('none within 5000 ms'),
  });
});

test('a channel that is closed while it connects ends its calls, and nothing else happens', async () => {
  const { channel } = await answering((stream) => answer(stream, enveloped(Buffer.from('answered'))));
  const faults: unknown[] = [];
  const note = (error: unknown) => faults.push(error);
  process.on('uncaughtException', note);
  try {
    for (let ticks = 0; ticks < 20; ticks++) {
      const other = new Channel(channel['address'], mostBytes);
      const call = answerOrError(other.call(question));
      for (let tick = 0; tick < ticks; tick++) await new Promise((done) => setImmediate(done));
      other.close();
      expect(['answered', expect.objectContaining({ code: 'Unavailable' })]).toContainEqual(await call);
    }
    expect(await answerOrError(channel.call(question))).toBe('answered');
    expect(faults).toEqual([]);
  } finally {
    process.off('uncaughtException', note);
  }
});
