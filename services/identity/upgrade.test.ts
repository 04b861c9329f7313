// A database that the version before teams has filled, migrated in place and used on.
import { withClient } from '../../deploy/local/databases.ts';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { launchIdentity, newUser, password, refusal, startIdentity, type RunningIdentity } from '../../test/identity.ts';
import { migrate } from '../platform/migration.ts';
import { scopesOf } from '../platform/roles.ts';
import { migrations } from './migrations.ts';
import { migrationNames } from './schema.ts';

// What that version gave to its clients.
const [ada, grace, tenantId] = [
  'user_01m8mqeza4etp8eak3fc703kf4',
  'user_01m8mqezb0es89he1n8tvr6vby',
  'tenant_01m8mqezcde35s99hqxxe1n6e3',
] as const;
const refreshToken = 'lrt_iTqWxzzNgd011TvVnT636ZqoWywWdvWJg5qd6XpYa9M';
const key = 'lk_live_01m8mqezd0ee788d7saqqy4gp8_4zXo0Dzepa0HONmuTvSIDTLTtFohlOcv1epH6ldOIFt46KGO1';
const revoked = 'lk_live_01m8mqezdge3atedyay7k4cchf_o6iNilzO4lcEdnsImg0KwpX315cBZ3zZ9s3IE2uNhkH3rCpLv';

// What it kept of that. The times are set.
const rows = `
  insert into users values
    ('01a22977-7d44-76ac-872a-637b0e01cde4', 'Ada@example.com', 'Ada', 'Lovelace', 'active',
      '$argon2id$v=19$m=19456,t=2,p=1$RP4xMQM6NyrhgAG3ZTl1vQ$USItyv+kT5MeNY7gXMlkMhmsUYZGpW4gCl6k4wlZo9Q', '2026-01-31T12:00:00Z'),
    ('01a22977-7d60-7650-98b8-3546b7836d7e', 'grace@example.com', 'Grace', 'Hopper', 'active',
      '$argon2id$v=19$m=19456,t=2,p=1$6BrKTccuqWSZaEkokkimqA$Krj5Sbdn+Bp+I54jl5jRZ35Ie+Spi/HZyKVpqvxaII0', '2026-01-31T12:00:00Z');
  insert into sessions values
    ('01a22977-7d7a-75de-893b-86599174da00', '01a22977-7d44-76ac-872a-637b0e01cde4', '2026-01-31T12:00:00Z', '2100-01-01T00:00:00Z', null);
  insert into refresh_tokens values
    ('3187847182a5ed4e8d724733349575246b241b2f161b16d27b1cea1c7b431801', '01a22977-7d7a-75de-893b-86599174da00', '2026-01-31T12:00:00Z', '2100-01-01T00:00:00Z', null);
  insert into slugs values ('books', '01a22977-7d8d-70cb-94a6-37ef5c1a99c3');
  insert into tenants values ('01a22977-7d8d-70cb-94a6-37ef5c1a99c3', 'Books', 'books', 'wallet', null, 'active', '2026-01-31T12:00:00Z');
  insert into memberships values
    ('01a22977-7d8d-70cb-94a6-37ef5c1a99c3', '01a22977-7d44-76ac-872a-637b0e01cde4', 'owner', '2026-01-31T12:00:00Z'),
    ('01a22977-7d8d-70cb-94a6-37ef5c1a99c3', '01a22977-7d60-7650-98b8-3546b7836d7e', 'member', '2026-01-31T12:00:00Z');
  insert into api_keys values
    ('01a22977-7d8d-70cb-94a6-37ef5c1a99c3', '01a22977-7da0-738e-8434-f955efe242c8', 'till', null, '{transactions:write,limits:override}',
      '5026d838f08846a496d413e903b40894bcfaaaf84255f81712c8c08a53c18ceb', 'KGO1', '2026-01-31T12:00:00Z', '01a22977-7d44-76ac-872a-637b0e01cde4', null, null, null),
    ('01a22977-7d8d-70cb-94a6-37ef5c1a99c3', '01a22977-7db0-70d5-a737-caf1e646322f', 'old', null, '{accounts:read}',
      '303ba5d0d4df207f6e25f097116b792c0291d5015b64fc9453073e6192418cf1', 'CpLv', '2026-01-31T12:00:00Z', '01a22977-7d44-76ac-872a-637b0e01cde4', null, null, '2026-01-31T12:00:00Z')`;

let database: FreshDatabase;
let identity: RunningIdentity;
let client: RunningIdentity['client'];

beforeAll(async () => {
  database = await freshDatabase('identity');
  const before = { names: migrationNames.slice(0, 2), migrations: () => Promise.resolve(migrations.slice(0, 2)), appendOnly: ['slugs'] };
  await migrate(database.ownerUrl, database.serviceUrl, before);
  await withClient(database.adminUrl, (admin) => admin.query(rows));
  const env = { DATABASE_URL: database.serviceUrl, MIGRATION_DATABASE_URL: database.ownerUrl };
  const { child, end } = launchIdentity(env, ['migrate']);
  expect({ ...(await child.ended), output: child.output() }).toEqual({ code: 0, signal: null, output: '' });
  await end();
  identity = await startIdentity(database.serviceUrl);
  client = identity.client;
});

afterAll(async () => {
  await identity.end();
  await database.drop();
});

test('sessions go on: tokens without a session id, refresh tokens, passwords', async () => {
  expect(await client.verifyUser({ userId: ada, sessionId: '' })).toBeDefined();
  const { session, user } = await client.refresh({ refreshToken });
  expect(user).toMatchObject({ id: ada, email: 'Ada@example.com', emailVerified: false, totpEnabled: false });
  expect((await client.refresh({ refreshToken: session!.refreshToken })).user?.id).toBe(ada);
  expect((await client.login({ email: 'grace@example.com', password })).user?.id).toBe(grace);
});

test('keys go on: a valid one acts under its own id, a revoked one stays revoked, an owner manages them', async () => {
  const { verified } = await client.verifyApiKey({ key });
  const scopes = ['transactions:write', 'limits:override'];
  expect(verified).toMatchObject({ tenantId, tenantSlug: 'books', tenantStatus: 'active', actor: verified!.keyId, scopes });
  expect((await client.verifyApiKey({ key: revoked })).verified).toBeUndefined();
  const { apiKeys } = await client.listApiKeys({ userId: ada, tenantId });
  expect(apiKeys.map(({ name }) => name)).toEqual(['old', 'till']);
  const { key: next } = await client.rotateApiKey({ userId: ada, tenantId, keyId: verified!.keyId, overlapSeconds: 0 });
  expect((await client.verifyApiKey({ key })).verified).toBeUndefined();
  expect((await client.verifyApiKey({ key: next })).verified).toMatchObject({ scopes });
});

test('a member is a viewer, with the scopes of one, and the owner can promote it', async () => {
  const { members } = await client.listMembers({ userId: ada, tenantId });
  expect(Object.fromEntries(members.map(({ userId, role }) => [userId, role]))).toEqual({ [ada]: 'owner', [grace]: 'viewer' });
  expect((await client.createAccess({ userId: grace, tenantId })).scopes).toEqual(scopesOf('viewer'));
  expect((await refusal(client.createAccess({ userId: grace, tenantId, scopes: ['transactions:write'] }))).reason).toBe('forbidden');
  await client.updateMember({ userId: ada, tenantId, memberId: grace, role: 'accountant' });
  expect((await client.createAccess({ userId: grace, tenantId })).scopes).toEqual(scopesOf('accountant'));
});

test('the tenant is active, asks for no second factor, and its audit log begins with the first change', async () => {
  const { tenants } = await client.listTenants({ userId: ada });
  expect(tenants).toMatchObject([{ id: tenantId, status: 'active', requireTotp: false, role: 'owner' }]);
  const email = (await newUser(client)).email;
  const { invitation } = await client.createInvitation({ userId: ada, tenantId, email, role: 'viewer' });
  const { entries } = await client.listAudit({ userId: ada, tenantId });
  expect(entries[0]).toMatchObject({ type: 'invitation.created', subject: invitation!.id });
  expect(entries.at(-1)).toMatchObject({ sequence: 1n, previousHash: '0'.repeat(64) });
});

test('a process of that version, which still runs during the update, creates users, sessions and tenants', async () => {
  const more = rows
    .split(';')
    .filter((each) => !/into (refresh_tokens|api_keys)/.test(each))
    .join(';')
    .replaceAll("'01a22977-", "'01a22978-")
    .replaceAll(/(Ada|grace)@/g, '$1.later@')
    .replaceAll("'books'", "'books-later'")
    .replaceAll("'member'", "'owner'");
  await withClient(database.adminUrl, (admin) => admin.query(more));
});
