// Freezes a tenant whose log or tables are not what they were: changes are refused until the operator has repaired it.
import { inTransaction, type Connections } from '../../platform/postgres.ts';
import type { Logger } from '../../platform/telemetry.ts';

const maxReason = 1_000;

/**
 * Freezes a tenant (UUID), with the first `reason` that is given. Answers whether this call did; false: it was frozen, is deleted, or the
 * feature `proof` is not enabled yet.
 */
export async function freezeTenant(pool: Connections, logger: Logger, tenant: string, reason: string): Promise<boolean> {
  const { rows } = await inTransaction(pool, [tenant], (client) =>
    client.query<{ isNew: boolean }>({
      name: 'freeze_tenant',
      text: 'select freeze_tenant($1, $2) as "isNew"',
      values: [tenant, reason.slice(0, maxReason)],
    }),
  );
  const isNew = rows[0]?.isNew === true;
  logger.error({ tenant, reason }, isNew ? 'a tenant was frozen' : 'a tenant should be frozen: it is already, or proof is not enabled');
  return isNew;
}
