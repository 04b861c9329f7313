// The tables that are derived from the log, as the database's catalog describes them.
import pg from 'pg';
import { StartFailure } from '../../platform/lifetime.ts';
import { readyKeys } from '../metadata-indexes.ts';
import { auditorTables, ownerTables } from '../schema.ts';
import type { IndexState } from './replay-indexes.ts';

/** A table that is derived from the log. */
export interface Projection {
  name: string;
  /** All columns but `heads.rebuilt` and `heads.frozen_at`, which are no part of the log. */
  columns: string[];
  /** The same as expressions, cast from domains to their base types, which take any value. */
  plain: string[];
  /** The same as column definitions: name, base type, collation. */
  definitions: string[];
  /** Columns of the primary key. */
  key: string[];
}

/** Projections, in the order in which foreign keys let them be filled. */
const projectionNames = [
  ...['heads', 'accounts', 'transactions', 'entries', 'balances'],
  ...['holds', 'hold_entries', 'parts', 'definitions', 'velocity', 'books', 'periods'],
  ...['shifted_transactions', 'shifted_entries', 'shifted_months', 'transaction_metadata', 'transaction_texts', 'volumes'],
  ...['subject_transactions', 'erased_subjects', 'redactions'],
];
/** Tables of the relay, which say nothing about accounts. */
export const relayTables = ['relay_marks', 'relay_dead_letters'];
/** All tables with rows of tenants. */
export const tenantTables = [...projectionNames, 'log', ...relayTables];
/** The same, those that are no part of the log, and the one that keeps what is left of deleted tenants. */
export const securedTables = [...new Set([...tenantTables, ...auditorTables, ...ownerTables, 'filters', 'deleted_tenants'])];

/** Every projection, from the catalog. Throws {@link StartFailure} where the schema is not what the migrations made. */
export async function projections(client: pg.ClientBase): Promise<Projection[]> {
  const { rows } = await client.query<Projection>(
    `select c.relname as name, columns, plain, definitions,
        array(select a.attname::text from pg_index i join pg_attribute a on a.attrelid = c.oid and a.attnum = any(i.indkey)
          where i.indrelid = c.oid and i.indisprimary order by array_position(i.indkey::int2[], a.attnum)) as key
      from pg_class c, lateral (
        select array_agg(a.attname::text order by a.attnum) as columns, array_agg(format('%I::%s', a.attname, type) order by a.attnum) as plain,
          array_agg(format('%I %s %s', a.attname, type, 'collate ' || nullif(a.attcollation, 0)::regcollation) order by a.attnum) as definitions
        from pg_attribute a join pg_type t on t.oid = a.atttypid,
          format_type(coalesce(nullif(t.typbasetype, 0), t.oid), greatest(t.typtypmod, a.atttypmod)) as type
        where a.attrelid = c.oid and a.attnum > 0 and not (c.relname = 'heads' and a.attname in ('rebuilt', 'frozen_at'))) as described
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
        and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped)`,
  );
  const unknown = rows.filter((table) => !securedTables.includes(table.name)).map(({ name }) => name);
  if (unknown.length > 0) throw new StartFailure(`nothing derives ${unknown.join(', ')} from the log`);
  const damaged = securedTables.filter((name) => !rows.some((table) => table.name === name && table.key.length > 0));
  if (damaged.length > 0) throw new StartFailure(`${damaged.join(', ')}: no table of tenants with a primary key: restore the schema`);
  return projectionNames.flatMap((name) => rows.filter((table) => table.name === name));
}

/** How far a tenant's indexes (UUID) are. `locked`: so that they stay so until the transaction ends. */
export async function indexState(client: pg.ClientBase, tenant: string, locked = false): Promise<IndexState> {
  if (locked) await client.query(`select pg_advisory_xact_lock(hashtextextended('index ' || $1, 0))`, [tenant]);
  const { rows } = await client.query<{ keys: string[] | null; through: string | null }>(
    `select (select array(${readyKeys}) from books where tenant_id = $1) as keys,
      (select through::text from search_indexes where tenant_id = $1 and name = '') as through`,
    [tenant],
  );
  return { keys: rows[0]?.keys ?? [], through: BigInt(rows[0]?.through ?? 0) };
}

/** The rows of a table that follow from the log of the tenant `$1`, as a condition. */
export function derivedRows(table: string, { keys }: IndexState): string {
  return table === 'transaction_metadata'
    ? `tenant_id = $1 and key in (${['', ...keys].map((key) => pg.escapeLiteral(key)).join()})`
    : 'tenant_id = $1';
}
