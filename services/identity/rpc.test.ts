import { freshDatabase, type FreshDatabase } from '../../test/house.ts';
import { newEmail, newSlug, password, startIdentity, type RunningIdentity } from '../../test/identity.ts';

let database: FreshDatabase;
let identity: RunningIdentity;

beforeAll(async () => {
  database = await freshDatabase('identity', { migrated: true });
  identity = await startIdentity(database.serviceUrl);
});

afterAll(async () => {
  await identity.end();
  await database.drop();
});

test('a user registers, logs in, makes a tenant and a key, and the key is verified', async () => {
  const { client } = identity;
  const email = newEmail();
  const { user } = await client.register({ email, password, firstName: 'Ada', lastName: 'Lovelace' });
  expect(user).toMatchObject({ email, firstName: 'Ada', lastName: 'Lovelace', status: 'active' });
  const { session } = await client.login({ email, password, clientAddress: '192.0.2.1' });
  expect(session!.token.split('.')).toHaveLength(3);
  const slug = newSlug();
  const { tenant } = await client.createTenant({ userId: user!.id, name: 'Books', slug, businessType: 'wallet' });
  expect((await client.listTenants({ userId: user!.id })).tenants).toEqual([tenant]);
  const { key, apiKey } = await client.createApiKey({ userId: user!.id, tenantId: tenant!.id, name: 'till', scopes: ['accounts:read'] });
  const { verified } = await client.verifyApiKey({ key });
  expect(verified).toMatchObject({ keyId: apiKey!.id, tenantId: tenant!.id, tenantSlug: slug, scopes: ['accounts:read'] });
});
