// Limits as rolling windows in PostgreSQL, so that they hold over all replicas: one row a tenant and policy with the times it counts.
import { inTransaction, type Connections } from '../platform/postgres.ts';
import { rateLimitMetadata, type RateLimitStatus } from '../platform/errors.ts';
import { Refusal } from './refusal.ts';

/** What is limited. */
export type Policy = 'webhook-config' | 'retries' | 'tests';

/** Requests in a window, by policy. */
export type Quotas = Record<Policy, number>;

/** Length of each window, seconds. */
const windows: Record<Policy, number> = { 'webhook-config': 60, retries: 3600, tests: 3600 };

// A time to come is of a clock that was set back: it would count, and be waited for, as much longer.
const live = `where at > clock_timestamp() - $3::float8 * interval '1 second' and at <= clock_timestamp()`;
const statements = {
  make: { name: 'limits_make', text: `insert into limits (tenant_id, policy, taken) values ($1, $2, '{}') on conflict do nothing` },
  // In a statement of its own: whoever waits for the row sees what was counted meanwhile.
  lock: { name: 'limits_lock', text: 'select from limits where tenant_id = $1 and policy = $2 for update' },
  count: {
    name: 'limits_count',
    text: `select count(*)::int as taken, ceil(extract(epoch from min(at) - clock_timestamp()) + $3)::int as reset
      from limits, unnest(taken) as at ${live} and tenant_id = $1 and policy = $2`,
  },
  take: {
    name: 'limits_take',
    text: `update limits set taken = array(select at from unnest(taken) as at ${live} order by at) || clock_timestamp()
      where tenant_id = $1 and policy = $2`,
  },
};

/** Counts a request and tells where the tenant stands then. Throws the refusal `rate_limited` where the window is full; that request is not counted. */
export async function admit(pool: Connections, quotas: Quotas, tenant: string, policy: Policy): Promise<RateLimitStatus> {
  const quota = quotas[policy];
  const window = windows[policy];
  const values = [tenant, policy, window];
  const { taken, reset } = await inTransaction(pool, [tenant], async (client) => {
    const [, , { rows }] = await Promise.all([
      client.query({ ...statements.make, values: [tenant, policy] }),
      client.query({ ...statements.lock, values: [tenant, policy] }),
      client.query<{ taken: number; reset: number | null }>({ ...statements.count, values }),
    ]);
    const [row] = rows;
    if (!row) throw new Error('a count is one row');
    if (row.taken < quota) await client.query({ ...statements.take, values });
    return row;
  });
  const standing = { policy, quota, window, reset: Math.min(window, Math.max(1, reset ?? window)) };
  if (taken < quota) return { ...standing, remaining: quota - taken - 1 };
  const metadata = rateLimitMetadata({ ...standing, remaining: 0 });
  throw new Refusal('rate_limited', 'too many requests, try again later', { retryAfter: standing.reset, metadata });
}
