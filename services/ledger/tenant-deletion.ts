// Deletes all rows of a tenant for ever, a part at a time. The end of its log stays.
import type { ServiceImpl } from '@connectrpc/connect';
import type { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { inTransaction, type Connections } from '../platform/postgres.ts';
import { tenantOf } from './fields.ts';
import type { TenantCalls } from './tenant-calls.ts';

/** The constraint that refuses the head of a deleted tenant. */
export const deletedConstraint = 'heads_must_not_return';

// Rows of a transaction: it locks nothing for long, and stays within its time limit on a slow disk.
const maxRows = 2_000;
// A call goes on for so long.
const callMs = 2_000;

/** The end of a deleted tenant's log. */
interface Deletion {
  done: boolean;
  lastSequence: bigint;
  /** Hex. */
  lastHash: string;
}

/** Handler of DeleteTenant. */
export function deletionHandlers({ pool }: TenantCalls): Pick<ServiceImpl<typeof LedgerService>, 'deleteTenant'> {
  return {
    async deleteTenant(request, { signal }) {
      const tenant = tenantOf(request);
      const end = performance.now() + callMs;
      for (;;) {
        const deletion = await deletePart(pool.of(tenant, signal), tenant);
        if (deletion.done || performance.now() > end) return deletion;
      }
    },
  };
}

function deletePart(connections: Connections, tenant: string): Promise<Deletion> {
  return inTransaction(connections, [tenant], async (client) => {
    const deleted = await client.query<{ is_left: boolean }>('select delete_tenant($1, $2) as is_left', [tenant, maxRows]);
    const { rows } = await client.query<Omit<Deletion, 'done'>>(
      `select last_sequence as "lastSequence", encode(last_hash, 'hex') as "lastHash" from deleted_tenants where tenant_id = $1`,
      [tenant],
    );
    return { done: deleted.rows[0]?.is_left === false, ...(rows[0] as Omit<Deletion, 'done'>) };
  });
}
