// Rebuild: replays each log into scratch tables, and compares them with the projections or replaces those that differ.
import type pg from 'pg';
import { activeUntil } from '../outbox/active-cursors.ts';
import { Findings, describeDifference, differenceColumns, type Difference } from './findings.ts';
import { auditTenants, checkPublishedOffset, logChunks, snapshot, type Audited, type Progress } from './operator.ts';
import { derivedRows, indexState, projections, type Projection } from './projections.ts';
import type { IndexState } from './replay-indexes.ts';
import { Replay } from './replay.ts';
import { joined, type Row } from './rows.ts';
import { TreeComparison } from './tree-comparison.ts';

/** What a rebuild has done; findings are differences that are left, and faults of the log. */
export interface Rebuilt extends Audited {
  events: number;
}

/**
 * With `check`: compares every row and column of all tenants' projections (or of one's, a UUID) with the log, in one snapshot per tenant.
 * Takes no lock and writes only temporary tables, so the running system goes on.
 *
 * Without: replaces the tables that differ, each tenant under its head's lock, which its postings wait for. Reports repairs after their
 * commit. A missing published offset restarts at 0, so that all events are published again. A tenant whose log has faults or has lost its
 * end is not changed. `heads.rebuilt` counts up, which invalidates what running ledgers have cached.
 */
export async function rebuild(
  client: pg.Client,
  { tenant: only, check, progress }: { tenant: string | undefined; check: boolean; progress?: Progress | undefined },
  report: (line: string) => void,
): Promise<Rebuilt> {
  const tables = await projections(client);
  await createScratchTables(client, tables);
  let events = 0;
  const audited = await auditTenants(client, { only, begin: check ? snapshot : 'begin' }, report, async (tenant, findings) => {
    const one = { client, tenant, tables, findings, progress, indexes: await indexState(client, tenant, !check) };
    const repairs: string[] = [];
    events += check ? await checkTenant(one) : await repairTenant(one, new Findings((line) => repairs.push(line)));
    return repairs;
  });
  return { ...audited, events };
}

interface TenantRebuild {
  client: pg.Client;
  tenant: string;
  tables: Projection[];
  findings: Findings;
  indexes: IndexState;
  progress: Progress | undefined;
}

async function checkTenant(one: TenantRebuild): Promise<number> {
  const tree = new TreeComparison(one.tenant, one.findings, one.findings);
  const { events, isRewound } = await replayLog(one, tree, () => Promise.resolve(false));
  await tree.end(one.client, isRewound);
  await compare(one, one.tables, one.findings);
  await checkPublishedOffset(one.client, one.tenant, one.findings);
  return events;
}

async function repairTenant(one: TenantRebuild, repairs: Findings): Promise<number> {
  const { client, tenant, tables, findings } = one;
  const tree = new TreeComparison(tenant, findings, repairs);
  const { events, isHeadNew, isRewound } = await replayLog(one, tree, () => lockHead(client, tenant));
  await checkLogEnd(one, events);
  if (findings.count > 0) return events;
  if (isHeadNew) repairs.add('heads is missing');
  await repairTree(one, repairs, tree, isRewound);
  const different = await compare(one, isHeadNew ? tables.filter(({ name }) => name !== 'heads') : tables, repairs);
  await replace(one, different);
  await restorePublishedOffset(client, tenant, repairs);
  return events;
}

// The auditor makes a tree again from the first event on.
async function repairTree({ client, tenant }: TenantRebuild, repairs: Findings, tree: TreeComparison, isRewound: boolean): Promise<void> {
  await client.query(`select pg_advisory_xact_lock(hashtextextended('tree ' || $1, 0))`, [tenant]);
  const before = repairs.count;
  await tree.end(client, isRewound);
  if (repairs.count === before) return;
  await client.query('delete from tiles where tenant_id = $1', [tenant]);
  await client.query(
    `update trees set size = 0, hash = decode(repeat('00', 32), 'hex'), origin = case when $2 then origin else 1 end where tenant_id = $1`,
    [tenant, isRewound],
  );
}

// Without the projections' constraints, so that they can contain whatever a log says.
async function createScratchTables(client: pg.Client, tables: Projection[]): Promise<void> {
  for (const { name, plain } of tables) {
    await client.query(
      `create temp table if not exists replayed_${name} on commit delete rows as select ${plain.join(', ')} from public.${name} with no data`,
    );
  }
}

// True if a missing head had to be created. Its `rebuilt` starts from the time in milliseconds, beyond any count that a running ledger may
// have cached.
async function lockHead(client: pg.Client, tenant: string): Promise<boolean> {
  const { rowCount } = await client.query(
    `insert into heads (tenant_id, sequence, hash, last_at, rebuilt, frozen_at)
      select $1::uuid, 0, decode(repeat('00', 32), 'hex'), to_timestamp(0), extract(epoch from clock_timestamp()) * 1000,
        (select at from freezes where tenant_id = $1)
      where exists (select from log where tenant_id = $1) on conflict do nothing`,
    [tenant],
  );
  await client.query('select from heads where tenant_id = $1 for update', [tenant]);
  return rowCount === 1;
}

// Most of the log is replayed before the lock, because postings wait for it, and only the rest under it. A tenant may post as fast as that
// is replayed: once a round is more than half of the one before, it locks.
async function replayLog(
  { client, tenant, findings, indexes, progress }: TenantRebuild,
  tree: TreeComparison,
  lock: () => Promise<boolean>,
): Promise<{ events: number; isHeadNew: boolean; isRewound: boolean }> {
  const replay = new Replay(tenant, (problem) => findings.add(problem), indexes);
  let events = 0;
  let last = 0n;
  const replayUpTo = async (end: bigint | null) => {
    for await (const chunk of logChunks(client, tenant, last)) {
      const added = chunk.map((event) => replay.apply(event).rows);
      for (const [table, rows] of Object.entries(joined(added))) await store(client, table, rows);
      await tree.apply(client, chunk);
      events += chunk.length;
      progress?.(chunk.length);
      last = chunk.at(-1)?.sequence ?? last;
      if (end !== null && last >= end) return;
    }
  };
  for (let before = Infinity; ;) {
    const end = await endOfLog(client, tenant);
    const left = Number(end - last);
    if (left <= 0 || left > before / 2) break;
    before = left;
    await replayUpTo(end);
  }
  const isHeadNew = await lock();
  await replayUpTo(null);
  if (events === 0) findings.add('has no log');
  for (const [table, rows] of Object.entries(replay.latest())) await store(client, table, rows);
  return { events, isHeadNew, isRewound: replay.isRewound };
}

async function endOfLog(client: pg.Client, tenant: string): Promise<bigint> {
  const { rows } = await client.query<{ sequence: string }>(
    'select coalesce(max(sequence), 0)::text as sequence from log where tenant_id = $1',
    [tenant],
  );
  return BigInt(rows[0]?.sequence ?? 0);
}

// A log whose end was lost is still a perfect chain, so its end is compared with what was assigned, posted or published.
async function checkLogEnd({ client, tenant, findings }: TenantRebuild, end: number): Promise<void> {
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
    await client.query(`insert into replayed_${table} select * from json_populate_recordset(null::replayed_${table}, $1::json)`, [
      JSON.stringify(rows.slice(from, from + 5000)),
    ]);
  }
}

/** Returns the names of the tables that differ. */
async function compare({ client, tenant, indexes }: TenantRebuild, tables: Projection[], findings: Findings): Promise<Set<string>> {
  const different = new Set<string>();
  for (const table of tables) {
    const columns = table.plain.join(', ');
    const { rows } = await client.query<Difference>(
      `select ${differenceColumns}
        from (select ${columns} from replayed_${table.name}) as replayed
        full join (select ${columns} from public.${table.name} where ${derivedRows(table.name, indexes)}) as stored using (${table.key.join(', ')})
        where replayed is distinct from stored limit 1000`,
      [tenant],
    );
    for (const difference of rows) findings.add(describeDifference(table, difference));
    if (rows.length > 0) different.add(table.name);
  }
  return different;
}

async function replace({ client, tenant, tables, indexes }: TenantRebuild, different: Set<string>): Promise<void> {
  // Balances refer to accounts by foreign key, so they are replaced together.
  const rest = tables.filter(({ name }) => name !== 'heads' && (different.has(name) || (name === 'balances' && different.has('accounts'))));
  for (const { name } of [...rest].reverse()) await client.query(`delete from ${name} where ${derivedRows(name, indexes)}`, [tenant]);
  // The head is locked, so it is updated, not replaced.
  const columns = tables.find((table) => table.name === 'heads')?.columns.join(', ') ?? '';
  await client.query(
    `update heads set (${columns}, rebuilt) = (select ${columns}, heads.rebuilt + 1 from replayed_heads) where tenant_id = $1`,
    [tenant],
  );
  for (const { name } of rest) await client.query(`insert into ${name} select * from replayed_${name}`);
}

// Open for as long as a change would open it: a writer that knows the lost one as open does not open it again.
async function restorePublishedOffset(client: pg.Client, tenant: string, repairs: Findings): Promise<void> {
  const { rowCount } = await client.query(
    `insert into relay_marks (tenant_id, sequence, open_until) values ($1, 0, clock_timestamp() + interval '1 millisecond' * $2)
      on conflict do nothing`,
    [tenant, activeUntil(0)],
  );
  if (rowCount === 1) repairs.add('relay_marks is missing: all events are published again');
}
