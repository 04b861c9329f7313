import type pg from 'pg';
import { withClient } from '../../deploy/local/databases.ts';
import type { FreshDatabase } from '../../test/cluster.ts';
import { newTenant, newUser, password, useIdentity, type IdentityClient } from '../../test/identity.ts';
import { addMember, verifyEmail } from '../../test/members.ts';
import { until } from '../../test/polling.ts';
import type { User } from '../../proto/gen/identity/v1/identity_pb.js';
import { refusalOf } from '../platform/caller.ts';
import { toUuid } from '../platform/ids.ts';
import { hashOf, newToken } from './credentials.ts';

// By another connection: within a transaction these statistics stand still.
const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;

let database: FreshDatabase;
let client: IdentityClient;
let admin: pg.Client;

useIdentity((own) => ({ database, client, admin } = own));

let lastAddress = 0;
const origin = () => ({ clientAddress: `198.51.${++lastAddress >> 8}.${lastAddress & 255}`, userAgent: 'test' });

/** Tokens of as many mails, which count for no limit. */
async function resetTokens({ email }: User, count: number): Promise<string[]> {
  const tokens = Array.from({ length: count }, newToken);
  await admin.query(
    `with sent as (
       insert into mails (id, kind, email, data, created_at, expires_at, next_attempt_at, attempts, sent_at)
       select gen_random_uuid(), 'reset', $1, '{}', now() - interval '2 h', now() + interval '1 h', now(), 1, now() from generate_series(1, $3)
       returning id)
     insert into mail_tokens (hash, mail_id, created_at)
     select hash, id, now() from (select id, row_number() over () as n from sent) m join unnest($2::text[]) with ordinality t (hash, n) using (n)`,
    [email, tokens.map(hashOf), count],
  );
  return tokens;
}
const reset = (token: string) => client.resetPassword({ token, password, origin: origin() });
const outcome = (call: Promise<unknown>) =>
  call.then(
    () => 'done',
    (error: unknown) => refusalOf(error)?.reason ?? String(error),
  );
async function sessionOf({ email }: User): Promise<string> {
  const { session } = await client.login({ email, password, ...origin() });
  return (JSON.parse(Buffer.from(session!.token.split('.')[1]!, 'base64url').toString()) as { sid: string }).sid;
}

test('of two tokens of one user that are used at once, one resets the password', async () => {
  const user = await newUser(client);
  const [one = '', other = ''] = await resetTokens(user, 2);
  await admin.query('begin');
  await admin.query('select from users where id = $1 for update', [toUuid('user', user.id)]);
  const both = Promise.all([outcome(reset(one)), outcome(reset(other))]);
  await until(
    () => withClient(database.adminUrl, (other) => other.query(waiting)),
    ({ rows }) => rows.length === 2,
  );
  await admin.query('commit');
  expect((await both).sort()).toEqual(['done', 'token_invalid']);
});

test('no access key outlives the reset of a password, however many are asked for meanwhile', async () => {
  const user = await newUser(client);
  const tenantId = await newTenant(client, user.id);
  const keys: string[] = [];
  for (let round = 0; round < 5; round += 1) {
    const sessionId = await sessionOf(user);
    const [token = ''] = await resetTokens(user, 1);
    const end = new AbortController();
    const asking = Array.from({ length: 3 }, async () => {
      while (!end.signal.aborted)
        await client.createAccess({ userId: user.id, tenantId, sessionId }).then(({ key }) => keys.push(key), refusalOf);
    });
    await reset(token).finally(() => setTimeout(() => end.abort(), 100));
    await Promise.all(asking);
  }
  const verified = await Promise.all(keys.map((key) => client.verifyApiKey({ key })));
  expect(verified.filter((each) => each.verified)).toEqual([]);
  expect(keys).not.toEqual([]);
});

test('calls of all kinds at once end in no deadlock', async () => {
  const users = await Promise.all(Array.from({ length: 3 }, () => newUser(client)));
  const [first, second] = users as [User, User, User];
  const tenants = [await newTenant(client, first.id), await newTenant(client, second.id)];
  for (const user of users) {
    await verifyEmail(database.adminUrl, user.id);
    for (const tenantId of tenants) await addMember(database.adminUrl, tenantId, user.id, 'owner').catch(() => undefined);
  }
  const pick = <Item>(list: readonly Item[]): Item => list[Math.floor(Math.random() * list.length)]!;
  const call = () => ({ userId: pick(users).id, tenantId: pick(tenants), origin: origin() });
  const calls = [
    () => client.createAccess(call()),
    () => client.createApiKey({ ...call(), name: 'key', scopes: ['accounts:read'] }),
    () => client.updateMember({ ...call(), memberId: pick(users).id, role: pick(['owner', 'admin']) }),
    () => client.createInvitation({ ...call(), email: `x${pick(users).email}`, role: 'viewer' }),
    () => client.suspendTenant(call()),
    () => client.resumeTenant(call()),
    () => client.login({ email: pick(users).email, password, ...origin() }),
    () => client.login({ email: pick(users).email, password: 'wrong password', clientAddress: pick(['203.0.113.7', '203.0.113.8']) }),
    () => client.changePassword({ userId: pick(users).id, current: password, password, origin: origin() }),
    async () => {
      const { refreshToken } = (await client.login({ email: pick(users).email, password, ...origin() })).session!;
      await Promise.all([outcome(client.refresh({ refreshToken })), outcome(client.refresh({ refreshToken }))]);
    },
    async () => {
      const tokens = await resetTokens(pick(users), 2);
      await Promise.all(tokens.map((token) => outcome(reset(token))));
    },
  ];
  const seen = new Set<string>();
  const end = Date.now() + 8_000;
  const caller = async () => {
    while (Date.now() < end) seen.add(await outcome(pick(calls)()));
  };
  await Promise.all(Array.from({ length: 16 }, caller));
  expect([seen.has('done'), seen.has('unavailable')]).toEqual([true, false]);
  const { rows } = await admin.query('select deadlocks::int from pg_stat_database where datname = current_database()');
  expect(rows).toEqual([{ deadlocks: 0 }]);
});
