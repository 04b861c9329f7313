import type { ServerResponse } from 'node:http';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { authority, good, weak, laterAuthority } from '../../test/certificates.ts';
import { endStarted, httpClient, receiver } from '../../test/deliveries.ts';
import { startReceiver, until, type Answering } from '../../test/notifier.ts';
import { Targets } from './addresses.ts';
import { maxBodyBytes, type HttpClient } from './http-client.ts';

const servers: Server[] = [];
const accepted = new Set<Socket>();

afterAll(async () => {
  await endStarted();
  for (const server of servers) server.close();
  for (const socket of accepted) socket.destroy();
});

/** A TCP server; answers its host and port. */
async function tcpServer(serve: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    accepted.add(socket);
    socket.on('error', () => undefined);
    serve(socket);
  });
  servers.push(server);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server that answers each request with this text. */
const answering = (text: string | Buffer) => tcpServer((socket) => socket.on('data', () => socket.write(text)));

const post = (
  by: HttpClient,
  url: string,
  { signal, mayReuseConnection = true }: { signal?: AbortSignal; mayReuseConnection?: boolean } = {},
) => by.send({ url, headers: { 'x-test': 'yes' }, body: '{"ä":1}', mayReuseConnection }, signal);

test('a request is a POST with these headers and these bytes, answered with status and body', async () => {
  const { url, received } = await receiver((_, response) => response.writeHead(202, { 'content-type': 'text/plain' }).end('danke für'));
  const answer = await post(httpClient(), url);
  expect(answer).toMatchObject({ statusCode: 202, errorClass: null, body: 'danke für' });
  expect(answer!.durationMs).toBeGreaterThanOrEqual(0);
  expect(received).toMatchObject([{ body: '{"ä":1}', path: '/hook', headers: { 'x-test': 'yes', 'content-length': '8' } }]);
});

test('a redirect is not followed', async () => {
  const other = await receiver();
  const { url } = await receiver((_, response) => response.writeHead(307, { location: other.url }).end());
  expect(await post(httpClient(), url)).toMatchObject({ statusCode: 307, errorClass: 'redirect' });
  expect(other.received).toEqual([]);
});

test('an error status comes with its body', async () => {
  const { url } = await receiver((_, response) => response.writeHead(500).end('{"error":"no"}'));
  expect(await post(httpClient(), url)).toMatchObject({ statusCode: 500, errorClass: 'http_status', body: '{"error":"no"}' });
});

describe('the status decides, whatever comes with it:', () => {
  const lines = (count: number, line: string) => `HTTP/1.1 200 OK\r\n${line.repeat(count)}content-length: 2\r\n\r\nok`;

  test.each([
    ['16,500 bytes of headers', lines(1, `x-large: ${'a'.repeat(16_480)}\r\n`), 'ok'],
    ['60,000 bytes of headers', lines(60, `x-large: ${'a'.repeat(989)}\r\n`), 'ok'],
    ['3,000 short header lines', lines(3_000, 'a: b\r\n'), 'ok'],
    ['a body that is shorter than its length', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\nhalf', 'half'],
    ['a body in damaged chunks', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\nnonsense', 'ok'],
    ['a length of no body', 'HTTP/1.1 204 No Content\r\ncontent-length: 5\r\nconnection: close\r\n\r\n', ''],
    ['an unasked 100 Continue', 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok', 'ok'],
    ['early hints', `${'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(100)}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok`, 'ok'],
  ])('%s', async (_, text, body) => {
    const host = await tcpServer((socket) =>
      socket.on('data', () => (text.includes('close') || text.includes('nonsense') ? socket.end(text) : socket.write(text))),
    );
    expect(await post(httpClient(), `http://${host}/`)).toMatchObject({ errorClass: null, body });
  });

  test('an endless body, of which 16 KiB are kept', async () => {
    let closed: () => void = () => undefined;
    const gone = new Promise<void>((done) => (closed = done));
    const { url } = await receiver((_, response) => {
      const more = () => {
        while (!response.destroyed && response.write('é'.repeat(10_000)));
      };
      response.on('drain', more).on('close', closed);
      response.writeHead(200);
      // Odd, so that the cut goes through a character.
      response.write('x');
      more();
    });
    const answer = await post(httpClient(), url);
    expect(answer).toMatchObject({ statusCode: 200, errorClass: null });
    expect(Buffer.byteLength(answer!.body!)).toBe(maxBodyBytes - 1);
    expect(answer!.body).toMatch(/^xé+$/);
    await gone;
  });

  test('a body that does not end before the deadline', async () => {
    const { url } = await receiver((_, response) => response.writeHead(200).write('more to come'));
    // A busy machine may need longer than the first deadline to answer at all.
    for (let timeoutMs = 200; ; timeoutMs *= 4) {
      const answer = await post(httpClient({ timeoutMs }), url);
      if (answer?.statusCode === null && timeoutMs < 5_000) continue;
      expect(answer).toMatchObject({ statusCode: 200, errorClass: null, body: 'more to come' });
      return;
    }
  });

  test('a body that breaks off', async () => {
    const { url } = await receiver((_, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('half', () => response.destroy());
    });
    expect(await post(httpClient(), url)).toMatchObject({ statusCode: 200, errorClass: null, body: 'half' });
  });
});

test('each answer on a kept connection has its own limit', async () => {
  const { url, sockets } = await receiver((_, response) => response.end('a'.repeat(16_000)));
  const by = httpClient();
  for (let sent = 0; sent < 20; sent++) expect(await post(by, url)).toMatchObject({ statusCode: 200, errorClass: null });
  expect(sockets.size).toBeLessThan(4);
});

test('a compressed answer is not unpacked', async () => {
  const bytes = gzipSync('a'.repeat(1_000_000));
  const { url, received } = await receiver((_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(bytes));
  expect((await post(httpClient(), url))!.body!.length).toBeLessThanOrEqual(bytes.length);
  expect(received[0]!.headers['accept-encoding']).toBeUndefined();
});

test('bytes that PostgreSQL can’t store are replaced', async () => {
  const { url } = await receiver((_, response) => response.end(Buffer.from([0xef, 0xbb, 0xbf, 0x61, 0, 0xff, 0x62])));
  expect(await post(httpClient(), url)).toMatchObject({ body: '\ufeffa\ufffd\ufffdb' });
});

describe('without a status, the error class says why:', () => {
  const failed = (errorClass: string) => ({ statusCode: null, errorClass, body: null });
  const looked = (code: string) => new Targets(true, () => Promise.reject(Object.assign(new Error(`queryA ${code}`), { code })));

  test('refused', async () => {
    const { url, close } = await startReceiver();
    await close();
    const answer = await post(httpClient(), url);
    expect(answer).toMatchObject(failed('refused'));
    expect(answer!.detail).toContain('ECONNREFUSED');
  });

  test('refused at each of several addresses', async () => {
    const { url, close } = await startReceiver();
    await close();
    const targets = new Targets(true, () => Promise.resolve(['127.0.0.1', '127.0.0.2']));
    expect(await post(httpClient({ targets }), url.replace('127.0.0.1', 'hooks.test'))).toMatchObject(failed('refused'));
  });

  test.each(['ENOTFOUND', 'ENODATA', 'ESERVFAIL', 'ECONNREFUSED', 'ETIMEOUT'])('dns, of %s', async (code) => {
    expect(await post(httpClient({ targets: looked(code) }), 'https://hooks.test/')).toMatchObject(failed('dns'));
  });

  test.each([
    ['closed', (response: ServerResponse) => response.destroy()],
    ['reset', (response: ServerResponse) => (response.socket as Socket).resetAndDestroy()],
  ])('reset, of a connection that is %s', async (_, end) => {
    const { url } = await receiver((_request, response) => end(response));
    expect(await post(httpClient(), url)).toMatchObject(failed('reset'));
  });

  test.each([
    ['another protocol', '220 mail.example ESMTP\r\n'],
    ['an upgrade', 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'],
  ])('protocol, of %s', async (_, text) => {
    expect(await post(httpClient(), `http://${await answering(text)}/`)).toMatchObject(failed('protocol'));
  });

  test.each([
    ['headers', `HTTP/1.1 200 OK\r\n${`x-large: ${'a'.repeat(989)}\r\n`.repeat(70)}content-length: 2\r\n\r\nok`],
    ['a header', `HTTP/1.1 200 OK\r\nx-large: ${'a'.repeat(70_000)}\r\n\r\n`],
    ['blanks around headers', `HTTP/1.1 200 OK\r\n${`a:${' '.repeat(15_000)}b\r\n`.repeat(100)}content-length: 2\r\n\r\nok`],
    ['interim answers', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(20_000)],
  ])('response_too_large, of %s', async (_, text) => {
    expect(await post(httpClient(), `http://${await answering(text)}/`)).toMatchObject(failed('response_too_large'));
  });

  test.each([
    ['an answer', undefined],
    ['a look-up', new Targets(true, () => new Promise(() => undefined))],
  ])('timeout, of %s that does not come', async (_, targets) => {
    const { url } = await receiver(() => undefined);
    const client = httpClient({ timeoutMs: 100, ...(targets && { targets }) });
    expect(await post(client, targets ? 'http://hooks.test/' : url)).toMatchObject(failed('timeout'));
  });

  test('timeout, of a handshake that does not end', async () => {
    expect(await post(httpClient({ timeoutMs: 100 }), `https://${await tcpServer(() => undefined)}/`)).toMatchObject(failed('timeout'));
  });

  test.each(['https://127.0.0.1/', 'https://[::1]/', 'https://2130706433/', 'https://[::ffff:10.0.0.1]/', 'http://example.com/'])(
    'address_not_allowed, of %s',
    async (url) => {
      const targets = new Targets(false, (name) => Promise.reject(new Error(`${name} was looked up`)));
      expect(await post(httpClient({ targets }), url)).toMatchObject(failed('address_not_allowed'));
    },
  );

  test('address_not_allowed, of a name that resolves to a private address, alone or with a public one', async () => {
    const { url, received } = await receiver(undefined, good);
    for (const addresses of [['127.0.0.1'], ['93.184.215.14', '127.0.0.1']]) {
      const targets = new Targets(false, () => Promise.resolve(addresses));
      const answer = await post(httpClient({ targets, ca: authority }), url.replace('127.0.0.1', 'hooks.test'));
      expect(answer).toMatchObject(failed('address_not_allowed'));
    }
    expect(received).toEqual([]);
  });

  describe('tls', () => {
    const here = new Targets(true, () => Promise.resolve(['127.0.0.1']));

    test('is none where a trusted authority has signed for the name', async () => {
      const { url } = await receiver(undefined, good);
      const named = url.replace('127.0.0.1', 'hooks.test');
      expect(await post(httpClient({ targets: here, ca: authority }), named)).toMatchObject({ statusCode: 200, errorClass: null });
    });

    test('of an untrusted authority, another name, no name, a weak key, no TLS at all', async () => {
      const { url, received } = await receiver(undefined, good);
      const known = httpClient({ targets: here, ca: authority });
      expect(await post(httpClient({ targets: here }), url.replace('127.0.0.1', 'hooks.test'))).toMatchObject(failed('tls'));
      expect(await post(known, url.replace('127.0.0.1', 'other.test'))).toMatchObject(failed('tls'));
      expect(await post(known, url)).toMatchObject(failed('tls'));
      const short = await receiver(undefined, weak);
      const answer = await post(httpClient({ targets: here, ca: laterAuthority }), short.url.replace('127.0.0.1', 'hooks.test'));
      expect(answer).toMatchObject({ errorClass: 'tls', detail: expect.stringContaining('key too weak') });
      const plain = await receiver();
      expect(await post(httpClient(), plain.url.replace('http:', 'https:'))).toMatchObject(failed('tls'));
      expect([received, short.received, plain.received]).toEqual([[], [], []]);
    });
  });

  test('the log gets at most 300 characters, and nothing of a target that is not allowed', async () => {
    const targets = new Targets(true, () => Promise.reject(new Error('x'.repeat(1_000))));
    expect((await post(httpClient({ targets }), 'https://hooks.test/'))!.detail).toHaveLength(300);
    const blocked = await post(httpClient({ targets: new Targets(false) }), 'http://hooks.test/services/secret');
    expect(blocked!.detail).not.toContain('secret');
  });
});

describe('a kept connection that ends when the next request is sent', () => {
  /** Answers the first request of each connection. */
  const first = (next: (socket: Socket) => unknown): Answering & { others: number } => {
    const known = new WeakSet<Socket>();
    const answer = (_: unknown, response: ServerResponse) => {
      const socket = response.socket!;
      if (known.has(socket)) {
        answer.others++;
        next(socket);
      } else response.end('ok');
      known.add(socket);
    };
    answer.others = 0;
    return answer;
  };

  test.each([
    ['closed', (socket: Socket) => socket.end(), undefined],
    ['closed over TLS', (socket: Socket) => socket.end(), good],
    ['reset', (socket: Socket) => socket.resetAndDestroy(), undefined],
  ])('costs no attempt, the request is repeated on a new one: %s', async (_, end, tls) => {
    const answer = first(end);
    const { url } = await receiver(answer, tls);
    const by = httpClient({ targets: new Targets(true, () => Promise.resolve(['127.0.0.1'])), ca: authority });
    const named = url.replace('127.0.0.1', 'hooks.test');
    // Until a request has met a kept connection.
    while (answer.others === 0) expect(await post(by, named)).toMatchObject({ statusCode: 200, errorClass: null });
  });

  test('is not used by a request that must not be repeated', async () => {
    const answer = first((socket) => socket.end());
    const { url, received } = await receiver(answer);
    const by = httpClient();
    for (const mayReuseConnection of [true, false, false])
      expect(await post(by, url, { mayReuseConnection })).toMatchObject({ statusCode: 200 });
    expect([received.length, answer.others]).toEqual([3, 0]);
  });

  test('is not taken for one that was new', async () => {
    const { url, received } = await receiver((_, response) => response.socket!.destroy());
    const by = httpClient();
    for (const sent of [1, 2]) {
      expect(await post(by, url)).toMatchObject({ errorClass: 'reset' });
      expect(received).toHaveLength(sent);
    }
  });
});

test('a closed client leaves no connection, and its requests fail', async () => {
  let waiting = 0;
  const { url, sockets } = await receiver((_, response, place) => (place === 0 ? response.end('ok') : waiting++));
  const by = httpClient();
  await post(by, url);
  const going = [post(by, url), post(by, url, { mayReuseConnection: false })];
  await until(() => Promise.resolve(waiting === 2));
  await by.close();
  expect(await Promise.all(going)).toMatchObject(Array(2).fill({ errorClass: 'reset', statusCode: null }));
  await until(() => Promise.resolve(sockets.size === 0));
});

test('a request that is stopped has no answer, also while it connects', async () => {
  const { url, count } = await receiver(() => undefined);
  const stop = new AbortController();
  const answer = post(httpClient(), url, { signal: stop.signal });
  await count(1);
  stop.abort();
  expect(await answer).toBeNull();
  const connecting = new AbortController();
  const host = await tcpServer(() => connecting.abort());
  expect(await post(httpClient({ timeoutMs: 300_000 }), `https://${host}/`, { signal: connecting.signal })).toBeNull();
});
