// Forgets deliveries and their attempts when their time is over, and brings forward what the database's clock has left behind.
import { plainArray, textArray, uuidArray } from '../platform/arrays.ts';
import { inTransaction, epochMs, type Pool } from '../platform/postgres.ts';
import { bisect } from '../platform/postgres-errors.ts';
import { eventTypes } from './webhook.ts';

// Deliveries in one statement, over all of its tenants: it holds no lock for long, and ends well within its time on a slow disk.
const rowsAtOnce = 2_000;
const tenantsAtOnce = 100;

/** What lies together in the index, oldest first. */
interface Place {
  tenant: string;
  status: string;
  type: string;
  /** When the newest was made that the statement before deleted, in whole milliseconds. */
  from: string;
}

const statement = {
  name: 'sweep',
  // Equal shares: whoever has much keeps nobody else waiting, and has all of it when the others have nothing left. Each place is read on from where
  // the statement before left it: what was deleted stays in the index while anybody has an old snapshot open (an operator, a dump). Read from the
  // beginning each time, a thousand took more than twice as long behind 100,000 of them, and more with every statement. What is of the same
  // millisecond is looked for again; what can be deleted only later is the next sweep's, which begins at the beginning.
  text: `with old as (
      select p.place, d.tenant_id, d.id from unnest($1::uuid[], $2::text[], $3::text[], $4::timestamptz[])
        with ordinality as p (tenant_id, status, event_type, made_from, place)
      cross join lateral (
        select tenant_id, id from deliveries
        where tenant_id = p.tenant_id and status = p.status and event_type = p.event_type
          and created_at >= p.made_from and created_at < now() - $5::float8 * interval '1 day'
        order by created_at limit ${rowsAtOnce} / cardinality($1::uuid[])
      ) as d
    ), gone as (
      delete from deliveries d using old o where d.tenant_id = o.tenant_id and d.id = o.id and d.status <> 'pending'
      returning o.place, d.tenant_id, d.id, d.event_id, d.created_at
    ), payloads_gone as (
      delete from payloads p using gone g where p.tenant_id = g.tenant_id and p.event_id = g.event_id
    ), attempts_gone as (
      delete from attempts a using gone g where a.tenant_id = g.tenant_id and a.delivery_id = g.id
    ) select place::int, count(*)::int as swept, ${epochMs('max(created_at)')} as from_ms from gone group by place`,
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
export async function deleteExpired(pool: Pool, days: number, signal?: AbortSignal): Promise<number> {
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
    let left: Place[] = tenants.flatMap((tenant) =>
      ['delivered', 'failed'].flatMap((status) => eventTypes.map((type) => ({ tenant, status, type, from: '-infinity' }))),
    );
    while (left.length > 0 && !over()) {
      const owners = left.map(({ tenant }) => tenant);
      const values = [
        uuidArray(owners),
        textArray(left.map(({ status }) => status)),
        textArray(left.map(({ type }) => type)),
        plainArray(left.map(({ from }) => from)),
        days,
      ];
      const { rows } = await inTransaction(pool, [...new Set(owners)], (client) =>
        client.query<{ place: number; swept: number; from_ms: number }>({ ...statement, values }),
      );
      for (const row of rows) swept += row.swept;
      left = rows.map((row) => ({ ...(left[row.place - 1] as Place), from: new Date(row.from_ms).toISOString() }));
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
    await bisect(tenants, sweepOf, (_, why) => refusals.push(why));
  }
  if (refusals.length > 0) throw refusals[0];
  return swept;
}

/** As those of the claims, for the test of the plans. */
export const statements = {
  sweep: { ...statement, types: ['uuid[]', 'text[]', 'text[]', 'timestamptz[]', 'float8'] },
  bring_forward: { ...bringForward, types: ['uuid[]'] },
};
