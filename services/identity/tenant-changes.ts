// What members do in a tenant: checks role, second factor and state under a lock of the tenant, and writes the audit log.
import { LockMode, type EntityManager, type MikroORM } from '@mikro-orm/postgresql';
import { toId } from '../platform/ids.ts';
import { isAtLeast, type Role } from '../platform/roles.ts';
import { audit, type AuditChange, type Origin } from './audit.ts';
import { databaseNow, entityManager, setTenants } from './database.ts';
import { ApiKey, Membership, Tenant, User, type TenantRow } from './entities.ts';
import * as field from './fields.ts';
import { Refusal } from './refusal.ts';

/** The user, the tenant and the client of a call. */
export interface TenantCall {
  userId: string;
  tenantId: string;
  origin?: Origin | undefined;
}

/** Who may do it. */
export interface TenantRule {
  /** The role that suffices, as each above it. */
  role: Role;
  /** Also in a suspended or closed tenant. */
  whileReadOnly?: boolean;
}

/** A member of a tenant at work. */
export interface TenantMember {
  em: EntityManager;
  tenant: TenantRow;
  /** UUID of the user. */
  user: string;
  role: Role;
  /** Milliseconds since the Unix epoch. */
  nowMs: number;
  /** Writes to the tenant's audit log. */
  audit: (change: Pick<AuditChange, 'type' | 'subject' | 'data'>) => Promise<void>;
}

/**
 * Runs a change of a tenant in a transaction that has locked it, so that of two changes at once the second sees the first. Throws `tenant_not_found`,
 * also to users who are no members, `forbidden`, `tenant_suspended`, `tenant_closed`.
 */
export async function changeTenant<Result>(
  orm: MikroORM,
  call: TenantCall,
  rule: TenantRule,
  work: (member: TenantMember) => Promise<Result>,
): Promise<Result> {
  const tenantId = tenantUuid(call.tenantId);
  return entityManager(orm, { tenant: tenantId }).transactional(async (em) => {
    // First without the lock: an outsider must not hold up a tenant.
    await checkedMember(em, tenantId, call.userId, rule);
    await em.findOneOrFail(Tenant, { tenantId }, { lockMode: LockMode.PESSIMISTIC_WRITE });
    const { tenant, user, role } = await checkedMember(em, tenantId, call.userId, rule);
    const nowMs = await databaseNow(em);
    const actor = toId('user', user);
    const write: TenantMember['audit'] = (change) => audit(em, { tenant: tenantId }, { ...change, actor, origin: call.origin }, nowMs);
    return work({ em, tenant, user, role, nowMs, audit: write });
  });
}

/** Runs a read of a tenant for a member. Throws as {@link changeTenant}. */
export async function readTenant<Result>(
  orm: MikroORM,
  call: TenantCall,
  rule: TenantRule,
  work: (em: EntityManager) => Promise<Result>,
): Promise<Result> {
  const tenantId = tenantUuid(call.tenantId);
  return entityManager(orm, { tenant: tenantId }).transactional(async (em) => {
    await checkedMember(em, tenantId, call.userId, rule);
    return work(em);
  });
}

/** The membership of a user, whatever the state of the tenant. Throws `tenant_not_found`, `forbidden` (no second factor where one is required). */
export async function memberOf(
  em: EntityManager,
  tenantId: string,
  userId: string,
): Promise<{ tenant: TenantRow; user: string; role: Role }> {
  const user = field.uuidOf('user', userId, unknownTenant);
  const membership = await em.findOne(Membership, { tenantId, userId: user }, { refresh: true });
  const tenant = membership && (await em.findOne(Tenant, { tenantId }, { refresh: true }));
  if (!tenant) throw unknownTenant();
  if (tenant.requireTotp) {
    const { totpSecret } = await em.findOneOrFail(User, { id: user }, { refresh: true });
    if (totpSecret === null) throw new Refusal('forbidden', 'this tenant requires a second factor: turn one on for your user');
  }
  return { tenant, user, role: membership.role };
}

/** Ends a user's access keys in the tenants that the transaction may change. */
export async function endAccessKeys(em: EntityManager, user: string, nowMs: number): Promise<void> {
  await em.nativeUpdate(ApiKey, { memberId: user, revokedAt: null }, { revokedAt: new Date(nowMs) });
}

/** Ends a user's access keys in all its tenants. The caller has locked the user's row, and sees only what that user may. */
export async function endAccessKeysOfUser(em: EntityManager, user: string, nowMs: number): Promise<void> {
  const memberships = await em.find(Membership, { userId: user });
  const tenants = memberships.map(({ tenantId }) => tenantId);
  await setTenants(em, tenants);
  await endAccessKeys(em, user, nowMs);
}

/** Revokes the open invitations of a tenant to an address, or by a user (UUID). */
export async function revokeInvitations(
  { em, tenant: { tenantId }, nowMs, audit: write }: TenantMember,
  which: { email: string } | { invitedBy: string },
): Promise<void> {
  const [condition, value] = 'email' in which ? ['lower(email) = lower(?)', which.email] : ['invited_by = ?', which.invitedBy];
  const now = new Date(nowMs);
  const revoked = await em.execute<{ id: string; email: string }[]>(
    `update invitations set revoked_at = ? where tenant_id = ? and ${condition} and accepted_at is null and revoked_at is null
     and expires_at > ? returning id, email`,
    [now, tenantId, value, now],
  );
  for (const { id, email } of revoked) await write({ type: 'invitation.revoked', subject: toId('inv', id), data: { email } });
}

async function checkedMember(em: EntityManager, tenantId: string, userId: string, rule: TenantRule): ReturnType<typeof memberOf> {
  const member = await memberOf(em, tenantId, userId);
  if (!isAtLeast(member.role, rule.role)) throw new Refusal('forbidden', `only ${whoMay(rule.role)} of the tenant may do this`);
  if (!rule.whileReadOnly) assertActive(member.tenant);
  return member;
}

/** Throws `tenant_suspended` or `tenant_closed`. */
export function assertActive({ status }: TenantRow): void {
  if (status === 'suspended') throw new Refusal('tenant_suspended', 'the tenant is suspended');
  if (status === 'closed') throw new Refusal('tenant_closed', 'the tenant is closed');
}

function whoMay(role: Role): string {
  return role === 'owner' ? 'an owner' : role === 'admin' ? 'an owner or admin' : 'a member';
}

/** The UUID of a tenant's identifier. Throws `tenant_not_found`: a malformed identifier is an unknown tenant. */
export function tenantUuid(id: string): string {
  return field.uuidOf('tenant', id, unknownTenant);
}

/** The error for a tenant that does not exist, and to users who are no members, so that they can't learn which tenants exist. */
function unknownTenant(): Refusal {
  return new Refusal('tenant_not_found', 'tenant not found');
}
