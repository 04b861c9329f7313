// States of a tenant: owners suspend and resume it, close it, and reopen it before it is deleted.
import type { MikroORM } from '@mikro-orm/postgresql';
import { toId } from '../platform/ids.ts';
import type { Role } from '../platform/roles.ts';
import { Tenant, type TenantRow } from './entities.ts';
import { assertActive, changeTenant, type TenantCall } from './tenant-changes.ts';

const changes = {
  suspend: { from: ['active'], to: 'suspended', type: 'tenant.suspended' },
  resume: { from: ['suspended'], to: 'active', type: 'tenant.resumed' },
  close: { from: ['active', 'suspended'], to: 'closed', type: 'tenant.closed' },
  reopen: { from: ['closed'], to: 'active', type: 'tenant.reopened' },
};

/** What an owner does with a tenant. */
export type StateChange = keyof typeof changes;

// Gateways learn of a closed tenant within 5 s. What they sent before must have ended when the deletion starts.
const settleMs = 10_000;

/**
 * Changes the state of a tenant; where it has that state already, nothing. A tenant that is closed now is deleted after `deleteAfterMs` milliseconds.
 * Throws as {@link changeTenant}, also `tenant_suspended` and `tenant_closed` where the change does not start from that state.
 */
export function changeState(
  orm: MikroORM,
  call: TenantCall,
  change: StateChange,
  deleteAfterMs: number,
): Promise<{ tenant: TenantRow; role: Role }> {
  const { from, to, type } = changes[change];
  return changeTenant(orm, call, { role: 'owner', whileReadOnly: true }, async ({ em, tenant, role, nowMs, audit }) => {
    if (tenant.status === to) return { tenant, role };
    if (!from.includes(tenant.status)) assertActive(tenant);
    const { tenantId, slug } = tenant;
    const deleteAt = change === 'close' ? new Date(nowMs + deleteAfterMs) : null;
    await em.nativeUpdate(Tenant, { tenantId }, { status: to, deleteAt });
    if (deleteAt) {
      const startAt = new Date(Math.max(deleteAt.getTime(), nowMs + settleMs));
      await em.execute('insert into closings (tenant_id, slug, delete_at, next_attempt_at) values (?, ?, ?, ?)', [
        ...[tenantId, slug, deleteAt, startAt],
      ]);
    }
    // Once the deletion has started there is no member left to reopen the tenant.
    if (change === 'reopen') await em.execute('delete from closings where tenant_id = ?', [tenantId]);
    const data = deleteAt ? { delete_at: deleteAt.toISOString() } : {};
    await audit({ type, subject: toId('tenant', tenantId), data });
    return { tenant: { ...tenant, status: to, deleteAt }, role };
  });
}
