import { newId } from '../services/platform/ids.ts';
import { lastAnswer, startGatewayOnly, type GatewayOnly } from '../test/gateway-only.ts';

// Services are away: a request that passes every check is answered 503 `unavailable`.
let alone: GatewayOnly;
beforeAll(async () => {
  alone = await startGatewayOnly({ CORS_ORIGINS: 'https://app.example.com' });
});
afterAll(() => alone.stop());

describe('paths and methods', () => {
  const statusOf = async (path: string, method = 'GET') => (await fetch(alone.url + path, { method })).status;

  test('an unknown path is 404, also with a body that is no JSON', async () => {
    const answer = await fetch(`${alone.url}/v1/nothing`, { method: 'POST', body: '{', headers: { 'content-type': 'text/plain' } });
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({ success: false, error: 'route not found', code: 'route_not_found' });
  });

  test.each(['/v1/%zz', '/v1/tenants/%E0%A4%A/accounts', '/%', '/v1/tenants/a%/accounts/code/%ff/balance'])(
    'a path that cannot be decoded is answered in the envelope: %s',
    async (path) => {
      const { status, body } = lastAnswer(await alone.raw(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`));
      expect([404, 400, 401]).toContain(status);
      expect(body).toMatchObject({ success: false, request_id: expect.any(String) });
    },
  );

  test('one trailing slash is accepted, two are not, and case matters', async () => {
    expect(await statusOf('/v1/user/')).toBe(401);
    expect(await statusOf('/v1/user//')).toBe(404);
    for (const path of ['accounts/code', 'transactions', 'accounts']) {
      expect([path, await statusOf(`/v1/tenants/acme/${path}//`)]).toEqual([path, 404]);
      expect([path, await statusOf(`/v1/tenants//${path}`)]).toEqual([path, 404]);
    }
    expect(await statusOf('/v1/tenants//api-keys', 'POST')).toBe(404);
    expect(await statusOf('/v1/tenants/acme/accounts/code//balance')).toBe(404);
    expect(await statusOf('/V1/user')).toBe(404);
    expect(await statusOf('/v1/User')).toBe(404);
  });

  test('a wrong method is 405 and names the right ones, before credential and body', async () => {
    for (const [path, method, allow] of [
      ['/v1/auth/login', 'GET', 'POST'],
      ['/v1/user', 'POST', 'GET, HEAD'],
      ['/v1/tenants', 'DELETE', 'GET, HEAD, POST'],
      ['/v1/tenants/acme/transactions/double-entry', 'GET', 'POST'],
      ['/v1/tenants/acme/accounts/code/X', 'PUT', 'GET, HEAD, PATCH'],
      ['/healthz', 'POST', 'GET, HEAD'],
    ] as const) {
      const answer = await fetch(alone.url + path, {
        method,
        ...(method === 'POST' && { body: '{', headers: { 'content-type': 'text/x' } }),
      });
      expect([path, answer.status, answer.headers.get('allow')]).toEqual([path, 405, allow]);
      expect(await answer.json()).toMatchObject({ success: false, code: 'method_not_allowed' });
    }
    for (const method of ['PROPFIND', 'TRACE', 'QUERY', 'LINK']) {
      const { status, body } = lastAnswer(await alone.raw(`${method} /v1/user HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`));
      expect([method, status, body.code]).toEqual([method, 405, 'method_not_allowed']);
    }
  });

  test('POST to a word instead of an id is 404, any other wrong method 405', async () => {
    for (const [method, path, allow] of [
      ['POST', '/v1/tenants/acme/transactions/refund', null],
      ['POST', '/v1/tenants/acme/webhooks/batch', null],
      ['POST', `/v1/tenants/${newId('tenant')}/api-keys/batch`, null],
      ['PUT', '/v1/tenants/acme/transactions/export', 'GET, HEAD'],
      ['POST', '/v1/tenants/acme/transactions/txn_typo', 'GET, HEAD'],
      ['DELETE', '/v1/tenants/acme/webhooks/typo', 'GET, HEAD'],
      ['GET', `/v1/tenants/${newId('tenant')}/api-keys/typo`, 'DELETE'],
      ['POST', `/v1/tenants/acme/transactions/${newId('txn')}`, 'GET, HEAD'],
      ['POST', `/v1/tenants/acme/webhooks/${newId('wh_delivery')}`, 'GET, HEAD'],
      ['GET', `/v1/tenants/${newId('tenant')}/api-keys/${newId('key')}`, 'DELETE'],
    ] as const) {
      const answer = await fetch(alone.url + path, { method });
      const { code } = (await answer.json()) as { code: string };
      const expected = allow === null ? [404, 'route_not_found'] : [405, 'method_not_allowed'];
      expect([method, path, answer.status, code, answer.headers.get('allow')]).toEqual([method, path, ...expected, allow]);
    }
  });

  test('HEAD answers the headers of GET without its body', async () => {
    for (const path of ['/healthz', '/openapi.json', '/v1/user', '/v1/nothing']) {
      const get = await fetch(alone.url + path);
      const body = await get.text();
      const head = await fetch(alone.url + path, { method: 'HEAD' });
      expect([path, head.status]).toEqual([path, get.status]);
      expect(await head.text()).toBe('');
      expect(head.headers.get('content-type')).toBe(get.headers.get('content-type'));
      expect(Math.abs(Number(head.headers.get('content-length')) - Buffer.byteLength(body))).toBeLessThan(2);
    }
  });
});

// In this order: the document, an error, a preflight, no route, a path that can't be decoded, no HTTP.
test.each([
  ['GET /openapi.json HTTP/1.1\r\nHost: x', 200],
  ['GET /v1/user HTTP/1.1\r\nHost: x', 401],
  ['OPTIONS /v1/user HTTP/1.1\r\nHost: x\r\nOrigin: https://app.example.com\r\nAccess-Control-Request-Method: GET', 204],
  ['GET /nothing HTTP/1.1\r\nHost: x', 404],
  ['GET /%zz HTTP/1.1\r\nHost: x', 404],
  ['nonsense', 400],
])('no browser takes an answer for another type than it says it is, and no proxy keeps it for another: %j', async (request, status) => {
  const received = await alone.raw(`${request}\r\nConnection: close\r\n\r\n`);
  const [head = ''] = received.split('\r\n\r\n');
  expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  expect(head.toLowerCase().match(/^x-content-type-options: .*$/gm)).toEqual(['x-content-type-options: nosniff']);
  const kept = request.startsWith('GET /openapi.json') ? 'public, max-age=300' : 'no-store';
  expect(head.toLowerCase().match(/^cache-control: .*$/gm)).toEqual([`cache-control: ${kept}`]);
});

describe('request ids', () => {
  test('a sane one comes back, another is replaced', async () => {
    for (const id of ['req-1', 'A.b_c-9', 'x'.repeat(128)]) {
      const answer = await fetch(`${alone.url}/v1/user`, { headers: { 'x-request-id': id } });
      expect(answer.headers.get('x-request-id')).toBe(id);
      expect(await answer.json()).toMatchObject({ request_id: id });
    }
    for (const id of ['', 'a b', 'x'.repeat(129), 'a"b', 'é']) {
      const answer = await fetch(`${alone.url}/v1/user`, { headers: { 'x-request-id': id } });
      expect(answer.headers.get('x-request-id')).toMatch(/^[A-Za-z0-9._-]{16,128}$/);
      expect(answer.headers.get('x-request-id')).not.toBe(id);
    }
  });
});

describe('a header that counts once and is there twice', () => {
  const ask = async (line: string, fields: string[], body = '') => {
    const answer = lastAnswer(await alone.raw([line, 'Host: x', 'Connection: close', ...fields, '', body].join('\r\n')));
    return [answer.status, answer.body.code];
  };

  test('is no credential', async () => {
    const token = 'Authorization: Bearer eyJhbGciOiJFZERTQSJ9.e30.c2ln';
    expect(await ask('GET /v1/user HTTP/1.1', [token])).toEqual([503, 'unavailable']);
    for (const other of [token, 'Authorization: Bearer x']) {
      expect(await ask('GET /v1/user HTTP/1.1', [token, other])).toEqual([401, 'unauthenticated']);
    }
  });

  test('is no media type', async () => {
    const type = 'Content-Type: application/json';
    for (const other of [type, 'Content-Type: text/plain']) {
      const answer = await ask('POST /v1/auth/login HTTP/1.1', [type, other, 'Content-Length: 2'], '{}');
      expect(answer).toEqual([415, 'unsupported_media_type']);
    }
  });
});

describe('without its services', () => {
  test('the gateway is healthy, not ready, and names the missing services', async () => {
    expect((await fetch(`${alone.url}/healthz`)).status).toBe(200);
    const ready = await fetch(`${alone.url}/readyz`);
    expect([ready.status, ready.headers.get('retry-after')]).toEqual([503, '1']);
    const dependencies = { identity: 'unavailable', ledger: 'unavailable', auditor: 'unavailable', notifier: 'unavailable' };
    expect(await ready.json()).toEqual({ status: 'unavailable', dependencies });
  });

  test('a credential that cannot be checked is 503, a malformed one 401', async () => {
    const key = 'lk_live_01jd1zq5v8e6n9w2k4m7p3r5t8_0000000000000000000000000000000000000000000';
    const get = async (path: string, credential: string) => {
      const answer = await fetch(alone.url + path, { headers: { authorization: credential } });
      return { status: answer.status, retry: answer.headers.get('retry-after'), code: ((await answer.json()) as any).code };
    };
    expect(await get('/v1/user', 'Bearer eyJhbGciOiJFZERTQSJ9.e30.c2ln')).toEqual({ status: 503, retry: '1', code: 'unavailable' });
    expect(await get('/v1/tenants/acme/accounts', `Bearer ${key}1LY7VK`)).toMatchObject({ status: 401, code: 'unauthenticated' });
    expect(await get('/v1/tenants/acme/accounts', 'Bearer x')).toMatchObject({ status: 401 });
    expect(await get('/v1/tenants/acme/accounts', 'Basic eDp5')).toMatchObject({ status: 401 });
    const keySet = await fetch(`${alone.url}/.well-known/jwks.json`);
    // Nobody is to keep that for the five minutes of a key set.
    expect([keySet.status, keySet.headers.get('cache-control')]).toEqual([503, 'no-store']);
  });

  test('metrics are served', async () => {
    const text = await (await fetch(`${alone.url}/metrics`)).text();
    expect(text).toMatch(/http_requests_total\{[^}]*route="\/healthz"[^}]*status="200"[^}]*\} [1-9]/);
    expect(text).toMatch(/http_request_duration_seconds_bucket\{[^}]*le="\+Inf"[^}]*\} [1-9]/);
    expect(text).toContain('http_requests_in_flight');
  });
});

describe('browsers of other origins', () => {
  test('may call where they are listed, preflight included', async () => {
    const preflight = await fetch(`${alone.url}/v1/tenants/acme/transactions`, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://app.example.com',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization',
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-origin')).toBe('https://app.example.com');
    const answer = await fetch(`${alone.url}/v1/user`, { headers: { origin: 'https://app.example.com' } });
    expect(answer.status).toBe(401);
    expect(answer.headers.get('access-control-allow-origin')).toBe('https://app.example.com');
    expect(answer.headers.get('access-control-expose-headers')).toContain('X-Request-Id');
    const other = await fetch(`${alone.url}/v1/user`, { headers: { origin: 'https://evil.example.com' } });
    expect(other.headers.get('access-control-allow-origin')).toBeNull();
  });

  const origin = 'https://app.example.com';
  const asked = { 'access-control-request-method': 'POST' };

  test.each<[string, string, Record<string, string>, number, string | null]>([
    ['without the method that is to follow', '/v1/user', { origin }, 405, origin],
    ['without an origin', '/v1/user', asked, 405, null],
    ['of an origin that is not listed', '/v1/user', { origin: 'https://evil.example.com', ...asked }, 405, null],
    ['to nowhere', '/v1/nothing', { origin, ...asked }, 404, origin],
    ['to a path with an empty part', '/v1/tenants//accounts', { origin, ...asked }, 404, origin],
  ])('OPTIONS %s is a method like any other', async (_, path, headers, status, allowed) => {
    const answer = await fetch(alone.url + path, { method: 'OPTIONS', headers });
    expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([status, allowed]);
    expect(answer.headers.get('access-control-allow-methods')).toBeNull();
    expect(answer.headers.get('allow')).toBe(status === 405 ? 'GET, HEAD' : null);
    expect(await answer.json()).toMatchObject({ success: false, code: status === 405 ? 'method_not_allowed' : 'route_not_found' });
  });

  test('may be any, where any is listed', async () => {
    const open = await startGatewayOnly({ CORS_ORIGINS: '*' });
    try {
      const ask = (path: string) =>
        fetch(open.url + path, { method: 'OPTIONS', headers: { origin: 'https://evil.example.com', ...asked } });
      const preflight = await ask('/v1/tenants');
      expect([preflight.status, preflight.headers.get('access-control-allow-origin')]).toEqual([204, '*']);
      expect((await ask('/v1/nothing')).status).toBe(404);
    } finally {
      await open.stop();
    }
  });
});
