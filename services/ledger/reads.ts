// Reads of transactions: one by id, several by sequence, and the filtered list.
import { create, toBinary } from '@bufbuild/protobuf';
import { PostedEntrySchema, TransactionPostedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { cutPage, encodeCursor, sequencePosition, type CursorScope } from '../platform/cursor.ts';
import { newId, toId } from '../platform/ids.ts';
import { epochMs, readTenant, type Client, type Connections } from '../platform/postgres.ts';
import { Refusal } from './accounting.ts';
import { countFitting, positionOf, type Page } from './page.ts';
import { QueryParameters, logRangeOf, type LogRange, type TimeRange } from './time-range.ts';
import { decodePosted, transactionOf } from './mapping.ts';

interface TransactionRow {
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

function recordOf(tenant: string, row: TransactionRow): Transaction {
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

/** Which transactions are listed; what is undefined does not filter. */
export interface TransactionFilter extends TimeRange {
  accountCode?: string | undefined;
  currency?: string | undefined;
  reference?: string | undefined;
  idempotencyKey?: string | undefined;
  kind?: string | undefined;
  /** UUID of the hold of which they are captures. */
  hold?: string | undefined;
  /** UUID of the transaction that they reverse. */
  reverses?: string | undefined;
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

// Positions that a page examines where no index knows all filters: first by transactions, then by entries, of which the rarer soon ends.
// For a reference and a currency both turns go by transactions, because the balances in a currency may be many.
const firstExamined = 500;
const thenExamined = 4_000;
// Rows that the second turn reads at least, because some only look as if they matched.
const minRead = 51;

interface Rows {
  rows: TransactionRow[];
  /** The position before which nothing was examined; null at the end. */
  nextBefore: bigint | null;
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
  const turns = [
    { byEntries: false, examined: firstExamined, wanted: limit + 1 },
    {
      byEntries: filter.accountCode !== undefined || (currency !== undefined && filter.reference === undefined),
      examined: thenExamined,
      wanted: Math.max(limit + 1, minRead),
    },
  ];
  for (const turn of turns) {
    const read: Rows = await readRows(pool, tenant, filter, nextBefore ?? undefined, turn);
    nextBefore = read.nextBefore;
    for (const row of read.rows) {
      // The statement may have found the bytes of a currency in a text.
      if (currency !== undefined && !decodePosted(row.payload).entries.some((entry) => entry.currency === currency)) continue;
      found.push(row);
      if (found.length > countFitting(found, limit)) return { rows: found, nextBefore: null };
    }
    if (nextBefore === null) break;
  }
  return { rows: found, nextBefore };
}

interface Turn {
  /** Search from the entries of the balances that match, not from the transactions. */
  byEntries: boolean;
  /** Positions to examine. */
  examined: number;
  /** Rows to return at most. */
  wanted: number;
}

async function readRows(
  pool: Connections,
  tenant: string,
  filter: TransactionFilter,
  before: bigint | undefined,
  { byEntries, examined, wanted }: Turn,
): Promise<Rows> {
  const query = new QueryParameters(tenant);
  const range = logRangeOf(query, filter, before);
  const { positions, condition } = searchOf(query, filter, range, byEntries);
  const count = condition === undefined ? wanted : examined;
  const [answers] = await readTenant<[({ examined_to: bigint | null } & (TransactionRow | { sequence: null }))[]]>(pool, tenant, {
    // The page first, then its records one by one: joined at once, a wrong estimate makes a plan that reads the whole log.
    text: `${range.with}, positions as materialized (${positions(String(count))}),
      page as materialized (
        select t.sequence from positions t where ${condition ?? 'true'} order by t.sequence desc limit ${wanted})
      select examined.last as examined_to, record.*
      from (select (select min(sequence) from positions having count(*) = ${count}) as last) as examined
      left join (page cross join lateral (
        select ${transactionColumns} from transactions t ${joinRecord} where t.tenant_id = $1 and t.sequence = page.sequence limit 1) as record) on true
      order by record.sequence desc`,
    values: query.values,
  });
  const rows = answers.filter((row) => row.sequence !== null);
  return { rows, nextBefore: (rows.length < wanted ? answers[0]?.examined_to : rows.at(-1)?.sequence) ?? null };
}

/** A statement that reads the newest positions by one index, and the condition for a position `t` that the index does not know. */
function searchOf(
  query: QueryParameters,
  filter: TransactionFilter,
  range: LogRange,
  byEntries: boolean,
): { positions: (count: string) => string; condition: string | undefined } {
  const { reference, idempotencyKey, accountCode, currency, kind, hold, reverses } = filter;
  const own = [
    ...(reference === undefined ? [] : [`reference = ${query.value(reference)}`]),
    // A sub-select, because next to a reference the planner may read all transactions of the reference.
    ...(idempotencyKey === undefined
      ? []
      : [`sequence = (select sequence from transactions where tenant_id = $1 and idempotency_key = ${query.value(idempotencyKey)})`]),
    ...(hold === undefined ? [] : [`sequence = any(array(${partsOf(query.value(hold))}))`]),
    ...(reverses === undefined ? [] : [`sequence = any(array(${reversalsOf(query.value(reverses))}))`]),
  ];
  const ofKind = kind === undefined ? [] : [isOfKind(query, kind)];
  if (byEntries || (accountCode !== undefined && own.length === 0)) {
    const ofOwn =
      own.length === 0 ? [] : [`(select ${own.join(' and ')} from transactions where tenant_id = $1 and sequence = t.sequence)`];
    return { positions: (count) => newestPostedTo(query, filter, range, count), condition: allOf([...ofOwn, ...ofKind]) };
  }
  const ofBalance = accountCode !== undefined ? [isPostedTo(query, filter)] : currency !== undefined ? [payloadHas(query, currency)] : [];
  const condition = allOf([...ofBalance, ...ofKind]);
  const conditions = ['t.tenant_id = $1', ...range.keep('t.sequence'), ...own].join(' and ');
  const positions = (count: string) => `select t.sequence from transactions t where ${conditions} order by t.sequence desc limit ${count}`;
  return { positions, condition };
}

function allOf(conditions: string[]): string | undefined {
  return conditions.length === 0 ? undefined : conditions.join(' and ');
}

function partsOf(id: string): string {
  return `select sequence from parts where tenant_id = $1 and of = ${id}`;
}

// The reversal that completes is in both, unless it reversed all at once.
function reversalsOf(id: string): string {
  return `${partsOf(id)} union select sequence from transactions where tenant_id = $1 and reverses = ${id}`;
}

// The kind follows the transaction's id, which always has the same length, at the beginning of the payload.
function isOfKind(query: QueryParameters, kind: string): string {
  const before = toBinary(TransactionPostedSchema, create(TransactionPostedSchema, { transactionId: newId('txn') })).length;
  const field = query.value(Buffer.from(toBinary(TransactionPostedSchema, create(TransactionPostedSchema, { kind }))));
  const own = `substring(l.payload from ${before + 1} for octet_length(${field}::bytea))`;
  return `(select ${own} = ${field}::bytea from log l where l.tenant_id = $1 and l.sequence = t.sequence)`;
}

/** Whether the payload of the transaction `t` contains an entry's currency as it is encoded: no index leads from it to its entries. */
function payloadHas(query: QueryParameters, currency: string): string {
  const entry = query.value(Buffer.from(toBinary(PostedEntrySchema, create(PostedEntrySchema, { currency }))));
  return `(select position(${entry}::bytea in l.payload) > 0 from log l where l.tenant_id = $1 and l.sequence = t.sequence)`;
}

/** The balances that match the account, the currency or both. */
function balancesOf(query: QueryParameters, { accountCode, currency }: TransactionFilter): string {
  const id = accountCode === undefined ? '' : `select id from accounts where tenant_id = $1 and code = ${query.value(accountCode)}`;
  const account = id === '' ? '' : `and b.account_id = (${id})`;
  return `balances b where b.tenant_id = $1 ${account} ${currency === undefined ? '' : `and b.currency = ${query.value(currency)}`}`;
}

/** Whether the transaction `t` changes a balance that matches. `offset 0` keeps the planner from reversing the join. */
function isPostedTo(query: QueryParameters, filter: TransactionFilter): string {
  return `exists (select from (select b.account_id, b.currency from ${balancesOf(query, filter)}) as wanted
    join entries e on e.tenant_id = $1 and e.account_id = wanted.account_id and e.currency = wanted.currency and e.sequence = t.sequence offset 0)`;
}

/**
 * The newest positions at which a matching balance changed. Only balances whose newest position is among the newest of all are read
 * further, so a filter by currency alone looks once at each balance and reads one page.
 */
function newestPostedTo(query: QueryParameters, filter: TransactionFilter, range: LogRange, count: string): string {
  const conditions = ['e.tenant_id = $1', 'e.account_id = b.account_id', 'e.currency = b.currency', ...range.keep('e.sequence')];
  const entries = `from entries e where ${conditions.join(' and ')}`;
  return `select distinct e.sequence
    from (select account_id, currency from (
        select b.account_id, b.currency, dense_rank() over (order by (select max(e.sequence) ${entries}) desc nulls last) as rank
        from ${balancesOf(query, filter)}) as ranked
      where rank <= ${count}) as b
    cross join lateral (select distinct e.sequence ${entries} order by e.sequence desc limit ${count}) as e
    order by e.sequence desc limit ${count}`;
}
