import { createLocalJWKSet, calculateJwkThumbprint, decodeProtectedHeader, jwtVerify, type JSONWebKeySet } from 'jose';
import type pg from 'pg';
import { pino } from 'pino';
import type { FreshDatabase } from '../../test/cluster.ts';
import {
  newEmail,
  newTenant,
  newUser,
  password,
  refusal,
  useIdentity,
  type IdentityClient,
  type RunningIdentity,
} from '../../test/identity.ts';
import { until } from '../../test/notifier.ts';
import { refusalOf } from '../platform/caller.ts';
import { newId } from '../platform/ids.ts';
import { openPool } from '../platform/postgres.ts';
import { deleteFailures } from './retention.ts';

let database: FreshDatabase;
let identity: RunningIdentity;
let client: IdentityClient;
let admin: pg.Client;

useIdentity((own) => ({ identity, client, admin, database } = own));

const names = { firstName: 'Ada', lastName: 'Lovelace' };
let lastAddress = 0;
const newAddress = () => `198.51.${(++lastAddress >> 8) & 255}.${lastAddress & 255}`;
const login = (email: string, given = password, clientAddress = newAddress()) => client.login({ email, password: given, clientAddress });

describe('register', () => {
  test('a new user is active, has an identifier, and the password is stored as argon2id only', async () => {
    const email = newEmail();
    const { user } = await client.register({ email, password, ...names });
    expect(user).toMatchObject({ email, ...names, status: 'active' });
    expect(user!.id).toMatch(/^user_[0-9a-z]{26}$/);
    expect(Math.abs(Number(user!.createdMs) - Date.now())).toBeLessThan(60_000);
    expect((await client.getUser({ userId: user!.id })).user).toEqual(user);
    const { rows } = await admin.query('select * from users where email = $1', [email]);
    expect(rows[0].password_hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    expect(JSON.stringify(rows)).not.toContain(password);
    expect(identity.child.output()).not.toContain(password);
  });

  test('an email is taken whatever its case, and is stored as it was sent', async () => {
    const email = newEmail().replace('ada', 'Ada.ÄÉ');
    const { user } = await client.register({ email, password, ...names });
    expect(user!.email).toBe(email);
    for (const same of [email, email.toUpperCase(), email.toLowerCase()]) {
      expect(await refusal(client.register({ email: same, password, ...names }))).toMatchObject({ reason: 'email_taken', field: 'email' });
    }
  });

  test('of registrations of one email at once one wins, and the others are rejected as taken', async () => {
    const email = newEmail();
    const calls = ['Ada', 'ada', 'ADA', 'aDa'].map((part) => client.register({ email: email.replace('ada', part), password, ...names }));
    const answers = await Promise.allSettled(calls);
    expect(answers.filter((answer) => answer.status === 'fulfilled')).toHaveLength(1);
    for (const answer of answers) {
      if (answer.status === 'rejected') expect(refusalOf(answer.reason)?.reason).toBe('email_taken');
    }
  });

  // PostgreSQL logs the text of a statement that fails, also where only a lock was not had in time.
  test.each([
    ['access exclusive', 'select'],
    ['exclusive', 'insert'],
  ])('no statement contains what a user sends, nor a hash of it (%s)', async (mode, verb) => {
    const email = newEmail();
    await admin.query('begin');
    await admin.query(`lock table users in ${mode} mode`);
    const registered = client.register({ email, password, ...names });
    const text = await until(async () => {
      await admin.query('select pg_stat_clear_snapshot()');
      // What a connection waits for is read after its text: without its state an idle one's last statement passes for the next one's, which waits.
      const waits = `datname = current_database() and state = 'active' and wait_event_type = 'Lock'`;
      const query = `select query from pg_stat_activity where ${waits} and query like '%"users"%'`;
      return (await admin.query<{ query: string }>(query)).rows[0]?.query;
    });
    await admin.query('rollback');
    expect(text).toMatch(new RegExp(`^${verb} `));
    for (const secret of [email, '$argon2', ...Object.values(names)]) expect(text).not.toContain(secret);
    await registered;
  });

  test('while 50 users register at once a key is verified before they are done, within the memory that the cluster allows', async () => {
    const user = await newUser(client);
    const tenantId = await newTenant(client, user.id);
    const { key } = await client.createApiKey({ userId: user.id, tenantId, name: 'till', scopes: ['accounts:read'] });
    let registered = 0;
    const calls = Array.from({ length: 50 }, () => newUser(client).then(() => registered++));
    expect((await client.verifyApiKey({ key })).verified).toBeDefined();
    expect(registered).toBeLessThan(50);
    await Promise.all(calls);
    expect(registered).toBe(50);
    expect(await identity.metric('process_resident_memory_bytes')).toBeLessThan(350 * 1024 * 1024);
  });

  const long = (length: number) => '𝒜'.repeat(length);
  test.each([
    ['email', 'email', { email: 'nobody' }],
    ['password', 'min', { password: long(7) }],
    ['first_name', 'required', { firstName: '' }],
    ['last_name', 'unicode', { lastName: '\0' }],
  ])('%s is rejected with the tag %s', async (field, tag, change) => {
    const info = await refusal(client.register({ email: newEmail(), password, ...names, ...change }));
    expect(info).toMatchObject({ reason: 'validation_failed', field, tag });
    if (field === 'password') {
      expect(info.value).toBe('');
      expect(JSON.stringify(info)).not.toContain(long(7));
    }
  });
});

describe('login', () => {
  test('the answer is a session of one hour and the user, whatever the case of the email', async () => {
    const user = await newUser(client);
    const { session, user: found, rateLimit } = await login(user.email.toUpperCase());
    expect(found).toEqual(user);
    expect(Math.abs(Number(session!.expiresMs) - Date.now() - 3_600_000)).toBeLessThan(60_000);
    expect(session!.refreshToken).toMatch(/^lrt_/);
    expect(rateLimit).toMatchObject({ policy: 'login', quota: 10, windowSeconds: 900, remaining: 10 });
  });

  test('a password is the same whether its letters are composed or not', async () => {
    const email = newEmail();
    await client.register({ email, password: 'schl\u00fcssel', ...names });
    expect((await client.login({ email, password: 'schlu\u0308ssel' })).user?.email).toBe(email);
  });

  test('the token is verified by the published key: EdDSA, issuer, audience, subject, one hour, thumbprint as its name', async () => {
    const user = await newUser(client);
    const { session } = await login(user.email);
    const keySet = JSON.parse((await client.getKeySet({})).jwks) as JSONWebKeySet;
    const { payload } = await jwtVerify(session!.token, createLocalJWKSet(keySet), { issuer: 'ledger', audience: 'ledger' });
    expect(payload.sub).toBe(user.id);
    expect(payload.exp! - payload.iat!).toBe(3600);
    expect(BigInt(payload.exp!) * 1000n).toBe(session!.expiresMs);
    const kid = await calculateJwkThumbprint(keySet.keys[0]!);
    expect(decodeProtectedHeader(session!.token)).toEqual({ alg: 'EdDSA', typ: 'JWT', kid });
    expect(keySet.keys).toEqual([{ kty: 'OKP', crv: 'Ed25519', x: expect.any(String), kid, alg: 'EdDSA', use: 'sig' }]);
  });

  test('an unknown email gets the same answer as a wrong password and costs the same work', async () => {
    const user = await newUser(client);
    const work = () => identity.metric('identity_passwords_total{operation="verify"');
    const before = await work();
    const wrong = await refusal(login(user.email, 'wrong password'));
    expect(await work()).toBe(before + 1);
    const unknown = await refusal(login(newEmail(), 'wrong password'));
    expect(await work()).toBe(before + 2);
    expect(unknown).toEqual(wrong);
    expect(wrong).toMatchObject({ reason: 'unauthenticated', message: 'invalid email or password' });
    expect(wrong.metadata).toMatchObject({ policy: 'login', quota: '10', window: '900', remaining: '9' });
  });

  test.each([
    ['email', 'required', { email: '' }],
    ['password', 'max', { password: 'x'.repeat(129) }],
    ['client_address', 'unicode', { clientAddress: '\0' }],
  ])('%s is rejected with the tag %s', async (field, tag, change) => {
    const info = await refusal(client.login({ email: newEmail(), password, clientAddress: newAddress(), ...change }));
    expect(info).toMatchObject({ reason: 'validation_failed', field, tag });
  });
});

describe('the throttle', () => {
  const failures = async (count: number, email: string, address: string) => {
    const reasons = await Promise.all(
      Array.from({ length: count }, async () => (await refusal(login(email, 'wrong password', address))).reason),
    );
    return { unauthenticated: reasons.filter((reason) => reason === 'unauthenticated').length, of: reasons.length };
  };

  test('after ten failures from one address the account is closed to it, also with the right password, and the answer says for how long', async () => {
    const [user, address] = [await newUser(client), newAddress()];
    expect(await failures(10, user.email, address)).toEqual({ unauthenticated: 10, of: 10 });
    const info = await refusal(login(user.email, password, address));
    expect(info).toMatchObject({ reason: 'rate_limited', metadata: { policy: 'login', quota: '10', window: '900', remaining: '0' } });
    expect(info.retryAfter).toBeGreaterThan(800);
    expect(info.retryAfter).toBeLessThanOrEqual(900);
    expect(info.metadata!['reset']).toBe(String(info.retryAfter));
    // The email's case makes no other account of it.
    expect((await refusal(login(user.email.toUpperCase(), password, address))).reason).toBe('rate_limited');
    await expect(login(user.email)).resolves.toBeDefined();
    await expect(login((await newUser(client)).email, password, address)).resolves.toBeDefined();
  });

  test('an unknown email is throttled like a known one', async () => {
    const [email, address] = [newEmail(), newAddress()];
    await failures(10, email, address);
    expect((await refusal(login(email, password, address))).reason).toBe('rate_limited');
  });

  test('of any number of guesses at once ten are answered', async () => {
    const user = await newUser(client);
    expect(await failures(40, user.email, newAddress())).toEqual({ unauthenticated: 10, of: 40 });
  });

  test('successful logins do not count, and do not reset failures', async () => {
    const [user, address] = [await newUser(client), newAddress()];
    await failures(9, user.email, address);
    for (let time = 0; time < 12; time++) expect((await login(user.email, password, address)).rateLimit!.remaining).toBe(1);
    await Promise.all(Array.from({ length: 12 }, () => login(user.email, password, address)));
    await failures(1, user.email, address);
    expect((await refusal(login(user.email, password, address))).reason).toBe('rate_limited');
  });

  test('after a hundred failures over many accounts the address is closed to all', async () => {
    const [user, address] = [await newUser(client), newAddress()];
    await Promise.all(Array.from({ length: 95 }, () => refusal(login(newEmail(), password, address))));
    // The nearer limit is the one that is told.
    expect((await login(user.email, password, address)).rateLimit).toMatchObject({ quota: 100, remaining: 5 });
    await Promise.all(Array.from({ length: 5 }, () => refusal(login(newEmail(), password, address))));
    const info = await refusal(login(user.email, password, address));
    expect(info).toMatchObject({ reason: 'rate_limited', metadata: { policy: 'login', quota: '100', window: '900', remaining: '0' } });
    await expect(login(user.email)).resolves.toBeDefined();
  });

  test('a failure expires after fifteen minutes', async () => {
    const [user, address] = [await newUser(client), newAddress()];
    await failures(10, user.email, address);
    const age = (seconds: number) =>
      admin.query(`update login_failures set failed_at = failed_at - make_interval(secs => $2) where address = $1`, [address, seconds]);
    await age(600);
    expect((await refusal(login(user.email, password, address))).retryAfter).toBeLessThanOrEqual(300);
    await age(300);
    expect((await login(user.email, password, address)).rateLimit).toMatchObject({ quota: 10, remaining: 10, resetSeconds: 900 });
  });

  test('after the clock was set back no wait is longer than the window, and failures of the future do not count', async () => {
    const [user, address] = [await newUser(client), newAddress()];
    await failures(10, user.email, address);
    const shift = (by: string) =>
      admin.query(`update login_failures set failed_at = failed_at + $2::interval where address = $1`, [address, by]);
    await shift('50 s');
    expect((await refusal(login(user.email, password, address))).retryAfter).toBe(900);
    await shift('30 minutes');
    await expect(login(user.email, password, address)).resolves.toBeDefined();
  });

  test('the retention job deletes failures outside the window and no others', async () => {
    await admin.query(`insert into login_failures values ('a', sha256('a'), now() - interval '901 s'), ('b', sha256('b'), now())`);
    const pool = openPool(database.serviceUrl, { max: 1, name: 'test', logger: pino({ level: 'silent' }) });
    await deleteFailures(pool);
    await pool.end();
    const { rows } = await admin.query(`select address from login_failures where address in ('a', 'b')`);
    expect(rows).toEqual([{ address: 'b' }]);
  });

  test('the email of a failed login is stored as a hash', async () => {
    const email = newEmail();
    await failures(1, email, newAddress());
    expect(JSON.stringify((await admin.query(`select *, encode(account, 'escape') from login_failures`)).rows)).not.toContain(email);
  });
});

describe('sessions', () => {
  const session = async () => (await login((await newUser(client)).email)).session!;
  const refresh = (refreshToken: string) => client.refresh({ refreshToken });
  const dead = async (refreshToken: string) =>
    expect(await refusal(refresh(refreshToken))).toMatchObject({ reason: 'unauthenticated', message: 'invalid refresh token' });

  test('a refresh token is exchanged for a new session of the same user', async () => {
    const user = await newUser(client);
    const first = (await login(user.email)).session!;
    const { session: second, user: found } = await refresh(first.refreshToken);
    expect(found).toEqual(user);
    expect(second!.refreshToken).not.toBe(first.refreshToken);
    expect(JSON.parse(Buffer.from(second!.token.split('.')[1]!, 'base64url').toString()).sub).toBe(user.id);
    await expect(refresh(second!.refreshToken)).resolves.toBeDefined();
  });

  test('a refresh token that is used again ends its whole family and no other', async () => {
    const user = await newUser(client);
    const [first, other] = [(await login(user.email)).session!, (await login(user.email)).session!];
    const { session: second } = await refresh(first.refreshToken);
    const { session: third } = await refresh(second!.refreshToken);
    await dead(first.refreshToken);
    await dead(third!.refreshToken);
    await expect(refresh(other.refreshToken)).resolves.toBeDefined();
  });

  test('of many exchanges of one refresh token at once exactly one wins', async () => {
    const { refreshToken } = await session();
    const answers = await Promise.allSettled(Array.from({ length: 8 }, () => refresh(refreshToken)));
    expect(answers.filter((answer) => answer.status === 'fulfilled')).toHaveLength(1);
    for (const answer of answers) {
      if (answer.status === 'rejected') expect(refusalOf(answer.reason)?.reason).toBe('unauthenticated');
    }
  });

  test('logging out ends the family, by any of its tokens, and answers the same the second time', async () => {
    const first = await session();
    const { session: second } = await refresh(first.refreshToken);
    expect(await client.logout({ refreshToken: first.refreshToken })).toEqual(await client.logout({ refreshToken: first.refreshToken }));
    await dead(second!.refreshToken);
    await expect(client.logout({ refreshToken: 'lrt_of nobody' })).resolves.toBeDefined();
  });

  test('a refresh token ends after 30 days', async () => {
    const { refreshToken } = await session();
    const { rows } = await admin.query('select expires_at - created_at = $1::interval as exact from refresh_tokens', ['30 days']);
    expect(rows.every((row) => row.exact)).toBe(true);
    await admin.query(`update refresh_tokens set expires_at = now() where spent_at is null`);
    await dead(refreshToken);
  });

  test('refresh tokens are stored as hashes', async () => {
    const { refreshToken } = await session();
    const { rows } = await admin.query('select * from refresh_tokens');
    expect(JSON.stringify(rows)).not.toContain(refreshToken);
    expect(identity.child.output()).not.toContain(refreshToken);
  });

  test('an empty or unknown refresh token is rejected', async () => {
    expect(await refusal(refresh(''))).toMatchObject({ reason: 'validation_failed', field: 'refresh_token', tag: 'required', value: '' });
    expect(await refusal(client.logout({}))).toMatchObject({ reason: 'validation_failed', field: 'refresh_token' });
    await dead('lrt_unknown\0');
  });
});

test.each(['user_', 'nobody', newId('user'), newId('key')])('there is no user %s', async (userId) => {
  expect((await refusal(client.getUser({ userId }))).reason).toBe('unauthenticated');
});

test('a log line has at most 100 characters of an unchecked identifier', async () => {
  const { id: userId } = await newUser(client);
  const tenantId = '\u0000'.repeat(5_000);
  expect(await refusal(client.verifyTenantMember({ userId, tenantId }))).toMatchObject({ reason: 'tenant_not_found' });
  const lines = await until(() => {
    const told = identity.child.output().split('\n');
    return Promise.resolve(told.some((line) => line.includes('VerifyTenantMember') && line.includes(userId)) && told);
  });
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(2_000);
});
