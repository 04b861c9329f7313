import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { PassThrough } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import { lastAnswer, startGatewayOnly, type GatewayOnly } from '../test/gateway-only.ts';
import { readBytes } from './body.ts';
import { Load } from './load.ts';

// Services are away: a body that passes every check is answered 503 `unavailable`.
let alone: GatewayOnly;
beforeAll(async () => {
  alone = await startGatewayOnly();
});
afterAll(() => alone.stop());

const user = { email: 'ada@example.com', password: 'correct horse', first_name: 'Ada', last_name: 'Lovelace' };

const post = async (body: string | Buffer, headers: Record<string, string> = { 'content-type': 'application/json' }) => {
  const answer = await fetch(`${alone.url}/v1/auth/register`, { method: 'POST', body, headers });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as any };
};

test('a sound body passes', async () => {
  expect(await post(JSON.stringify(user))).toMatchObject({ status: 503, body: { code: 'unavailable' } });
});

test('no body, an empty one and null are all a body without fields', async () => {
  for (const [body, headers] of [
    ['', { 'content-type': 'application/json' }],
    ['', {}],
    ['', { 'content-type': 'text/plain' }],
    ['', { 'content-type': 'json' }],
    ['', { 'content-type': ';;' }],
    ['null', { 'content-type': 'application/json' }],
    ['{}', { 'content-type': 'application/json' }],
  ] as const) {
    const answer = await post(body, headers);
    expect(answer.status).toBe(400);
    expect(answer.body.errors.map(({ field, tag }: any) => `${field} ${tag}`)).toEqual([
      'email required',
      'password required',
      'first_name required',
      'last_name required',
    ]);
  }
});

test.each([
  '{',
  '{"a":1}x',
  "{'a':1}",
  '{"a":NaN}',
  'undefined',
  '{"a":"\u0001"}',
  '{"__proto__":{"x":1}}',
  '{"email":"a@b.cd","metadata":{"__proto__":null}}',
  '{"\\u005f_proto__":1}',
  '{"constructor":{"prototype":{}}}',
  '[[[[',
])('%s is no JSON', async (body) => {
  const answer = await post(body);
  expect(answer).toMatchObject({ status: 400, body: { success: false, error: 'invalid JSON payload', code: 'invalid_json' } });
});

test('bytes that are no UTF-8 are no JSON', async () => {
  expect(await post(Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]))).toMatchObject({
    status: 400,
    body: { code: 'invalid_json' },
  });
});

test('a body that is no object says so, and repeats nothing where it could be a secret', async () => {
  for (const body of ['[]', '"hunter22"', '5', 'true']) {
    expect((await post(body)).body).toMatchObject({ details: { field: 'body', tag: 'type', value: '' } });
  }
});

test('of a key given twice the last counts', async () => {
  const twice = (first: string, last: string) =>
    `{"email":"${first}","email":"${last}","password":"correct horse","first_name":"A","last_name":"L"}`;
  expect((await post(twice('bad', 'ada@example.com'))).status).toBe(503);
  expect((await post(twice('ada@example.com', 'bad'))).body.details).toEqual({ field: 'email', tag: 'email', value: 'bad' });
});

test('a mark that is known from elsewhere marks nothing, and a byte order mark is no fault', async () => {
  const metadata = await post(JSON.stringify({ ...user, email: { '\0number': '1' } }));
  expect(metadata.body.details).toEqual({ field: 'email', tag: 'type', value: { '\0number': '1' } });
  expect((await post(`\ufeff${JSON.stringify(user)}`)).status).toBe(503);
});

test('a megabyte of odd numbers takes little more of the processor than one of others', async () => {
  // User and system time of the gateway, milliseconds: the clock of a busy machine tells nothing.
  const spent = () => {
    const [, rest = ''] = readFileSync(`/proc/${alone.pid}/stat`, 'utf8').split(') ');
    const fields = rest.split(' ');
    return 10 * (Number(fields[11]) + Number(fields[12]));
  };
  const costOf = async (number: string) => {
    const body = JSON.stringify(user).replace('}', `,"x":[${`${number},`.repeat(Math.floor(1_000_000 / (number.length + 1)))}1]}`);
    const before = spent();
    for (let count = 0; count < 5; count += 1) expect((await post(body)).status).toBe(503);
    return (spent() - before) / 5;
  };
  for (const number of ['1e1', '1e308', '1.1e-320', '1234567890123456e0', '0.30000000000000004', '"\\"1e1"']) {
    // Beside it, on the same machine, one of numbers that nothing is wrong with.
    const plain = await costOf('1'.repeat(Math.min(15, number.length)));
    const cost = await costOf(number);
    expect(cost).toBeLessThan(Math.max(100, 5 * plain));
  }
});

test('odd numbers without end are refused, a few are passed over where nobody reads them', async () => {
  const odd = (count: number) => JSON.stringify(user).replace('}', `,"x":[${'1e999,'.repeat(count)}1]}`);
  expect((await post(odd(9_000))).status).toBe(503);
  expect((await post(odd(170_000))).body.details).toEqual({ field: 'body', tag: 'number', value: '' });
});

test('nesting as deep as a body can be harms nobody', async () => {
  const deep = `{"email":${'['.repeat(300_000)}${']'.repeat(300_000)},"x":1e400}`;
  expect((await post(deep)).status).toBe(400);
  const ignored = JSON.stringify(user).replace('}', `,"x":${'['.repeat(200_000)}${']'.repeat(200_000)}}`);
  expect((await post(ignored)).status).toBe(503);
});

test('the media type must be JSON in UTF-8, whatever its other parameters', async () => {
  for (const type of [
    'application/json',
    'Application/JSON',
    'application/json; charset=utf-8',
    'application/json;charset="UTF-8"',
    'application/json; v=2',
  ]) {
    expect([type, (await post(JSON.stringify(user), { 'content-type': type })).status]).toEqual([type, 503]);
  }
  for (const type of [
    'text/plain',
    'application/xml',
    'application/json; charset=latin1',
    'application/jsonx',
    'application/problem+json',
    'json',
    ';;',
  ]) {
    const answer = await post(JSON.stringify(user), { 'content-type': type });
    expect([type, answer.status, answer.body.code]).toEqual([type, 415, 'unsupported_media_type']);
  }
  const untyped = `POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`;
  expect(lastAnswer(await alone.raw(untyped))).toMatchObject({ status: 415, body: { code: 'unsupported_media_type' } });
  const compressed = await post('x', { 'content-type': 'application/json', 'content-encoding': 'gzip' });
  expect([compressed.status, compressed.body.error]).toEqual([415, 'the body must not be compressed']);
  expect(compressed.headers.get('accept-encoding')).toBe('identity');
});

test('more than 1 MiB is refused by its announced length, before any of it has come, whatever its type', async () => {
  for (const type of ['application/json', 'text/plain', ';;']) {
    const head = `POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: 1048577\r\n\r\n`;
    expect(lastAnswer(await alone.raw(head, (received) => received.includes('}')))).toMatchObject({
      status: 413,
      body: { code: 'payload_too_large' },
    });
  }
});

test('more than 1 MiB in chunks is refused while it comes', async () => {
  const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`;
  const head = `POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const { status, body } = lastAnswer(await alone.raw(head + chunk.repeat(17), (received) => received.includes('}')));
  expect([status, body.code]).toEqual([413, 'payload_too_large']);
});

/** Sends a request whole, and what follows it, before it reads anything, as many clients do; what then comes, and how the connection ends. */
function sendThenRead(head: string, bytes: number, next = ''): Promise<{ received: string; end: string }> {
  return new Promise((resolve) => {
    let [received, end, left] = ['', 'closed', bytes];
    const piece = Buffer.alloc(1 << 16, ' ');
    const socket = connect(alone.port, '127.0.0.1', () => {
      socket.pause().write(head);
      send();
    });
    const read = () => void socket.on('data', (chunk) => (received += chunk.toString())).resume();
    const send = (): void => {
      if (left === 0) socket.write(next, read);
      else socket.write(piece, send);
      left -= piece.length;
    };
    socket.on('error', ({ code }: NodeJS.ErrnoException) => (end = code ?? ''));
    socket.on('close', () => resolve({ received, end }));
  });
}

test.each([
  ['/v1/auth/login', '', 413],
  ['/v1/auth/login', 'Transfer-Encoding: chunked', 413],
  ['/v1/tenants', 'Connection: close', 401],
  ['/v1/nothing', 'Connection: close', 404],
  ['/v1/user', 'Connection: close', 405],
])('who sends all of a body to %s before he reads, with %s, is answered %i, not cut off', async (path, more, status) => {
  const length = 8 << 20;
  const chunks = more.includes('chunked');
  const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${more === '' ? '' : `${more}\r\n`}`;
  const announced = chunks ? `\r\n${(2 * length).toString(16)}\r\n` : `Content-Length: ${length}\r\n\r\n`;
  const { received, end } = await sendThenRead(head + announced, length);
  expect([lastAnswer(received).status, end]).toEqual([status, 'closed']);
});

test('nor is he cut off who is refused after a check during which his body came', async () => {
  const length = 8 << 20;
  // Services are away: the keys of a token are looked for in vain.
  const more = `Authorization: Bearer eyJhbGciOiJFZERTQSJ9.e30.c2ln\r\nConnection: close\r\nContent-Length: ${length}`;
  const { received, end } = await sendThenRead(`POST /v1/tenants HTTP/1.1\r\nHost: x\r\n${more}\r\n\r\n`, length);
  expect([lastAnswer(received).status, end]).toEqual([503, 'closed']);
});

test('nothing is begun that comes behind a body which was refused', async () => {
  const head = `POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${2 << 20}\r\n\r\n`;
  const { received } = await sendThenRead(head, 2 << 20, 'POST /v1/auth/logout HTTP/1.1\r\nHost: x\r\n\r\n');
  expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 413']);
  // In each round the gateway reads on wherever something has come.
  for (let round = 0; round < 200; round++) await (await fetch(`${alone.url}/healthz`)).text();
  const figures = await (await fetch(`${alone.url}/metrics`)).text();
  expect(figures).toContain('route="/v1/auth/login"');
  expect(figures).not.toContain('route="/v1/auth/logout"');
});

test('a body that is slow in coming gives way where others need its place', async () => {
  const few = await startGatewayOnly({ MAX_IN_FLIGHT: '4' });
  let slow: Promise<ReturnType<typeof lastAnswer>>[] = [];
  try {
    const head = `POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`;
    const begin = () => Array.from({ length: 2 }, async () => lastAnswer(await few.raw(head)));
    const login = JSON.stringify({ email: user.email, password: user.password });
    const headers = { 'content-type': 'application/json' };
    const becomes = async (wanted: string, isOver = () => false) => {
      let code = '';
      for (const until = Date.now() + 20_000; code !== wanted && !isOver() && Date.now() < until; await pause(20)) {
        const answer = await fetch(`${few.url}/v1/auth/login`, { method: 'POST', body: login, headers });
        ({ code } = (await answer.json()) as { code: string });
      }
      return code;
    };
    // On a busy machine they may be slow before anybody else has come: the next two take their places.
    for (let tries = 3, code = ''; code !== 'overloaded'; tries -= 1) {
      expect(tries).toBeGreaterThan(0);
      let given = false;
      slow = begin();
      for (const each of slow) void each.then(() => (given = true));
      code = await becomes('overloaded', () => given);
    }
    expect(await becomes('unavailable')).toBe('unavailable');
    expect(await Promise.race(slow)).toMatchObject({ status: 503, body: { code: 'overloaded' } });
  } finally {
    await few.stop();
  }
});

test('exactly 1 MiB is read', async () => {
  const text = JSON.stringify(user);
  expect((await post(text + ' '.repeat(1_048_576 - text.length))).status).toBe(503);
});

test('a connection lives on after a body that was no JSON', async () => {
  const bad = `POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{`;
  const next = `GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
  const received = await alone.raw(bad + next);
  expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 400', 'HTTP/1.1 200']);
});

test('large bodies that have come at once are read in turns of their own, so that others come between', async () => {
  const turns: number[] = [];
  let turn = 0;
  const count = () => {
    turn++;
    if (turns.length < 4) setImmediate(count);
  };
  const read = (bytes: number) => {
    const raw = Object.assign(new PassThrough(), { socket: { destroyed: false } });
    const request = { raw, headers: {}, held: null, leaving: null, caller: { tenantId: '' } } as unknown as FastifyRequest;
    readBytes(request, new Load(9), (error, body) => turns.push(error ? NaN : body.length > 2_048 ? turn : -1));
    raw.end(Buffer.alloc(bytes));
  };
  for (const bytes of [100_000, 2_049, 2_048, 100_000]) read(bytes);
  count();
  while (turns.length < 4) await pause(1);
  // The small one waits for none of them.
  expect(turns[0]).toBe(-1);
  expect(new Set(turns).size).toBe(4);
});
