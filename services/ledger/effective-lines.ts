// Transactions and entries between two instants, in effective or posted order, for statements, journals and exports.
import type { PostedEntry, TransactionPosted } from '../../proto/gen/ledger/v1/events_pb.js';
import { toId } from '../platform/ids.ts';
import { epochMs, type Client } from '../platform/postgres.ts';
import { decodePosted } from './mapping.ts';
import { QueryParameters } from './time-range.ts';
import { placesOf } from './totals.ts';

/** A place in effective order; in posted order only sequence and position count. */
export interface LinePlace {
  effectiveMs: number;
  sequence: bigint;
  /** Index of the entry in its transaction. */
  position: number;
}

/** Which lines are read. Times are milliseconds since the Unix epoch, inclusive; Infinity: without an end. */
export interface LineRange {
  /** `effective`: by (effective_at, sequence, position), between two effective times. `posted`: by sequence, between two times of recording. */
  order: 'effective' | 'posted';
  fromMs: number;
  toMs: number;
  /** Only what is recorded until there. */
  sequence: bigint;
  /** Only what follows; of transactions those after its own. */
  after?: LinePlace | undefined;
  /** Only this account (UUID) in this currency. */
  account?: { id: string; currency: string } | undefined;
  /** Transactions that are read at once, 200 by default: no more than are wanted. */
  pageSize?: number | undefined;
}

/** A transaction with both times. */
export interface DatedTransaction {
  sequence: bigint;
  effectiveMs: number;
  createdMs: number;
  event: TransactionPosted;
}

/** An entry with its transaction. */
export interface DatedEntry extends DatedTransaction {
  position: number;
  entry: PostedEntry;
}

/** Entries in order, for a caller whose snapshot sees the tenant's rows. Reads page by page. */
export async function* entriesInOrder(client: Client, tenant: string, range: LineRange): AsyncGenerator<DatedEntry> {
  const { account, after } = range;
  const accountId = account && toId('acc', account.id);
  // Of the transaction at which the range begins, later entries may follow.
  const from = after && { ...after, sequence: after.sequence - 1n };
  for await (const dated of transactionsInOrder(client, tenant, { ...range, after: from })) {
    for (const [position, entry] of dated.event.entries.entries()) {
      if (account && (entry.accountId !== accountId || entry.currency !== account.currency)) continue;
      if (after?.sequence === dated.sequence && position <= after.position) continue;
      yield { ...dated, position, entry };
    }
  }
}

/** Transactions in order, with an account only those that it has entries in. As {@link entriesInOrder}. */
export async function* transactionsInOrder(client: Client, tenant: string, range: LineRange): AsyncGenerator<DatedTransaction> {
  const { order, fromMs, toMs, sequence, after } = range;
  const times = [fromMs - 1, toMs, ...(after && order === 'effective' ? [after.effectiveMs - 1, after.effectiveMs] : [])];
  const { places } = await placesOf(client, tenant, times);
  const [before, last, beforeCursor, atCursor] = places as [bigint, bigint, bigint?, bigint?];
  // What counts when it was recorded follows the cursor from its place in the log on.
  const follows = after === undefined ? 0n : min(max(after.sequence, beforeCursor ?? 0n), atCursor ?? after.sequence);
  const recorded = inLog(client, tenant, range, { after: max(before, follows), last: min(last, sequence) });
  if (order === 'posted') {
    yield* recorded;
    return;
  }
  const shifted = shiftedOnes(client, tenant, range);
  let [one, other] = [await recorded.next(), await shifted.next()];
  while (!one.done || !other.done) {
    if (other.done || (!one.done && isBefore(one.value, other.value))) {
      yield (one as IteratorYieldResult<DatedTransaction>).value;
      one = await recorded.next();
    } else {
      yield other.value;
      other = await shifted.next();
    }
  }
}

type EffectivePlace = Pick<DatedTransaction, 'effectiveMs' | 'sequence'>;

function isBefore(one: EffectivePlace, other: EffectivePlace): boolean {
  return one.effectiveMs < other.effectiveMs || (one.effectiveMs === other.effectiveMs && one.sequence < other.sequence);
}

const min = (one: bigint, other: bigint) => (one < other ? one : other);
const max = (one: bigint, other: bigint) => (one > other ? one : other);

// How many times as many are looked at as are read at once: of a book brought in with its real dates all may be shifted.
const examinedPerRead = 10;

interface Row {
  sequence: bigint;
  created_ms: number;
  payload: Buffer;
}

const record = `cross join lateral (
  select ${epochMs('l.created_at')} as created_ms, l.payload from log l where l.tenant_id = $1 and l.sequence = page.sequence offset 0) as l`;

function dated({ sequence, created_ms: createdMs, payload }: Row): DatedTransaction {
  const event = decodePosted(payload);
  return { sequence, createdMs, effectiveMs: Number(event.effectiveMs ?? createdMs), event };
}

/** The table in which transactions are looked for, and the condition for the tenant, or for one account, on `t`. */
function sourceOf(query: QueryParameters, account: LineRange['account'], ofAll: string, ofAccounts: string): [table: string, own: string] {
  if (!account) return [ofAll, 't.tenant_id = $1'];
  return [ofAccounts, `t.tenant_id = $1 and t.account_id = ${query.value(account.id)} and t.currency = ${query.value(account.currency)}`];
}

/** By place in the log, after one and up to another; in effective order without shifted ones. */
async function* inLog(
  client: Client,
  tenant: string,
  { order, account, pageSize = 200 }: LineRange,
  { after, last }: { after: bigint; last: bigint },
): AsyncGenerator<DatedTransaction> {
  for (let from = after; from < last;) {
    const query = new QueryParameters(tenant);
    const [table, own] = sourceOf(query, account, 'transactions', 'entries');
    const plain =
      order === 'posted' ? 'true' : 'not exists (select from shifted_transactions s where s.tenant_id = $1 and s.sequence = e.sequence)';
    const { rows } = await client.query<{ end: bigint | null } & (Row | { sequence: null })>({
      text: `with examined as materialized (
          select distinct t.sequence from ${table} t
          where ${own} and t.sequence > ${query.value(from)} and t.sequence <= ${query.value(last)} order by t.sequence limit ${examinedPerRead * pageSize}),
        page as materialized (select e.sequence from examined e where ${plain} order by e.sequence limit ${pageSize})
        select found.end, found.sequence, found.created_ms, found.payload from (
          select (select max(sequence) from examined having count(*) = ${examinedPerRead * pageSize}) as end, page.sequence, l.created_ms, l.payload
          from (select) as one left join (page ${record}) on true) as found order by sequence`,
      values: query.values,
    });
    const found = rows.filter((row) => row.sequence !== null);
    yield* found.map(dated);
    // A full page ends at its last one, other pages where all was looked at; then nothing is left.
    const end = found.length === pageSize ? found.at(-1)?.sequence : rows[0]?.end;
    if (end == null) return;
    from = end;
  }
}

/** Shifted transactions by the time at which they count. `+ 0` keeps the planner from the index by sequence. */
async function* shiftedOnes(
  client: Client,
  tenant: string,
  { fromMs, toMs, sequence, account, after, pageSize = 200 }: LineRange,
): AsyncGenerator<DatedTransaction> {
  const begin = { effectiveMs: fromMs, sequence: 0n };
  let from: EffectivePlace = after && isBefore(begin, after) ? after : begin;
  for (;;) {
    const query = new QueryParameters(tenant);
    const [table, own] = sourceOf(query, account, 'shifted_transactions', 'shifted_entries');
    const time = (ms: number) => `to_timestamp(${query.value(ms)}::float8 / 1000.0)`;
    const { rows } = await client.query<Row>({
      text: `with page as materialized (
          select t.sequence, t.effective_at from ${table} t
          where ${own} and (t.effective_at, t.sequence) > (${time(from.effectiveMs)}, ${query.value(from.sequence)}::bigint)
            and t.effective_at <= ${time(toMs)} and t.sequence + 0 <= ${query.value(sequence)}
          order by t.effective_at, t.sequence limit ${pageSize})
        select page.sequence, l.* from page ${record} order by page.effective_at, page.sequence`,
      values: query.values,
    });
    const found = rows.map(dated);
    yield* found;
    const last = found.at(-1);
    if (!last || found.length < pageSize) return;
    from = last;
  }
}
