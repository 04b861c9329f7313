// Reads of transactions: one by id, several by sequence, and the filtered list.
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { cutPage, encodeCursor, sequencePosition, type CursorScope } from '../platform/cursor.ts';
import { toId } from '../platform/ids.ts';
import { epochMs, readTenant, type Client, type Connections } from '../platform/postgres.ts';
import { Refusal } from './accounting.ts';
import { countFitting, positionOf, type Page } from './page.ts';
import { checkIndexes } from './metadata-search.ts';
import { QueryParameters, logRangeOf } from './time-range.ts';
import { searchOf, turnsOf, type TransactionFilter, type Turn } from './transaction-search.ts';
import { decodePosted, transactionOf } from './mapping.ts';

/** A row of a transaction with its event. */
export interface TransactionRow {
  sequence: bigint;
  created_ms: number;
  payload: Buffer;
  reversed_by: string | null;
  /** The event of the newest reversal of a part; null where there is none. */
  part_payload: Buffer | null;
}

/** The newest event that has taken a part of the transaction `t`. */
export const newestPart = `select p.number, e.payload from parts p join log e on e.tenant_id = p.tenant_id and e.sequence = p.sequence
  where p.tenant_id = t.tenant_id and p.of = t.id order by p.number desc limit 1`;

// Description, entries and metadata are in the log; a reversal may come long after its original.
const transactionColumns = `t.sequence, ${epochMs('t.created_at')} as created_ms, l.payload, r.id as reversed_by, part.payload as part_payload`;
const joinRecord = `join log l on l.tenant_id = t.tenant_id and l.sequence = t.sequence
  left join transactions r on r.tenant_id = t.tenant_id and r.reverses = t.id
  left join lateral (${newestPart}) part on true`;

/** The record of a row. */
export function recordOf(tenant: string, row: TransactionRow): Transaction {
  return transactionOf(decodePosted(row.payload), {
    tenantId: toId('tenant', tenant),
    sequence: row.sequence,
    createdMs: row.created_ms,
    reversedBy: row.reversed_by === null ? undefined : toId('txn', row.reversed_by),
    unreversed: row.part_payload === null ? undefined : decodePosted(row.part_payload).unreversed,
  });
}

/** One transaction by its UUID. Throws {@link Refusal}: `transaction_not_found`. */
export async function getTransaction(pool: Connections, tenant: string, id: string): Promise<Transaction> {
  const [rows] = await readTenant<[TransactionRow[]]>(pool, tenant, {
    name: 'get_transaction',
    text: `select ${transactionColumns} from transactions t ${joinRecord} where t.tenant_id = $1 and t.id = $2`,
    values: [tenant, id],
  });
  if (!rows[0]) throw new Refusal('transaction_not_found', 'transaction not found');
  return recordOf(tenant, rows[0]);
}

/** Transactions by their positions in the log, in no order, for a caller whose SQL transaction sees the tenant's rows. */
export async function transactionsBySequence(client: Client, tenant: string, sequences: bigint[]): Promise<Transaction[]> {
  const { rows } = await client.query<TransactionRow>({
    name: 'transactions_by_sequence',
    text: `select ${transactionColumns} from unnest($2::bigint[]) as wanted (sequence)
      join transactions t on t.tenant_id = $1 and t.sequence = wanted.sequence ${joinRecord}`,
    values: [tenant, sequences],
  });
  return rows.map((row) => recordOf(tenant, row));
}

/**
 * A page of transactions, newest first. It is shorter than its limit, or empty, though more follow, where transactions are large or the
 * filters seldom match together. Throws {@link Refusal} for a bad cursor. An unknown account has no transactions.
 */
export async function listTransactions(
  pool: Connections,
  tenant: string,
  filter: TransactionFilter,
  { limit, cursor }: Page,
): Promise<{ transactions: Transaction[]; nextCursor: string }> {
  const scope: CursorScope = ['transactions', tenant, filter];
  const before = positionOf(scope, cursor, sequencePosition);
  const { rows, nextBefore } = await readPage(pool, tenant, filter, limit, before === null ? undefined : BigInt(before));
  const page = cutPage(rows, countFitting(rows, limit), scope, (row) => row.sequence.toString());
  return {
    transactions: page.rows.map((row) => recordOf(tenant, row)),
    nextCursor: page.nextCursor === '' && nextBefore !== null ? encodeCursor(scope, nextBefore.toString()) : page.nextCursor,
  };
}

/**
 * The positions, ascending, of transactions that match, after one position and up to another. Null: there are more than `most`.
 */
export async function matchingSequences(
  pool: Connections,
  tenant: string,
  filter: TransactionFilter,
  { after, through, most }: { after: bigint; through: bigint; most: number },
): Promise<bigint[] | null> {
  const found: bigint[] = [];
  for (let before: bigint | null = through + 1n; before !== null;) {
    const page: Rows = await readPage(pool, tenant, { ...filter, afterSequence: after }, most, before);
    found.push(...page.rows.map(({ sequence }) => sequence));
    if (found.length > most) return null;
    // A page that large rows have cut off goes on before its last.
    before = page.nextBefore ?? (page.isCut ? (found.at(-1) ?? null) : null);
  }
  return found.reverse();
}

interface Rows {
  rows: TransactionRow[];
  /** The position before which nothing was examined; null at the end. */
  nextBefore: bigint | null;
  /** Whether rows that were found are more than fit into a page. */
  isCut?: boolean;
}

/** The transactions of a page, and one more if there is one. */
async function readPage(
  pool: Connections,
  tenant: string,
  filter: TransactionFilter,
  limit: number,
  before: bigint | undefined,
): Promise<Rows> {
  const { currency } = filter;
  const found: TransactionRow[] = [];
  let nextBefore: bigint | null = before ?? null;
  const rare = await checkIndexes(pool, tenant, filter);
  for (const turn of turnsOf(filter, rare, limit)) {
    const read: Rows = await readRows(pool, tenant, filter, nextBefore ?? undefined, turn);
    nextBefore = read.nextBefore;
    for (const row of read.rows) {
      // The statement may have found the bytes of a currency in a text.
      if (currency !== undefined && !decodePosted(row.payload).entries.some((entry) => entry.currency === currency)) continue;
      found.push(row);
      if (found.length > countFitting(found, limit)) return { rows: found, nextBefore: null, isCut: true };
    }
    if (nextBefore === null) break;
  }
  return { rows: found, nextBefore };
}

async function readRows(
  pool: Connections,
  tenant: string,
  filter: TransactionFilter,
  before: bigint | undefined,
  turn: Turn,
): Promise<Rows> {
  const query = new QueryParameters(tenant);
  const range = logRangeOf(query, filter, before);
  const { positions, hasMore, condition } = searchOf(query, filter, range, turn);
  const { wanted } = turn;
  const [answers] = await readTenant<[({ examined_to: bigint | null } & (TransactionRow | { sequence: null }))[]]>(pool, tenant, {
    // The page first, then its records one by one: joined at once, a wrong estimate makes a plan that reads the whole log.
    text: `${range.with}, positions as materialized (${positions}),
      page as materialized (
        select t.sequence from positions t where ${condition ?? 'true'} order by t.sequence desc limit ${wanted})
      select examined.last as examined_to, record.*
      from (select (select min(sequence) from positions having ${hasMore}) as last) as examined
      left join (page cross join lateral (
        select ${transactionColumns} from transactions t ${joinRecord} where t.tenant_id = $1 and t.sequence = page.sequence limit 1) as record) on true
      order by record.sequence desc`,
    values: query.values,
  });
  const rows = answers.filter((row) => row.sequence !== null);
  return { rows, nextBefore: (rows.length < wanted ? answers[0]?.examined_to : rows.at(-1)?.sequence) ?? null };
}
