import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { gzipSync } from 'node:zlib';
import { authority, good, laterAuthority, weak } from '../../test/certificates.ts';
import { endStarted, receiver, sender } from '../../test/deliveries.ts';
import { startReceiver } from '../../test/notifier.ts';
import { Targets } from './addresses.ts';
import { maxBodyBytes, type HttpClient } from './http-client.ts';

const servers: Server[] = [];
const accepted = new Set<Socket>();

afterAll(async () => {
  await endStarted();
  for (const server of servers) server.close();
  // What nobody closes keeps jest waiting, for as long as the longest deadline here.
  for (const socket of accepted) socket.destroy();
});

/** A server that says whatever it likes; where it is, as host and port. */
async function speaker(speak: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    accepted.add(socket);
    socket.on('error', () => undefined);
    speak(socket);
  });
  servers.push(server);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const post = (by: HttpClient, url: string, signal?: AbortSignal) =>
  by.send({ url, headers: { 'x-test': 'yes' }, body: '{"ä":1}', onceMore: true }, signal);

/** What is told under the first deadline that lets an answer begin: a busy machine may need more than a short one. */
async function postBegun(url: string) {
  for (let timeoutMs = 100; ; timeoutMs *= 4) {
    const answer = await post(sender({ timeoutMs }), url);
    if (answer?.statusCode !== null || timeoutMs > 5_000) return answer;
  }
}

test('a request is a POST with these headers and these bytes, and its answer is told', async () => {
  const { url, received } = await receiver((_, response) => response.writeHead(202, { 'content-type': 'text/plain' }).end('danke für'));
  const answer = await post(sender(), url);
  expect(answer).toMatchObject({ statusCode: 202, errorClass: null, body: 'danke für' });
  expect(answer!.durationMs).toBeGreaterThanOrEqual(0);
  expect(received).toMatchObject([{ body: '{"ä":1}', path: '/hook', headers: { 'x-test': 'yes', 'content-length': '8' } }]);
});

test('a redirect is not followed', async () => {
  const other = await receiver();
  const { url } = await receiver((_, response) => response.writeHead(307, { location: other.url }).end());
  expect(await post(sender(), url)).toMatchObject({ statusCode: 307, errorClass: 'redirect' });
  expect(other.received).toEqual([]);
});

test('an error status is told with what the receiver says', async () => {
  const { url } = await receiver((_, response) => response.writeHead(500).end('{"error":"no"}'));
  expect(await post(sender(), url)).toMatchObject({ statusCode: 500, errorClass: 'http_status', body: '{"error":"no"}' });
});

test('of an endless answer 64 KiB are read, and the connection is closed', async () => {
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
  const answer = await post(sender(), url);
  expect(answer).toMatchObject({ statusCode: 200, errorClass: null });
  expect(Buffer.byteLength(answer!.body!)).toBe(maxBodyBytes - 1);
  expect(answer!.body).toMatch(/^xé+$/);
  await gone;
});

test('interim answers come before the answer, but not without end', async () => {
  const interim = 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n';
  const place = await speaker((socket) => {
    socket.on('data', (bytes) => {
      if (bytes.includes('POST /few')) {
        socket.write(`${interim.repeat(1_000)}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok`);
        return;
      }
      const more = () => {
        while (!socket.destroyed && socket.write(interim.repeat(100)));
      };
      socket.on('drain', more);
      more();
    });
  });
  const url = `http://${place}`;
  expect(await post(sender(), `${url}/few`)).toMatchObject({ statusCode: 200, errorClass: null, body: 'ok' });
  const answer = await post(sender(), `${url}/endless`);
  expect(answer).toMatchObject({ statusCode: null, errorClass: 'connection_failed' });
  expect(answer!.detail).toContain('more than 524288 bytes');
});

const go = 'HTTP/1.1 100 Continue';
test.each([go, 'HTTP/1.1 100', `${go}\r\nserver: old`, `${go}\r\n\r\n${go}`, `HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n${go}`])(
  '%j before the answer is passed over, though nobody asked for it',
  async (interim) => {
    const place = await speaker((socket) => {
      const answer = 'HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\nHTTP/1.1 100 ';
      // In one piece with the answer, by itself, and byte by byte.
      const write = async (pieces: Iterable<string>) => {
        for (const piece of pieces) {
          await new Promise((written) => socket.write(piece, written));
          await pause(1);
        }
      };
      socket.setNoDelay().on('data', (bytes) => {
        if (bytes.includes('POST /together')) void write([`${interim}\r\n\r\n${answer}`]);
        else if (bytes.includes('POST /apart')) void write([`${interim}\r\n\r\n`, answer]);
        else void write(`${interim}\r\n\r\n${answer}`);
      });
    });
    const url = `http://${place}`;
    const by = sender();
    for (const path of ['together', 'apart', 'together', 'bytes', 'apart']) {
      expect(await post(by, `${url}/${path}`)).toMatchObject({ statusCode: 200, errorClass: null, body: 'HTTP/1.1 100 ' });
    }
  },
);

test.each([
  [204, null, 'content-length: 5\r\n\r\n'],
  [204, null, 'content-length: 5\r\n\r\nhello'],
  [204, null, 'content-length: 5\r\nconnection: close\r\n\r\n'],
  [304, 'redirect', 'content-length: 5\r\n\r\n'],
])('an answer of %s has ended with its headers, whatever length they say', async (statusCode, errorClass, rest) => {
  const place = await speaker((socket) => {
    socket.on('data', () => socket.write(`HTTP/1.1 ${statusCode} Whatever\r\n${rest}`));
  });
  const by = sender();
  for (let turn = 0; turn < 3; turn++) {
    const answer = await post(by, `http://${place}/`);
    expect(answer).toMatchObject({ statusCode, errorClass, body: '' });
  }
});

test.each([
  ['blanks of headers', `HTTP/1.1 200 OK\r\n${`a:${' '.repeat(15_000)}b\r\n`.repeat(100)}content-length: 2\r\n\r\nok`],
  [
    'extensions of chunks',
    `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${`1;${'x'.repeat(1000)}\r\na\r\n`.repeat(4_000)}0\r\n\r\n`,
  ],
])('%s are part of an answer, which is read up to a limit', async (_, text) => {
  const place = await speaker((socket) => {
    socket.once('data', () => socket.write(text));
  });
  const answer = await post(sender(), `http://${place}/`);
  expect(answer).toMatchObject({ errorClass: 'connection_failed', body: null });
  expect(answer!.detail).toContain('more than 524288 bytes');
});

test.each([
  ['lines of a head', 'HTTP/1.1 200 OK\r\n'],
  ['lines behind a body', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n'],
  ['interim answers', 'HTTP/1.1 103 Early Hints\r\n'],
])('many short %s are more than is read', async (_, start) => {
  const place = await speaker((socket) => {
    socket.once('data', () => socket.write(start + 'a:\r\n'.repeat(10_000)));
  });
  const answer = await post(sender(), `http://${place}/`);
  expect(answer).toMatchObject({ errorClass: 'connection_failed', body: null });
  expect(answer!.detail).toContain('more than 300 lines');
});

test('a body may have any lines, in one piece or in chunks of a byte', async () => {
  const lines = '\n'.repeat(maxBodyBytes);
  const { url } = await receiver(({ path }, response) => {
    if (path === '/whole') response.end(lines);
    else response.writeHead(200, { 'content-length': 2 * maxBodyBytes }).write(lines);
  });
  const chunks = await speaker((socket) => {
    socket.once('data', () =>
      socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${'1\r\n\n\r\n'.repeat(maxBodyBytes)}0\r\n\r\n`),
    );
  });
  for (const place of [url.replace('/hook', '/whole'), url, `http://${chunks}/`]) {
    expect(await post(sender(), place)).toMatchObject({ statusCode: 200, errorClass: null, body: lines });
  }
});

test('of an answer in the smallest pieces no more is held than the body has', async () => {
  let sent = 0;
  const text = `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${'1\r\na\r\n'.repeat(65_000)}`;
  const place = await speaker((socket) => {
    socket.once('data', () => socket.write(text, () => sent++));
  });
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const memory = () => (gc(), process.memoryUsage().heapUsed + process.memoryUsage().external);
  const by = sender({ timeoutMs: 300_000 });
  const stop = new AbortController();
  const before = memory();
  const answers = Array.from({ length: 32 }, () => post(by, `http://${place}/`, stop.signal));
  while (sent < answers.length) await pause(20);
  // What is sent is read soon; in pieces each would then hold 7 MB.
  for (let look = 0; look < 50; look++) {
    expect((memory() - before) / answers.length).toBeLessThan(1_000_000);
    await pause(20);
  }
  stop.abort();
  await Promise.all(answers);
});

test('on connections that stay, each answer is read up to its own limit', async () => {
  const { url, received, sockets } = await receiver((_, response) => response.end('a'.repeat(60_000)));
  const by = sender();
  for (let sent = 0; sent < 40; sent++) expect(await post(by, url)).toMatchObject({ statusCode: 200, errorClass: null });
  expect(received).toHaveLength(40);
  // More than the limit over each of them.
  expect(sockets.size).toBeLessThan(4);
});

test('a compressed answer is not unpacked', async () => {
  const bytes = gzipSync('a'.repeat(1_000_000));
  const { url, received } = await receiver((_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(bytes));
  const answer = await post(sender(), url);
  expect(answer!.body!.length).toBeLessThanOrEqual(bytes.length);
  expect(received[0]!.headers['accept-encoding']).toBeUndefined();
});

test('what PostgreSQL can’t store is replaced, and nothing else', async () => {
  const { url } = await receiver((_, response) => response.end(Buffer.from([0xef, 0xbb, 0xbf, 0x61, 0, 0xff, 0x62])));
  expect(await post(sender(), url)).toMatchObject({ body: '\ufeffa\ufffd\ufffdb' });
});

describe('one deadline covers', () => {
  test('an answer that does not begin', async () => {
    const { url } = await receiver(() => undefined);
    expect(await post(sender({ timeoutMs: 100 }), url)).toMatchObject({ statusCode: null, errorClass: 'timeout' });
  });

  test('a body that does not end', async () => {
    const { url } = await receiver((_, response) => response.writeHead(200).write('more to come'));
    expect(await postBegun(url)).toMatchObject({ statusCode: 200, errorClass: 'timeout', body: null });
  });

  test('a body that drips', async () => {
    const { url } = await receiver((_, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write('.'), 10);
      response.on('close', () => clearInterval(timer));
    });
    expect(await postBegun(url)).toMatchObject({ statusCode: 200, errorClass: 'timeout' });
  });

  test('a look-up that does not end', async () => {
    const targets = new Targets(true, () => new Promise(() => undefined));
    expect(await post(sender({ timeoutMs: 100, targets }), 'http://hooks.test/')).toMatchObject({
      statusCode: null,
      errorClass: 'timeout',
    });
  });

  test('a handshake that does not end', async () => {
    const place = await speaker(() => undefined);
    const url = `https://${place}/`;
    expect(await post(sender({ timeoutMs: 100 }), url)).toMatchObject({ statusCode: null, errorClass: 'timeout' });
  });
});

test.each([300, 1_500])('an answer in time counts though this process stood still, until %d ms after the deadline', async (lateMs) => {
  const timeoutMs = 3_000;
  // [asked, answered]
  const seen = new Int32Array(new SharedArrayBuffer(8));
  const receiver = new Worker(
    `const { workerData: seen, parentPort } = require('node:worker_threads');
    const server = require('node:http').createServer((request, response) => {
      Atomics.store(seen, 0, 1);
      // The other thread stands still by then.
      setTimeout(() => {
        response.end('done', () => Atomics.store(seen, 1, 1));
      }, 200);
    });
    server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));`,
    { eval: true, workerData: seen },
  );
  try {
    const port = await new Promise<number>((done) => receiver.once('message', done));
    const began = performance.now();
    const answer = post(sender({ timeoutMs }), `http://127.0.0.1:${port}/`);
    while (seen[0] === 0) await new Promise((done) => setImmediate(done));
    while (seen[1] === 0 || performance.now() < began + timeoutMs + lateMs) Atomics.wait(seen, 0, 1, 50);
    expect(await answer).toMatchObject({ statusCode: 200, errorClass: null, body: 'done' });
  } finally {
    await receiver.terminate();
  }
});

describe('a connection has failed', () => {
  test('that is refused', async () => {
    const { url, close } = await startReceiver();
    await close();
    const answer = await post(sender(), url);
    expect(answer).toMatchObject({ statusCode: null, errorClass: 'connection_failed', body: null });
    expect(answer!.detail).toContain('ECONNREFUSED');
  });

  test('that is dropped before the answer', async () => {
    const { url } = await receiver((_, response) => response.destroy());
    expect(await post(sender(), url)).toMatchObject({ statusCode: null, errorClass: 'connection_failed' });
  });

  test('that is dropped in the middle of the answer', async () => {
    const { url } = await receiver((_, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('half', () => response.destroy());
    });
    expect(await post(sender(), url)).toMatchObject({ statusCode: 200, errorClass: 'connection_failed' });
  });

  test('that speaks another protocol', async () => {
    const place = await speaker((socket) => {
      socket.end('220 mail.example ESMTP\r\n');
    });
    const url = `http://${place}/`;
    expect(await post(sender(), url)).toMatchObject({ errorClass: 'connection_failed' });
  });

  test('whose name leads nowhere', async () => {
    const targets = new Targets(true, () => Promise.reject(Object.assign(new Error('queryA ENOTFOUND'), { code: 'ENOTFOUND' })));
    expect(await post(sender({ targets }), 'https://hooks.test/')).toMatchObject({ errorClass: 'connection_failed' });
  });
});

test('for the log are 300 characters of what went wrong, and of a target that may not be dialled nothing but that', async () => {
  const targets = new Targets(true, () => Promise.reject(new Error('x'.repeat(1_000))));
  expect((await post(sender({ targets }), 'https://hooks.test/'))!.detail).toBe('x'.repeat(300));
  const blocked = await post(sender({ targets: new Targets(false) }), 'http://hooks.test/services/secret');
  expect(blocked!.detail).not.toContain('secret');
});

describe('an address is judged when it is connected to', () => {
  test.each(['https://127.0.0.1/', 'https://[::1]/', 'https://2130706433/', 'https://[::ffff:10.0.0.1]/', 'http://example.com/'])(
    '%s is not',
    async (url) => {
      const targets = new Targets(false, (name) => Promise.reject(new Error(`${name} was looked up`)));
      expect(await post(sender({ targets }), url)).toMatchObject({ statusCode: null, errorClass: 'blocked_address' });
    },
  );

  test('a name is not that leads inside, alone or beside a public address', async () => {
    const { url, received } = await receiver(undefined, good);
    for (const addresses of [['127.0.0.1'], ['93.184.215.14', '127.0.0.1']]) {
      const targets = new Targets(false, () => Promise.resolve(addresses));
      const answer = await post(sender({ targets, ca: authority }), url.replace('127.0.0.1', 'hooks.test'));
      expect(answer).toMatchObject({ statusCode: null, errorClass: 'blocked_address' });
    }
    expect(received).toEqual([]);
  });
});

describe('over TLS', () => {
  const here = () => new Targets(true, () => Promise.resolve(['127.0.0.1']));

  test('a receiver is reached whose certificate an authority of ours has signed for its name', async () => {
    const { url } = await receiver(undefined, good);
    const named = url.replace('127.0.0.1', 'hooks.test');
    expect(await post(sender({ targets: here(), ca: authority }), named)).toMatchObject({ statusCode: 200, errorClass: null });
  });

  test('one is not whose certificate nobody knows, is for another name, or is for none', async () => {
    const { url, received } = await receiver(undefined, good);
    expect(await post(sender({ targets: here() }), url.replace('127.0.0.1', 'hooks.test'))).toMatchObject({ errorClass: 'tls_error' });
    const known = sender({ targets: here(), ca: authority });
    expect(await post(known, url.replace('127.0.0.1', 'other.test'))).toMatchObject({ errorClass: 'tls_error' });
    expect(await post(known, url)).toMatchObject({ errorClass: 'tls_error' });
    expect(received).toEqual([]);
  });

  test('one is not whose certificate has a weak key', async () => {
    const { url, received } = await receiver(undefined, weak);
    const answer = await post(sender({ targets: here(), ca: laterAuthority }), url.replace('127.0.0.1', 'hooks.test'));
    expect(answer).toMatchObject({ errorClass: 'tls_error', detail: expect.stringContaining('key too weak') });
    expect(received).toEqual([]);
  });

  test('one is not that does not speak it', async () => {
    const { url } = await receiver();
    expect(await post(sender(), url.replace('http:', 'https:'))).toMatchObject({ errorClass: 'tls_error' });
  });
});

test('a request that is stopped has no answer', async () => {
  const { url, count } = await receiver(() => undefined);
  const stop = new AbortController();
  const answer = post(sender(), url, stop.signal);
  await count(1);
  stop.abort();
  expect(await answer).toBeNull();
});

test('one that still connects has none either, and holds nobody up until its deadline', async () => {
  const stop = new AbortController();
  // Whoever connects is never answered, so that the handshake does not end.
  const place = await speaker(() => stop.abort());
  const url = `https://${place}/`;
  expect(await post(sender({ timeoutMs: 300_000 }), url, stop.signal)).toBeNull();
});
