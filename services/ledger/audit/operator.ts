// What the operator's commands share: the owner's connection, the tenants there are, their logs in bounded pieces, and the projections.
import pg from 'pg';
import { toId } from '../../platform/ids.ts';
import { errorMessage } from '../../platform/lifetime.ts';
import { toDecimal } from '../../platform/money.ts';
import { connectionOptions } from '../../platform/postgres.ts';
import { checkConnection } from '../../platform/postgres-start.ts';
import { BadSetting } from '../../platform/settings.ts';
import type { LogRow } from '../log.ts';
import { InvalidTime, type Row } from './replay.ts';

/** Events read at a time; each holds at most some 100 KiB. */
const piece = 500;

/** Which names the database. */
const variable = 'MIGRATION_DATABASE_URL';

/**
 * Opens a connection without time-outs; to be ended by the caller. Throws {@link BadSetting} where the address leads nowhere or to another
 * database, and where the role would not see the rows of every tenant, and so find nothing wrong with those that it does not see; and what
 * {@link checkConnection} throws.
 */
export async function openOperator(url: string): Promise<pg.Client> {
  const options = connectionOptions({
    statement_timeout: '0',
    idle_in_transaction_session_timeout: '0',
    lock_timeout: '0',
    tcp_user_timeout: '0',
    jit: 'off',
    // Of a command that is interrupted PostgreSQL would otherwise finish the statement, and hold the head that it has locked, before it notices.
    client_connection_check_interval: '1s',
  });
  const client = new pg.Client({ connectionString: url, application_name: 'ledger operator', connectionTimeoutMillis: 10_000, options });
  // The query in flight, or the next one, rejects as well; without a listener a lost connection would end the process with a stack.
  client.on('error', () => undefined);
  await client.connect().catch((error: unknown) => {
    throw new BadSetting(variable, `names a database that can't be reached: ${errorMessage(error)}`);
  });
  try {
    await checkConnection(variable, client);
    await mustBeALedger(client);
    await mustSeeAllTenants(client);
  } catch (error) {
    await client.end();
    throw error;
  }
  return client;
}

async function mustBeALedger(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ is_ledger: boolean }>(`select to_regclass('public.relay_marks') is not null as is_ledger`);
  if (rows[0]?.is_ledger !== true) throw new BadSetting(variable, 'names a database without a ledger: name another, or run migrate first');
}

// Row-level security is forced on the owner, too: he sees all by the policies `operator`, which the migrations make for the role they run as,
// and which a dump carries to a server where another role may own the tables.
async function mustSeeAllTenants(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ role: string; tables: string; wanted: string | null }>(
    `select current_user as role, string_agg(distinct c.relname::text, ', ') as tables, string_agg(distinct wanted.rolname::text, ' or ') as wanted
      from pg_class c left join pg_policy p on p.polrelid = c.oid and p.polname = 'operator'
        left join pg_roles wanted on wanted.oid = any(p.polroles)
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and row_security_active(c.oid)
        and not exists (select from unnest(p.polroles) as granted (role) where granted.role = 0 or pg_has_role(granted.role, 'usage'))
      having count(*) > 0`,
  );
  if (!rows[0]) return;
  const { role, tables, wanted } = rows[0];
  const advice = wanted === null ? 'the policy operator, which lets a role, is missing' : `give ${wanted}, the role of the policy operator`;
  throw new BadSetting(variable, `is of the role ${role}, which does not see every tenant's ${tables}: ${advice}`);
}

/** A table that is derived from the log. */
export interface Projection {
  name: string;
  /** All columns but `heads.rebuilt`, which counts what operators and ledgers did and not what happened. */
  columns: string[];
  /** The same, as expressions: cast to a column's type, of a domain to the type below it, which takes any value. */
  plain: string[];
  /** The same, as definitions: each column, that type, and by what its texts are compared. */
  definitions: string[];
  /** Columns of the primary key. */
  key: string[];
}

/** Tables in the order in which their foreign keys let them be filled. */
const known = ['heads', 'accounts', 'transactions', 'entries', 'balances'];
/** Tables of tenants that are no projection: the log is what all others are derived from. */
const underived = ['log'];
/** Tables that say nothing of the books: how far the log was published. */
export const relayTables = ['relay_marks', 'relay_dead_letters'];
/** All tables of tenants. */
export const tenantTables = [...known, ...underived, ...relayTables];

/** The schema is not what the migrations made. */
export class SchemaDamaged extends Error {}

/** Every projection as the catalogue has it. Throws {@link SchemaDamaged}, also where there is a table of tenants that nobody derives. */
export async function projections(client: pg.Client): Promise<Projection[]> {
  const { rows } = await client.query<Projection>(
    `select c.relname as name, columns, plain, definitions,
        array(select a.attname::text from pg_index i join pg_attribute a on a.attrelid = c.oid and a.attnum = any(i.indkey)
          where i.indrelid = c.oid and i.indisprimary order by array_position(i.indkey::int2[], a.attnum)) as key
      from pg_class c, lateral (
        select array_agg(a.attname::text order by a.attnum) as columns, array_agg(format('%I::%s', a.attname, type) order by a.attnum) as plain,
          array_agg(format('%I %s %s', a.attname, type, 'collate ' || nullif(a.attcollation, 0)::regcollation) order by a.attnum) as definitions
        from pg_attribute a join pg_type t on t.oid = a.atttypid,
          format_type(coalesce(nullif(t.typbasetype, 0), t.oid), greatest(t.typtypmod, a.atttypmod)) as type
        where a.attrelid = c.oid and a.attnum > 0 and (c.relname, a.attname) <> ('heads', 'rebuilt')) as described
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
        and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped)`,
  );
  const strangers = rows.filter((table) => !tenantTables.includes(table.name));
  if (strangers.length > 0) throw new SchemaDamaged(`nothing derives ${strangers.map((table) => table.name).join(', ')} from the log`);
  // A view in its place shows what its maker wants.
  const absent = tenantTables.filter((name) => !rows.some((table) => table.name === name));
  if (absent.length > 0) throw new SchemaDamaged(`${absent.join(', ')}: no table, or none of tenants: restore the schema`);
  const keyless = rows.filter(({ name, key }) => known.includes(name) && key.length === 0);
  if (keyless.length > 0) throw new SchemaDamaged(`${keyless.map(({ name }) => name).join(', ')}: no primary key: restore the schema`);
  return known.flatMap((name) => rows.filter((table) => table.name === name));
}

/** Every tenant that has a row anywhere (UUIDs, ascending), or the one that is asked for. */
export async function* tenantsOf(client: pg.Client, tables: Projection[], only: string | undefined): AsyncIterable<string> {
  if (only !== undefined) {
    yield only;
    return;
  }
  // One step along each primary key at a time, all of which begin with the tenant.
  const names = [...tables.map((table) => table.name), ...underived, ...relayTables];
  let last = '00000000-0000-0000-0000-000000000000';
  for (let beyond = '>='; ; beyond = '>') {
    const next = names.map((name) => `(select tenant_id from ${name} where tenant_id ${beyond} $1 order by tenant_id limit 1)`);
    const { rows } = await client.query<{ tenant_id: string }>(`${next.join(' union ')} order by tenant_id limit 1`, [last]);
    if (!rows[0]) return;
    last = rows[0].tenant_id;
    yield last;
  }
}

/** The events of a tenant's log beyond a place, oldest first, a bounded number at a time. What is null where nothing may be is empty here. */
export async function* logChunks(client: pg.Client, tenant: string, after = 0n): AsyncIterable<LogRow[]> {
  for (let last = after; ;) {
    const { rows } = await client.query<Omit<LogRow, 'sequence' | 'createdMs'> & { sequence: string; createdMs: string }>({
      name: 'piece_of_log',
      text: `select tenant_id as tenant, sequence::text, coalesce(event_id, '00000000-0000-0000-0000-000000000000') as "eventId", type,
          (extract(epoch from created_at) * 1000)::text as "createdMs", actor, request_id as "requestId", coalesce(payload, '') as payload,
          coalesce(hash, '') as hash
        from log where tenant_id = $1 and sequence > $2 order by log.sequence limit ${piece}`,
      values: [tenant, last],
    });
    if (rows.length === 0) return;
    yield rows.map((row) => ({ ...row, sequence: BigInt(row.sequence), createdMs: Number(row.createdMs) }));
    last = BigInt(rows.at(-1)?.sequence ?? 0);
  }
}

/**
 * Holds the tenant's mark against its head: one is made with the other, the relay looks for events through the open marks alone, and publishes
 * nothing at or below one. A change opens the mark, and it is closed under the head's lock where everything is published.
 */
export async function checkPublishedOffset(client: pg.Client, tenant: string, findings: Findings): Promise<void> {
  const { rows } = await client.query<{ mark: string | null; open: boolean | null; head: string | null }>(
    `select m.sequence::text as mark, m.open_until is not null as open, h.sequence::text as head
      from (select * from relay_marks where tenant_id = $1) m full join (select * from heads where tenant_id = $1) h using (tenant_id)`,
    [tenant],
  );
  const { mark = null, open = null, head = null } = rows[0] ?? {};
  if (mark === null && head !== null) findings.add('relay_marks is missing: nothing looks for events that are not published');
  if (mark !== null && head === null) findings.add(`relay_marks is at ${mark}, and there is no head`);
  if (mark !== null && head !== null && BigInt(mark) > BigInt(head)) {
    findings.add(`relay_marks is at ${mark}, beyond the head at ${head}: what comes between would not be published`);
  }
  if (mark !== null && head !== null && BigInt(mark) < BigInt(head) && open === false) {
    findings.add(
      `relay_marks is closed at ${mark}, before the head at ${head}: nothing looks for what comes between until a ledger starts`,
    );
  }
}

/** Begins a transaction that reads one moment and writes nothing but temporary tables. */
export const snapshot = 'begin isolation level repeatable read read only';

/**
 * Does work in a transaction whose rows are those of one tenant: the policies bind the owner's changes too. What PostgreSQL refuses for its
 * value, and a time of no calendar, ends the work and is a finding; any other error is thrown. Where there is a finding nothing is changed.
 */
export async function inTenantTransaction(
  client: pg.Client,
  tenant: string,
  begin: string,
  findings: Findings,
  work: () => Promise<void>,
): Promise<void> {
  await client.query(begin);
  try {
    await client.query(`select set_config('app.tenants', $1, true)`, [`{${tenant}}`]);
    await work();
    await client.query(findings.count === 0 ? 'commit' : 'rollback');
  } catch (error) {
    // Where the connection is gone so is the transaction, and why it went is the reason to tell.
    await client.query('rollback').catch(() => undefined);
    // Classes 22 and 23: data exceptions and constraints.
    const ofValue = error instanceof InvalidTime || (error instanceof pg.DatabaseError && /^2[23]/.test(error.code ?? ''));
    if (!ofValue) throw error;
    findings.add(`the tables can't hold what the log says: ${error.message}`);
  }
}

/** Rows as one parameter that PostgreSQL's functions for sets of JSON objects read. */
export function asJson(rows: Row[]): string {
  return JSON.stringify(rows);
}

/** A row that is stored otherwise than it was derived, every value as text. */
export interface Difference {
  derived: Record<string, string | null> | null;
  stored: Record<string, string | null> | null;
}

/** The columns of {@link Difference}. As text: a JSON number beyond 2^53 would lose digits. */
export const differenceColumns = ['derived', 'stored']
  .map((side) => `(select jsonb_object_agg(key, value) from jsonb_each_text(to_jsonb(${side}))) as ${side}`)
  .join(', ');

/** `1 tenant`, `2 tenants`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

const amounts = ['amount', 'balance_after', 'debits', 'credits', 'pending_debits', 'pending_credits'];

/** Minor units as a decimal; what is no whole number stays as it is stored. */
export function decimalOf(value: string): string {
  return /^-?[0-9]+$/.test(value) ? toDecimal(BigInt(value)) : value;
}

// As REST has it: ids with what they are of, amounts with two decimals.
function asTold(table: string, column: string, value: string | null | undefined): string | null {
  if (value === null || value === undefined) return null;
  if (amounts.includes(column)) return decimalOf(value);
  if (column === 'account_id' || (column === 'id' && table === 'accounts')) return toId('acc', value);
  return column === 'id' || column === 'reverses' ? toId('txn', value) : value;
}

/** A difference in words: the row by its key, and every column that differs. */
export function describeDifference(table: Projection, { derived, stored }: Difference): string {
  const row = derived ?? stored ?? {};
  const name = table.key
    .filter((column) => column !== 'tenant_id')
    .map((column) => `${column} ${String(asTold(table.name, column, row[column]))}`)
    .join(', ');
  const where = `${table.name}${name === '' ? '' : ` (${name})`}`;
  if (!stored) return `${where} is missing`;
  if (!derived) return `${where} has no event`;
  const columns = table.columns.filter((column) => stored[column] !== derived[column]);
  const told = (column: string, side: Record<string, string | null>) => JSON.stringify(asTold(table.name, column, side[column]));
  const shown = columns.map((column) => `${column} is ${told(column, stored)}, by the log ${told(column, derived)}`);
  return `${where}: ${shown.join('; ')}`;
}

const mostTold = 100;

/** Tells of the first findings and counts all, so that a ruined table does not fill the terminal. */
export class Findings {
  count = 0;
  private readonly say: (line: string) => void;

  constructor(say: (line: string) => void) {
    this.say = say;
  }

  /** Notes one finding. */
  add(line: string): void {
    this.count += 1;
    if (this.count <= mostTold) this.say(line);
    if (this.count === mostTold + 1) this.say('and more than is told here');
  }
}
