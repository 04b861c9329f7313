// Invitations to a tenant: sent by mail, accepted once by the user whose verified email it is.
import { LockMode, type EntityManager, type MikroORM } from '@mikro-orm/postgresql';
import { cutPage, type Page } from '../platform/cursor.ts';
import { toId, uuidAt } from '../platform/ids.ts';
import { roles, type Role } from '../platform/roles.ts';
import { audit, type Origin } from './audit.ts';
import { databaseNow, entityManager, setTenants } from './database.ts';
import { Invitation, Membership, Tenant, User, type InvitationRow, type TenantRow } from './entities.ts';
import * as field from './fields.ts';
import { enqueueMail, spendToken, tokenInvalid } from './mail/mails.ts';
import { assertMayChange, withUsers, type Member } from './members.ts';
import { Refusal } from './refusal.ts';
import { assertActive, changeTenant, readTenant, revokeInvitations, type TenantCall, tenantUuid } from './tenant-changes.ts';

/** How long an invitation is valid. */
const validMs = 7 * 86_400_000;

/** An invitation and what has become of it. */
export interface InvitationState {
  invitation: InvitationRow;
  status: 'pending' | 'accepted' | 'revoked' | 'expired';
}

/**
 * Invites an email address and sends it a mail. Replaces an open invitation to this address. Throws `validation_failed`, `member_exists`,
 * `rate_limited` and as {@link changeTenant}.
 */
export async function createInvitation(orm: MikroORM, given: TenantCall & { email: string; role: string }): Promise<InvitationState> {
  const email = field.email('email', given.email);
  const role = field.oneOf('role', given.role, roles) as Role;
  return changeTenant(orm, given, { role: 'admin' }, async (caller) => {
    const { em, tenant, user, nowMs } = caller;
    const { tenantId } = tenant;
    assertMayChange(caller, role);
    const member = { field: 'email', tag: 'unique', value: email };
    if (await isMember(em, tenantId, email)) throw new Refusal('member_exists', 'a member has this email already', member);
    await revokeInvitations(caller, { email });
    const [createdAt, expiresAt] = [new Date(nowMs), new Date(nowMs + validMs)];
    const ends = { acceptedAt: null, revokedAt: null };
    const invitation: InvitationRow = { tenantId, id: uuidAt(nowMs), email, role, invitedBy: user, createdAt, expiresAt, ...ends };
    await em.insert(Invitation, invitation);
    await caller.audit({ type: 'invitation.created', subject: toId('inv', invitation.id), data: { email, role } });
    const { firstName, lastName } = await em.findOneOrFail(User, { id: user });
    const data = { tenant: tenant.name, role, invited_by: `${firstName} ${lastName}` };
    await enqueueMail(em, { kind: 'invitation', email, tenantId, invitationId: invitation.id, data, expiresAt }, nowMs);
    return { invitation, status: 'pending' };
  });
}

/** The invitations of a tenant, newest first, also ended ones. Throws `validation_failed` and as {@link readTenant}. */
export async function listInvitations(orm: MikroORM, given: TenantCall & field.PageRequest): Promise<Page<InvitationState>> {
  const tenantId = tenantUuid(given.tenantId);
  const size = field.pageSize(given.limit);
  const after = field.afterCursor(['invitations', tenantId], given.cursor);
  return readTenant(orm, given, { role: 'admin' }, async (em) => {
    const where = { tenantId, ...(after !== null && { id: { $lt: after } }) };
    const found = await em.find(Invitation, where, { orderBy: { id: 'desc' }, limit: size + 1 });
    const { rows, nextCursor } = cutPage(found, size, ['invitations', tenantId], ({ id }) => id);
    const nowMs = await databaseNow(em);
    return { rows: rows.map((invitation) => ({ invitation, status: statusOf(invitation, nowMs) })), nextCursor };
  });
}

/**
 * Revokes an invitation; on one that is revoked or expired it changes nothing. Throws `invitation_not_found`, also for an accepted one, and as
 * {@link changeTenant}.
 */
export async function deleteInvitation(orm: MikroORM, given: TenantCall & { invitationId: string }): Promise<void> {
  await changeTenant(orm, given, { role: 'admin' }, async ({ em, tenant: { tenantId }, nowMs, audit: write }) => {
    const unknown = () => new Refusal('invitation_not_found', 'invitation not found');
    const id = field.uuidOf('inv', given.invitationId, unknown);
    const invitation = await em.findOne(Invitation, { tenantId, id });
    if (!invitation || invitation.acceptedAt) throw unknown();
    if (statusOf(invitation, nowMs) !== 'pending') return;
    await em.nativeUpdate(Invitation, { tenantId, id }, { revokedAt: new Date(nowMs) });
    await write({ type: 'invitation.revoked', subject: given.invitationId, data: { email: invitation.email } });
  });
}

/** The tenant and the new member. */
export interface Accepted {
  tenant: TenantRow;
  member: Member;
}

/**
 * Makes the user a member by the token of a mail. Where it is rejected the token stays valid. Throws `token_invalid`, `email_unverified`, `forbidden`
 * (it was sent to another email), `member_exists`, `tenant_suspended`, `tenant_closed`.
 */
export async function acceptInvitation(
  orm: MikroORM,
  given: { userId: string; token: string; origin?: Origin | undefined },
): Promise<Accepted> {
  const token = field.secret('token', given.token);
  const userId = field.userUuid(given.userId);
  return entityManager(orm).transactional(async (em) => {
    const mail = await spendToken(em, 'invitation', token);
    const [tenantId, id] = [mail.tenantId ?? '', mail.invitationId ?? ''];
    // The token names the tenant: from here on the transaction sees its rows.
    await setTenants(em, [tenantId]);
    const tenant = await em.findOne(Tenant, { tenantId }, { lockMode: LockMode.PESSIMISTIC_WRITE });
    const invitation = await em.findOne(Invitation, { tenantId, id });
    const nowMs = await databaseNow(em);
    if (!tenant || !invitation || statusOf(invitation, nowMs) !== 'pending') throw tokenInvalid();
    await assertOwnEmail(em, userId, invitation.email);
    if (await em.findOne(Membership, { tenantId, userId })) {
      throw new Refusal('member_exists', 'you are a member of this tenant already', { field: 'token', tag: 'member_exists' });
    }
    assertActive(tenant);
    const { role } = invitation;
    const membership = { tenantId, userId, role, createdAt: new Date(nowMs) };
    await em.insert(Membership, membership);
    await em.nativeUpdate(Invitation, { tenantId, id }, { acceptedAt: membership.createdAt });
    const data = { role, invitation: toId('inv', id), invited_by: toId('user', invitation.invitedBy) };
    const [actor, subject] = [given.userId, given.userId];
    await audit(em, { tenant: tenantId }, { type: 'member.added', actor, subject, origin: given.origin, data }, nowMs);
    const [member] = await withUsers(em, [membership]);
    if (!member) throw new Error('a member without a user');
    return { tenant, member };
  });
}

async function assertOwnEmail(em: EntityManager, userId: string, email: string): Promise<void> {
  const [user] = await em.execute<{ verified: boolean; same: boolean }[]>(
    'select email_verified_at is not null as verified, lower(email) = lower(?) as same from users where id = ?',
    [email, userId],
  );
  if (!user) throw field.unknownUser();
  if (!user.verified) throw new Refusal('email_unverified', 'verify your email address first');
  if (!user.same) throw new Refusal('forbidden', 'the invitation was sent to another email address');
}

async function isMember(em: EntityManager, tenantId: string, email: string): Promise<boolean> {
  const [found] = await em.execute<unknown[]>(
    'select 1 from memberships m join users u on u.id = m.user_id where m.tenant_id = ? and lower(u.email) = lower(?)',
    [tenantId, email],
  );
  return found !== undefined;
}

function statusOf({ acceptedAt, revokedAt, expiresAt }: InvitationRow, nowMs: number): InvitationState['status'] {
  if (acceptedAt) return 'accepted';
  if (revokedAt) return 'revoked';
  return expiresAt.getTime() <= nowMs ? 'expired' : 'pending';
}
