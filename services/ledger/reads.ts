// Reads of transactions. Each is one round trip that sees one tenant; a list goes on where a page holds nothing that is asked for.
import { create, toBinary } from '@bufbuild/protobuf';
import { PostedEntrySchema } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { toId } from '../platform/ids.ts';
import { epochMs, readTenant, type Client, type Connections } from '../platform/postgres.ts';
import { Refusal } from './accounting.ts';
import { cursorAt, cutPage, countFitting, positionOf, type Page } from './page.ts';
import { QueryParameters, logRangeOf, type LogRange, type TimeRange } from './time-range.ts';
import { decodePosted, transactionOf } from './mapping.ts';

interface TransactionRow {
  sequence: bigint;
  created_ms: number;
  payload: Buffer;
  reversed_by: string | null;
}

// Description, entries and metadata stand in the log; what reversed a transaction may come long after it.
const transactionColumns = `t.sequence, ${epochMs('t.created_at')} as created_ms, l.payload, r.id as reversed_by`;
const joinRecord = `join log l on l.tenant_id = t.tenant_id and l.sequence = t.sequence
  left join transactions r on r.tenant_id = t.tenant_id and r.reverses = t.id`;

function recordOf(tenant: string, row: TransactionRow): Transaction {
  return transactionOf(decodePosted(row.payload), {
    tenantId: toId('tenant', tenant),
    sequence: row.sequence,
    createdMs: row.created_ms,
    reversedBy: row.reversed_by === null ? undefined : toId('txn', row.reversed_by),
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

/**
 * Transactions by their places in the log, as a read shows them now, in no order; for a caller that has the tenant's rows open in a
 * transaction of its own.
 */
export async function transactionsBySequence(client: Client, tenant: string, sequences: bigint[]): Promise<Transaction[]> {
  const { rows } = await client.query<TransactionRow>({
    name: 'transactions_by_sequence',
    text: `select ${transactionColumns} from unnest($2::bigint[]) as wanted (place)
      join transactions t on t.tenant_id = $1 and t.sequence = wanted.place ${joinRecord}`,
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
}

/**
 * A page of transactions, newest first; shorter than its limit, or empty, though more follow, where they are large or the few of many that have both
 * halves of what is asked for. Throws {@link Refusal} for a cursor that is none. An unknown account has no transactions.
 */
export async function listTransactions(
  pool: Connections,
  tenant: string,
  filter: TransactionFilter,
  { limit, cursor }: Page,
): Promise<{ transactions: Transaction[]; nextCursor: string }> {
  const before = positionOf('transactions', cursor, 1)?.[0];
  const { rows, goesOn } = await readPage(pool, tenant, filter, limit, before);
  const { page, nextCursor } = cutPage(rows, countFitting(rows, limit), 'transactions', (row) => [row.sequence]);
  return {
    transactions: page.map((row) => recordOf(tenant, row)),
    nextCursor: nextCursor === '' && goesOn !== null ? cursorAt('transactions', [goesOn]) : nextCursor,
  };
}

/**
 * How many places each turn of a page judges. The second is the entries' turn, which asks every balance once, where they are not too many; the others
 * are the transactions', which mostly fill a page by their newest. The rarer of the two soon comes to its end, however many the other has (5 entries
 * of an account, 650,000 transactions of a reference: a 250th of the time that the reference takes alone). Where both are many and seldom meet a page
 * ends with the turns, and is the shorter for it.
 */
const turns = [500, 500, 2_000, 8_000, 32_000] as const;
// After the first turn. Two by two, what only looks like what is asked for took longer than anybody waits.
const mostRead = 51;
// Of all balances in a currency. About 200,000 take as long as the transactions' turns (130,000 of a reference).
const mostPlaces = 100_000;
// What is large takes the longer to judge: 8,000 transactions of 51 kB each took 2 s, all turns more than anybody waits. Each turn judges four times as
// much as the one before.
const longEnoughMs = 500;

interface Rows {
  rows: TransactionRow[];
  /** The place before which nothing was looked for; null where there is nothing. */
  goesOn: bigint | null;
}

/** The transactions of a page, and one more where there is one. */
async function readPage(
  pool: Connections,
  tenant: string,
  filter: TransactionFilter,
  limit: number,
  from: bigint | undefined,
): Promise<Rows> {
  const { currency } = filter;
  const found: TransactionRow[] = [];
  let goesOn: bigint | null = from ?? null;
  const begun = performance.now();
  for (const [turn, most] of turns.entries()) {
    const wanted = turn === 0 ? limit + 1 : Math.max(limit + 1, mostRead);
    const byEntries = turn === 1;
    if (byEntries && (await areMany(pool, tenant, filter))) continue;
    const read: Rows = await readRows(pool, tenant, filter, goesOn ?? undefined, { byEntries, most, wanted });
    goesOn = read.goesOn;
    for (const row of read.rows) {
      // The statement may have taken other bytes of an event, a description's for one, for an entry's currency.
      if (currency !== undefined && !decodePosted(row.payload).entries.some((entry) => entry.currency === currency)) continue;
      found.push(row);
      // More is not answered: what is large takes long to decode.
      if (found.length > countFitting(found, limit)) return { rows: found, goesOn: null };
    }
    if (goesOn === null || (turn > 0 && performance.now() - begun > longEnoughMs)) break;
  }
  return { rows: found, goesOn };
}

/**
 * Whether what is asked for stands at more places than a page looks through beside a reference. They are read balance by balance, each as far as the
 * page may need: 3,000 balances with 500 entries in a currency took 1.2 s, 24,000 longer than a statement is given. A balance's version counts its
 * transactions.
 */
async function areMany(pool: Connections, tenant: string, filter: TransactionFilter): Promise<boolean> {
  if (filter.accountCode !== undefined || filter.reference === undefined) return false;
  const query = new QueryParameters(tenant);
  const [[of]] = await readTenant<[[{ places: number }]]>(pool, tenant, {
    text: `select coalesce(sum(least(b.version, ${turns[1]})), 0)::float8 as places from ${balancesOf(query, filter)}`,
    values: query.values,
  });
  return of.places > mostPlaces;
}

/** What of the newest `most` places of one index is asked for, `wanted` rows at most. */
async function readRows(
  pool: Connections,
  tenant: string,
  filter: TransactionFilter,
  before: bigint | undefined,
  turn: { byEntries: boolean; most: number; wanted: number },
): Promise<Rows> {
  const query = new QueryParameters(tenant);
  const range = logRangeOf(query, filter, before);
  const { placesOf, condition } = searchOf(query, filter, range, turn.byEntries);
  const most = condition === undefined ? turn.wanted : turn.most;
  const [answers] = await readTenant<[({ judged_to: bigint | null } & (TransactionRow | { sequence: null }))[]]>(pool, tenant, {
    // The page is found first and its records are looked up one by one: joined at once, a misjudged count makes a plan that reads the log.
    text: `${range.with}, places as materialized (${placesOf(String(most))}),
      page as materialized (
        select t.sequence from places t where ${condition ?? 'true'} order by t.sequence desc limit ${turn.wanted})
      select judged.place as judged_to, record.* from (select (select min(sequence) from places having count(*) = ${most}) as place) as judged
      left join (page cross join lateral (
        select ${transactionColumns} from transactions t ${joinRecord} where t.tenant_id = $1 and t.sequence = page.sequence limit 1) as record) on true
      order by record.sequence desc`,
    values: query.values,
  });
  const rows = answers.filter((row) => row.sequence !== null);
  return { rows, goesOn: (rows.length < turn.wanted ? answers[0]?.judged_to : rows.at(-1)?.sequence) ?? null };
}

/**
 * An index, by the statement that reads its newest places, and the condition by which a place `t` is judged: none where the index knows all that is
 * asked for.
 */
function searchOf(
  query: QueryParameters,
  filter: TransactionFilter,
  range: LogRange,
  byEntries: boolean,
): { placesOf: (most: string) => string; condition: string | undefined } {
  const { reference, idempotencyKey, accountCode, currency } = filter;
  const own = [
    ...(reference === undefined ? [] : [`reference = ${query.value(reference)}`]),
    ...(idempotencyKey === undefined ? [] : [`sequence = (${placeOfKey(query, idempotencyKey)})`]),
  ];
  if (byEntries || (accountCode !== undefined && own.length === 0)) {
    const condition = `(select ${own.join(' and ')} from transactions where tenant_id = $1 and sequence = t.sequence)`;
    return { placesOf: (most) => newest(query, filter, range, most), condition: own.length === 0 ? undefined : condition };
  }
  const touching = accountCode !== undefined ? touches(query, filter) : currency !== undefined ? tells(query, currency) : undefined;
  return { placesOf: (most) => transactionsOf(own, range, most), condition: touching };
}

// By itself: beside a reference the planner may take that for as rare, and read all that have it (10,000 for one key; so, 1).
function placeOfKey(query: QueryParameters, key: string): string {
  return `select sequence from transactions where tenant_id = $1 and idempotency_key = ${query.value(key)}`;
}

function transactionsOf(conditions: string[], range: LogRange, most: string): string {
  const all = ['t.tenant_id = $1', ...range.keep('t.sequence'), ...conditions];
  return `select t.sequence from transactions t where ${all.join(' and ')} order by t.sequence desc limit ${most}`;
}

/**
 * Whether the event of the transaction `t` holds an entry's currency as it is written there, looked for in its bytes: from a transaction no
 * index leads to its entries, and to ask each balance in the currency is a look-up of every one of them for every transaction (100,000 of one
 * reference, 50,000 balances: more than a minute; so, 0.7 s).
 */
function tells(query: QueryParameters, currency: string): string {
  const entry = query.value(Buffer.from(toBinary(PostedEntrySchema, create(PostedEntrySchema, { currency }))));
  return `(select position(${entry}::bytea in l.payload) > 0 from log l where l.tenant_id = $1 and l.sequence = t.sequence)`;
}

// The balances that a filter by account, currency or both leaves.
function balancesOf(query: QueryParameters, { accountCode, currency }: TransactionFilter): string {
  const account = accountCode === undefined ? '' : `and b.account_id = (${accountId(query.value(accountCode))})`;
  return `balances b where b.tenant_id = $1 ${account} ${currency === undefined ? '' : `and b.currency = ${query.value(currency)}`}`;
}

function accountId(code: string): string {
  return `select id from accounts where tenant_id = $1 and code = ${code}`;
}

/**
 * Whether the transaction `t` touches a balance of the account that is asked for. `offset 0`: else places and entries are joined the other way round
 * (32,000 places, an account of 350,000 transactions: 2.5 times as long).
 */
function touches(query: QueryParameters, filter: TransactionFilter): string {
  return `exists (select from (select b.account_id, b.currency from ${balancesOf(query, filter)}) as asked
    join entries e on e.tenant_id = $1 and e.account_id = asked.account_id and e.currency = asked.currency and e.sequence = t.sequence offset 0)`;
}

/**
 * The newest places at which any of the balances that are asked for was posted to. Entries are ordered by account and currency, so each
 * balance has its newest place at one end of its range. Only balances whose newest place is among the newest of all can hold a place on
 * this page: only they are read further, so that a filter by currency alone looks once at each balance and reads one page.
 */
function newest(query: QueryParameters, filter: TransactionFilter, range: LogRange, most: string): string {
  const conditions = ['e.tenant_id = $1', 'e.account_id = b.account_id', 'e.currency = b.currency', ...range.keep('e.sequence')];
  const entries = `from entries e where ${conditions.join(' and ')}`;
  return `select distinct e.sequence
    from (select account_id, currency from (
        select b.account_id, b.currency, dense_rank() over (order by (select max(e.sequence) ${entries}) desc nulls last) as place
        from ${balancesOf(query, filter)}) as ranked
      where place <= ${most}) as b
    cross join lateral (select distinct e.sequence ${entries} order by e.sequence desc limit ${most}) as e
    order by e.sequence desc limit ${most}`;
}
