// The second factor and the new password over REST, each answer checked against the document.
import pg from 'pg';
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import type { Answer, Person, Tenant } from '../test/cluster.ts';
import { toUuid } from '../services/platform/ids.ts';
import { until } from '../test/polling.ts';
import { codeOf, wrongCode } from '../test/second-factor.ts';

let cluster: CheckedCluster;
let admin: pg.Client;

beforeAll(async () => {
  cluster = await startCheckedCluster();
  admin = new pg.Client({ connectionString: cluster.databases.identity.adminUrl });
  await admin.connect();
});
afterAll(() => admin.end());

const short = ({ status, body }: Answer) => [status, body.code];
const post = (path: string, person: Person, body: object, key = person.token) => cluster.rest('POST', `/v1/auth/${path}`, { key, body });
const login = ({ email, password }: Pick<Person, 'email' | 'password'>, totp_code?: unknown) =>
  cluster.rest('POST', '/v1/auth/login', { body: { email, password, ...(totp_code !== undefined && { totp_code }) } });
const turnOff = ({ token, password }: Person, code: string, given = password) =>
  cluster.rest('DELETE', '/v1/auth/totp', { key: token, body: { password: given, code } });
const requireTotp = ({ id, owner }: Tenant, require_totp: unknown = true, key = owner.token) =>
  cluster.rest('PATCH', `/v1/tenants/${id}`, { key, body: { require_totp } });

/** Turns on a second factor; the current code is used. */
async function enable(person: Person): Promise<{ secret: string; codes: string[] }> {
  const { secret } = (await post('totp', person, { password: person.password })).body.data;
  const { recovery_codes: codes } = (await post('totp/confirm', person, { code: codeOf(secret) })).body.data;
  return { secret, codes };
}

describe('a second factor', () => {
  test('is on once a code confirms it; then login needs a code, and each is good once', async () => {
    const person = await cluster.signUp();
    const started = await post('totp', person, { password: person.password });
    expect([started.status, Object.keys(started.body.data)]).toEqual([200, ['secret', 'otpauth_url']]);
    const { secret, otpauth_url } = started.body.data;
    const shown = new URL(otpauth_url);
    expect([shown.protocol, shown.host, decodeURIComponent(shown.pathname)]).toEqual(['otpauth:', 'totp', `/Ledger:${person.email}`]);
    expect(Object.fromEntries(shown.searchParams)).toEqual({ issuer: 'Ledger', secret, algorithm: 'SHA1', digits: '6', period: '30' });
    expect((await login(person)).status).toBe(200);

    const confirmed = await post('totp/confirm', person, { code: codeOf(secret) });
    expect([confirmed.status, confirmed.body.data.recovery_codes.length]).toEqual([200, 10]);
    const user = await cluster.rest('GET', '/v1/user', { key: person.token });
    expect(user.body.data.user.totp_enabled).toBe(true);

    const without = await login(person);
    expect(short(without)).toEqual([401, 'totp_required']);
    expect(without.headers.get('www-authenticate')).toBe('Bearer realm="ledger"');
    // The one of the confirmation.
    expect(short(await login(person, codeOf(secret)))).toEqual([401, 'unauthenticated']);
    const code = codeOf(secret, 1);
    const [one, other] = await Promise.all([login(person, code), login(person, code)]);
    expect([one.status, other.status].sort()).toEqual([200, 401]);
    expect((one.status === 200 ? one : other).body.data.user.totp_enabled).toBe(true);
    const [recovery] = confirmed.body.data.recovery_codes;
    expect((await login(person, recovery)).status).toBe(200);
    const again = await login(person, recovery);
    expect(short(again)).toEqual([401, 'unauthenticated']);
    expect(again.headers.get('ratelimit')).toMatch(/^"login";r=7;t=/);
  });

  test('is turned off by password and code, which a DELETE takes in its body', async () => {
    const person = await cluster.signUp();
    expect(short(await turnOff(person, '123456'))).toEqual([403, 'forbidden']);
    const { secret, codes } = await enable(person);
    expect(short(await post('totp', person, { password: person.password }))).toEqual([403, 'forbidden']);
    expect(short(await post('totp/confirm', person, { code: codeOf(secret, 1) }))).toEqual([403, 'forbidden']);
    expect(short(await turnOff(person, codes[0]!, 'wrong'))).toEqual([403, 'forbidden']);
    expect(short(await turnOff(person, wrongCode(secret)))).toEqual([403, 'forbidden']);
    const answer = await turnOff(person, codes[0]!);
    expect([answer.status, answer.body.data]).toEqual([200, { id: person.id, deleted: true }]);
    expect((await login(person)).status).toBe(200);

    const { body } = await cluster.rest('GET', '/v1/user/audit', { key: person.token });
    const types = body.data.audit.map(({ type }: { type: string }) => type);
    expect(types.slice(0, 6)).toEqual([
      'login.succeeded',
      'totp.disabled',
      'recovery_code.used',
      'login.failed',
      'login.failed',
      'totp.enabled',
    ]);
    for (const hidden of [secret, person.password, ...codes, ...codes.map((each) => each.replaceAll('-', ''))])
      expect(JSON.stringify(body)).not.toContain(hidden);
  });

  test('of a user that wrong guesses locked answers with the limit, for right codes too', async () => {
    const person = await cluster.signUp();
    const { secret } = await enable(person);
    for (let time = 0; time < 10; time += 1) expect(short(await login(person, wrongCode(secret)))).toEqual([401, 'unauthenticated']);
    const limited = await login(person, codeOf(secret, 1));
    expect(short(limited)).toEqual([429, 'rate_limited']);
    expect(limited.headers.get('ratelimit-policy')).toBe('"login";q=10;w=900');
    expect(short(await turnOff(person, codeOf(secret, 1)))).toEqual([429, 'rate_limited']);
  });

  test.each([
    ['POST', 'totp', {}, 'password', 'required'],
    ['POST', 'totp', { password: 7 }, 'password', 'type'],
    ['POST', 'totp/confirm', { code: '' }, 'code', 'required'],
    ['POST', 'totp/confirm', { code: '1'.repeat(65) }, 'code', 'max'],
    ['DELETE', 'totp', undefined, 'password', 'required'],
    ['DELETE', 'totp', { password: 'x' }, 'code', 'required'],
    ['POST', 'password/change', { current: 'x' }, 'password', 'required'],
    ['POST', 'password/change', { current: 'x', password: 'short' }, 'password', 'min'],
    ['POST', 'login', { email: 'ada@example.com', password: 'x', totp_code: '' }, 'totp_code', 'required'],
    ['POST', 'login', { email: 'ada@example.com', password: 'x', totp_code: 123456 }, 'totp_code', 'type'],
  ])('%s %s with %j names %s and %s, and repeats no secret', async (method, path, body, field, tag) => {
    const { token } = await cluster.signUp();
    const answer = await cluster.rest(method, `/v1/auth/${path}`, { key: token, ...(body !== undefined && { body }) });
    expect([answer.status, answer.body.code, answer.body.details]).toEqual([400, 'validation_failed', { field, tag, value: '' }]);
  });

  test.each([
    ['POST', '/v1/auth/totp', { password: 'x' }],
    ['POST', '/v1/auth/totp/confirm', { code: '123456' }],
    ['DELETE', '/v1/auth/totp', { password: 'x', code: '123456' }],
    ['POST', '/v1/auth/password/change', { current: 'x', password: 'a new password' }],
    ['PATCH', '/v1/tenants/tenant_01jd1zq5v8e6n9w2k4m7p3r5t8', { require_totp: true }],
  ])('%s %s takes no API key and no request without a credential', async (method, path, body) => {
    const key = await cluster.apiKey(await cluster.tenant());
    for (const credential of [{}, { key }])
      expect(short(await cluster.rest(method, path, { ...credential, body }))).toEqual([401, 'unauthenticated']);
  });
});

describe('a tenant that requires a second factor', () => {
  test('rejects members without one on each of its routes, and their access keys within five seconds', async () => {
    const tenant = await cluster.tenant();
    const member = await cluster.signUp();
    await admin.query('insert into memberships values ($1, $2, $3, now())', [
      toUuid('tenant', tenant.id),
      toUuid('user', member.id),
      'admin',
    ]);
    const access = async ({ token }: Person) =>
      (await cluster.rest('POST', `/v1/tenants/${tenant.id}/access`, { key: token, body: {} })).body.data.access.key as string;
    const [ofOwner, ofMember] = [await access(tenant.owner), await access(member)];
    const read = (key: string) => cluster.rest('GET', `/v1/tenants/${tenant.slug}/accounts`, { key });
    expect([(await read(ofOwner)).status, (await read(ofMember)).status]).toEqual([200, 200]);

    expect(short(await requireTotp(tenant, true))).toEqual([403, 'forbidden']);
    const { codes } = await enable(tenant.owner);
    expect(short(await requireTotp(tenant, true, member.token))).toEqual([403, 'forbidden']);
    expect(short(await requireTotp(tenant, true, (await cluster.signUp()).token))).toEqual([404, 'tenant_not_found']);
    expect((await requireTotp(tenant, null)).body.details).toMatchObject({ field: 'require_totp' });
    for (let time = 0; time < 2; time += 1) {
      const answer = await requireTotp(tenant);
      expect([answer.status, answer.body.data.tenant]).toEqual([200, expect.objectContaining({ id: tenant.id, require_totp: true })]);
    }
    const since = Date.now();
    await until(
      () => read(ofMember),
      ({ status }) => status === 401,
    );
    expect(Date.now() - since).toBeLessThan(5_000);
    expect((await read(ofOwner)).status).toBe(200);

    const example = (name: string) => (name === 'tenant_id' ? tenant.id : name === 'user_id' ? tenant.owner.id : undefined);
    const routes = cluster.contract.operations.filter(
      ({ path, security }) => path.startsWith('/v1/tenants/{tenant_id}') && security === 'userToken',
    );
    expect(routes.length).toBeGreaterThan(8);
    for (const { method, path, body, definition } of routes) {
      const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
        return example(name) ?? definition.parameters.find((each: { name: string }) => each.name === name).schema.example;
      });
      const answer = await cluster.rest(method, filled, { key: member.token, ...(body && { body }) });
      expect([method, path, ...short(answer)]).toEqual([method, path, 403, 'forbidden']);
      expect(answer.body.error).toContain('second factor');
    }
    // The list of its tenants is no route of the tenant.
    const { body } = await cluster.rest('GET', '/v1/tenants', { key: member.token });
    expect(body.data.tenants).toMatchObject([{ id: tenant.id, require_totp: true }]);

    await enable(member);
    expect((await read(await access(member))).status).toBe(200);

    await turnOff(tenant.owner, codes[0]!);
    expect(short(await requireTotp(tenant, false))).toEqual([403, 'forbidden']);
    await until(
      () => read(ofOwner),
      ({ status }) => status === 401,
    );
  });
});

describe('a new password', () => {
  test('ends all other sessions at once, with their tokens, and needs the current one', async () => {
    const person = await cluster.signUp();
    const other = (await login(person)).body.data;
    const change = (current: string, password: string, key = person.token) => post('password/change', person, { current, password }, key);
    expect(short(await change('wrong', 'staple horse correct'))).toEqual([403, 'forbidden']);
    const answer = await change(person.password, 'staple horse correct');
    expect([answer.status, answer.body]).toEqual([200, { success: true, data: {}, message: 'Password changed' }]);
    const user = (key: string) => cluster.rest('GET', '/v1/user', { key });
    expect([(await user(person.token)).status, (await user(other.token)).status]).toEqual([200, 401]);
    const refreshed = await cluster.rest('POST', '/v1/auth/refresh', { body: { refresh_token: other.refresh_token } });
    expect(short(refreshed)).toEqual([401, 'unauthenticated']);
    expect(short(await change('staple horse correct', 'one more password', other.token))).toEqual([401, 'unauthenticated']);
    expect(short(await login(person))).toEqual([401, 'unauthenticated']);
    expect((await login({ ...person, password: 'staple horse correct' })).status).toBe(200);
    for (let time = 0; time < 9; time += 1) await change('wrong', 'staple horse correct');
    expect(short(await change('staple horse correct', 'one more password'))).toEqual([429, 'rate_limited']);
  });
});
