// Verification: walks every log and compares chain, rules and tables with it. Reads only, one snapshot per tenant, in bounded memory.
import type pg from 'pg';
import { fromBinary } from '@bufbuild/protobuf';
import { TransactionPostedSchema, type TransactionPosted } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toId, toUuid } from '../../platform/ids.ts';
import { Findings, decimalOf, describeDifference, differenceColumns, pluralize, type Difference } from './findings.ts';
import { HeadComparison, type StoredHeads } from './stored-heads.ts';
import { auditTenants, checkPublishedOffset, logChunks, snapshot, type Audited } from './operator.ts';
import { checkRowSecurity } from './policies.ts';
import { projections, type Projection } from './projections.ts';
import { Replay, type Row } from './replay.ts';

/** What was verified. */
export interface Verified extends Omit<Audited, 'repaired'> {
  events: number;
  transactions: number;
  /** Kept heads that the logs were compared with. */
  heads: number;
}

/**
 * Verifies all tenants, or one (UUID): row-level security; the hash chain, gapless and with times that never go back; each event by the
 * rules; every row of every projection; the published offset; and kept heads, if there are any. `report` gets one line per finding.
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
    await verifyTenant({ client, tenant, tables, findings, kept: new HeadComparison(heads.get(tenant), findings) }, counts);
    return [];
  });
  for (const tenant of left) report(`${toId('tenant', tenant)}: heads were kept of this tenant, and nothing is left of it`);
  return { ...counts, tenants, findings: ofSchema.count + findings + left.size };
}

interface Walk {
  client: pg.Client;
  tenant: string;
  tables: Projection[];
  findings: Findings;
  kept: HeadComparison;
}

async function verifyTenant(
  { client, tenant, tables, findings, kept }: Walk,
  verified: { events: number; transactions: number },
): Promise<void> {
  const replay = new Replay(tenant, (problem) => findings.add(problem));
  const counts = new Map(tables.map((table) => [table.name, 0]));
  const compare = async (name: string, rows: Row[]) => {
    counts.set(name, (counts.get(name) ?? 0) + rows.length);
    const table = tables.find((each) => each.name === name);
    if (table && rows.length > 0) await compareRows(client, table, rows, findings);
  };
  for await (const events of logChunks(client, tenant)) {
    const added = events.map((event) => {
      kept.apply(event);
      return replay.apply(event);
    });
    const transactions = added.flatMap((each) => each.transactions);
    const entries = added.flatMap((each) => each.entries);
    const reversals = added.flatMap(({ posted }) => (posted?.kind === 'reversal' ? [posted] : []));
    await compare('transactions', transactions);
    await compare('entries', entries);
    await checkReversals(client, tenant, reversals, findings);
    verified.events += events.length;
    verified.transactions += transactions.length;
  }
  const latest = { heads: replay.head(), accounts: replay.accountRows(), balances: replay.balanceRows() };
  for (const [name, rows] of Object.entries(latest)) {
    for (let from = 0; from < rows.length; from += 1000) await compare(name, rows.slice(from, from + 1000));
  }
  kept.end();
  if (latest.heads.length === 0) findings.add('has no log');
  for (const { name } of tables) {
    const { rows } = await client.query<{ n: string }>(`select count(*)::text as n from ${name} where tenant_id = $1`, [tenant]);
    const surplus = Number(rows[0]?.n) - (counts.get(name) ?? 0);
    if (surplus > 0) findings.add(`${name} has ${pluralize(surplus, 'row')} without an event: \`rebuild --check\` says which`);
  }
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

async function checkReversals(client: pg.Client, tenant: string, reversals: TransactionPosted[], findings: Findings): Promise<void> {
  if (reversals.length === 0) return;
  const { rows } = await client.query<{ id: string; payload: Buffer }>(
    `select t.id, l.payload from transactions t join log l on l.tenant_id = t.tenant_id and l.sequence = t.sequence
      where t.tenant_id = $1 and t.id = any($2::uuid[])`,
    [tenant, reversals.map((reversal) => toUuid('txn', reversal.reverses ?? ''))],
  );
  const originals = new Map(rows.map((row) => [toId('txn', row.id), decoded(row.payload)]));
  const lines = (event: TransactionPosted, mirrored: boolean) =>
    event.entries.map(({ accountId, amount, side, currency, counter }) =>
      [accountId, amount, currency, (side === 'debit') !== mirrored ? 'debit' : 'credit', counter].join(' '),
    );
  for (const reversal of reversals) {
    const original = originals.get(reversal.reverses ?? '');
    const mirrors = original && original.kind !== 'reversal' && lines(original, true).join() === lines(reversal, false).join();
    if (!mirrors) findings.add(`transaction ${reversal.transactionId} is not the mirror of ${String(reversal.reverses)}`);
  }
}

function decoded(payload: Buffer): TransactionPosted | undefined {
  try {
    return fromBinary(TransactionPostedSchema, payload);
  } catch {
    // The replay has reported it.
    return undefined;
  }
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
        select account_id, currency,
          (added.debits, added.credits, added.version) is distinct from (stored.debits, stored.credits, stored.version) as differs
        from (
          select account_id, currency, coalesce(sum(amount) filter (where side = 'debit'), 0) as debits,
            coalesce(sum(amount) filter (where side = 'credit'), 0) as credits, count(distinct sequence) as version
          from entries where tenant_id = $1 group by account_id, currency) as added
        full join (select account_id, currency, debits, credits, version from balances where tenant_id = $1) as stored
          using (account_id, currency)) as sums
      left join accounts a on a.tenant_id = $1 and a.id = sums.account_id
      where differs`,
    [tenant],
  );
  for (const { code, currency } of entries.rows) findings.add(`the entries of ${code} in ${currency} do not add up to its balance`);
}
