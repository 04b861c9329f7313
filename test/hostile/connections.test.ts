// Connections that dribble, swell or lie, at the gateway's port and at a service's.
import { connect as connectHttp2, constants } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { startCluster, type Cluster } from '../cluster.ts';
import { until } from '../notifier.ts';

let cluster: Cluster;
let port: number;

beforeAll(async () => {
  cluster = await startCluster();
  port = Number(new URL(cluster.url).port);
});
afterAll(() => cluster.stop());

interface Dribbled {
  /** All that came back. */
  text: string;
  seconds: number;
}

/** Sends a beginning and then a byte twice a second until the other side ends the connection. */
function dribble(head: string, byte: string): Promise<Dribbled> {
  const began = performance.now();
  return new Promise((resolve) => {
    let text = '';
    const socket: Socket = connect(port, '127.0.0.1', () => socket.write(head));
    const timer = setInterval(() => socket.write(byte), 500);
    socket.on('data', (chunk) => (text += chunk.toString('latin1')));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearInterval(timer);
      resolve({ text, seconds: (performance.now() - began) / 1000 });
    });
  });
}

test('headers and bodies that dribble are ended within their time, and keep nobody else waiting', async () => {
  const post = 'POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n';
  const state = { ended: false };
  const all = Promise.all([
    dribble('GET /healthz HT', 'T'),
    dribble('GET /healthz HTTP/1.1\r\nX: ', 'a'),
    dribble(`${post}Content-Length: 1000\r\n\r\n{`, ' '),
    dribble(`${post}Transfer-Encoding: chunked\r\n\r\n`, '1\r\n \r\n'),
  ]).finally(() => (state.ended = true));
  let asked = 0;
  while (!state.ended) {
    const began = performance.now();
    expect((await fetch(`${cluster.url}/healthz`)).status).toBe(200);
    expect(performance.now() - began).toBeLessThan(12_000);
    asked += 1;
    await pause(100);
  }
  expect(asked).toBeGreaterThan(10);
  const [line, header, body, chunks] = await all;
  // 15 s for headers and 30 s for all of a request, looked at every 5 s, on a machine that may be busy. Node's own are 60 s and 300 s.
  for (const each of [line, header]) expect(each.seconds).toBeLessThan(45);
  for (const each of [body, chunks]) expect(each.seconds).toBeLessThan(75);
  for (const { text } of [header, body, chunks]) expect(text).toMatch(/^HTTP\/1\.1 408 [^]*"code":"request_timeout"/);
}, 180_000);

test('who asks for much and takes none of it is refused more, and others still get theirs', async () => {
  const tenant = await cluster.tenant();
  const key = await cluster.apiKey(tenant);
  const metadata = { note: 'x'.repeat(16_000) };
  const path = `/v1/tenants/${tenant.slug}/accounts`;
  const open = async (at: string, by: string, number: number) => {
    const body = { account_code: `account-${number}`, name: 'large', type: 'asset', metadata };
    expect((await cluster.rest('POST', at, { key: by, body })).status).toBe(201);
  };
  // A chart of 7.5 MB: no kernel takes so much for somebody who does not read.
  let made = 0;
  const make = async () => {
    for (let number = made++; number < 460; number = made++) await open(path, key, number);
  };
  await Promise.all(Array.from({ length: 16 }, make));
  // The one that asks is counted, too.
  const inFlight = async () => Number(/^http_requests_in_flight\S* (\d+)/m.exec((await cluster.rest('GET', '/metrics')).body)?.[1]);
  const sockets: Socket[] = [];
  const askAndTakeNothing = () => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    socket.write(`GET ${path}/hierarchy HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    sockets.push(socket);
  };
  try {
    for (let number = 0; number < 16; number++) askAndTakeNothing();
    await until(async () => {
      if ((await cluster.rest('GET', `${path}/hierarchy`, { key })).body.code === 'overloaded') return true;
      // A busy machine may not have made so many large answers in the time that they have.
      askAndTakeNothing();
      return false;
    });
    const other = await cluster.tenant();
    const theirs = `/v1/tenants/${other.slug}/accounts`;
    const otherKey = await cluster.apiKey(other);
    for (let number = 0; number < 6; number++) await open(theirs, otherKey, number);
    expect((await cluster.rest('GET', `${theirs}/hierarchy`, { key: otherKey })).status).toBe(200);
  } finally {
    for (const socket of sockets) socket.destroy();
  }
  await until(async () => (await inFlight()) === 1);
  expect((await cluster.rest('GET', `${path}/hierarchy`, { key })).status).toBe(200);
}, 180_000);

test('a header that is large and fits is read, one that does not is refused, whichever it is', async () => {
  for (const name of ['authorization', 'cookie', 'x-request-id', 'user-agent', 'idempotency-key', 'x-forwarded-for', 'traceparent']) {
    const ask = async (length: number) => {
      const answer = await fetch(`${cluster.url}/v1/user`, { headers: { [name]: `Bearer ${'x'.repeat(length)}` } });
      const body = (await answer.json()) as { code: string };
      return [name, answer.status, body.code];
    };
    expect(await ask(15_000)).toEqual([name, 401, 'unauthenticated']);
    expect(await ask(17_000)).toEqual([name, 431, 'headers_too_large']);
  }
});

describe('a service', () => {
  const path = `/${LedgerService.typeName}/GetAccount`;

  /** Sends one HTTP/2 request with these bytes and tells status, gRPC status and whether the stream was reset. */
  function call(bytes: Buffer | null, headers: Record<string, string> = {}): Promise<{ http: number; grpc: string; reset: number }> {
    const session = connectHttp2(`http://${cluster.addresses.ledger[0] ?? ''}`);
    session.on('error', () => undefined);
    return new Promise((resolve) => {
      const seen = { http: 0, grpc: '', reset: 0 };
      const note = (given: Record<string, unknown>) => {
        seen.http ||= Number(given[':status'] ?? 0);
        if (typeof given['grpc-status'] === 'string') seen.grpc = given['grpc-status'];
      };
      const stream = session.request({
        ':method': 'POST',
        ':path': path,
        'content-type': 'application/grpc',
        te: 'trailers',
        authorization: `Bearer ${cluster.internalToken}`,
        ...headers,
      });
      stream.on('response', note);
      stream.on('trailers', note);
      stream.on('error', () => undefined);
      stream.resume();
      stream.on('close', () => {
        seen.reset = stream.rstCode;
        session.destroy();
        resolve(seen);
      });
      if (bytes) stream.end(bytes);
      else stream.end();
    });
  }

  const frame = (flags: number, length: number, data = '') => {
    const head = Buffer.alloc(5);
    head.writeUInt8(flags, 0);
    head.writeUInt32BE(length, 1);
    return Buffer.concat([head, Buffer.from(data)]);
  };

  test('goes on after frames that lie about their length, their compression or what they are', async () => {
    const lies: [string, Buffer | null, Record<string, string>?][] = [
      ['no frame', null],
      ['half of a head', Buffer.from([0, 0])],
      ['longer than it is', frame(0, 1_000, 'x')],
      ['as long as can be said', frame(0, 0xffffffff, 'x')],
      ['longer than a message may be', frame(0, 40 << 20, 'x')],
      ['compressed, without saying how', frame(1, 1, 'x')],
      ['compressed, and is not', frame(1, 4, 'abcd'), { 'grpc-encoding': 'gzip' }],
      ['flags that nobody knows', frame(0xff, 0)],
      ['two messages for one', Buffer.concat([frame(0, 0), frame(0, 0)])],
      ['another encoding', frame(0, 0), { 'grpc-encoding': 'none-such' }],
      ['JSON', frame(0, 2, '{}'), { 'content-type': 'application/grpc+json' }],
      ['JSON that is none', frame(0, 1, '{'), { 'content-type': 'application/grpc+json' }],
      ['text', frame(0, 0), { 'content-type': 'text/html' }],
      ['a deadline that is none', frame(0, 0), { 'grpc-timeout': '99999999999H' }],
      ['a deadline that has passed', frame(0, 0), { 'grpc-timeout': '0n' }],
    ];
    for (const [what, bytes, headers] of lies) {
      const { http, grpc, reset } = await call(bytes, headers);
      expect([what, grpc !== '0' && (http !== 200 || grpc !== '')]).toEqual([what, true]);
      // Refused in words, not by a reset of the whole connection.
      expect([what, [constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_CANCEL].includes(reset)]).toEqual([what, true]);
    }
    const sound = frame(0, 0);
    expect(await call(sound)).toMatchObject({ http: 200, grpc: '3' });
  });

  test('that is sent a token a byte too long, short or none, in any letters, says no more than that', async () => {
    const right = `Bearer ${cluster.internalToken}`;
    for (const authorization of [
      '',
      'Bearer',
      'Bearer ',
      `${right}x`,
      right.slice(0, -1),
      right.toUpperCase(),
      ` ${right}`.repeat(2),
      cluster.internalToken,
    ]) {
      expect([authorization.length, (await call(frame(0, 0), { authorization })).grpc]).toEqual([authorization.length, '16']);
    }
  });
});
