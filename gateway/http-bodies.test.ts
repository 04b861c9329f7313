import { lastAnswer, startGatewayOnly, type GatewayOnly } from '../test/gateway-only.ts';

// Services are away: a body that passes every check is answered 503 `unavailable`.
let gateway: GatewayOnly;
beforeAll(async () => {
  gateway = await startGatewayOnly();
});
afterAll(() => gateway.stop());

const user = { email: 'ada@example.com', password: 'correct horse', first_name: 'Ada', last_name: 'Lovelace' };

const json = { 'content-type': 'application/json' };
const post = async (body: string | Buffer, headers: Record<string, string> = json, path = '/v1/auth/register') => {
  const answer = await fetch(gateway.url + path, { method: 'POST', body, headers });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as any };
};

test('a sound body passes, also one of exactly 1 MiB and one behind a byte order mark', async () => {
  const text = JSON.stringify(user);
  for (const body of [text, text + ' '.repeat((1 << 20) - text.length), `\ufeff${text}`]) {
    expect(await post(body)).toMatchObject({ status: 503, body: { code: 'unavailable' } });
  }
});

test('no body, an empty one and null are all a body without fields', async () => {
  for (const [body, headers] of [
    ['', json],
    ['', {}],
    ['null', json],
    ['{}', json],
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
  '{"a":"\u0001"}',
  '{"__proto__":{"x":1}}',
  '{"email":"a@b.cd","metadata":{"__proto__":null}}',
  '{"\\u005f_proto__":1}',
  '{"constructor":{"prototype":{}}}',
])('%s is not JSON', async (body) => {
  const answer = await post(body);
  expect(answer).toMatchObject({ status: 400, body: { success: false, error: 'invalid JSON payload', code: 'invalid_json' } });
});

test('a body that is no object is an error, which repeats nothing where it could be a secret', async () => {
  for (const body of ['[]', '"hunter22"', '5', 'true', '1e400']) {
    expect((await post(body)).body).toMatchObject({ details: { field: 'body', tag: 'type', value: '' } });
  }
});

test('of a key given twice the last counts', async () => {
  const twice = (first: string, last: string) =>
    `{"email":"${first}","email":"${last}","password":"correct horse","first_name":"A","last_name":"L"}`;
  expect((await post(twice('bad', 'ada@example.com'))).status).toBe(503);
  expect((await post(twice('ada@example.com', 'bad'))).body.details).toEqual({ field: 'email', tag: 'email', value: 'bad' });
});

test('a megabyte of numbers, or of brackets, is answered soon', async () => {
  const fieldsWith = (value: string) => JSON.stringify(user).replace('}', `,"x":${value}}`);
  const numbers = ['1e308', '1.1e-320', '0.30000000000000004', `1${'0'.repeat(100_000)}1`];
  const lists = numbers.map(
    (number) =>
      `[${Array(Math.floor(1_000_000 / (number.length + 1)))
        .fill(number)
        .join()}]`,
  );
  for (const value of [...lists, `${'['.repeat(500_000)}${']'.repeat(500_000)}`]) {
    const began = performance.now();
    expect((await post(fieldsWith(value))).body.details).toMatchObject({ field: 'x', tag: 'unknown' });
    expect(performance.now() - began).toBeLessThan(5_000);
  }
});

test('a body that is not UTF-8 is invalid JSON, and the error says why', async () => {
  const body = Buffer.from(JSON.stringify({ ...user, first_name: 'Zoë' }), 'latin1');
  const error = 'invalid JSON payload: the body is not UTF-8';
  expect(await post(body)).toMatchObject({ status: 400, body: { code: 'invalid_json', error } });
});

test('the media type must be JSON in UTF-8, whatever its other parameters', async () => {
  for (const [type, status] of [
    ['Application/JSON', 503],
    ['application/json;charset="UTF-8"', 503],
    ['application/json; v=2', 503],
    ['text/plain', 415],
    ['application/json; charset=latin1', 415],
    ['json', 415],
  ] as const) {
    expect([type, (await post(JSON.stringify(user), { 'content-type': type })).status]).toEqual([type, status]);
  }
  const body = JSON.stringify(user);
  const untyped = await gateway.raw(
    `POST /v1/auth/register HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  expect(lastAnswer(untyped)).toMatchObject({ status: 415, body: { code: 'unsupported_media_type' } });
  const compressed = await post(body, { ...json, 'content-encoding': 'gzip' });
  expect([compressed.status, compressed.headers.get('accept-encoding')]).toEqual([415, 'identity']);
});

test('a body of more than 1 MiB is 413, by its length and in chunks, and the client can read the answer', async () => {
  const body = Buffer.alloc((1 << 20) + 1, 'x');
  const framed = [
    Buffer.concat([Buffer.from(`Content-Length: ${body.length}\r\n\r\n`), body]),
    Buffer.concat([Buffer.from(`Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')]),
  ];
  for (const each of framed) {
    const head = Buffer.from('POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n');
    const answer = lastAnswer(await gateway.raw(Buffer.concat([head, each])));
    expect(answer).toMatchObject({ status: 413, body: { success: false, code: 'payload_too_large' } });
  }
});

test('size and media type are judged after credential and route, and a connection goes on after each of these errors', async () => {
  const large = 'x'.repeat((1 << 20) + 1);
  expect((await post(large, json, '/v1/tenants')).status).toBe(401);
  expect((await post(large, { 'content-type': 'text/plain' }, '/v1/user')).status).toBe(405);
  expect((await post('{', { 'content-type': 'text/plain' }, '/v1/nothing')).status).toBe(404);
  const bad = (path: string) => `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{`;
  const next = 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
  const received = await gateway.raw(['/v1/auth/login', '/v1/tenants', '/v1/nothing'].map(bad).join('') + next);
  expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual([400, 401, 404, 200].map((status) => `HTTP/1.1 ${status}`));
});
