// States of a tenant: who changes them, from which to which, and what they write.
import { withClient } from '../../deploy/local/databases.ts';
import type { FreshDatabase } from '../../test/cluster.ts';
import { newTenant, newUser, refusal, useIdentity, type IdentityClient } from '../../test/identity.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { roles } from '../platform/roles.ts';

let database: FreshDatabase;
let client: IdentityClient;
let userId: string;

useIdentity((own) => ({ client, database } = own));
beforeAll(async () => {
  userId = (await newUser(client)).id;
});

type Call = 'suspendTenant' | 'resumeTenant' | 'closeTenant' | 'reopenTenant';
const calls: Call[] = ['suspendTenant', 'resumeTenant', 'closeTenant', 'reopenTenant'];

const rows = (text: string, tenantId: string) =>
  withClient(database.adminUrl, async (admin) => (await admin.query<Record<string, unknown>>(text, [toUuid('tenant', tenantId)])).rows);
const auditOf = async (tenantId: string) =>
  (await rows('select type, actor, subject, address, data from tenant_audit where tenant_id = $1 order by sequence', tenantId)).slice(1);
const closingsOf = (tenantId: string) => rows('select slug, delete_at from closings where tenant_id = $1', tenantId);

/** A tenant in this state. */
async function tenantThatIs(status: string): Promise<string> {
  const tenantId = await newTenant(client, userId);
  if (status === 'suspended') await client.suspendTenant({ userId, tenantId });
  if (status === 'closed') await client.closeTenant({ userId, tenantId });
  return tenantId;
}

test.each<[string, Call, string, string | null]>([
  ['active', 'suspendTenant', 'suspended', 'tenant.suspended'],
  ['suspended', 'suspendTenant', 'suspended', null],
  ['suspended', 'resumeTenant', 'active', 'tenant.resumed'],
  ['active', 'resumeTenant', 'active', null],
  ['active', 'closeTenant', 'closed', 'tenant.closed'],
  ['suspended', 'closeTenant', 'closed', 'tenant.closed'],
  ['closed', 'closeTenant', 'closed', null],
  ['closed', 'reopenTenant', 'active', 'tenant.reopened'],
  ['active', 'reopenTenant', 'active', null],
])('of a tenant that is %s %s makes one that is %s and writes %s', async (before, call, after, type) => {
  const tenantId = await tenantThatIs(before);
  const [entries, closings] = [await auditOf(tenantId), await closingsOf(tenantId)];
  const origin = { clientAddress: '192.0.2.1', userAgent: 'test' };
  const { tenant } = await client[call]({ userId, tenantId, origin });
  expect(tenant).toMatchObject({ id: tenantId, status: after, role: 'owner' });
  expect((await client.listTenants({ userId, limit: 1 })).tenants).toEqual([tenant]);
  const added = (await auditOf(tenantId)).slice(entries.length);
  const deleteAt = tenant!.deleteMs === undefined ? {} : { delete_at: new Date(Number(tenant!.deleteMs)).toISOString() };
  const entry = { type, actor: userId, subject: tenantId, address: '192.0.2.1', data: JSON.stringify(deleteAt) };
  expect(added).toEqual(type === null ? [] : [entry]);
  if (after === 'closed') {
    const inDays = (Number(tenant!.deleteMs) - Date.now()) / 86_400_000;
    expect(inDays).toBeGreaterThan(29.99);
    expect(inDays).toBeLessThanOrEqual(30.01);
    expect(await closingsOf(tenantId)).toEqual([{ slug: tenant!.slug, delete_at: new Date(Number(tenant!.deleteMs)) }]);
    if (before === 'closed') expect(await closingsOf(tenantId)).toEqual(closings);
  } else {
    expect(tenant!.deleteMs).toBeUndefined();
    expect(await closingsOf(tenantId)).toEqual([]);
  }
});

test.each<[string, Call, string]>([
  ['closed', 'suspendTenant', 'tenant_closed'],
  ['closed', 'resumeTenant', 'tenant_closed'],
  ['suspended', 'reopenTenant', 'tenant_suspended'],
])('of a tenant that is %s %s is rejected as %s and changes nothing', async (status, call, reason) => {
  const tenantId = await tenantThatIs(status);
  const entries = await auditOf(tenantId);
  expect((await refusal(client[call]({ userId, tenantId }))).reason).toBe(reason);
  expect((await client.listTenants({ userId, limit: 1 })).tenants[0]).toMatchObject({ id: tenantId, status });
  expect(await auditOf(tenantId)).toEqual(entries);
});

test('only owners change states, and outsiders do not learn that the tenant exists', async () => {
  const tenantId = await newTenant(client, userId);
  for (const role of roles) {
    const { id } = await newUser(client);
    await withClient(database.adminUrl, (admin) =>
      admin.query('insert into memberships values ($1, $2, $3, now())', [toUuid('tenant', tenantId), toUuid('user', id), role]),
    );
    for (const call of calls) {
      const answer = client[call]({ userId: id, tenantId });
      if (role === 'owner') expect((await answer).tenant).toMatchObject({ role });
      else expect((await refusal(answer)).reason).toBe('forbidden');
    }
  }
  const outsider = (await newUser(client)).id;
  for (const call of calls) {
    for (const [user, tenant] of [
      [outsider, tenantId],
      [userId, newId('tenant')],
      [userId, 'x'],
    ])
      expect((await refusal(client[call]({ userId: user!, tenantId: tenant! }))).reason).toBe('tenant_not_found');
  }
});

test('of many calls at once one changes the state', async () => {
  const tenantId = await newTenant(client, userId);
  await Promise.all(Array.from({ length: 8 }, () => client.closeTenant({ userId, tenantId })));
  expect((await auditOf(tenantId)).map(({ type }) => type)).toEqual(['tenant.closed']);
});

test.each([
  ['suspended', 'tenant_suspended'],
  ['closed', 'tenant_closed'],
])('in a tenant that is %s keys are verified with that state, and other changes are rejected as %s', async (status, reason) => {
  const tenantId = await newTenant(client, userId);
  const { key, apiKey } = await client.createApiKey({ userId, tenantId, name: 'k', scopes: ['accounts:read'] });
  const access = await client.createAccess({ userId, tenantId });
  await client[status === 'closed' ? 'closeTenant' : 'suspendTenant']({ userId, tenantId });
  for (const each of [key, access.key])
    expect((await client.verifyApiKey({ key: each })).verified).toMatchObject({ tenantId, tenantStatus: status });
  expect(await client.verifyTenantMember({ userId, tenantId })).toMatchObject({ role: 'owner', tenantStatus: status });
  for (const call of [
    () => client.createAccess({ userId, tenantId }),
    () => client.createApiKey({ userId, tenantId, name: 'k', scopes: ['accounts:read'] }),
    () => client.listApiKeys({ userId, tenantId }),
    () => client.revokeApiKey({ userId, tenantId, keyId: apiKey!.id }),
    () => client.rotateApiKey({ userId, tenantId, keyId: apiKey!.id }),
  ])
    expect((await refusal(call())).reason).toBe(reason);
});
