import type pg from 'pg';
import type { FreshDatabase } from '../../test/cluster.ts';
import { newEmail, newTenant, newUser, refusal, useIdentity, type IdentityClient } from '../../test/identity.ts';
import { addMember, invitationToken, verifyEmail } from '../../test/members.ts';
import type { User } from '../../proto/gen/identity/v1/identity_pb.js';
import { refusalOf } from '../platform/caller.ts';
import { newId, toUuid } from '../platform/ids.ts';
import type { Role } from '../platform/roles.ts';

let database: FreshDatabase;
let client: IdentityClient;
let admin: pg.Client;
let owner: string;
let tenantId: string;

useIdentity((own) => ({ client, admin, database } = own));
beforeAll(async () => {
  owner = (await newUser(client)).id;
  tenantId = await newTenant(client, owner);
});

const invite = async (email: string, role = 'accountant', userId = owner) =>
  (await client.createInvitation({ userId, tenantId, email, role })).invitation!;
const token = (id: string) => invitationToken(database.adminUrl, id);
const accept = (userId: string, text: string) => client.acceptInvitation({ userId, token: text });
const revoke = (invitationId: string, userId = owner) => client.deleteInvitation({ userId, tenantId, invitationId });
const statusOf = async (id: string) =>
  (await client.listInvitations({ userId: owner, tenantId, limit: 100 })).invitations.find((each) => each.id === id)?.status;
const roleOf = async (userId: string) => {
  const { members } = await client.listMembers({ userId: owner, tenantId, limit: 100 });
  return members.find((each) => each.userId === userId)?.role;
};
/** A new user with a verified email, invited, and a token of the mail. */
async function invited(role: Role = 'accountant'): Promise<{ user: User; id: string; text: string }> {
  const user = await newUser(client);
  await verifyEmail(database.adminUrl, user.id);
  const { id } = await invite(user.email, role);
  return { user, id, text: await token(id) };
}
const member = async (role: Role) => {
  const { id } = await newUser(client);
  await addMember(database.adminUrl, tenantId, id, role);
  return id;
};

test('an invitation is pending for seven days and its mail waits in the outbox', async () => {
  const email = newEmail();
  const invitation = await invite(email, 'viewer');
  expect(invitation).toMatchObject({ id: expect.stringMatching(/^inv_/), email, role: 'viewer', status: 'pending', invitedBy: owner });
  expect(invitation.expiresMs - invitation.createdMs).toBe(BigInt(7 * 86_400_000));
  const { rows } = await admin.query('select kind, email, tenant_id, invitation_id, data, expires_at from mails where email = $1', [email]);
  expect(rows).toEqual([
    {
      ...{ kind: 'invitation', email, tenant_id: toUuid('tenant', tenantId), invitation_id: toUuid('inv', invitation.id) },
      data: JSON.stringify({ tenant: 'Books', role: 'viewer', invited_by: 'Ada Lovelace' }),
      expires_at: new Date(Number(invitation.expiresMs)),
    },
  ]);
});

test.each([
  ['email', 'required', { email: '' }],
  ['email', 'email', { email: 'nobody' }],
  ['role', 'required', { role: '' }],
  ['role', 'oneof', { role: 'member' }],
])('%s is rejected with the tag %s', async (field, tag, change) => {
  const given = { userId: owner, tenantId, email: newEmail(), role: 'viewer', ...change };
  expect(await refusal(client.createInvitation(given))).toMatchObject({ reason: 'validation_failed', field, tag });
});

test('owners and admins invite, list and revoke; only owners invite owners', async () => {
  const [boss, accountant, viewer] = [await member('admin'), await member('accountant'), await member('viewer')];
  for (const role of ['admin', 'accountant', 'viewer']) await revoke((await invite(newEmail(), role, boss)).id, boss);
  expect((await refusal(invite(newEmail(), 'owner', boss))).reason).toBe('forbidden');
  const { id } = await invite(newEmail(), 'owner');
  const outsider = (await newUser(client)).id;
  for (const [userId, expected] of [
    [accountant, 'forbidden'],
    [viewer, 'forbidden'],
    [outsider, 'tenant_not_found'],
  ] as const) {
    const calls = [invite(newEmail(), 'viewer', userId), client.listInvitations({ userId, tenantId }), revoke(id, userId)];
    for (const { reason } of await Promise.all(calls.map(refusal))) expect(reason).toBe(expected);
  }
  expect(await statusOf(id)).toBe('pending');
});

test('the invitations are listed newest first, page by page', async () => {
  const tenant = await newTenant(client, owner);
  const made: string[] = [];
  for (let count = 0; count < 3; count += 1) {
    const given = { userId: owner, tenantId: tenant, email: newEmail(), role: 'viewer' };
    made.unshift((await client.createInvitation(given)).invitation!.id);
  }
  const first = await client.listInvitations({ userId: owner, tenantId: tenant, limit: 2 });
  const second = await client.listInvitations({ userId: owner, tenantId: tenant, limit: 2, cursor: first.nextCursor });
  expect([...first.invitations, ...second.invitations].map(({ id }) => id)).toEqual(made);
  expect(second.nextCursor).toBe('');
  const info = await refusal(client.listInvitations({ userId: owner, tenantId, cursor: first.nextCursor }));
  expect(info).toMatchObject({ field: 'cursor', tag: 'cursor' });
});

test('accepting makes the user a member once, with the invited role, whatever the case of the email', async () => {
  const { user, id, text } = await invited();
  const { tenant, member: made } = await accept(user.id, text);
  expect(tenant).toMatchObject({ id: tenantId, role: 'accountant', status: 'active' });
  expect(made).toMatchObject({ userId: user.id, email: user.email, role: 'accountant' });
  expect([await roleOf(user.id), await statusOf(id)]).toEqual(['accountant', 'accepted']);
  expect((await refusal(accept(user.id, text))).reason).toBe('token_invalid');
  expect((await client.listTenants({ userId: user.id })).tenants).toEqual([tenant]);
  const { rows } = await admin.query(
    `select type, actor, subject, data from tenant_audit where tenant_id = $1 order by sequence desc limit 2`,
    [toUuid('tenant', tenantId)],
  );
  const data = { invitation: id, invited_by: owner, role: 'accountant' };
  expect(rows[0]).toEqual({ type: 'member.added', actor: user.id, subject: user.id, data: JSON.stringify(data) });
  expect(rows[1]).toMatchObject({ type: 'invitation.created', actor: owner, subject: id });
  const upper = await newUser(client);
  await verifyEmail(database.adminUrl, upper.id);
  await accept(upper.id, await token((await invite(upper.email.toUpperCase())).id));
  expect(await roleOf(upper.id)).toBe('accountant');
});

describe('a token is not valid', () => {
  const invalid = { reason: 'token_invalid', field: 'token', value: '', message: 'the token is unknown, used or expired' };

  test('where it is unknown, of a revoked or expired invitation, or of another kind of mail', async () => {
    const { user, id, text } = await invited();
    expect(await refusal(accept(user.id, 'x'))).toMatchObject(invalid);
    expect(await refusal(accept(user.id, ''))).toMatchObject({ reason: 'validation_failed', field: 'token', tag: 'required' });
    await revoke(id);
    expect(await refusal(accept(user.id, text))).toMatchObject(invalid);
    const late = await invited();
    const past = `created_at = created_at - interval '7 days', expires_at = expires_at - interval '7 days'`;
    await admin.query(`update invitations set ${past} where id = $1`, [toUuid('inv', late.id)]);
    expect(await refusal(accept(late.user.id, late.text))).toMatchObject(invalid);
    expect(await statusOf(late.id)).toBe('expired');
    const other = await invited();
    await admin.query(`update mails set kind = 'reset', tenant_id = null, invitation_id = null where email = $1`, [other.user.email]);
    expect(await refusal(accept(other.user.id, other.text))).toMatchObject(invalid);
    for (const { user: each } of [{ user }, late, other]) expect(await roleOf(each.id)).toBeUndefined();
  });

  test('where a mail was sent twice and its other token was used', async () => {
    const { user, id, text } = await invited();
    const again = await token(id);
    await accept(user.id, again);
    await client.removeMember({ userId: user.id, tenantId, memberId: user.id });
    expect(await refusal(accept(user.id, text))).toMatchObject(invalid);
  });
});

test('the email must be verified and the invited one, and nothing that is rejected uses the token', async () => {
  const { user, id, text } = await invited();
  await admin.query('update users set email_verified_at = null where id = $1', [toUuid('user', user.id)]);
  expect((await refusal(accept(user.id, text))).reason).toBe('email_unverified');
  const thief = await newUser(client);
  await verifyEmail(database.adminUrl, thief.id);
  expect((await refusal(accept(thief.id, text))).reason).toBe('forbidden');
  await verifyEmail(database.adminUrl, user.id);
  for (const [status, deleteAt] of [
    ['suspended', null],
    ['closed', new Date()],
    ['active', null],
  ]) {
    await admin.query('update tenants set status = $2, delete_at = $3 where tenant_id = $1', [
      toUuid('tenant', tenantId),
      status,
      deleteAt,
    ]);
    if (status !== 'active') expect((await refusal(accept(user.id, text))).reason).toBe(`tenant_${status as string}`);
  }
  await addMember(database.adminUrl, tenantId, user.id, 'viewer');
  expect((await refusal(accept(user.id, text))).reason).toBe('member_exists');
  await client.removeMember({ userId: user.id, tenantId, memberId: user.id });
  await accept(user.id, text);
  expect([await roleOf(user.id), await roleOf(thief.id), await statusOf(id)]).toEqual(['accountant', undefined, 'accepted']);
});

test('a new invitation to an address replaces the open one, in any case, in this tenant alone', async () => {
  const { user, id, text } = await invited('admin');
  const elsewhere = await newTenant(client, owner);
  const other = (await client.createInvitation({ userId: owner, tenantId: elsewhere, email: user.email, role: 'viewer' })).invitation!;
  const next = await invite(user.email.toUpperCase(), 'viewer');
  expect([await statusOf(id), await statusOf(next.id)]).toEqual(['revoked', 'pending']);
  expect((await refusal(accept(user.id, text))).reason).toBe('token_invalid');
  await accept(user.id, await token(next.id));
  await accept(user.id, await token(other.id));
  expect(await roleOf(user.id)).toBe('viewer');
  const info = await refusal(invite(user.email.toUpperCase()));
  expect(info).toMatchObject({ reason: 'member_exists', field: 'email' });
});

test('an address gets five mails an hour, and the sixth invitation is rejected and replaces nothing', async () => {
  const email = newEmail();
  let last = '';
  for (let count = 0; count < 5; count += 1) last = (await invite(count % 2 ? email : email.toUpperCase())).id;
  const info = await refusal(invite(email));
  expect(info).toMatchObject({ reason: 'rate_limited', metadata: { policy: 'mail', quota: '5', window: '3600', remaining: '0' } });
  expect(info.retryAfter).toBeGreaterThan(3_500);
  expect(info.retryAfter).toBeLessThanOrEqual(3_600);
  expect(await statusOf(last)).toBe('pending');
  await admin.query(`update mails set created_at = created_at - interval '1 hour' where lower(email) = $1`, [email]);
  await expect(invite(email)).resolves.toBeDefined();
});

test('of many invitations of one address at once five are sent, and one stays open', async () => {
  const email = newEmail();
  const answers = await Promise.allSettled(Array.from({ length: 12 }, () => invite(email)));
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
  const { rows } = await admin.query('select id from invitations where email = $1 and revoked_at is null', [email]);
  expect(rows).toHaveLength(1);
});

test('revoking twice changes nothing more; an accepted, unknown or foreign invitation is not found', async () => {
  const { id } = await invite(newEmail());
  await revoke(id);
  await revoke(id);
  const { rows } = await admin.query(`select 1 from tenant_audit where type = 'invitation.revoked' and subject = $1`, [id]);
  expect(rows).toHaveLength(1);
  const { user, id: accepted, text } = await invited();
  await accept(user.id, text);
  const elsewhere = await newTenant(client, owner);
  const foreign = await client.createInvitation({ userId: owner, tenantId: elsewhere, email: newEmail(), role: 'viewer' });
  for (const unknown of [accepted, foreign.invitation!.id, newId('inv'), newId('user'), 'x']) {
    expect((await refusal(revoke(unknown))).reason).toBe('invitation_not_found');
  }
});

test('of many uses of one token at once one wins', async () => {
  const { user, id, text } = await invited();
  const again = await token(id);
  const answers = await Promise.allSettled([text, again, text, again, text].map((each) => accept(user.id, each)));
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  for (const answer of answers) {
    if (answer.status === 'rejected') expect(refusalOf(answer.reason)?.reason).toBe('token_invalid');
  }
  const { rows } = await admin.query(`select 1 from tenant_audit where type = 'member.added' and subject = $1`, [user.id]);
  expect(rows).toHaveLength(1);
});

test('accepted while it is revoked, an invitation ends in one of both ways', async () => {
  for (let round = 0; round < 10; round += 1) {
    const { user, id, text } = await invited();
    const [accepted, revoked] = await Promise.allSettled([accept(user.id, text), revoke(id)]);
    expect(accepted.status).not.toBe(revoked.status);
    const isMember = accepted.status === 'fulfilled';
    expect([await roleOf(user.id), await statusOf(id)]).toEqual(isMember ? ['accountant', 'accepted'] : [undefined, 'revoked']);
    const lost = isMember ? revoked : accepted;
    expect(refusalOf((lost as PromiseRejectedResult).reason)?.reason).toBe(isMember ? 'invitation_not_found' : 'token_invalid');
  }
});

test('a member who was removed and accepts a new invitation has the new role, and its old access keys stay ended', async () => {
  const { user, text } = await invited('admin');
  await accept(user.id, text);
  const { key } = await client.createAccess({ userId: user.id, tenantId });
  await client.removeMember({ userId: owner, tenantId, memberId: user.id });
  await accept(user.id, await token((await invite(user.email, 'viewer')).id));
  expect(await roleOf(user.id)).toBe('viewer');
  expect((await client.verifyApiKey({ key })).verified).toBeUndefined();
});
