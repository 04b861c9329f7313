// Walks every log and holds the books against it: chain, rules and tables. Reads only, each tenant in one snapshot, in bounded memory.
import type pg from 'pg';
import { fromBinary } from '@bufbuild/protobuf';
import { TransactionPostedSchema, type TransactionPosted } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toId, toUuid } from '../../platform/ids.ts';
import { Replay, type Row } from './replay.ts';
import { HeadComparison, type KeptHeads } from './kept-heads.ts';
import {
  Findings,
  asJson,
  differenceColumns,
  counted,
  decimalOf,
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
import { checkRowSecurity } from './policies.ts';

/** What a walk has seen. */
export interface Verified {
  tenants: number;
  events: number;
  transactions: number;
  /** What differs; each was said. */
  findings: number;
  /** Of those that were kept elsewhere, how many the logs were held against. */
  heads: number;
}

/**
 * Verifies all tenants, or one (UUID): the chain of hashes without a gap and with times that never go back; each event by the rules; and
 * every row of every projection against what the log says; and how far the log was published against its head; and the log against heads that
 * were kept elsewhere, where there are any. Each finding is one line given to `say`.
 */
export async function verify(
  client: pg.Client,
  { only, heads = new Map() }: { only?: string | undefined; heads?: KeptHeads | undefined },
  say: (line: string) => void,
): Promise<Verified> {
  const tables = await projections(client);
  const seen: Verified = { tenants: 0, events: 0, transactions: 0, findings: 0, heads: 0 };
  const ofSchema = new Findings(say);
  await checkRowSecurity(client, ofSchema);
  seen.findings += ofSchema.count;
  const left = new Set(only === undefined ? heads.keys() : []);
  for await (const tenant of tenantsOf(client, tables, only)) {
    const findings = new Findings((line) => say(`${toId('tenant', tenant)}: ${line}`));
    const kept = new HeadComparison(heads.get(tenant), findings);
    await inTenantTransaction(client, tenant, snapshot, findings, () => verifyTenant({ client, tenant, tables, findings, kept }, seen));
    left.delete(tenant);
    seen.heads += heads.get(tenant)?.size ?? 0;
    seen.tenants += 1;
    seen.findings += findings.count;
  }
  for (const tenant of left) say(`${toId('tenant', tenant)}: heads were kept of this tenant, and nothing is left of him`);
  seen.findings += left.size;
  return seen;
}

interface Walk {
  client: pg.Client;
  tenant: string;
  tables: Projection[];
  findings: Findings;
  kept: HeadComparison;
}

async function verifyTenant({ client, tenant, tables, findings, kept }: Walk, seen: Verified): Promise<void> {
  const derivation = new Replay(tenant, (problem) => findings.add(problem));
  const rowsOf = new Map(tables.map((table) => [table.name, 0]));
  const compare = async (name: string, rows: Row[]) => {
    rowsOf.set(name, (rowsOf.get(name) ?? 0) + rows.length);
    const table = tables.find((each) => each.name === name);
    if (table && rows.length > 0) await compareRows(client, table, rows, findings);
  };
  for await (const events of logChunks(client, tenant)) {
    const added = events.map((event) => {
      kept.apply(event);
      return derivation.apply(event);
    });
    const transactions = added.flatMap((each) => each.transactions);
    await compare('transactions', transactions);
    await compare(
      'entries',
      added.flatMap((each) => each.entries),
    );
    await reversalsMustMirror(
      client,
      tenant,
      added.flatMap(({ posted }) => (posted?.kind === 'reversal' ? [posted] : [])),
      findings,
    );
    seen.events += events.length;
    seen.transactions += transactions.length;
  }
  for (const [name, rows] of Object.entries({
    heads: derivation.head(),
    accounts: derivation.accountRows(),
    balances: derivation.balanceRows(),
  })) {
    for (let from = 0; from < rows.length; from += 1000) await compare(name, rows.slice(from, from + 1000));
  }
  kept.end();
  if (derivation.head().length === 0) findings.add('has no log');
  for (const { name } of tables) {
    const { rows } = await client.query<{ n: string }>(`select count(*)::text as n from ${name} where tenant_id = $1`, [tenant]);
    const surplus = Number(rows[0]?.n) - (rowsOf.get(name) ?? 0);
    if (surplus > 0) findings.add(`${name} has ${counted(surplus, 'row')} without an event: \`rebuild --check\` says which`);
  }
  await booksMustAddUp(client, tenant, findings);
  await checkPublishedOffset(client, tenant, findings);
}

// Rows that should be there, each looked up by its key: a whole row of the table is compared with a whole row that was derived, so that no
// column can be forgotten. No domain refuses what was derived, and no temporary table is made, which a standby or a role that may only read
// could not.
async function compareRows(client: pg.Client, table: Projection, rows: Row[], findings: Findings): Promise<void> {
  const { rows: different } = await client.query<Difference>(
    `select ${differenceColumns}
      from json_to_recordset($1::json) as derived (${table.definitions.join(', ')})
      left join (select ${table.plain.join(', ')} from ${table.name}) as stored
        on ${table.key.map((column) => `stored.${column} = derived.${column}`).join(' and ')}
      where stored is distinct from derived`,
    [asJson(rows)],
  );
  for (const difference of different) findings.add(describeDifference(table, difference));
}

async function reversalsMustMirror(client: pg.Client, tenant: string, reversals: TransactionPosted[], findings: Findings): Promise<void> {
  if (reversals.length === 0) return;
  const { rows } = await client.query<{ id: string; payload: Buffer }>(
    `select t.id, l.payload from transactions t join log l on l.tenant_id = t.tenant_id and l.sequence = t.sequence
      where t.tenant_id = $1 and t.id = any($2::uuid[])`,
    [tenant, reversals.map((reversal) => toUuid('txn', reversal.reverses ?? ''))],
  );
  const originals = new Map(rows.map((row) => [toId('txn', row.id), readable(row.payload)]));
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

function readable(payload: Buffer): TransactionPosted | undefined {
  try {
    return fromBinary(TransactionPostedSchema, payload);
  } catch {
    // The walk has told of it.
    return undefined;
  }
}

// From the tables alone, as an auditor would add them up who does not know the log.
async function booksMustAddUp(client: pg.Client, tenant: string, findings: Findings): Promise<void> {
  const sums = await client.query<{ currency: string; sum: string }>(
    `select currency, sum(debits - credits)::text as sum from balances where tenant_id = $1 group by currency
      having sum(debits - credits) <> 0`,
    [tenant],
  );
  for (const { currency, sum } of sums.rows) findings.add(`all balances in ${currency} together are ${decimalOf(sum)}, not zero`);
  const entries = await client.query<{ code: string; currency: string }>(
    `select coalesce(a.code, sums.account_id::text) as code, sums.currency
      from (
        select account_id, currency, (added.debits, added.credits, added.version) is distinct from (held.debits, held.credits, held.version) as differs
        from (
          select account_id, currency, coalesce(sum(amount) filter (where side = 'debit'), 0) as debits,
            coalesce(sum(amount) filter (where side = 'credit'), 0) as credits, count(distinct sequence) as version
          from entries where tenant_id = $1 group by account_id, currency) as added
        full join (select account_id, currency, debits, credits, version from balances where tenant_id = $1) as held
          using (account_id, currency)) as sums
      left join accounts a on a.tenant_id = $1 and a.id = sums.account_id
      where differs`,
    [tenant],
  );
  for (const { code, currency } of entries.rows) findings.add(`the entries of ${code} in ${currency} do not add up to its balance`);
}
