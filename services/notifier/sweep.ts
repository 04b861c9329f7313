// Forgets deliveries and their attempts when their time is over, and brings forward what the database's clock has left behind.
import { uuidArray } from '../platform/arrays.ts';
import { inTransaction, type Pool } from '../platform/postgres.ts';
import { takeApart } from '../platform/postgres-errors.ts';
import { eventTypes } from './webhook.ts';

// Deliveries in one statement, over all of its tenants: it holds no lock for long, and ends well within its time on a slow disk.
const rowsAtOnce = 2_000;
const tenantsAtOnce = 100;

const statement = {
  name: 'sweep',
  // Equal shares: whoever has much keeps nobody else waiting, and has all of it when the others have nothing left.
  text: `with old as (
      select d.tenant_id, d.id from unnest($1::uuid[]) as t cross join unnest(array['delivered', 'failed']) as s
      cross join lateral (
        select tenant_id, id from deliveries where tenant_id = t and status = s and event_type = any ($3::text[])
          and created_at < now() - $2::float8 * interval '1 day' limit ${rowsAtOnce} / (2 * cardinality($1::uuid[]))
      ) as d
    ), gone as (
      delete from deliveries d using old o where d.tenant_id = o.tenant_id and d.id = o.id and d.status <> 'pending' returning d.tenant_id, d.id, d.event_id
    ), payloads_gone as (
      delete from payloads p using gone g where p.tenant_id = g.tenant_id and p.event_id = g.event_id
    ), attempts_gone as (
      delete from attempts a using gone g where a.tenant_id = g.tenant_id and a.delivery_id = g.id
    ) select tenant_id, count(*)::int as swept from gone group by tenant_id`,
};

// A clock that was set back leaves what was due at once to times to come: those are nobody's wish, but for a retry's that was promised before. Claims
// made then would last as long: they end, and what was being attempted just when the clock was set back is sent once more.
const bringForward = {
  name: 'bring_forward',
  text: `with clock as materialized (select now() as at, now() + interval '1 minute' as ahead),
    ended as (
      update claims c set started_at = at - (c.until - c.started_at), until = at
      from clock where c.tenant_id = any ($1::uuid[]) and c.started_at > ahead returning c.tenant_id
    ), late as materialized (
      select d.id from clock, deliveries d where d.tenant_id = any ($1::uuid[]) and d.status = 'pending' and d.run_at > ahead
        and (d.next_retry_at is null or d.by_hand or d.created_at > ahead) limit ${rowsAtOnce}
    ), brought as (
      update deliveries d set run_at = at, next_retry_at = case when d.next_retry_at is not null then at end
      from clock where d.tenant_id = any ($1::uuid[]) and d.id = any (array(select id from late)) and d.status = 'pending' returning d.tenant_id
    ), lowered as (
      update due set next_at = at from clock
      where tenant_id = any ($1::uuid[]) and next_at > at and (tenant_id in (select tenant_id from ended union all select tenant_id from brought)
        or (next_at > ahead
          and (select d.run_at from deliveries d where d.tenant_id = due.tenant_id and d.status = 'pending' order by d.run_at, d.id limit 1) <= at))
    ) select count(*)::int as brought from brought`,
};

/**
 * Deletes what is older than `days`, of all tenants, and makes due what waits for a time that the database's clock was set back from; answers how
 * many deliveries were deleted. `signal` ends it early. A tenant of whom PostgreSQL refuses it keeps nobody else's: what it says is thrown at the end.
 */
export async function sweep(pool: Pool, days: number, signal?: AbortSignal): Promise<number> {
  const over = (): boolean => signal?.aborted ?? false;
  let swept = 0;
  const refusals: unknown[] = [];
  const sweepOf = async (tenants: readonly string[]): Promise<void> => {
    for (let brought = rowsAtOnce; brought === rowsAtOnce && !over();) {
      const { rows } = await inTransaction(pool, [...tenants], (client) =>
        client.query<{ brought: number }>({ ...bringForward, values: [uuidArray(tenants)] }),
      );
      brought = rows[0]?.brought ?? 0;
    }
    for (let left = [...tenants]; left.length > 0 && !over();) {
      const values = [left, days, eventTypes];
      const { rows } = await inTransaction(pool, left, (client) =>
        client.query<{ tenant_id: string; swept: number }>({ ...statement, values }),
      );
      for (const row of rows) swept += row.swept;
      left = rows.map((row) => row.tenant_id);
    }
  };
  let after = '00000000-0000-0000-0000-000000000000';
  while (!over()) {
    const tenants = await inTransaction(pool, [], async (client) => {
      await client.query(`select set_config('app.job', 'find work', true)`);
      const text = 'select tenant_id from due where tenant_id > $1 order by tenant_id limit $2';
      return (await client.query<{ tenant_id: string }>(text, [after, tenantsAtOnce])).rows.map((row) => row.tenant_id);
    });
    const last = tenants.at(-1);
    if (last === undefined) break;
    after = last;
    await takeApart(tenants, sweepOf, (_, why) => refusals.push(why));
  }
  if (refusals.length > 0) throw refusals[0];
  return swept;
}

/** As those of the claims, for the test of the plans. */
export const statements = {
  sweep: { ...statement, types: ['uuid[]', 'float8', 'text[]'] },
  bring_forward: { ...bringForward, types: ['uuid[]'] },
};
