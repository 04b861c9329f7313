// Who may call, as identity says it: keys that are revoked or expire, failed logins, and while it is away.
import { connect } from 'node:net';
import { text as allOf } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { startGatewayOnly } from '../test/gateway-only.ts';
import { metricOf, until } from '../test/polling.ts';
import { checkedRest, readContract } from '../test/contract.ts';
import { startCluster, type Answer, type Cluster, type Tenant } from '../test/cluster.ts';

// Some of these wait for what is known of a key to be forgotten, again on a machine that was too busy the first time.
jest.setTimeout(180_000);

const maxInFlight = 64;
let cluster: Cluster;
let rest: Cluster['rest'];
let tenant: Tenant;
let key: string;

beforeAll(async () => {
  cluster = await startCluster({ environment: { gateway: { MAX_IN_FLIGHT: String(maxInFlight), TRUST_PROXY: '127.0.0.0/8,::1' } } });
  rest = checkedRest(cluster, await readContract(cluster.url));
  tenant = await cluster.tenant();
  key = await cluster.apiKey(tenant);
  await rest('POST', `/v1/tenants/${tenant.slug}/accounts/setup`, { key, body: { business_type: 'wallet' } });
});
afterAll(() => cluster.stop());

const balance = (withKey = key) =>
  rest('GET', `/v1/tenants/${tenant.slug}/accounts/code/TECHNOLOGY/balance?currency=USD`, { key: withKey });
const inFlight = () => metricOf(cluster, 'gateway', 'http_requests_in_flight');

/** Asks with a key until it is refused with that status: the answer, and when the last one that was taken was asked for, milliseconds. */
async function lastTaken(withKey: string, status: number): Promise<{ refused: Answer; since: number }> {
  let since = -Infinity;
  const ask = async () => {
    const asked = Date.now();
    const answer = await balance(withKey);
    if (answer.status === 200) since = asked;
    return answer;
  };
  const refused = await until(ask, (answer) => answer.status === status);
  return { refused, since };
}

describe('a key', () => {
  test('is dead everywhere within five seconds of its revocation', async () => {
    const text = await cluster.apiKey(tenant);
    expect((await balance(text)).status).toBe(200);
    const id = `key_${text.split('_')[2]}`;
    await rest('DELETE', `/v1/tenants/${tenant.id}/api-keys/${id}`, { key: tenant.owner.token });
    const revoked = Date.now();
    const { refused, since } = await lastTaken(text, 401);
    expect([refused.status, refused.body.code]).toEqual([401, 'unauthenticated']);
    expect(since - revoked).toBeLessThan(5000);
  });

  test('posts nothing more once it is dead, also where a posting was begun before', async () => {
    const text = await cluster.apiKey(tenant);
    expect((await balance(text)).status).toBe(200);
    const line = { account_code: 'TECHNOLOGY', amount: '1.00', side: 'debit', currency: 'USD' };
    const body = (name: string) => JSON.stringify({ ...line, idempotency_key: name });
    /** Begins a posting; what is returned sends the end of it and answers with the status. */
    const begin = async (name: string) => {
      const socket = connect(Number(new URL(cluster.url).port), '127.0.0.1').setEncoding('utf8');
      const sent = body(name);
      const head = `POST /v1/tenants/${tenant.slug}/transactions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${text}\r\n`;
      const more = `Content-Type: application/json\r\nContent-Length: ${sent.length}\r\nConnection: close\r\n\r\n`;
      const asked = await inFlight();
      socket.write(head + more + sent.slice(0, 5));
      await until(inFlight, (count) => count > asked);
      return async () => {
        socket.write(sent.slice(5));
        return Number((await allOf(socket)).split(' ')[1]);
      };
    };
    const [finish, finishDead] = [await begin('in time'), await begin('too late')];
    await pause(1_100);
    expect(await finish()).toBe(201);
    await rest('DELETE', `/v1/tenants/${tenant.id}/api-keys/key_${text.split('_')[2]}`, { key: tenant.owner.token });
    await lastTaken(text, 401);
    expect(await finishDead()).toBe(401);
    expect((await rest('POST', `/v1/tenants/${tenant.slug}/transactions`, { key, body: body('too late') })).status).toBe(201);
  });
});

test.each(['', ', 127.0.0.9:443', ', [::1]', ', [::1]:443'])(
  'failed logins count for the address that a trusted proxy names, behind further proxies %j',
  async (proxies) => {
    const { email } = await cluster.signUp();
    const attempt = (address: string) =>
      rest('POST', '/v1/auth/login', { body: { email, password: 'wrong' }, headers: { 'x-forwarded-for': address + proxies } });
    // Some proxies name the port, too.
    for (let failure = 0; failure < 10; failure += 1) expect((await attempt(`192.0.2.1:${50_000 + failure}`)).status).toBe(401);
    expect((await attempt('192.0.2.1')).status).toBe(429);
    expect((await attempt('192.0.2.2')).status).toBe(401);
  },
);

describe('while identity is away', () => {
  test('a client that leaves before its credential is checked uses no slot of its tenant', async () => {
    const path = `/v1/tenants/${tenant.id}/api-keys`;
    const { token } = tenant.owner;
    const leaving = new AbortController();
    await cluster.kill('identity', 'SIGSTOP');
    try {
      const idle = await inFlight();
      // On a busy machine the first may be answered, that identity is away, before the last have come.
      const left = Array.from({ length: maxInFlight }, async () => {
        while (!leaving.signal.aborted) await rest('GET', path, { key: token, signal: leaving.signal }).catch(() => undefined);
      });
      await until(inFlight, (count) => count >= idle + maxInFlight / 2);
      leaving.abort();
      await Promise.all(left);
      await until(inFlight, (count) => count <= idle);
    } finally {
      await cluster.kill('identity', 'SIGCONT');
    }
    await until(
      () => rest('GET', '/readyz'),
      ({ status }) => status === 200,
    );
    expect((await rest('GET', path, { key: token })).status).toBe(200);
  });

  test('a cached key works for three more seconds, then answers 503, and works again afterwards', async () => {
    await cluster.kill('identity');
    const killed = Date.now();
    const { refused: away, since } = await lastTaken(key, 503);
    expect([away.status, away.body.code, away.headers.get('retry-after')]).toEqual([503, 'unavailable', '1']);
    expect(since - killed).toBeLessThanOrEqual(3000);
    for (const [path, body] of [
      ['/v1/auth/login', { email: 'a@b.cd', password: 'x' }],
      ['/v1/auth/refresh', { refresh_token: 'x' }],
    ] as const) {
      expect((await rest('POST', path, { body })).status).toBe(503);
    }
    // Tokens are checked by the keys that are known; whether the user exists is not.
    const me = await rest('GET', '/v1/user', { key: tenant.owner.token });
    expect([me.status, me.body.code]).toEqual([503, 'unavailable']);
    const ready = await until(
      () => rest('GET', '/readyz'),
      // A busy machine may take a moment longer to answer for the others.
      ({ status, body }) => status === 503 && body.dependencies.ledger === 'ok' && body.dependencies.notifier === 'ok',
    );
    expect(ready.body).toEqual({
      status: 'unavailable',
      dependencies: { identity: 'unavailable', ledger: 'ok', auditor: 'ok', notifier: 'ok' },
    });
    await cluster.restart('identity');
    await until(
      () => balance(),
      ({ status }) => status === 200,
    );
  });
});

test('a gateway whose internal token no service accepts is not ready, and names the services', async () => {
  const { identity, ledger, notifier, auditor } = cluster.addresses;
  const addresses = {
    IDENTITY_ADDR: identity.join(','),
    LEDGER_ADDR: ledger.join(','),
    NOTIFIER_ADDR: notifier.join(','),
    AUDITOR_ADDR: auditor.join(','),
  };
  const stranger = await startGatewayOnly({ ...addresses, INTERNAL_TOKEN: 'another' });
  try {
    const dependencies = { identity: 'refused', ledger: 'refused', auditor: 'refused', notifier: 'refused' };
    const ready = await until(
      async () => {
        const answer = await fetch(`${stranger.url}/readyz`);
        return { status: answer.status, body: (await answer.json()) as { dependencies: object } };
      },
      // A busy machine may take a moment longer to be connected, or to be told of the token.
      ({ body }) => Object.values(body.dependencies).every((each) => each === 'refused'),
    );
    expect(ready).toEqual({ status: 503, body: { status: 'unavailable', dependencies } });
  } finally {
    await stranger.stop();
  }
});
