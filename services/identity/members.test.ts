import type pg from 'pg';
import type { FreshDatabase } from '../../test/cluster.ts';
import { newEmail, newTenant, newUser, refusal, useIdentity, type IdentityClient } from '../../test/identity.ts';
import { addMember } from '../../test/members.ts';
import { refusalOf } from '../platform/caller.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { roles, type Role } from '../platform/roles.ts';

let database: FreshDatabase;
let client: IdentityClient;
let admin: pg.Client;

useIdentity((own) => ({ client, admin, database } = own));

/** A tenant with an owner and a member of each further role given. */
async function team(...more: Role[]): Promise<{ tenantId: string; owner: string; others: string[] }> {
  const owner = (await newUser(client)).id;
  const tenantId = await newTenant(client, owner);
  const others: string[] = [];
  for (const role of more) others.push(await member(tenantId, role));
  return { tenantId, owner, others };
}
async function member(tenantId: string, role: Role): Promise<string> {
  const { id } = await newUser(client);
  await addMember(database.adminUrl, tenantId, id, role);
  return id;
}
const rolesIn = async (tenantId: string, userId: string) =>
  Object.fromEntries((await client.listMembers({ userId, tenantId })).members.map((each) => [each.userId, each.role]));
const access = async (tenantId: string, userId: string) => (await client.createAccess({ userId, tenantId })).key;
const isValid = async (key: string) => (await client.verifyApiKey({ key })).verified !== undefined;
const auditOf = async (tenantId: string) => {
  const text = 'select type, actor, subject, data from tenant_audit where tenant_id = $1 order by sequence';
  const { rows } = await admin.query(text, [toUuid('tenant', tenantId)]);
  return rows.slice(1).map(({ data, ...row }) => ({ ...row, data: JSON.parse(data) as unknown }));
};
const outcomes = async (calls: Promise<unknown>[]) =>
  (
    await Promise.all(
      calls.map((call) =>
        call.then(
          () => 'done',
          (error: unknown) => refusalOf(error)?.reason,
        ),
      ),
    )
  ).sort();

describe('the list', () => {
  test('has every member with its user, newest first, page by page', async () => {
    const { tenantId, owner, others } = await team('admin', 'viewer', 'accountant', 'viewer');
    // Of one millisecond the ids decide.
    await admin.query('update memberships set created_at = $2 where tenant_id = $1 and user_id = any($3)', [
      ...[toUuid('tenant', tenantId), new Date(), others.slice(1, 3).map((id) => toUuid('user', id))],
    ]);
    const all = (await client.listMembers({ userId: others[1]!, tenantId })).members;
    expect(all.map(({ createdMs }) => createdMs)).toEqual(all.map(({ createdMs }) => createdMs).sort((a, b) => Number(b - a)));
    expect(all.map(({ userId }) => userId).sort()).toEqual([owner, ...others].sort());
    const { user } = await client.getUser({ userId: others[0]! });
    const { email, firstName, lastName, totpEnabled } = user!;
    expect(all.find(({ userId }) => userId === others[0])).toMatchObject({ email, firstName, lastName, totpEnabled, role: 'admin' });
    const paged = [];
    for (let cursor = ''; paged.length === 0 || cursor !== '';) {
      const page = await client.listMembers({ userId: owner, tenantId, limit: 2, cursor });
      expect(page.members.length).toBeLessThanOrEqual(2);
      paged.push(...page.members);
      cursor = page.nextCursor;
    }
    expect(paged).toEqual(all);
  });

  test.each([
    ['limit', 'max', { limit: 101 }],
    ['cursor', 'cursor', { cursor: 'x' }],
  ])('%s is rejected with the tag %s', async (field, tag, change) => {
    const { tenantId, owner } = await team();
    const info = await refusal(client.listMembers({ userId: owner, tenantId, ...change }));
    expect(info).toMatchObject({ reason: 'validation_failed', field, tag });
  });
});

describe('a change of the role', () => {
  test('ends the member’s access keys, in this tenant alone, and stands in the audit log', async () => {
    const { tenantId, owner, others } = await team('accountant');
    const [one] = others as [string];
    const elsewhere = await team();
    await addMember(database.adminUrl, elsewhere.tenantId, one, 'viewer');
    const [mine, theirs, owners] = [await access(tenantId, one), await access(elsewhere.tenantId, one), await access(tenantId, owner)];
    const change = { userId: owner, tenantId, memberId: one, role: 'viewer' };
    expect((await client.updateMember(change)).member).toMatchObject({ userId: one, role: 'viewer' });
    expect([await isValid(mine), await isValid(theirs), await isValid(owners)]).toEqual([false, true, true]);
    // The same role again ends nothing.
    const next = await access(tenantId, one);
    expect((await client.updateMember(change)).member).toMatchObject({ role: 'viewer' });
    expect(await isValid(next)).toBe(true);
    const changes = (await auditOf(tenantId)).filter(({ type }) => type !== 'access.created');
    expect(changes).toEqual([{ type: 'member.role_changed', actor: owner, subject: one, data: { from: 'accountant', to: 'viewer' } }]);
  });

  test.each([
    ['role', 'required', ''],
    ['role', 'oneof', 'member'],
  ])('%s is rejected with the tag %s', async (field, tag, role) => {
    const { tenantId, owner } = await team();
    const info = await refusal(client.updateMember({ userId: owner, tenantId, memberId: owner, role }));
    expect(info).toMatchObject({ reason: 'validation_failed', field, tag });
  });
});

test('only owners make, change and remove owners; accountants and viewers change nobody', async () => {
  const { tenantId, owner, others } = await team('owner', 'admin', 'admin', 'accountant', 'viewer');
  const [second, admin1, admin2, accountant, viewer] = others as [string, string, string, string, string];
  const update = (userId: string, memberId: string, role: string) => client.updateMember({ userId, tenantId, memberId, role });
  const remove = (userId: string, memberId: string) => client.removeMember({ userId, tenantId, memberId });
  const forbidden = [
    () => update(admin1, second, 'viewer'),
    () => update(admin1, second, 'owner'),
    () => update(admin1, viewer, 'owner'),
    () => update(admin1, admin1, 'owner'),
    () => remove(admin1, owner),
    ...[accountant, viewer].flatMap((low) => [
      () => update(low, viewer, 'viewer'),
      () => update(low, low, 'owner'),
      () => remove(low, admin2),
    ]),
  ];
  const before = await rolesIn(tenantId, owner);
  for (const call of forbidden) expect((await refusal(call())).reason).toBe('forbidden');
  expect(await rolesIn(tenantId, owner)).toEqual(before);
  await update(admin1, admin2, 'viewer');
  await remove(admin1, viewer);
  await update(owner, accountant, 'owner');
  await update(accountant, owner, 'admin');
  await remove(accountant, second);
  expect(await rolesIn(tenantId, owner)).toEqual({ [owner]: 'admin', [admin1]: 'admin', [admin2]: 'viewer', [accountant]: 'owner' });
});

test('every member may remove itself, with its access keys, and is then no member', async () => {
  for (const role of roles) {
    const { tenantId, owner, others } = await team(role);
    const [one] = others as [string];
    const key = await access(tenantId, one);
    await client.removeMember({ userId: one, tenantId, memberId: one });
    expect(await isValid(key)).toBe(false);
    expect((await refusal(client.verifyTenantMember({ userId: one, tenantId }))).reason).toBe('tenant_not_found');
    expect((await refusal(client.removeMember({ userId: one, tenantId, memberId: one }))).reason).toBe('tenant_not_found');
    expect((await refusal(client.removeMember({ userId: owner, tenantId, memberId: one }))).reason).toBe('member_not_found');
    expect((await auditOf(tenantId)).at(-1)).toEqual({ type: 'member.removed', actor: one, subject: one, data: { role } });
  }
});

test.each(['user_x', 'x', '', newId('user'), newId('tenant')])('there is no member %j, nor one of another tenant', async (memberId) => {
  const { tenantId, owner } = await team();
  const foreign = (await team()).owner;
  for (const each of [memberId, foreign]) {
    const place = { userId: owner, tenantId, memberId: each };
    expect((await refusal(client.updateMember({ ...place, role: 'viewer' }))).reason).toBe('member_not_found');
    expect((await refusal(client.removeMember(place))).reason).toBe('member_not_found');
  }
});

test('to users who are no members a tenant has no members, and does not exist', async () => {
  const { tenantId, owner } = await team();
  const place = { userId: (await newUser(client)).id, tenantId, memberId: owner };
  const calls = [client.listMembers(place), client.updateMember({ ...place, role: 'viewer' }), client.removeMember(place)];
  for (const { reason } of await Promise.all(calls.map(refusal))) expect(reason).toBe('tenant_not_found');
});

test.each(['suspended', 'closed'])('members are read, changed and removed in a tenant that is %s', async (status) => {
  const { tenantId, owner, others } = await team('viewer');
  const [one] = others as [string];
  const state = [toUuid('tenant', tenantId), status, status === 'closed' ? new Date(Date.now() + 86_400_000) : null];
  await admin.query('update tenants set status = $2, delete_at = $3 where tenant_id = $1', state);
  await client.updateMember({ userId: owner, tenantId, memberId: one, role: 'admin' });
  expect(await rolesIn(tenantId, owner)).toEqual({ [owner]: 'owner', [one]: 'admin' });
  await client.removeMember({ userId: one, tenantId, memberId: one });
  const invite = client.createInvitation({ userId: owner, tenantId, email: 'a@example.com', role: 'viewer' });
  expect((await refusal(invite)).reason).toBe(`tenant_${status}`);
});

test('a member that loses its role, or a part of it, leaves no open invitation behind; one that rises keeps them', async () => {
  const { tenantId, owner, others } = await team('owner', 'admin', 'admin');
  const [second, leaving, rising] = others as [string, string, string];
  const invite = async (userId: string, role: string) =>
    (await client.createInvitation({ userId, tenantId, email: newEmail(), role })).invitation!.id;
  const ended = [await invite(second, 'owner'), await invite(leaving, 'admin')];
  const open = [await invite(rising, 'viewer'), await invite(owner, 'owner')];
  await client.updateMember({ userId: owner, tenantId, memberId: second, role: 'admin' });
  await client.removeMember({ userId: owner, tenantId, memberId: leaving });
  await client.updateMember({ userId: owner, tenantId, memberId: rising, role: 'owner' });
  const { invitations } = await client.listInvitations({ userId: owner, tenantId });
  const states = Object.fromEntries(invitations.map(({ id, status }) => [id, status]));
  expect([...ended, ...open].map((id) => states[id])).toEqual(['revoked', 'revoked', 'pending', 'pending']);
  const revoked = (await auditOf(tenantId)).filter(({ type }) => type === 'invitation.revoked');
  expect(revoked.map(({ actor, subject }) => [actor, subject])).toEqual(ended.map((id) => [owner, id]));
});

describe('the last owner', () => {
  test('stays an owner and a member, also among admins', async () => {
    const { tenantId, owner } = await team('admin');
    const key = await access(tenantId, owner);
    const place = { userId: owner, tenantId, memberId: owner };
    expect((await refusal(client.removeMember(place))).reason).toBe('last_owner');
    for (const role of ['admin', 'viewer']) expect((await refusal(client.updateMember({ ...place, role }))).reason).toBe('last_owner');
    await client.updateMember({ ...place, role: 'owner' });
    expect(await isValid(key)).toBe(true);
  });

  test('is left where two owners demote each other, leave, or both at once', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { tenantId, owner, others } = await team('owner');
      const [second] = others as [string];
      const demote = (userId: string, memberId: string) => client.updateMember({ userId, tenantId, memberId, role: 'viewer' });
      const leave = (userId: string) => client.removeMember({ userId, tenantId, memberId: userId });
      const calls = [
        () => [demote(owner, second), demote(second, owner)],
        () => [leave(owner), leave(second)],
        () => [demote(owner, owner), leave(second)],
      ][round % 3]!;
      // Where they demote each other the second is no owner any more.
      expect(await outcomes(calls())).toEqual(round % 3 === 0 ? ['done', 'forbidden'] : ['done', 'last_owner']);
      const { rows } = await admin.query(`select count(*)::int as owners from memberships where tenant_id = $1 and role = 'owner'`, [
        toUuid('tenant', tenantId),
      ]);
      expect(rows).toEqual([{ owners: 1 }]);
    }
  });
});

test('an access key that is issued while the role is lowered ends, or has the scopes of the lower role', async () => {
  for (let round = 0; round < 10; round += 1) {
    const { tenantId, owner, others } = await team('accountant');
    const [one] = others as [string];
    const [issued] = await Promise.all([
      access(tenantId, one),
      client.updateMember({ userId: owner, tenantId, memberId: one, role: 'viewer' }),
    ]);
    const { verified } = await client.verifyApiKey({ key: issued });
    expect(verified?.scopes ?? []).not.toContain('transactions:write');
  }
});

test('a member who is removed while a key is issued has no key, and one who returns does not get the old ones back', async () => {
  for (let round = 0; round < 10; round += 1) {
    const { tenantId, owner, others } = await team('accountant');
    const [one] = others as [string];
    const before = await access(tenantId, one);
    const place = { userId: owner, tenantId, memberId: one };
    const [issued] = await Promise.allSettled([access(tenantId, one), client.removeMember(place)]);
    const keys = [before, ...(issued.status === 'fulfilled' ? [issued.value] : [])];
    for (const key of keys) expect(await isValid(key)).toBe(false);
    await addMember(database.adminUrl, tenantId, one, 'owner');
    for (const key of keys) expect(await isValid(key)).toBe(false);
    expect(await isValid(await access(tenantId, one))).toBe(true);
  }
});
