// Settings of a tenant: whether its members need a second factor.
import type { MikroORM } from '@mikro-orm/postgresql';
import { toId } from '../platform/ids.ts';
import { Tenant, User, type TenantRow } from './entities.ts';
import { Refusal } from './refusal.ts';
import { changeTenant, type TenantCall } from './tenant-changes.ts';

/**
 * Sets whether members need a second factor, for owners that have one. Ends access keys of members without. Throws `forbidden` and as
 * {@link changeTenant}.
 */
export async function updateTenant(orm: MikroORM, call: TenantCall & { requireTotp: boolean }): Promise<TenantRow> {
  const { requireTotp } = call;
  return changeTenant(orm, call, { role: 'owner' }, async ({ em, tenant, user, nowMs, audit }) => {
    const { tenantId } = tenant;
    const { totpSecret } = await em.findOneOrFail(User, { id: user }, { refresh: true });
    if (totpSecret === null) throw new Refusal('forbidden', 'only an owner with a second factor may do this: turn one on for your user');
    if (tenant.requireTotp === requireTotp) return tenant;
    await em.nativeUpdate(Tenant, { tenantId }, { requireTotp });
    if (requireTotp)
      await em.execute(
        `update api_keys set revoked_at = ? where tenant_id = ? and revoked_at is null
         and exists (select from users where id = member_id and totp_secret is null)`,
        [new Date(nowMs), tenantId],
      );
    await audit({ type: 'tenant.updated', subject: toId('tenant', tenantId), data: { require_totp: requireTotp } });
    return { ...tenant, requireTotp };
  });
}
