// Rate limits as rolling windows in PostgreSQL, shared by all replicas: one row a tenant and policy, with request times.
import { inTransaction, type Connections } from '../platform/postgres.ts';
import { rateLimitMetadata, type RateLimitStatus } from '../platform/errors.ts';
import { Refusal } from './refusal.ts';

/** Limited operations. */
export type Policy = 'webhook-config' | 'retries' | 'tests';

/** Requests in a window, by policy. */
export type Quotas = Record<Policy, number>;

/** Length of each window, seconds. */
const windows: Record<Policy, number> = { 'webhook-config': 60, retries: 3600, tests: 3600 };

// Times in the future, after the clock was set back, would count for too long.
const live = `where at > clock_timestamp() - $3::float8 * interval '1 second' and at <= clock_timestamp()`;
const statements = {
  make: { name: 'limits_make', text: `insert into limits (tenant_id, policy, taken) values ($1, $2, '{}') on conflict do nothing` },
  // A statement of its own: after waiting for the row, the next one sees what was counted meanwhile.
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

/** Counts a request and answers the tenant's status. Throws the refusal `rate_limited` where the window is full; that request is not counted. */
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
  const rateLimit = { policy, quota, window, reset: Math.min(window, Math.max(1, reset ?? window)) };
  if (taken < quota) return { ...rateLimit, remaining: quota - taken - 1 };
  const metadata = rateLimitMetadata({ ...rateLimit, remaining: 0 });
  throw new Refusal('rate_limited', 'too many requests, try again later', { retryAfter: rateLimit.reset, metadata });
}
