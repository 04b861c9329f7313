// The operator's SQL for members who are locked out, as the runbook has it.
import { readFileSync } from 'node:fs';
import { withClient } from '../../deploy/local/databases.ts';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { newTenant, newUser, password, refusal, startIdentity, type RunningIdentity } from '../../test/identity.ts';
import { addMember } from '../../test/members.ts';
import { newFactorUser } from '../../test/second-factor.ts';

const page = readFileSync('gateway/docs/operate/troubleshooting.md', 'utf8');
const section = page.split('\n## ').find((text) => text.startsWith('A member is locked out\n')) ?? '';
const [withoutFactor = '', newOwner = ''] = [...section.matchAll(/```sql\n(.*?)```/gs)].map(([, sql]) => sql);

let database: FreshDatabase;
let identity: RunningIdentity;
let client: RunningIdentity['client'];

beforeAll(async () => {
  database = await freshDatabase('identity', { migrated: true });
  identity = await startIdentity(database.serviceUrl);
  client = identity.client;
});

afterAll(async () => {
  await identity.end();
  await database.drop();
});

const run = (sql: string) => withClient(database.ownerUrl, (owner) => owner.query(sql));

test('who has lost authenticator and recovery codes logs in with the password, and sets up another', async () => {
  const [{ user }, other] = [await newFactorUser(client), await newFactorUser(client)];
  const login = ({ email }: typeof user) => client.login({ email, password });
  expect(await refusal(login(user))).toMatchObject({ reason: 'totp_required' });
  await run(withoutFactor.replace('bob@example.com', user.email.toUpperCase()));
  expect((await login(user)).user?.totpEnabled).toBe(false);
  expect((await client.startTotp({ userId: user.id, password })).secret).not.toBe('');
  expect(await refusal(login(other.user))).toMatchObject({ reason: 'totp_required' });
});

test('a tenant whose only owner has left gets another', async () => {
  const [owner, member] = [await newUser(client), await newUser(client)];
  const [tenantId, others] = [await newTenant(client, owner.id), await newTenant(client, owner.id)];
  for (const each of [tenantId, others]) await addMember(database.adminUrl, each, member.id, 'viewer');
  const { tenants } = await client.listTenants({ userId: owner.id });
  const { slug } = tenants.find(({ id }) => id === tenantId)!;
  await run(newOwner.replace('ada-pay', slug).replace('bob@example.com', member.email));
  await client.removeMember({ userId: member.id, tenantId, memberId: owner.id });
  const { members } = await client.listMembers({ userId: member.id, tenantId });
  expect(members.map(({ userId, role }) => [userId, role])).toEqual([[member.id, 'owner']]);
  const elsewhere = await client.listMembers({ userId: owner.id, tenantId: others });
  expect(elsewhere.members.find(({ userId }) => userId === member.id)?.role).toBe('viewer');
});

test('an identity that the user did not link is removed, and no other', async () => {
  const [unlink = ''] = [...page.matchAll(/```sql\n(delete from oidc_identities.*?)```/gs)].map(([, sql]) => sql);
  const [user, other] = [await newUser(client), await newUser(client)];
  for (const each of [user, other]) {
    await run(
      `insert into oidc_identities select 'https://corp.example', '${each.id}', 'corp', id, now() from users where email = '${each.email}'`,
    );
  }
  await run(unlink.replace('bob@example.com', user.email));
  expect((await run('select subject from oidc_identities')).rows).toEqual([{ subject: other.id }]);
});
