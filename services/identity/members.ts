// Members of a tenant: who they are, their roles and their removal.
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { cutPage, type CursorScope, type Page } from '../platform/cursor.ts';
import { isAtLeast, roles, type Role } from '../platform/roles.ts';
import { Membership, User, type MembershipRow, type UserRow } from './entities.ts';
import * as field from './fields.ts';
import { Refusal } from './refusal.ts';
import {
  changeTenant,
  endAccessKeys,
  readTenant,
  revokeInvitations,
  type TenantCall,
  type TenantMember,
  tenantUuid,
} from './tenant-changes.ts';

/** A membership and its user. */
export interface Member {
  user: UserRow;
  role: Role;
  createdAt: Date;
}

/** The user, the tenant, and the member that is changed. */
export interface MemberReference extends TenantCall {
  memberId: string;
}

// The time of the membership, milliseconds since the Unix epoch, and the user.
const position = /^[0-9]{1,15}\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The members of a tenant, newest first. Throws `validation_failed` and as {@link readTenant}. */
export async function listMembers(orm: MikroORM, given: TenantCall & field.PageRequest): Promise<Page<Member>> {
  const tenantId = tenantUuid(given.tenantId);
  const scope: CursorScope = ['members', tenantId];
  const size = field.pageSize(given.limit);
  const after = field.afterCursor(scope, given.cursor, position);
  return readTenant(orm, given, { role: 'viewer', whileReadOnly: true }, async (em) => {
    const [ms, userId = ''] = after?.split('.') ?? [];
    const createdAt = new Date(Number(ms));
    const below = after === null ? {} : { $or: [{ createdAt: { $lt: createdAt } }, { createdAt, userId: { $lt: userId } }] };
    const order = { createdAt: 'desc', userId: 'desc' } as const;
    const found = await em.find(Membership, { tenantId, ...below }, { orderBy: order, limit: size + 1 });
    const { rows, nextCursor } = cutPage(found, size, scope, (row) => `${row.createdAt.getTime()}.${row.userId}`);
    return { rows: await withUsers(em, rows), nextCursor };
  });
}

/**
 * Changes a member's role and ends its access keys, for a lower one also its open invitations; the same role again changes nothing. Throws
 * `validation_failed`, `member_not_found`, `last_owner` and as {@link changeTenant}.
 */
export async function updateMember(orm: MikroORM, given: MemberReference & { role: string }): Promise<Member> {
  const role = field.oneOf('role', given.role, roles) as Role;
  return changeTenant(orm, given, { role: 'admin', whileReadOnly: true }, async (caller) => {
    const { em, audit } = caller;
    const membership = await memberToChange(caller, given.memberId);
    assertMayChange(caller, role);
    const [member] = await withUsers(em, [{ ...membership, role }]);
    if (!member) throw unknownMember();
    if (membership.role === role) return member;
    await endMembership(caller, membership, role);
    await em.nativeUpdate(Membership, idOf(membership), { role });
    await audit({ type: 'member.role_changed', subject: given.memberId, data: { from: membership.role, to: role } });
    return member;
  });
}

/**
 * Removes a member and ends its access keys and open invitations. Every member may remove itself. Throws `member_not_found`, `last_owner` and as
 * {@link changeTenant}.
 */
export async function removeMember(orm: MikroORM, given: MemberReference): Promise<void> {
  const role = given.memberId === given.userId ? 'viewer' : 'admin';
  await changeTenant(orm, given, { role, whileReadOnly: true }, async (caller) => {
    const membership = await memberToChange(caller, given.memberId);
    await endMembership(caller, membership, null);
    await caller.em.nativeDelete(Membership, idOf(membership));
    await caller.audit({ type: 'member.removed', subject: given.memberId, data: { role: membership.role } });
  });
}

/** Throws `forbidden` where the caller may not give or take a role: only owners make, change and remove owners. */
export function assertMayChange(caller: TenantMember, role: Role): void {
  if (role === 'owner' && !isAtLeast(caller.role, 'owner')) throw new Refusal('forbidden', 'only an owner of the tenant may do this');
}

/** Members with their users, in the same order. */
export async function withUsers(em: EntityManager, memberships: MembershipRow[]): Promise<Member[]> {
  const users = await em.find(User, { id: { $in: memberships.map(({ userId }) => userId) } });
  const byId = new Map(users.map((user) => [user.id, user]));
  return memberships.flatMap(({ userId, role, createdAt }) => {
    const user = byId.get(userId);
    return user ? [{ user, role, createdAt }] : [];
  });
}

async function memberToChange(caller: TenantMember, memberId: string): Promise<MembershipRow> {
  const userId = field.uuidOf('user', memberId, unknownMember);
  // Not from the identity map: it may have been read before the tenant was locked.
  const membership = await caller.em.findOne(Membership, { tenantId: caller.tenant.tenantId, userId }, { refresh: true });
  if (!membership) throw unknownMember();
  assertMayChange(caller, membership.role);
  return { ...membership };
}

/**
 * Ends what the member has by its role: its access keys, its open invitations unless the next role (null: none) is higher, and for an owner its place
 * as one, which the last owner keeps.
 */
async function endMembership(caller: TenantMember, { tenantId, userId, role }: MembershipRow, next: Role | null): Promise<void> {
  const { em, nowMs } = caller;
  const owners = role === 'owner' ? await em.find(Membership, { tenantId, role }, { limit: 2 }) : [];
  if (owners.length === 1) {
    throw new Refusal('last_owner', 'a tenant keeps at least one owner: make another member an owner first');
  }
  await endAccessKeys(em, userId, nowMs);
  if (next === null || !isAtLeast(next, role)) await revokeInvitations(caller, { invitedBy: userId });
}

const idOf = ({ tenantId, userId }: MembershipRow) => ({ tenantId, userId });

function unknownMember(): Refusal {
  return new Refusal('member_not_found', 'member not found');
}
