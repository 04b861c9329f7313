import { randomBytes } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import type { FreshDatabase } from '../../../test/cluster.ts';
import {
  newEmail,
  newTenant,
  newUser,
  password,
  refusal,
  useIdentity,
  type IdentityClient,
  type RunningIdentity,
} from '../../../test/identity.ts';
import { until } from '../../../test/polling.ts';
import { toUuid } from '../../platform/ids.ts';
import { deleteMails } from '../retention.ts';

let database: FreshDatabase;
let identity: RunningIdentity;
let client: IdentityClient;
let admin: pg.Client;

useIdentity(
  (own) => ({ identity, client, admin, database } = own),
  () => ({
    PUBLIC_URL: 'https://ledger.example.com/base/',
    MAIL_FROM: 'Books <books@example.com>',
  }),
);

const login = (email: string, text = password) => client.login({ email, password: text });
const tokenFor = async (email: string, count = 1) => (await identity.mails(email, count)).at(-1)!.token;
const sessionOf = (jwt: string) => JSON.parse(Buffer.from(jwt.split('.')[1]!, 'base64url').toString()).sid as string;
const invalidToken = expect.objectContaining({ reason: 'token_invalid', field: 'token', value: '' });

/** Waits until no mail waits to be sent. */
const allSent = () =>
  until(
    async () => (await admin.query('select from mails where sent_at is null and failed_at is null')).rowCount,
    (waiting) => waiting === 0,
  );

describe('the verification of an address', () => {
  const sent = async () => {
    const user = await newUser(client);
    await client.sendVerificationEmail({ userId: user.id });
    return { user, token: await tokenFor(user.email) };
  };

  test('is by the link of a mail, as text and HTML', async () => {
    const { user, token } = await sent();
    const [mail] = await identity.mails(user.email);
    expect(mail).toMatchObject({ from: { name: 'Books', address: 'books@example.com' }, subject: 'Verify your email address' });
    expect(mail!.link.href).toBe(`https://ledger.example.com/base/mail/verify-email?token=${token}`);
    expect([...mail!.html!.matchAll(/https?:[^"<]+/g)].map(([link]) => link)).toEqual([mail!.link.href, mail!.link.href]);
    expect(mail!.text!.match(/https?:/g)).toHaveLength(1);
    expect(mail!.headers).toContainEqual(expect.objectContaining({ key: 'auto-submitted', value: 'auto-generated' }));
    expect(user.emailVerified).toBe(false);
    expect((await client.verifyEmail({ token })).user).toEqual({ ...user, emailVerified: true });
    expect((await client.getUser({ userId: user.id })).user!.emailVerified).toBe(true);
    const { rows } = await admin.query(
      'select type, actor, subject, data from user_audit where user_id = $1 order by sequence desc limit 1',
      [toUuid('user', user.id)],
    );
    expect(rows).toEqual([{ type: 'email.verified', actor: null, subject: user.id, data: JSON.stringify({ email: user.email }) }]);
  });

  test('sends nothing more once the address is verified', async () => {
    const { user, token } = await sent();
    await client.verifyEmail({ token });
    await client.sendVerificationEmail({ userId: user.id });
    expect((await admin.query('select from mails where email = $1', [user.email])).rowCount).toBe(1);
  });

  test('takes a token once, also of two uses at once', async () => {
    const { token } = await sent();
    const answers = await Promise.allSettled([1, 2, 3].map(() => client.verifyEmail({ token })));
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await refusal(client.verifyEmail({ token }))).toEqual(invalidToken);
  });

  test('takes no token that is unknown, expired, or of another kind', async () => {
    const { user, token } = await sent();
    await client.forgotPassword({ email: user.email });
    const other = await tokenFor(user.email, 2);
    expect(await refusal(client.verifyEmail({ token: other }))).toEqual(invalidToken);
    expect(await refusal(client.resetPassword({ token, password }))).toEqual(invalidToken);
    expect(await refusal(client.verifyEmail({ token: randomBytes(32).toString('hex') }))).toEqual(invalidToken);
    expect(await refusal(client.verifyEmail({ token: '' }))).toMatchObject({ field: 'token', tag: 'required' });
    await admin.query('update mails set expires_at = now() where email = $1', [user.email]);
    expect(await refusal(client.verifyEmail({ token }))).toEqual(invalidToken);
    expect((await client.getUser({ userId: user.id })).user!.emailVerified).toBe(false);
  });

  test('takes no token of an address that the user no longer has', async () => {
    const { user, token } = await sent();
    await admin.query('update users set email = $2 where id = $1', [toUuid('user', user.id), newEmail()]);
    expect(await refusal(client.verifyEmail({ token }))).toEqual(invalidToken);
  });

  test('is not for unknown users', async () => {
    for (const userId of ['', 'user_01jd1zq5v8e6n9w2k4m7p3r5t8']) {
      expect(await refusal(client.sendVerificationEmail({ userId }))).toMatchObject({ reason: 'unauthenticated' });
    }
  });
});

describe('a token', () => {
  test('is nowhere in the database, but its hash', async () => {
    const user = await newUser(client);
    await client.sendVerificationEmail({ userId: user.id });
    const token = await tokenFor(user.email);
    const { rows: tables } = await admin.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`,
    );
    expect(tables.length).toBeGreaterThan(10);
    for (const { name } of tables) {
      const { rowCount } = await admin.query(`select from ${name} as r where position($1 in r::text) > 0`, [token]);
      expect([name, rowCount]).toEqual([name, 0]);
    }
    const hashes = await admin.query(`select from mail_tokens where hash = encode(sha256(convert_to($1, 'UTF8')), 'hex')`, [token]);
    expect(hashes.rowCount).toBe(1);
  });

  test('of a mail that was sent twice is good once for both mails', async () => {
    const user = await newUser(client);
    await client.sendVerificationEmail({ userId: user.id });
    await identity.mails(user.email);
    // As after a crash between sending and recording.
    const again = () => admin.query('update mails set sent_at = null, next_attempt_at = now() where email = $1', [user.email]);
    await allSent();
    await again();
    const [first, second] = await identity.mails(user.email, 2);
    expect(first!.token).not.toBe(second!.token);
    expect(first!.messageId).toBe(second!.messageId);
    await allSent();
    await client.verifyEmail({ token: second!.token });
    expect(await refusal(client.verifyEmail({ token: first!.token }))).toEqual(invalidToken);
    // Used: a third mail is not sent.
    await admin.query('update users set email_verified_at = null where email = $1', [user.email]);
    await again();
    await allSent();
    expect(await identity.mails(user.email, 0)).toHaveLength(2);
  });

  test('and its mail are deleted when they have expired and no longer count', async () => {
    const user = await newUser(client);
    await client.sendVerificationEmail({ userId: user.id });
    await identity.mails(user.email);
    const rows = async () =>
      (await admin.query('select from mails join mail_tokens on mail_id = id where email = $1', [user.email])).rowCount;
    const pool = new pg.Pool({ connectionString: database.serviceUrl });
    await admin.query(`update mails set expires_at = now() - interval '1 s' where email = $1`, [user.email]);
    await deleteMails(pool);
    expect(await rows()).toBe(1);
    await admin.query(`update mails set created_at = now() - interval '61 min' where email = $1`, [user.email]);
    await deleteMails(pool);
    expect(await rows()).toBe(0);
    await pool.end();
  });
});

test('mails are files that only the service may read, named by time', async () => {
  const user = await newUser(client);
  await client.sendVerificationEmail({ userId: user.id });
  const [mail] = await identity.mails(user.email);
  expect(mail!.file).toMatch(/^20\d\d-\d\d-\d\dT\d{6}\.\d{3}Z-[0-9a-f-]{36}\.eml$/);
  const { mode } = await stat(join(identity.mailDirectory, mail!.file));
  expect(mode & 0o777).toBe(0o600);
  await allSent();
  expect((await readdir(identity.mailDirectory)).filter((name) => !name.endsWith('.eml'))).toEqual([]);
});

describe('the limit of mails', () => {
  test('is five an hour to an address, in any case and of all kinds together', async () => {
    const user = await newUser(client);
    const send = () => client.sendVerificationEmail({ userId: user.id });
    for (let count = 0; count < 3; count += 1) await client.forgotPassword({ email: user.email.toUpperCase() });
    await Promise.all([send(), send()]);
    expect(await refusal(send())).toMatchObject({
      reason: 'rate_limited',
      retryAfter: expect.any(Number),
      metadata: { policy: 'mail', quota: '5', window: '3600', remaining: '0' },
    });
    // Answered as ever, and nothing is sent.
    expect(await client.forgotPassword({ email: user.email })).toMatchObject({});
    await allSent();
    expect(await identity.mails(user.email, 5)).toHaveLength(5);
    await admin.query(`update mails set created_at = now() - interval '61 min' where lower(email) = $1`, [user.email]);
    await send();
  });

  test('holds for calls at once', async () => {
    const user = await newUser(client);
    const answers = await Promise.allSettled(Array.from({ length: 12 }, () => client.sendVerificationEmail({ userId: user.id })));
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
  });
});

describe('a forgotten password', () => {
  const forgotten = async () => {
    const user = await newUser(client);
    await client.forgotPassword({ email: user.email });
    return { user, token: await tokenFor(user.email) };
  };
  const next = 'a new password 2';

  test('is replaced by the token of a mail, once', async () => {
    const { user, token } = await forgotten();
    const [mail] = await identity.mails(user.email);
    expect([mail!.subject, mail!.link.pathname]).toEqual(['Reset your password', '/base/mail/reset-password']);
    await client.resetPassword({ token, password: next, origin: { clientAddress: '203.0.113.7', userAgent: 'test' } });
    expect(await refusal(login(user.email))).toMatchObject({ reason: 'unauthenticated' });
    await login(user.email, next);
    expect(await refusal(client.resetPassword({ token, password }))).toEqual(invalidToken);
    const { rows } = await admin.query(`select type, actor, address, data from user_audit where user_id = $1 and type = 'password.reset'`, [
      toUuid('user', user.id),
    ]);
    expect(rows).toEqual([{ type: 'password.reset', actor: null, address: '203.0.113.7', data: '{}' }]);
  });

  test('is replaced by one of two resets at once', async () => {
    const { user, token } = await forgotten();
    const texts = ['password one', 'password two'];
    const answers = await Promise.allSettled(texts.map((text) => client.resetPassword({ token, password: text })));
    const winners = texts.filter((_, index) => answers[index]!.status === 'fulfilled');
    expect(winners).toHaveLength(1);
    await login(user.email, winners[0]);
  });

  test('must be at least eight characters, and the token stays good', async () => {
    const { token } = await forgotten();
    expect(await refusal(client.resetPassword({ token, password: 'short' }))).toMatchObject({ field: 'password', tag: 'min', value: '' });
    await client.resetPassword({ token, password: next });
  });

  test('ends sessions, access keys in all tenants and other tokens, while second factor and API keys stay', async () => {
    const user = await newUser(client);
    const userId = user.id;
    const { session } = await login(user.email);
    const sid = sessionOf(session!.token);
    const tenants = [await newTenant(client, userId), await newTenant(client, userId)];
    const access = await Promise.all(tenants.map(async (tenantId) => (await client.createAccess({ userId, tenantId })).key));
    const { key } = await client.createApiKey({ userId, tenantId: tenants[0]!, name: 'till', scopes: ['accounts:read'] });
    const other = await newUser(client);
    const othersKey = (await client.createAccess({ userId: other.id, tenantId: await newTenant(client, other.id) })).key;
    await admin.query(`update users set totp_secret = 'x' where email = $1`, [user.email]);
    await client.forgotPassword({ email: user.email });
    await client.forgotPassword({ email: user.email });
    const [first, second] = await identity.mails(user.email, 2);
    const verified = (text: string) => client.verifyApiKey({ key: text }).then((answer) => answer.verified !== undefined);
    expect(await Promise.all([...access, key, othersKey].map(verified))).toEqual([true, true, true, true]);

    await client.resetPassword({ token: first!.token, password: next });
    expect(await Promise.all([...access, key, othersKey].map(verified))).toEqual([false, false, true, true]);
    expect(await refusal(client.refresh({ refreshToken: session!.refreshToken }))).toMatchObject({ reason: 'unauthenticated' });
    expect(await refusal(client.verifyUser({ userId, sessionId: sid }))).toMatchObject({ reason: 'unauthenticated' });
    expect(await refusal(client.resetPassword({ token: second!.token, password }))).toEqual(invalidToken);
    expect((await admin.query('select totp_secret from users where email = $1', [user.email])).rows).toEqual([{ totp_secret: 'x' }]);
  });

  test('leaves no access key that is made at the same moment', async () => {
    const user = await newUser(client);
    const userId = user.id;
    const tenantId = await newTenant(client, userId);
    for (let round = 1; round <= 3; round += 1) {
      const { session } = await login(user.email, round === 1 ? password : next);
      const sessionId = sessionOf(session!.token);
      await client.forgotPassword({ email: user.email });
      const token = await tokenFor(user.email, round);
      const keys: string[] = [];
      let isReset = false;
      const take = async () => {
        while (!isReset)
          await client.createAccess({ userId, tenantId, sessionId }).then(
            ({ key }) => keys.push(key),
            () => undefined,
          );
      };
      const taking = [take(), take()];
      await until(
        () => Promise.resolve(keys),
        (taken) => taken.length > 0,
      );
      await client.resetPassword({ token, password: next });
      isReset = true;
      await Promise.all(taking);
      expect(await refusal(client.createAccess({ userId, tenantId, sessionId }))).toMatchObject({ reason: 'unauthenticated' });
      const good = await Promise.all(keys.map(async (key) => (await client.verifyApiKey({ key })).verified));
      expect(good.filter((each) => each !== undefined)).toEqual([]);
    }
  });

  test('ends links to identity providers only where the address was not verified before', async () => {
    for (const [isVerified, links] of [
      [true, 1],
      [false, 0],
    ] as const) {
      const { user, token } = await forgotten();
      const id = toUuid('user', user.id);
      await admin.query('update users set email_verified_at = $2 where id = $1', [id, isVerified ? new Date() : null]);
      await admin.query(`insert into oidc_identities values ('https://issuer', $2, 'test', $1, now())`, [id, user.id]);
      await client.resetPassword({ token, password: next });
      expect((await admin.query('select from oidc_identities where user_id = $1', [id])).rowCount).toBe(links);
    }
  });

  test('is mailed to the address of the user, not to one that only compares equal', async () => {
    const user = await newUser(client);
    // The Kelvin sign, whose lower case is k.
    const email = `kim.${user.email}`;
    await admin.query('update users set email = $2 where id = $1', [toUuid('user', user.id), email]);
    await client.forgotPassword({ email: `\u212a${email.slice(1)}` });
    await identity.mails(email);
  });

  test('of an unknown email does the same in the database, answers the same, and sends nothing', async () => {
    const user = await newUser(client);
    const unknown = newEmail();
    const answers = await Promise.all([user.email, unknown].map((email) => client.forgotPassword({ email })));
    expect(answers[0]).toEqual(answers[1]);
    const rows = await admin.query(`select kind, user_id, data from mails where email = any($1)`, [[user.email, unknown]]);
    expect(rows.rows).toEqual([1, 2].map(() => ({ kind: 'reset', user_id: null, data: '{}' })));
    await identity.mails(user.email);
    await allSent();
    expect(await identity.mails(unknown, 0)).toEqual([]);
    expect(await identity.metric('identity_mails_total{result="skipped"')).toBeGreaterThan(0);
  });

  test('of no email is refused', async () => {
    expect(await refusal(client.forgotPassword({ email: 'ada' }))).toMatchObject({ field: 'email', tag: 'email' });
  });
});
