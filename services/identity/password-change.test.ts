import type pg from 'pg';
import { newTenant, newUser, password, refusal, useIdentity, type IdentityClient } from '../../test/identity.ts';
import type { User } from '../../proto/gen/identity/v1/identity_pb.js';
import { toUuid } from '../platform/ids.ts';

let client: IdentityClient;
let admin: pg.Client;

useIdentity((own) => ({ client, admin } = own));

const uuid = (user: User) => toUuid('user', user.id)!;

let lastAddress = 0;
const newAddress = () => `198.51.100.${++lastAddress}`;
const origin = () => ({ clientAddress: newAddress(), userAgent: 'test' });
const login = ({ email }: User, given = password, clientAddress = newAddress()) => client.login({ email, password: given, clientAddress });

async function auditOf(user: User): Promise<{ type: string; data: Record<string, unknown> }[]> {
  const { rows } = await admin.query('select type, data from user_audit where user_id = $1 order by sequence', [uuid(user)]);
  return rows.map(({ type, data }) => ({ type, data: JSON.parse(data) }));
}

describe('a new password', () => {
  const change = (userId: string, current: string, next: string, sessionId = '') =>
    client.changePassword({ userId, sessionId, current, password: next, origin: origin() });
  const sessionOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()).sid as string;

  test('ends all other sessions, with their access tokens, and keeps the one that made it', async () => {
    const user = await newUser(client);
    const [mine, other] = [(await login(user)).session!, (await login(user)).session!];
    const verify = (token: string) => client.verifyUser({ userId: user.id, sessionId: sessionOf(token) });
    await verify(other.token);
    await change(user.id, password, 'a new password', sessionOf(mine.token));
    await verify(mine.token);
    await client.refresh({ refreshToken: mine.refreshToken });
    expect(await refusal(verify(other.token))).toMatchObject({ reason: 'unauthenticated' });
    expect(await refusal(client.refresh({ refreshToken: other.refreshToken }))).toMatchObject({ reason: 'unauthenticated' });
    expect(await refusal(login(user))).toMatchObject({ reason: 'unauthenticated' });
    await login(user, 'a new password');
    expect((await auditOf(user)).filter(({ type }) => type === 'password.changed')).toEqual([{ type: 'password.changed', data: {} }]);
  });

  test('ends all access keys', async () => {
    const user = await newUser(client);
    const tenantId = await newTenant(client, user.id);
    const sessionIds = await Promise.all([1, 2].map(async () => sessionOf((await login(user)).session!.token)));
    const keys = await Promise.all(sessionIds.map((sessionId) => client.createAccess({ userId: user.id, tenantId, sessionId })));
    const verified = () => Promise.all(keys.map(async ({ key }) => (await client.verifyApiKey({ key })).verified !== undefined));
    expect(await verified()).toEqual([true, true]);
    await change(user.id, password, 'a new password', sessionIds[0]);
    expect(await verified()).toEqual([false, false]);
    await client.createAccess({ userId: user.id, tenantId, sessionId: sessionIds[0]! });
  });

  test.each(['', 'no uuid', '0192d5a0-0000-7000-8000-000000000000'])('from the session %p ends all of them', async (sessionId) => {
    const user = await newUser(client);
    const { session } = await login(user);
    await change(user.id, password, 'a new password', sessionId);
    expect(await refusal(client.refresh({ refreshToken: session!.refreshToken }))).toMatchObject({ reason: 'unauthenticated' });
  });

  test('needs the current one; wrong ones count as failed logins', async () => {
    const user = await newUser(client);
    const clientAddress = newAddress();
    const guess = () => client.changePassword({ userId: user.id, current: 'wrong', password: 'a new password', origin: { clientAddress } });
    for (let time = 0; time < 10; time += 1)
      expect(await refusal(guess())).toMatchObject({ reason: 'forbidden', message: 'wrong password' });
    expect(await refusal(guess())).toMatchObject({ reason: 'rate_limited', metadata: { policy: 'login', remaining: '0' } });
    expect(await refusal(login(user, password, clientAddress))).toMatchObject({ reason: 'rate_limited' });
    await login(user);
    expect((await auditOf(user)).filter(({ type }) => type === 'login.failed')[9]!.data).toEqual({
      reason: 'password',
      action: 'password.change',
    });
  });

  test('of two changes at once one wins', async () => {
    const user = await newUser(client);
    const answers = await Promise.allSettled([
      change(user.id, password, 'the first new one'),
      change(user.id, password, 'the other new one'),
    ]);
    expect(answers.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    await login(user, answers[0].status === 'fulfilled' ? 'the first new one' : 'the other new one');
  });

  test('that is set while an old one is being checked ends that login too', async () => {
    const user = await newUser(client);
    const logins = Array.from({ length: 6 }, () => login(user));
    await change(user.id, password, 'a new password');
    for (const answer of await Promise.allSettled(logins)) {
      if (answer.status === 'rejected') continue;
      const { refreshToken } = answer.value.session!;
      expect(await refusal(client.refresh({ refreshToken }))).toMatchObject({ reason: 'unauthenticated' });
    }
  });

  test('is not set by a user without one, who is shown the way', async () => {
    const user = await newUser(client);
    await admin.query('update users set password_hash = null where id = $1', [uuid(user)]);
    const message = expect.stringContaining('password reset');
    expect(await refusal(change(user.id, password, 'a new password'))).toMatchObject({ reason: 'forbidden', message });
    expect(await refusal(client.startTotp({ userId: user.id, password }))).toMatchObject({ reason: 'forbidden', message });
    expect(await refusal(login(user))).toMatchObject({ reason: 'unauthenticated', message: 'invalid email or password' });
  });
});
