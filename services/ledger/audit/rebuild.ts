// Derives every projection again from the log into scratch tables, and compares them with what stands or puts them in its place.
import type pg from 'pg';
import { toId } from '../../platform/ids.ts';
import { Replay, type Row } from './replay.ts';
import { activeUntil } from '../outbox/active-cursors.ts';
import {
  Findings,
  asJson,
  differenceColumns,
  describeDifference,
  inTenantTransaction,
  checkPublishedOffset,
  logChunks,
  projections,
  snapshot,
  tenantsOf,
  type Difference,
  type Projection,
} from './operator.ts';

/** What a rebuild has done. */
export interface Rebuilt {
  tenants: number;
  events: number;
  /** Rows that differ (repaired ones do not any more), and faults of the log; each was said. */
  findings: number;
  /** Tenants of which something was repaired; what, was said. */
  repaired: number;
}

/**
 * With `check`: derives all tenants' projections (or one's, a UUID) at the head that a snapshot shows, and compares every row and column.
 * Takes no lock and writes nothing but temporary tables; the running system goes on, but that PostgreSQL keeps the old versions of the tables' rows
 * until the snapshot of the tenant in hand is let go.
 *
 * Without: replaces the tables that differ, each tenant under its head's lock; its postings wait while what was derived is compared and
 * replaced. Says what differed, once it does not any more. A mark that is lost is made again at the log's beginning, so that everything is
 * published again. A tenant whose log itself is at fault, or has lost its end, is left as it is. The head counts it, by which running ledgers
 * know that what they remember is no longer so.
 */
export async function rebuild(
  client: pg.Client,
  options: { tenant: string | undefined; check: boolean },
  say: (line: string) => void,
): Promise<Rebuilt> {
  const tables = await projections(client);
  await makeScratch(client, tables);
  const seen: Rebuilt = { tenants: 0, events: 0, findings: 0, repaired: 0 };
  for await (const tenant of tenantsOf(client, tables, options.tenant)) {
    const tell = (line: string) => say(`${toId('tenant', tenant)}: ${line}`);
    const findings = new Findings(tell);
    // Told when it is committed.
    const repairs: string[] = [];
    const repaired = new Findings((line) => repairs.push(line));
    await client.query(`truncate ${tables.map(({ name }) => `derived_${name}`).join(', ')}`);
    await inTenantTransaction(client, tenant, options.check ? snapshot : 'begin', findings, async () => {
      const hold = () => (options.check ? Promise.resolve(false) : lockHead(client, tenant));
      const { events, lost } = await derive(client, tenant, findings, hold);
      seen.events += events;
      if (!options.check) await mustBeWhole(client, tenant, events, findings);
      if (options.check) {
        await compare(client, tenant, tables, findings);
        await checkPublishedOffset(client, tenant, findings);
      }
      if (!options.check && findings.count === 0) {
        // The head that was made to be held is not the one that was lost.
        if (lost) repaired.add('heads is missing');
        const different = await compare(client, tenant, lost ? tables.filter(({ name }) => name !== 'heads') : tables, repaired);
        await replace(client, tenant, tables, different);
        await makeMark(client, tenant, repaired);
      }
    });
    if (findings.count === 0) for (const line of repairs) tell(`repaired: ${line}`);
    seen.tenants += 1;
    seen.findings += findings.count;
    if (findings.count === 0 && repaired.count > 0) seen.repaired += 1;
  }
  return seen;
}

// A temporary table `derived_…` beside each projection: a copy of all columns, whatever they are, and of no constraint, so that it can hold
// what a log says and its projection can't. A second call finds them made.
async function makeScratch(client: pg.Client, tables: Projection[]): Promise<void> {
  for (const { name, plain } of tables) {
    await client.query(`create temp table if not exists derived_${name} as select ${plain.join(', ')} from public.${name} with no data`);
  }
}

// As every change does: nobody appends to this log until the end. A head that was lost is made again, so that there is one to hold; whether
// it was. What it counted is lost with it, and a running ledger may remember books by that: the count goes on from the time, in milliseconds,
// which is beyond whatever there was.
async function lockHead(client: pg.Client, tenant: string): Promise<boolean> {
  const { rowCount } = await client.query(
    `insert into heads (tenant_id, sequence, hash, last_at, rebuilt)
      select $1::uuid, 0, decode(repeat('00', 32), 'hex'), to_timestamp(0), extract(epoch from clock_timestamp()) * 1000
      where exists (select from log where tenant_id = $1) on conflict do nothing`,
    [tenant],
  );
  await client.query('select from heads where tenant_id = $1 for update', [tenant]);
  return rowCount === 1;
}

// What stands in a log does not change: all that there is is derived before the head is held, and then what came meanwhile. (100,000 postings:
// they waited 23 s; so, 1.5.) A tenant may post as quickly as that is derived: once what has come meanwhile is more than half of what there was
// before, the rest is derived while he waits.
async function derive(
  client: pg.Client,
  tenant: string,
  findings: Findings,
  hold: () => Promise<boolean>,
): Promise<{ events: number; lost: boolean }> {
  const derivation = new Replay(tenant, (problem) => findings.add(problem));
  let events = 0;
  let last = 0n;
  const goOn = async (end: bigint | null) => {
    for await (const piece of logChunks(client, tenant, last)) {
      const added = piece.map((event) => derivation.apply(event));
      const rowsOf = (name: 'transactions' | 'entries') => added.flatMap((each) => each[name]);
      await store(client, 'transactions', rowsOf('transactions'));
      await store(client, 'entries', rowsOf('entries'));
      events += piece.length;
      last = piece.at(-1)?.sequence ?? last;
      if (end !== null && last >= end) return;
    }
  };
  for (let before = Infinity; ;) {
    const end = await endOfLog(client, tenant);
    const left = Number(end - last);
    if (left <= 0 || left > before / 2) break;
    before = left;
    await goOn(end);
  }
  const lost = await hold();
  await goOn(null);
  if (events === 0) findings.add('has no log');
  await store(client, 'heads', derivation.head());
  await store(client, 'accounts', derivation.accountRows());
  await store(client, 'balances', derivation.balanceRows());
  return { events, lost };
}

async function endOfLog(client: pg.Client, tenant: string): Promise<bigint> {
  const { rows } = await client.query<{ sequence: string }>(
    'select coalesce(max(sequence), 0)::text as sequence from log where tenant_id = $1',
    [tenant],
  );
  return BigInt(rows[0]?.sequence ?? 0);
}

// A log whose end was lost is still a perfect chain: what was handed out, posted or published beyond its end tells, and must not be replaced by less.
async function mustBeWhole(client: pg.Client, tenant: string, end: number, findings: Findings): Promise<void> {
  const { rows } = await client.query<{ reached: string }>(
    `select greatest(0, (select sequence from heads where tenant_id = $1), (select max(sequence) from transactions where tenant_id = $1),
      (select sequence from relay_marks where tenant_id = $1))::text as reached`,
    [tenant],
  );
  const reached = Number(rows[0]?.reached);
  if (reached > end) findings.add(`the log ends at ${end}, but ${reached} was handed out, posted or published`);
}

async function store(client: pg.Client, table: string, rows: Row[]): Promise<void> {
  for (let from = 0; from < rows.length; from += 5000) {
    await client.query(`insert into derived_${table} select * from json_populate_recordset(null::derived_${table}, $1::json)`, [
      asJson(rows.slice(from, from + 5000)),
    ]);
  }
}

// Answers the names of the tables that differ.
async function compare(client: pg.Client, tenant: string, tables: Projection[], findings: Findings): Promise<Set<string>> {
  const different = new Set<string>();
  for (const table of tables) {
    // Both sides have the columns of the catalogue, in its order.
    const columns = table.plain.join(', ');
    const { rows } = await client.query<Difference>(
      `select ${differenceColumns}
        from (select ${columns} from derived_${table.name}) as derived
        full join (select ${columns} from public.${table.name} where tenant_id = $1) as stored using (${table.key.join(', ')})
        where derived is distinct from stored limit 1000`,
      [tenant],
    );
    for (const difference of rows) findings.add(describeDifference(table, difference));
    if (rows.length > 0) different.add(table.name);
  }
  return different;
}

async function replace(client: pg.Client, tenant: string, tables: Projection[], different: Set<string>): Promise<void> {
  // Balances refer to accounts by foreign key, and go and come with them.
  const rest = tables.filter(({ name }) => name !== 'heads' && (different.has(name) || (name === 'balances' && different.has('accounts'))));
  for (const { name } of [...rest].reverse()) await client.query(`delete from ${name} where tenant_id = $1`, [tenant]);
  const heads = tables.find((table) => table.name === 'heads');
  // The row is held, not replaced.
  const columns = heads?.columns.join(', ') ?? '';
  await client.query(
    `update heads set (${columns}, rebuilt) = (select ${columns}, heads.rebuilt + 1 from derived_heads) where tenant_id = $1`,
    [tenant],
  );
  for (const { name } of rest) await client.query(`insert into ${name} select * from derived_${name}`);
}

// Open for as long as the mark of a change made now: a writer that remembers the lost one as open opened it before this.
async function makeMark(client: pg.Client, tenant: string, repaired: Findings): Promise<void> {
  const { rowCount } = await client.query(
    `insert into relay_marks (tenant_id, sequence, open_until) values ($1, 0, clock_timestamp() + interval '1 millisecond' * $2)
      on conflict do nothing`,
    [tenant, activeUntil(0)],
  );
  if (rowCount === 1) repaired.add('relay_marks is missing: all events are published again');
}
