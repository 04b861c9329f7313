// For the operator: which tenants have deliveries that wait, and since when.
import { uuidArray } from '../platform/arrays.ts';
import { toId } from '../platform/ids.ts';
import { inTransaction, setTenants, type Pool } from '../platform/postgres.ts';

/** A tenant with pending deliveries. */
export interface DueTenant {
  tenant: string;
  /** Deliveries that are neither delivered nor failed. */
  pending: number;
  /** Since when the next attempt is due, seconds; below zero: it is due in so many. */
  dueSeconds: number;
  /** Whether the webhook is enabled; null: there is none. */
  enabled: boolean | null;
}

/** The tenants that have been due the longest, at most so many, or one (UUID); and how many wait and are due in all. */
export async function readDueTenants(
  pool: Pool,
  { tenant = null, limit }: { tenant?: string | null | undefined; limit: number },
): Promise<{ tenants: DueTenant[]; waiting: number; due: number }> {
  return inTransaction(pool, [], async (client) => {
    await client.query(`select set_config('app.job', 'find work', true)`);
    const { rows } = await client.query<{ tenant_id: string; seconds: number }>(
      `select tenant_id, extract(epoch from clock_timestamp() - next_at)::float8 as seconds from due
        where next_at is not null and ($1::uuid is null or tenant_id = $1) order by next_at limit $2`,
      [tenant, limit],
    );
    const counted = await client.query<{ waiting: number; due: number }>(
      `select count(*)::float8 as waiting, count(*) filter (where next_at <= clock_timestamp())::float8 as due from due
        where next_at is not null and ($1::uuid is null or tenant_id = $1)`,
      [tenant],
    );
    const ids = rows.map((row) => row.tenant_id);
    await client.query(setTenants(ids));
    const pending = await client.query<{ tenant_id: string; pending: number; enabled: boolean | null }>(
      `select t as tenant_id, (select count(*)::float8 from deliveries where tenant_id = t and status = 'pending') as pending,
          (select enabled from webhooks where tenant_id = t) as enabled
        from unnest($1::uuid[]) as t`,
      [uuidArray(ids)],
    );
    const known = new Map(pending.rows.map((row) => [row.tenant_id, row]));
    const tenants = rows.map(({ tenant_id: id, seconds }) => {
      const { pending: count = 0, enabled = null } = known.get(id) ?? {};
      return { tenant: toId('tenant', id), pending: count, dueSeconds: seconds, enabled };
    });
    return { tenants, waiting: 0, due: 0, ...counted.rows[0] };
  });
}
