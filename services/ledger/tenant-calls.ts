// Connections of the calls that no writer runs, shared by the tenants, and the turn of those that change something.
import type { HandlerContext } from '@connectrpc/connect';
import { FairSemaphore } from '../platform/fair-semaphore.ts';
import type { Connections, Pool } from '../platform/postgres.ts';
import { SharedPool } from '../platform/shared-pool.ts';

/** What handlers of such calls need. They throw Overloaded if too many calls wait. */
export interface TenantCalls {
  pool: SharedPool;
  /** Runs a change of a tenant (UUID) in its turn. */
  changed: <Answer>(tenant: string, context: HandlerContext, change: (own: Connections) => Promise<Answer>) => Promise<Answer>;
}

/** Calls on these connections. `committed` is called after the commit with the tenant (UUID) whose log has grown. */
export function tenantCalls(connections: Pool, committed: (tenant: string) => void): TenantCalls {
  const pool = new SharedPool(connections);
  // A tenant's changes wait for its head anyway. Waiting here they do not occupy connections that reads need.
  const changes = new FairSemaphore({ max: Math.max(1, Math.floor((connections.options.max * 3) / 4)), maxPerKey: 1 });
  return {
    pool,
    async changed(tenant, { signal }, change) {
      const answer = await changes.run(tenant, signal, () => change(pool.of(tenant, signal)));
      committed(tenant);
      return answer;
    },
  };
}
