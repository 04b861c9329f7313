import { TOTP } from 'otpauth';
import type pg from 'pg';
import { pino } from 'pino';
import { withClient } from '../../../deploy/local/databases.ts';
import type { FreshDatabase } from '../../../test/cluster.ts';
import { newEmail, newUser, password, refusal, useIdentity, type IdentityClient } from '../../../test/identity.ts';
import { until } from '../../../test/polling.ts';
import { browserOf, type Browser, newSubject, person, startIssuer, type TestIssuer } from '../../../test/oidc-issuer.ts';
import { toUuid } from '../../platform/ids.ts';
import { openPool } from '../../platform/postgres.ts';
import { deleteCodes } from '../retention.ts';

// By another connection: within a transaction these statistics stand still.
const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;

let database: FreshDatabase;
let client: IdentityClient;
let admin: pg.Client;
let one: TestIssuer;
let browser: Browser;

beforeAll(async () => {
  one = await startIssuer();
});
useIdentity(
  (own) => ({ client, admin, database } = own),
  () => ({
    OIDC_PROVIDERS: JSON.stringify({ one: one.setting, two: one.setting }),
  }),
);
beforeAll(() => {
  browser = browserOf(client, one);
});
afterAll(() => one.close());

const usersOf = async (email: string) => (await admin.query(`select * from users where lower(email) = lower($1)`, [email])).rows;
const auditOf = async (userId: string) => {
  const { rows } = await admin.query(`select type, data from user_audit where user_id = $1 order by sequence`, [toUuid('user', userId)]);
  return rows.map(({ type, data }) => [type, JSON.parse(data)]);
};
const verify = (userId: string) => admin.query(`update users set email_verified_at = now() where id = $1`, [toUuid('user', userId)]);

describe('a code', () => {
  test('creates a user the first time, without a password, and logs the same user in afterwards, whatever the email is then', async () => {
    const email = newEmail();
    const claims = person(email);
    const { session, user } = await browser.exchange(await browser.codeFor(claims));
    expect(user).toMatchObject({ email, firstName: 'Grace', lastName: 'Hopper', status: 'active', emailVerified: true });
    expect((await client.refresh({ refreshToken: session!.refreshToken })).user!.id).toBe(user!.id);
    const again = await browser.exchange(await browser.codeFor({ ...claims, email: newEmail(), given_name: 'Other' }));
    expect(again.user).toEqual(user);
    expect(await auditOf(user!.id)).toEqual([
      ['user.registered', { provider: 'one' }],
      ['identity.linked', { provider: 'one', issuer: one.url }],
      ['login.succeeded', { method: 'oidc' }],
      ['login.succeeded', { method: 'oidc' }],
    ]);
    const { rows } = await admin.query('select password_hash from users where id = $1', [toUuid('user', user!.id)]);
    expect(rows).toEqual([{ password_hash: null }]);
    expect(await refusal(client.login({ email, password }))).toMatchObject({ reason: 'unauthenticated' });
  });

  test('names the user as the provider does, or after the whole name, or after the address', async () => {
    const long = 'x'.repeat(300);
    for (const [names, expected] of [
      [{ name: 'Ada King Lovelace' }, ['Ada', 'King Lovelace']],
      [{ name: 'Ada' }, ['Ada', '-']],
      [{ name: ' \n', given_name: 5 }, ['grace', '-']],
      [{ given_name: long, family_name: '😀'.repeat(300) }, [long.slice(0, 255), '😀'.repeat(255)]],
      [{ given_name: 'A\0da', family_name: ' \0 ' }, ['Ada', '-']],
    ] as const) {
      const claims = { sub: newSubject(), email: `grace@${newSubject()}.example.com`, ...names };
      const { user } = await browser.exchange(await browser.codeFor(claims));
      expect([user!.firstName, user!.lastName, user!.emailVerified]).toEqual([...expected, false]);
    }
  });

  test('takes the claims of userinfo where the ID token has no email', async () => {
    const { sub, ...rest } = person(newEmail());
    const { code } = await browser.login({ claims: { sub }, userinfo: { sub, ...rest } });
    expect((await browser.exchange(code)).user).toMatchObject({ email: rest.email, firstName: 'Grace', emailVerified: true });
    // Of another subject.
    expect(await browser.login({ claims: { sub }, userinfo: { ...rest, sub: 'another' } })).toMatchObject({ error: 'login_failed' });
    // An address is not verified by what is said about another.
    const unverified = newEmail();
    const mixedClaims = await browser.login({ claims: { sub: newSubject(), email: unverified }, userinfo: person(newEmail()) });
    expect((await browser.exchange(mixedClaims.code)).user).toMatchObject({ email: unverified, emailVerified: false });
  });

  test('of a new identity without an email that a user can have is rejected', async () => {
    for (const email of [5, 'no address', `${'x'.repeat(250)}@example.com`]) {
      const code = await browser.codeFor({ sub: newSubject(), email, email_verified: true });
      expect(await refusal(browser.exchange(code))).toMatchObject({
        reason: 'unauthenticated',
        message: expect.stringContaining('no email'),
      });
    }
  });

  test('joins the user with its email if both sides have verified it, and else none', async () => {
    for (const [ours, theirs] of [
      [false, false],
      [true, false],
      [false, true],
    ] as const) {
      const user = await newUser(client);
      if (ours) await verify(user.id);
      const claims = person(user.email, theirs);
      const code = await browser.codeFor(claims);
      expect(await refusal(browser.exchange(code))).toMatchObject({ reason: 'email_taken', field: 'code' });
      const { rows } = await admin.query('select count(*)::int from oidc_identities where subject = $1', [claims.sub]);
      expect([rows, (await usersOf(user.email)).length]).toEqual([[{ count: 0 }], 1]);
      // The user logs in with the password, and links it.
      expect((await client.linkOidc({ userId: user.id, provider: 'one', code })).user!.id).toBe(user.id);
      expect((await browser.exchange(await browser.codeFor(claims))).user!.id).toBe(user.id);
    }
    const user = await newUser(client);
    await verify(user.id);
    const claims = person(user.email.toUpperCase());
    expect((await browser.exchange(await browser.codeFor(claims))).user!.id).toBe(user.id);
    expect((await client.login({ email: user.email, password })).user!.id).toBe(user.id);
    expect((await auditOf(user.id)).map(([type]) => type)).toContain('identity.linked');
  });

  test('links nothing into a session that a new password has ended, and stays valid', async () => {
    const user = await newUser(client);
    const { session } = await client.login({ email: user.email, password });
    const { sid: sessionId } = JSON.parse(Buffer.from(session!.token.split('.')[1]!, 'base64url').toString()) as { sid: string };
    const code = await browser.codeFor(person(newEmail()));
    await client.changePassword({ userId: user.id, current: password, password: 'a new password' });
    const link = (given: string) => client.linkOidc({ userId: user.id, sessionId: given, provider: 'one', code });
    expect(await refusal(link(sessionId))).toMatchObject({ reason: 'unauthenticated' });
    expect((await auditOf(user.id)).map(([type]) => type)).not.toContain('identity.linked');
    await link('');
  });

  test('logs nobody in where a new password is set between the check and the session', async () => {
    const claims = person(newEmail());
    const { user } = await browser.exchange(await browser.codeFor(claims));
    const code = await browser.codeFor(claims);
    await admin.query('begin');
    await admin.query(`update users set password_hash = '$argon2id$' where id = $1`, [toUuid('user', user!.id)]);
    const exchange = refusal(browser.exchange(code));
    await until(
      () => withClient(database.adminUrl, (other) => other.query(waiting)),
      ({ rows }) => rows.length === 1,
    );
    await admin.query('commit');
    expect(await exchange).toMatchObject({ reason: 'unauthenticated', message: expect.stringContaining('new password') });
    await browser.exchange(await browser.codeFor(claims));
  });

  test('does not join an address that the database takes for the same, but a mail server does not', async () => {
    const host = `${newSubject()}.example.com`;
    const { user } = await client.register({ email: `ß@${host}`, password, firstName: 'K', lastName: 'K' });
    await verify(user!.id);
    expect(await refusal(browser.exchange(await browser.codeFor(person(`ẞ@${host}`))))).toMatchObject({ reason: 'email_taken' });
  });

  test('asks a user with a second factor for it, before and after the join, and stays valid until that is right', async () => {
    const user = await newUser(client);
    await verify(user.id);
    const { secret } = await client.startTotp({ userId: user.id, password });
    const { recoveryCodes } = await client.confirmTotp({ userId: user.id, code: new TOTP({ secret }).generate() });
    const claims = person(user.email);
    for (const recoveryCode of recoveryCodes.slice(0, 2)) {
      const code = await browser.codeFor(claims);
      expect(await refusal(browser.exchange(code))).toMatchObject({ reason: 'totp_required' });
      expect(await refusal(browser.exchange(code, 'AAAA-AAAA-AAAA-AAAA'))).toMatchObject({ reason: 'unauthenticated' });
      expect((await browser.exchange(code, recoveryCode)).user!.id).toBe(user.id);
      expect(await refusal(browser.exchange(code, recoveryCodes[3]))).toMatchObject({ reason: 'unauthenticated' });
    }
    const types = (await auditOf(user.id)).map(([type]) => type);
    expect(types.filter((type) => type === 'login.succeeded')).toHaveLength(2);
  });

  test('is good once, also for two exchanges at the same time', async () => {
    const code = await browser.codeFor(person(newEmail()));
    const both = await Promise.allSettled([browser.exchange(code), browser.exchange(code)]);
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await refusal(browser.exchange(code))).toMatchObject({ reason: 'unauthenticated' });
    const user = await newUser(client);
    expect(await refusal(client.linkOidc({ userId: user.id, provider: 'one', code }))).toMatchObject({ reason: 'unauthenticated' });
  });

  test('of one new identity, twice at the same time, creates one user', async () => {
    const claims = person(newEmail());
    const codes = await Promise.all([1, 2, 3, 4].map(() => browser.codeFor(claims)));
    const users = await Promise.all(codes.map((code) => browser.exchange(code)));
    expect(new Set(users.map(({ user }) => user!.id)).size).toBe(1);
    expect(await usersOf(claims.email)).toHaveLength(1);
  });

  test('of two identities with one new email, at the same time, creates one user, and joins no other', async () => {
    const email = newEmail();
    const codes = await Promise.all([1, 2].map(() => browser.codeFor(person(email, false))));
    const both = await Promise.allSettled(codes.map((code) => browser.exchange(code)));
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await usersOf(email)).toHaveLength(1);
  });

  test('ends after 60 seconds, and is deleted then', async () => {
    const code = await browser.codeFor(person(newEmail()));
    const kept = await browser.codeFor(person(newEmail()));
    const { rows } = await admin.query('select extract(epoch from expires_at - created_at)::int as seconds from oidc_codes');
    expect(new Set(rows.map(({ seconds }) => seconds))).toEqual(new Set([60]));
    await admin.query(`update oidc_codes set expires_at = now() - interval '1 ms' where hash = encode(sha256($1::bytea), 'hex')`, [code]);
    expect(await refusal(browser.exchange(code))).toMatchObject({ reason: 'unauthenticated' });
    const pool = openPool(database.serviceUrl, { max: 1, name: 'test', logger: pino({ level: 'silent' }) });
    await deleteCodes(pool);
    await pool.end();
    const left = await admin.query(`select count(*)::int from oidc_codes where hash = encode(sha256($1::bytea), 'hex')`, [code]);
    expect(left.rows).toEqual([{ count: 0 }]);
    await browser.exchange(kept);
  });
});

describe('a link', () => {
  test('joins an identity to the user, once, and a second one as well', async () => {
    const user = await newUser(client);
    const claims = person(newEmail());
    const link = async (given: Record<string, unknown>) =>
      client.linkOidc({ userId: user.id, provider: 'one', code: await browser.codeFor(given) });
    expect((await link(claims)).user).toMatchObject({ id: user.id, email: user.email, emailVerified: false });
    expect((await link(claims)).user!.id).toBe(user.id);
    await link(person(newEmail()));
    expect((await auditOf(user.id)).filter(([type]) => type === 'identity.linked')).toHaveLength(2);
    expect((await browser.exchange(await browser.codeFor(claims))).user!.id).toBe(user.id);
    expect(await usersOf(claims.email)).toEqual([]);
  });

  test('of an identity that another user has is rejected, and so is a code of another provider', async () => {
    const claims = person(newEmail());
    await browser.exchange(await browser.codeFor(claims));
    const user = await newUser(client);
    const link = async (provider: string, code: string) => refusal(client.linkOidc({ userId: user.id, provider, code }));
    expect(await link('one', await browser.codeFor(claims))).toMatchObject({ reason: 'email_taken', field: 'code' });
    expect(await link('two', await browser.codeFor(person(newEmail())))).toMatchObject({ reason: 'unauthenticated' });
    expect(await link('one', 'x')).toMatchObject({ reason: 'unauthenticated' });
  });
});
