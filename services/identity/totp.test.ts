import type pg from 'pg';
import type { FreshDatabase } from '../../test/cluster.ts';
import {
  encryptionKey,
  newEmail,
  newUser,
  password,
  refusal,
  startIdentity,
  useIdentity,
  type IdentityClient,
  type RunningIdentity,
} from '../../test/identity.ts';
import { newEncryptionKey } from '../../deploy/local/secrets.ts';
import type { User } from '../../proto/gen/identity/v1/identity_pb.js';
import { toUuid } from '../platform/ids.ts';
import { until } from '../../test/notifier.ts';
import { codeOf, enable, newFactorUser, wrongCode } from '../../test/second-factor.ts';
import { stepOfCode } from './totp.ts';

let database: FreshDatabase;
let identity: RunningIdentity;
let client: IdentityClient;
let admin: pg.Client;

useIdentity((own) => ({ identity, client, admin, database } = own));

let lastAddress = 0;
const newAddress = () => `198.51.100.${++lastAddress}`;
const origin = () => ({ clientAddress: newAddress(), userAgent: 'test' });

const login = ({ email }: User, totpCode?: string, given = password, clientAddress = newAddress()) =>
  client.login({ email, password: given, clientAddress, ...(totpCode !== undefined && { totpCode }) });

const uuid = (user: User) => toUuid('user', user.id)!;
/** Lets the current code be used again. */
const forgetStep = (user: User) => admin.query('update users set totp_step = null where id = $1', [uuid(user)]);
const row = async (user: User) => (await admin.query('select * from users where id = $1', [uuid(user)])).rows[0];

async function auditOf(user: User): Promise<{ type: string; data: Record<string, unknown> }[]> {
  const { rows } = await admin.query('select type, data from user_audit where user_id = $1 order by sequence', [uuid(user)]);
  return rows.map(({ type, data }) => ({ type, data: JSON.parse(data) }));
}

describe('codes', () => {
  // RFC 6238, appendix B, SHA-1: a code of six digits is the end of one of eight.
  const secret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ';
  test.each([
    [59, '94287082'],
    [1111111109, '07081804'],
    [1111111111, '14050471'],
    [1234567890, '89005924'],
    [2000000000, '69279037'],
    [20000000000, '65353130'],
  ])('at %d s the code is the one of RFC 6238, and good for a step before and after', (seconds, code) => {
    const step = Math.floor(seconds / 30);
    for (const off of [-30, 0, 30]) expect(stepOfCode(secret, code.slice(2), (seconds + off) * 1000)).toBe(step);
    for (const off of [-60, 60]) expect(stepOfCode(secret, code.slice(2), (seconds + off) * 1000)).toBeNull();
    expect(stepOfCode(secret, code.slice(2, 7), seconds * 1000)).toBeNull();
  });
});

describe('turning it on', () => {
  test('gives a secret and its URL, and works once a code confirms it', async () => {
    const user = await newUser(client);
    const { secret, otpauthUrl } = await client.startTotp({ userId: user.id, password, origin: origin() });
    expect(secret).toMatch(/^[A-Z2-7]{32}$/);
    const label = encodeURIComponent(user.email);
    expect(otpauthUrl).toBe(`otpauth://totp/Ledger:${label}?issuer=Ledger&secret=${secret}&algorithm=SHA1&digits=6&period=30`);
    await login(user);
    expect((await client.getUser({ userId: user.id })).user!.totpEnabled).toBe(false);

    const { recoveryCodes } = await client.confirmTotp({ userId: user.id, code: codeOf(secret), origin: origin() });
    expect(new Set(recoveryCodes).size).toBe(10);
    for (const code of recoveryCodes) expect(code).toMatch(/^[a-z2-7]{4}(-[a-z2-7]{4}){3}$/);
    expect((await client.getUser({ userId: user.id })).user!.totpEnabled).toBe(true);
    expect(await refusal(login(user))).toMatchObject({ reason: 'totp_required' });
    expect((await login(user, codeOf(secret, 1))).user!.totpEnabled).toBe(true);
  });

  test('neither the secret nor the recovery codes can be read from the database or the log', async () => {
    const { user, secret, recoveryCodes } = await newFactorUser(client);
    const stored = await admin.query('select * from recovery_codes where user_id = $1', [uuid(user)]);
    const values = [Object.values(await row(user)).map(String), stored.rows, await auditOf(user)];
    const text = JSON.stringify(values) + identity.child.output();
    expect(stored.rows).toHaveLength(10);
    for (const hidden of [secret, ...recoveryCodes, ...recoveryCodes.map((code) => code.replaceAll('-', '')), password])
      expect(text).not.toContain(hidden);
  });

  test('a second start replaces the secret, as long as it is not confirmed', async () => {
    const user = await newUser(client);
    const first = await client.startTotp({ userId: user.id, password, origin: origin() });
    const { secret } = await client.startTotp({ userId: user.id, password, origin: origin() });
    const confirm = (code: string) => client.confirmTotp({ userId: user.id, code, origin: origin() });
    expect(await refusal(confirm(codeOf(first.secret)))).toMatchObject({ reason: 'forbidden', message: 'wrong code' });
    await confirm(codeOf(secret));
    const again = client.startTotp({ userId: user.id, password, origin: origin() });
    expect(await refusal(again)).toMatchObject({ reason: 'forbidden', message: expect.stringContaining('is on') });
    expect(await refusal(confirm(codeOf(secret)))).toMatchObject({ reason: 'forbidden', message: expect.stringContaining('is on') });
  });

  test('of two confirmations at once one wins and gives recovery codes that work', async () => {
    const user = await newUser(client);
    const { secret } = await client.startTotp({ userId: user.id, password, origin: origin() });
    const confirm = () => client.confirmTotp({ userId: user.id, code: codeOf(secret), origin: origin() });
    const answers = await Promise.allSettled([confirm(), confirm(), confirm()]);
    const won = answers.filter((answer) => answer.status === 'fulfilled');
    expect(won).toHaveLength(1);
    await login(user, won[0]!.value.recoveryCodes[3]);
  });

  test('needs the password, and something to confirm', async () => {
    const user = await newUser(client);
    const start = client.startTotp({ userId: user.id, password: 'wrong', origin: origin() });
    expect(await refusal(start)).toMatchObject({ reason: 'forbidden', message: 'wrong password' });
    const confirm = client.confirmTotp({ userId: user.id, code: '123456', origin: origin() });
    expect(await refusal(confirm)).toMatchObject({ reason: 'forbidden', message: expect.stringContaining('no second factor to confirm') });
  });

  test.each([
    ['startTotp', { password: '' }, 'password', 'required'],
    ['startTotp', { password: 'x'.repeat(129) }, 'password', 'max'],
    ['confirmTotp', { code: '' }, 'code', 'required'],
    ['confirmTotp', { code: '1'.repeat(65) }, 'code', 'max'],
    ['deleteTotp', { password: '', code: '123456' }, 'password', 'required'],
    ['deleteTotp', { password, code: '' }, 'code', 'required'],
    ['changePassword', { current: '', password }, 'current', 'required'],
    ['changePassword', { current: password, password: 'short' }, 'password', 'min'],
  ] as const)('%s with %j names %s and %s, without the value', async (call, fields, field, tag) => {
    const { id: userId } = await newUser(client);
    const send = client[call] as (request: object) => Promise<unknown>;
    expect(await refusal(send({ userId, origin: origin(), ...fields }))).toMatchObject({
      reason: 'validation_failed',
      field,
      tag,
      value: '',
    });
  });

  test.each(['startTotp', 'confirmTotp', 'deleteTotp', 'changePassword'] as const)('%s of an unknown user is refused', async (call) => {
    const send = client[call] as (request: object) => Promise<unknown>;
    const given = { userId: 'user_01jd1zq5v8e6n9w2k4m7p3r5t8', password, current: password, code: '123456' };
    expect(await refusal(send(given))).toMatchObject({ reason: 'unauthenticated' });
  });
});

describe('a login', () => {
  test('of a user without a second factor is as before, also with a code', async () => {
    const user = await newUser(client);
    for (const code of [undefined, '123456']) expect((await login(user, code)).session!.token).toMatch(/^ey/);
    expect((await auditOf(user)).map(({ type }) => type)).toEqual(['user.registered', 'login.succeeded', 'login.succeeded']);
  });

  test('of a user of the version before is as before, and such a user turns on a second factor', async () => {
    const old = await row(await newUser(client));
    const columns = ['first_name', 'last_name', 'status', 'password_hash', 'created_at'];
    const email = newEmail();
    const values = [email, ...columns.map((name) => old[name])];
    await admin.query(`insert into users (id, email, ${columns.join()}) values (gen_random_uuid(), $1, $2, $3, $4, $5, $6)`, values);
    const { user } = await client.login({ email, password });
    expect(user).toMatchObject({ emailVerified: false, totpEnabled: false });
    const { secret } = await enable(client, user!);
    expect(await refusal(login(user!))).toMatchObject({ reason: 'totp_required' });
    await login(user!, codeOf(secret, 1));
  });

  test('with the code of the confirmation is refused: a code is good once', async () => {
    const { user, secret } = await newFactorUser(client);
    expect(await refusal(login(user, codeOf(secret)))).toMatchObject({ reason: 'unauthenticated' });
    const next = codeOf(secret, 1);
    await login(user, next);
    expect(await refusal(login(user, next))).toMatchObject({ reason: 'unauthenticated' });
    // Not either the one before it, which was never used.
    expect(await refusal(login(user, codeOf(secret)))).toMatchObject({ reason: 'unauthenticated' });
  });

  test('that comes several times at once with one code, to two replicas, succeeds once', async () => {
    const { user, secret } = await newFactorUser(client);
    const other = await startIdentity(database.serviceUrl);
    try {
      const code = codeOf(secret, 1);
      const attempts = [client, other.client, client, other.client, client].map((each) =>
        each.login({ email: user.email, password, clientAddress: newAddress(), totpCode: code }),
      );
      const answers = await Promise.allSettled(attempts);
      expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    } finally {
      await other.end();
    }
  });

  test('takes blanks in a code, and each recovery code once, in any case and without hyphens', async () => {
    const { user, secret, recoveryCodes } = await newFactorUser(client);
    await login(user, codeOf(secret, 1).replace(/^.../, '$& '));
    const [first = '', second = '', third = ''] = recoveryCodes;
    await login(user, first);
    expect(await refusal(login(user, first))).toMatchObject({ reason: 'unauthenticated' });
    await login(user, second.toUpperCase().replaceAll('-', ''));
    const answers = await Promise.allSettled([login(user, third), login(user, third)]);
    expect(answers.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect((await auditOf(user)).filter(({ type }) => type === 'recovery_code.used').map(({ data }) => data)).toEqual([
      { remaining: 9 },
      { remaining: 8 },
      { remaining: 7 },
    ]);
  });

  test('with another user’s code or recovery code is refused', async () => {
    const [mine, other] = [await newFactorUser(client), await newFactorUser(client)];
    expect(await refusal(login(mine.user, codeOf(other.secret, 1)))).toMatchObject({ reason: 'unauthenticated' });
    expect(await refusal(login(mine.user, other.recoveryCodes[0]))).toMatchObject({ reason: 'unauthenticated' });
    await login(other.user, other.recoveryCodes[0]);
  });

  test('with a wrong password is refused the same with and without a second factor, and does not use the code up', async () => {
    const { user, secret } = await newFactorUser(client);
    const plain = await newUser(client);
    const code = codeOf(secret, 1);
    const [one, two] = [await refusal(login(user, code, 'wrong')), await refusal(login(plain, undefined, 'wrong'))];
    expect(one).toEqual(two);
    expect(one).toMatchObject({ reason: 'unauthenticated', message: 'invalid email or password' });
    await login(user, code);
  });

  test('with a wrong code counts as a failed login and is in the audit log, one without a code does not', async () => {
    const { user, secret } = await newFactorUser(client);
    const address = newAddress();
    for (let time = 0; time < 3; time += 1)
      expect(await refusal(login(user, undefined, password, address))).toMatchObject({ reason: 'totp_required' });
    const failed = await refusal(login(user, wrongCode(secret), password, address));
    expect(failed).toMatchObject({ reason: 'unauthenticated', metadata: { policy: 'login', quota: '10', remaining: '9' } });
    expect((await auditOf(user)).filter(({ type }) => type === 'login.failed').map(({ data }) => data)).toEqual([{ reason: 'totp_code' }]);
    expect(await refusal(login(user, '', password, address))).toMatchObject({
      reason: 'validation_failed',
      field: 'totp_code',
      tag: 'required',
    });
  });

  test('of many addresses that guess ten codes are answered, and then none is, right ones included', async () => {
    const { user, secret, recoveryCodes } = await newFactorUser(client);
    const guesses = Array.from({ length: 14 }, () => refusal(login(user, wrongCode(secret))));
    const answers = await Promise.all(guesses);
    const remaining = answers.filter(({ reason }) => reason === 'unauthenticated').map(({ metadata }) => Number(metadata!['remaining']));
    expect(remaining.sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const reasons = answers.map(({ reason }) => reason).sort();
    expect(reasons).toEqual([...Array<string>(4).fill('rate_limited'), ...Array<string>(10).fill('unauthenticated')]);
    const limited = await refusal(login(user, codeOf(secret, 1)));
    expect(limited).toMatchObject({ reason: 'rate_limited', metadata: { policy: 'login' } });
    expect(limited.retryAfter).toBeGreaterThan(0);
    expect(await refusal(login(user, recoveryCodes[0]))).toMatchObject({ reason: 'rate_limited' });
    // They have used up nothing.
    await admin.query('delete from login_failures');
    await login(user, codeOf(secret, 1));
    await login(user, recoveryCodes[0]);
  });

  test('after the database’s clock was set back waits for its next step, while recovery codes work', async () => {
    const { user, secret, recoveryCodes } = await newFactorUser(client);
    await admin.query('update users set totp_step = totp_step + 100 where id = $1', [uuid(user)]);
    expect(await refusal(login(user, codeOf(secret, 1)))).toMatchObject({ reason: 'unauthenticated' });
    await login(user, recoveryCodes[0]);
  });
});

describe('keys of encryption', () => {
  test('a secret of the key before is encrypted with the new one at the next login; without its key recovery codes still work', async () => {
    const { user, secret, recoveryCodes } = await newFactorUser(client);
    const newKey = newEncryptionKey();
    const keyOfSecret = async () => (await row(user)).totp_secret.split(':')[0];
    const rotated = await startIdentity(database.serviceUrl, { IDENTITY_ENCRYPTION_KEY: `${newKey},${encryptionKey}` });
    try {
      expect(await keyOfSecret()).toBe(encryptionKey.split(':')[0]);
      await rotated.client.login({ email: user.email, password, totpCode: codeOf(secret, 1) });
      expect(await keyOfSecret()).toBe(newKey.split(':')[0]);
      await forgetStep(user);
      await rotated.client.login({ email: user.email, password, totpCode: codeOf(secret, 1) });
    } finally {
      await rotated.end();
    }
    await forgetStep(user);
    await expect(login(user, codeOf(secret, 1))).rejects.toThrow('internal');
    const line = `encrypted with key ${newKey.split(':')[0]}, which IDENTITY_ENCRYPTION_KEY does not name`;
    await until(async () => identity.child.output().includes(line));
    expect(identity.child.output()).not.toContain(secret);
    await login(user, recoveryCodes[0]);
  });

  test('a secret that was copied to another user does not work', async () => {
    const [mine, other] = [await newFactorUser(client), await newFactorUser(client)];
    await admin.query('update users set totp_secret = $1, totp_step = null where id = $2', [
      (await row(mine.user)).totp_secret,
      uuid(other.user),
    ]);
    await expect(login(other.user, codeOf(mine.secret, 1))).rejects.toThrow('internal');
  });
});

describe('turning it off', () => {
  const turnOff = ({ id: userId }: User, code: string, given = password) =>
    client.deleteTotp({ userId, password: given, code, origin: origin() });

  test('needs password and code, after which login asks for none and old recovery codes are gone', async () => {
    const { user, secret, recoveryCodes } = await newFactorUser(client);
    expect(await refusal(turnOff(user, codeOf(secret, 1), 'wrong'))).toMatchObject({ reason: 'forbidden', message: 'wrong password' });
    expect(await refusal(turnOff(user, wrongCode(secret)))).toMatchObject({ reason: 'forbidden', message: 'wrong code' });
    // Used by the confirmation.
    expect(await refusal(turnOff(user, codeOf(secret)))).toMatchObject({ reason: 'forbidden', message: 'wrong code' });
    await turnOff(user, codeOf(secret, 1));
    await login(user);
    expect(await refusal(turnOff(user, recoveryCodes[0]!))).toMatchObject({
      reason: 'forbidden',
      message: expect.stringContaining('no second factor'),
    });
    expect(await row(user)).toMatchObject({ totp_secret: null, totp_pending: null, totp_step: null });
    const entries = await auditOf(user);
    expect(entries.map(({ type }) => type)).toEqual([
      'user.registered',
      'totp.enabled',
      ...['login.failed', 'login.failed', 'login.failed'],
      'totp.disabled',
      'login.succeeded',
    ]);
    expect(entries[2]!.data).toEqual({ reason: 'password', action: 'totp.delete' });
    expect(entries[3]!.data).toEqual({ reason: 'totp_code', action: 'totp.delete' });

    const again = await enable(client, user);
    expect(await refusal(login(user, recoveryCodes[1]))).toMatchObject({ reason: 'unauthenticated' });
    await login(user, again.recoveryCodes[0]);
  });

  test('works with a recovery code', async () => {
    const { user, recoveryCodes } = await newFactorUser(client);
    await turnOff(user, recoveryCodes[9]!);
    await login(user);
  });
});
