// Verification: walks every log and compares chain, rules and tables with it. Reads only, one snapshot per tenant, in bounded memory.
import type pg from 'pg';
import { toId } from '../../platform/ids.ts';
import { Findings, decimalOf, describeDifference, differenceColumns, pluralize, type Difference } from './findings.ts';
import { HeadComparison, type StoredHeads } from './stored-heads.ts';
import { auditTenants, checkPublishedOffset, endOfDeleted, logChunks, snapshot, type Audited } from './operator.ts';
import { checkRowSecurity } from './policies.ts';
import { derivedRows, indexState, projections, type Projection } from './projections.ts';
import { Replay } from './replay.ts';
import { Reversals } from './reversals.ts';
import { joined, type Row } from './rows.ts';

/** What was verified. */
export interface Verified extends Omit<Audited, 'repaired'> {
  events: number;
  transactions: number;
  /** Kept heads that the logs were compared with. */
  heads: number;
}

/**
 * Verifies all tenants, or one (UUID): row-level security; the hash chain, gapless and with times that never go back; each event by the
 * rules; every row of every projection; the published offset; and stored heads, if there are any. `report` gets one line per finding.
 */
export async function verify(
  client: pg.Client,
  { only, heads = new Map() }: { only?: string | undefined; heads?: StoredHeads | undefined },
  report: (line: string) => void,
): Promise<Verified> {
  const tables = await projections(client);
  const ofSchema = new Findings(report);
  await checkRowSecurity(client, ofSchema);
  const counts = { events: 0, transactions: 0, heads: 0 };
  const left = new Set(only === undefined ? heads.keys() : []);
  const { tenants, findings } = await auditTenants(client, { only, begin: snapshot }, report, async (tenant, findings) => {
    left.delete(tenant);
    counts.heads += heads.get(tenant)?.size ?? 0;
    await verifyTenant({ client, tenant, tables, findings, headComparison: new HeadComparison(heads.get(tenant), findings) }, counts);
    return [];
  });
  const ofLeft = new Findings(report);
  for (const tenant of left) {
    const ofTenant = new Findings((line) => ofLeft.add(`${toId('tenant', tenant)}: ${line}`));
    const end = await endOfDeleted(client, tenant);
    if (!end) {
      ofTenant.add('heads were kept of this tenant, and nothing is left of it');
      continue;
    }
    const comparison = new HeadComparison(heads.get(tenant), ofTenant);
    comparison.applyEnd(end);
    comparison.end();
  }
  return { ...counts, tenants, findings: ofSchema.count + findings + ofLeft.count };
}

interface Walk {
  client: pg.Client;
  tenant: string;
  tables: Projection[];
  findings: Findings;
  headComparison: HeadComparison;
}

async function verifyTenant(
  { client, tenant, tables, findings, headComparison }: Walk,
  verified: { events: number; transactions: number },
): Promise<void> {
  const indexes = await indexState(client, tenant);
  const replay = new Replay(tenant, (problem) => findings.add(problem), indexes);
  const reversals = new Reversals(findings);
  const counts = new Map(tables.map((table) => [table.name, 0]));
  const compare = async (name: string, rows: Row[]) => {
    counts.set(name, (counts.get(name) ?? 0) + rows.length);
    const table = tables.find((each) => each.name === name);
    if (table && rows.length > 0) await compareRows(client, table, rows, findings);
  };
  for await (const events of logChunks(client, tenant)) {
    const replayed = events.map((event) => {
      headComparison.apply(event);
      return replay.apply(event);
    });
    const added = joined(replayed.map(({ rows }) => rows));
    for (const [name, rows] of Object.entries(added)) await compare(name, rows);
    await reversals.check(
      client,
      tenant,
      replayed.flatMap(({ posted, effectiveMs = 0 }) => (posted?.kind === 'reversal' ? [{ posted, effectiveMs }] : [])),
    );
    verified.events += events.length;
    verified.transactions += added.transactions.length;
  }
  for (const [name, rows] of Object.entries(replay.latest())) {
    for (let from = 0; from < rows.length; from += 1000) await compare(name, rows.slice(from, from + 1000));
  }
  headComparison.end();
  if (counts.get('heads') === 0) findings.add('has no log');
  for (const { name } of tables) {
    const { rows } = await client.query<{ n: string }>(`select count(*)::text as n from ${name} where ${derivedRows(name, indexes)}`, [
      tenant,
    ]);
    const surplus = Number(rows[0]?.n) - (counts.get(name) ?? 0);
    if (surplus > 0) findings.add(`${name} has ${pluralize(surplus, 'row')} without an event: \`rebuild --check\` says which`);
  }
  const noted = await client.query('select from deleted_tenants where tenant_id = $1', [tenant]);
  if (noted.rowCount !== 0) findings.add('is in deleted_tenants, and has a head');
  await checkSums(client, tenant, findings);
  await checkPublishedOffset(client, tenant, findings);
}

// Whole rows are compared, so that no column can be forgotten. Without temporary tables, so that it runs on a standby and for a role that
// only reads.
async function compareRows(client: pg.Client, table: Projection, rows: Row[], findings: Findings): Promise<void> {
  const { rows: different } = await client.query<Difference>(
    `select ${differenceColumns}
      from json_to_recordset($1::json) as replayed (${table.definitions.join(', ')})
      left join (select ${table.plain.join(', ')} from ${table.name}) as stored
        on ${table.key.map((column) => `stored.${column} = replayed.${column}`).join(' and ')}
      where stored is distinct from replayed`,
    [JSON.stringify(rows)],
  );
  for (const difference of different) findings.add(describeDifference(table, difference));
}

// From the tables alone, independently of the log.
async function checkSums(client: pg.Client, tenant: string, findings: Findings): Promise<void> {
  const sums = await client.query<{ currency: string; sum: string }>(
    `select currency, sum(debits - credits)::text as sum from balances where tenant_id = $1 group by currency
      having sum(debits - credits) <> 0`,
    [tenant],
  );
  for (const { currency, sum } of sums.rows) findings.add(`all balances in ${currency} together are ${decimalOf(sum)}, not zero`);
  const entries = await client.query<{ code: string; currency: string }>(
    `select coalesce(a.code, sums.account_id::text) as code, sums.currency
      from (
        select account_id, currency, added.figures is distinct from stored.figures as differs
        from (
          select account_id, currency, row(sum(debits), sum(credits), sum(pending_debits), sum(pending_credits), count(distinct sequence)) as figures
          from (
            select account_id, currency, sequence, case side when 'debit' then amount else 0 end as debits,
              case side when 'credit' then amount else 0 end as credits, 0 as pending_debits, 0 as pending_credits
            from entries where tenant_id = $1
            union all
            select account_id, currency, hold_sequence, 0, 0, case side when 'debit' then remaining else 0 end,
              case side when 'credit' then remaining else 0 end
            from hold_entries where tenant_id = $1
            union all
            -- The last event of a hold has released what was not captured.
            select account_id, currency, ends.sequence, 0, 0, 0, 0
            from hold_entries e join holds h on h.tenant_id = $1 and h.sequence = e.hold_sequence
              join (select of, max(sequence) as sequence from parts where tenant_id = $1 group by of) as ends on ends.of = h.id
            where e.tenant_id = $1 and h.status <> 'pending' and captured < amount) as events
          group by account_id, currency) as added
        full join (
          select account_id, currency, row(debits::numeric, credits::numeric, pending_debits::numeric, pending_credits::numeric, version::bigint) as figures
          from balances where tenant_id = $1) as stored using (account_id, currency)) as sums
      left join accounts a on a.tenant_id = $1 and a.id = sums.account_id
      where differs`,
    [tenant],
  );
  for (const { code, currency } of entries.rows) findings.add(`the entries of ${code} in ${currency} do not add up to its balance`);
}
