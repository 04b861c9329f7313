// Deletes deliveries, and their attempts and payloads, at the end of their retention.
import { textArray, uuidArray } from '../platform/arrays.ts';
import { inTransaction, type Pool } from '../platform/postgres.ts';
import { bisect } from '../platform/postgres-errors.ts';
import { eventTypes } from './webhook.ts';

// Deliveries in one statement: it locks nothing for long, and stays within its time limit on a slow disk.
const maxRows = 2_000;
const tenantsPerBatch = 100;

/** Deliveries that are next to each other in the index, oldest first. */
interface IndexRange {
  tenant: string;
  status: string;
  type: string;
}

const deleteOld = {
  name: 'delete_old',
  // Equal shares of the ranges: a tenant with many deliveries has the whole statement when nothing is left of others.
  text: `with old as (
      select r.number, d.tenant_id, d.id from unnest($1::uuid[], $2::text[], $3::text[]) with ordinality as r (tenant_id, status, event_type, number)
      cross join lateral (
        select tenant_id, id from deliveries
        where tenant_id = r.tenant_id and status = r.status and event_type = r.event_type and created_at < now() - $4::float8 * interval '1 day'
        order by created_at limit ${maxRows} / cardinality($1::uuid[])
      ) as d
    ), gone as (
      delete from deliveries d using old o where d.tenant_id = o.tenant_id and d.id = o.id and d.status <> 'pending'
      returning o.number, d.tenant_id, d.id, d.event_id
    ), payloads_gone as (
      delete from payloads p using gone g where p.tenant_id = g.tenant_id and p.event_id = g.event_id
    ), attempts_gone as (
      delete from attempts a using gone g where a.tenant_id = g.tenant_id and a.delivery_id = g.id
    ) select number::int, count(*)::int as deleted from gone group by number`,
};

/**
 * Deletes what is older than `days`, of all tenants; answers how many deliveries. `signal` ends it early. After a data error of one tenant
 * the others are served, and the error is thrown at the end.
 */
export async function deleteExpired(pool: Pool, days: number, signal?: AbortSignal): Promise<number> {
  let deleted = 0;
  const failures: unknown[] = [];
  const deleteOf = async (tenants: readonly string[]): Promise<void> => {
    let remaining: IndexRange[] = tenants.flatMap((tenant) =>
      ['delivered', 'failed'].flatMap((status) => eventTypes.map((type) => ({ tenant, status, type }))),
    );
    while (remaining.length > 0 && signal?.aborted !== true) {
      const owners = remaining.map(({ tenant }) => tenant);
      const values = [
        uuidArray(owners),
        textArray(remaining.map(({ status }) => status)),
        textArray(remaining.map(({ type }) => type)),
        days,
      ];
      const { rows } = await inTransaction(pool, [...new Set(owners)], (client) =>
        client.query<{ number: number; deleted: number }>({ ...deleteOld, values }),
      );
      for (const row of rows) deleted += row.deleted;
      remaining = rows.map(({ number }) => remaining[number - 1] as IndexRange);
    }
  };
  for (let after = '00000000-0000-0000-0000-000000000000'; signal?.aborted !== true;) {
    const tenants = await inTransaction(pool, [], async (client) => {
      await client.query(`select set_config('app.job', 'find work', true)`);
      const text = 'select tenant_id from due where tenant_id > $1 order by tenant_id limit $2';
      return (await client.query<{ tenant_id: string }>(text, [after, tenantsPerBatch])).rows.map((row) => row.tenant_id);
    });
    const last = tenants.at(-1);
    if (last === undefined) break;
    after = last;
    await bisect(tenants, deleteOf, (_, error) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
  return deleted;
}

/** Statement with the types of its parameters, for the test of its plan. */
export const statements = { delete_old: { ...deleteOld, types: ['uuid[]', 'text[]', 'text[]', 'float8'] } };
