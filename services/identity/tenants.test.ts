import { withClient } from '../../deploy/local/databases.ts';
import { until } from '../../test/polling.ts';
import type { FreshDatabase } from '../../test/cluster.ts';
import { newSlug, newTenant, newUser, refusal, useIdentity, type IdentityClient } from '../../test/identity.ts';
import { refusalOf } from '../platform/caller.ts';
import { newId, toUuid } from '../platform/ids.ts';

let database: FreshDatabase;
let client: IdentityClient;
let userId: string;

useIdentity((own) => ({ client, database } = own));
beforeAll(async () => {
  userId = (await newUser(client)).id;
});

const books = { name: 'Books', businessType: 'wallet' };

test('a new tenant is active, keeps what was sent, and its creator is its owner', async () => {
  const slug = newSlug();
  const { tenant } = await client.createTenant({ userId, ...books, slug, description: 'of Ada' });
  expect(tenant).toMatchObject({ name: 'Books', slug, businessType: 'wallet', description: 'of Ada', status: 'active' });
  expect(tenant!.id).toMatch(/^tenant_[0-9a-z]{26}$/);
  expect(await client.verifyTenantMember({ userId, tenantId: tenant!.id })).toMatchObject({ role: 'owner' });
});

test('a slug is taken once, by any user', async () => {
  const slug = newSlug();
  const { tenant } = await client.createTenant({ userId, ...books, slug });
  const other = await newUser(client);
  for (const user of [userId, other.id]) {
    expect(await refusal(client.createTenant({ userId: user, ...books, slug }))).toMatchObject({
      reason: 'slug_taken',
      field: 'slug',
      value: slug,
    });
  }
  // The refused attempts left nothing behind.
  expect((await client.listTenants({ userId: other.id })).tenants).toEqual([]);
  expect((await client.listTenants({ userId, limit: 1 })).tenants).toEqual([tenant]);
});

test('of tenants made with one slug at once one wins', async () => {
  const slug = newSlug();
  const answers = await Promise.allSettled(Array.from({ length: 5 }, () => client.createTenant({ userId, ...books, slug })));
  expect(answers.filter((answer) => answer.status === 'fulfilled')).toHaveLength(1);
  for (const answer of answers) {
    if (answer.status === 'rejected') expect(refusalOf(answer.reason)?.reason).toBe('slug_taken');
  }
});

test.each([
  ['name', 'required', { name: '' }],
  ['slug', 'slug', { slug: 'A-b-c' }],
  ['business_type', 'oneof', { businessType: 'Wallet' }],
  ['description', 'max', { description: 'x'.repeat(1001) }],
])('%s is rejected with the tag %s', async (field, tag, change) => {
  const info = await refusal(client.createTenant({ userId, ...books, slug: newSlug(), ...change }));
  expect(info).toMatchObject({ reason: 'validation_failed', field, tag });
});

test('an unknown user creates no tenant', async () => {
  const slug = newSlug();
  expect((await refusal(client.createTenant({ userId: newId('user'), ...books, slug }))).reason).toBe('unauthenticated');
  await expect(client.createTenant({ userId, ...books, slug })).resolves.toBeDefined();
});

test('a user lists the tenants of which it is a member, newest first, page by page', async () => {
  const [ada, bob] = [await newUser(client), await newUser(client)];
  const made: string[] = [];
  for (let count = 0; count < 5; count++) {
    made.unshift(await newTenant(client, ada.id));
    await newTenant(client, bob.id);
  }
  const all = await client.listTenants({ userId: ada.id });
  expect(all.tenants.map((tenant) => tenant.id)).toEqual(made);
  expect(all.nextCursor).toBe('');
  const pages: string[][] = [];
  for (let cursor = ''; pages.length === 0 || cursor !== '';) {
    const page = await client.listTenants({ userId: ada.id, limit: 2, cursor });
    pages.push(page.tenants.map((tenant) => tenant.id));
    cursor = page.nextCursor;
  }
  expect(pages).toEqual([made.slice(0, 2), made.slice(2, 4), made.slice(4)]);
  const exact = await client.listTenants({ userId: ada.id, limit: 5 });
  expect(exact).toMatchObject({ tenants: { length: 5 }, nextCursor: '' });
});

test('a list of tenants reads no tenant of other users', async () => {
  const ada = await newUser(client);
  const mine = await newTenant(client, ada.id);
  const bob = await newUser(client);
  await withClient(database.adminUrl, async (admin) => {
    await admin.query(
      `with taken as (insert into slugs (slug, taken_by) select 'others-' || n, gen_random_uuid() from generate_series(1, 500) as n returning *)
       insert into tenants (tenant_id, name, slug, business_type, status, created_at)
       select taken_by, 'Books', slug, 'wallet', 'active', now() from taken`,
    );
    await admin.query(`insert into memberships select tenant_id, $1, 'owner', now() from tenants where slug like 'others-%'`, [
      toUuid('user', bob.id),
    ]);
  });
  const looked = async () => {
    const text = `select sum(seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_user_tables where relname in ('tenants', 'memberships')`;
    return (await withClient(database.adminUrl, (admin) => admin.query<{ rows: number }>(text))).rows[0]!.rows;
  };
  const before = await looked();
  expect((await client.listTenants({ userId: ada.id })).tenants.map(({ id }) => id)).toEqual([mine]);
  // PostgreSQL reports the reads some time later.
  const after = await until(looked, (rows) => rows > before);
  // Background work reads some rows too.
  expect(after - before).toBeLessThan(400);
});

test.each([
  ['limit', 'max', { limit: 101 }],
  ['limit', 'min', { limit: -1 }],
  ['cursor', 'cursor', { cursor: 'x' }],
])('of a list %s is rejected with the tag %s', async (field, tag, change) => {
  expect(await refusal(client.listTenants({ userId, ...change }))).toMatchObject({ reason: 'validation_failed', field, tag });
});

test('an unknown or malformed user has no list of tenants', async () => {
  for (const userId of [newId('user'), 'x']) expect((await refusal(client.listTenants({ userId }))).reason).toBe('unauthenticated');
});

test('to users who are not members a tenant does not exist', async () => {
  const tenantId = await newTenant(client, userId);
  const other = (await newUser(client)).id;
  const answers = [
    await refusal(client.verifyTenantMember({ userId: other, tenantId })),
    await refusal(client.verifyTenantMember({ userId, tenantId: newId('tenant') })),
    await refusal(client.verifyTenantMember({ userId, tenantId: 'tenant_x' })),
    await refusal(client.verifyTenantMember({ userId: other, tenantId: 'x' })),
  ];
  for (const answer of answers) expect(answer).toEqual({ ...answers[0], reason: 'tenant_not_found', message: 'tenant not found' });
  for (const unknown of ['x', newId('user')]) {
    expect((await refusal(client.verifyTenantMember({ userId: unknown, tenantId }))).reason).toBe('unauthenticated');
  }
});
