// Statements that search a tenant's log for transactions: positions from one index, and conditions for what that index does not know.
import { create, toBinary } from '@bufbuild/protobuf';
import { PostedEntrySchema, TransactionPostedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { newId } from '../platform/ids.ts';
import { allSorted, hasMetadata, newestWithMetadata, type MetadataFilter } from './metadata-search.ts';
import { firstAtTime, type LogRange, type QueryParameters, type TimeRange } from './time-range.ts';

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
  metadata?: MetadataFilter[] | undefined;
  /** Words of description and reference, as parts of a text search. */
  words?: string[] | undefined;
  /** UUID of the subject of whom they have personal data. */
  subject?: string | undefined;
  /** When they count, milliseconds since the Unix epoch, inclusive. */
  effectiveFromMs?: number | undefined;
  effectiveToMs?: number | undefined;
}

// Positions that a page examines where no index knows all filters: first by one index, then by the next, of which the rarest soon ends.
const firstExamined = 500;
const lastExamined = 4_000;
// Rows that turns after the first read at least, because some only look as if they matched.
const minRead = 51;
// Spans of 16,384 positions that a search for words examines at most.
const maxSpans = 1_024;

/** From which index a turn takes its positions, and how far it goes. */
export interface Turn {
  index: 'transactions' | 'entries' | 'words' | 'effective' | 'subject' | MetadataFilter;
  /** Positions to examine. */
  examined: number;
  /** Rows to return at most. */
  wanted: number;
}

/** The turns of a page. For a reference and a currency none goes by entries, because the balances in a currency may be many. */
export function turnsOf(filter: TransactionFilter, rare: MetadataFilter[], limit: number): Turn[] {
  const { accountCode, currency, reference, metadata = [], words } = filter;
  const hasOwn = [reference, filter.idempotencyKey, filter.hold, filter.reverses].some((each) => each !== undefined);
  const byEntries = accountCode !== undefined || (currency !== undefined && reference === undefined);
  const indexes: Turn['index'][] = [
    ...rare,
    ...(hasOwn ? (['transactions'] as const) : []),
    ...metadata.filter(({ prefixes }) => prefixes.length === 0),
    ...(filter.subject === undefined ? [] : (['subject'] as const)),
    ...(words === undefined ? [] : (['words'] as const)),
    ...(hasEffective(filter) ? (['effective'] as const) : []),
  ];
  if (indexes.length === 0 && accountCode === undefined) indexes.push('transactions');
  if (byEntries) indexes.push('entries');
  if (indexes.length === 1) indexes.push(indexes[0] as Turn['index']);
  return indexes.map((index, number) => ({
    index,
    examined:
      typeof index === 'object' && index.prefixes.length > 0 ? allSorted : number < indexes.length - 1 ? firstExamined : lastExamined,
    wanted: number === 0 ? limit + 1 : Math.max(limit + 1, minRead),
  }));
}

/** Parts of a statement that searches. */
export interface Search {
  /** Reads the newest positions by one index. */
  positions: string;
  /** Whether there may be more positions than these, in a `having` clause. */
  hasMore: string;
  /** For a position `t` what the index does not know. */
  condition: string | undefined;
}

/** The search of one turn. */
export function searchOf(query: QueryParameters, filter: TransactionFilter, range: LogRange, { index, examined, wanted }: Turn): Search {
  const { kind, metadata = [], subject, words } = filter;
  const own = index === 'transactions' ? undefined : allOf(ownConditions(query, filter));
  const ofOwn = own === undefined ? [] : [`(select ${own} from transactions where tenant_id = $1 and sequence = t.sequence)`];
  const condition = allOf([
    ...(index === 'words' || words === undefined ? [] : [hasWords(query, words)]),
    ...ofOwn,
    ...(index === 'subject' || subject === undefined ? [] : [hasSubject(query, subject)]),
    ...metadata.filter((each) => each !== index).map((each) => hasMetadata(query, each)),
    ...(index === 'entries' ? [] : ofBalance(query, filter)),
    ...(kind === undefined ? [] : [isOfKind(query, kind)]),
    ...(index === 'effective' || !hasEffective(filter) ? [] : [isEffective(query, filter)]),
  ]);
  const limit = String(condition === undefined ? wanted : examined);
  const hasMore = `count(*) = ${limit}`;
  if (index === 'words') {
    const positions = newestWithWords(query, words ?? [], range, limit);
    return { positions, hasMore: `${hasMore} or bool_or(cut)`, condition: `not t.cut and ${condition ?? 'true'}` };
  }
  if (index === 'entries') return { positions: newestPostedTo(query, filter, range, limit), hasMore, condition };
  if (index === 'subject') return { positions: newestOfSubject(query, subject ?? '', range, limit), hasMore, condition };
  if (index === 'effective') return { positions: newestEffective(query, filter, range, limit), hasMore, condition };
  if (index !== 'transactions') return { positions: newestWithMetadata(query, index, range, limit), hasMore, condition };
  const conditions = ['t.tenant_id = $1', ...range.keep('t.sequence'), ...ownConditions(query, filter)].join(' and ');
  const positions = `select t.sequence from transactions t where ${conditions} order by t.sequence desc limit ${limit}`;
  return { positions, hasMore, condition };
}

/** Conditions that the table of transactions knows. */
function ownConditions(query: QueryParameters, { reference, idempotencyKey, hold, reverses }: TransactionFilter): string[] {
  return [
    ...(reference === undefined ? [] : [`reference = ${query.value(reference)}`]),
    // A sub-select, because next to a reference the planner may read all transactions of the reference.
    ...(idempotencyKey === undefined
      ? []
      : [`sequence = (select sequence from transactions where tenant_id = $1 and idempotency_key = ${query.value(idempotencyKey)})`]),
    ...(hold === undefined ? [] : [`sequence = any(array(${partsOf(query.value(hold))}))`]),
    ...(reverses === undefined ? [] : [`sequence = any(array(${reversalsOf(query.value(reverses))}))`]),
  ];
}

function allOf(conditions: string[]): string | undefined {
  return conditions.length === 0 ? undefined : conditions.join(' and ');
}

function newestWithWords(query: QueryParameters, words: string[], { low, end }: LogRange, count: string): string {
  return `select sequence, cut from find_texts(${query.value(words.join(' & '))}, ${low}, ${end}, ${count}, ${maxSpans})`;
}

function hasWords(query: QueryParameters, words: string[]): string {
  return `(select x.words @@ ${query.value(words.join(' & '))}::tsquery from transaction_texts x where x.tenant_id = $1 and x.sequence = t.sequence)`;
}

function newestOfSubject(query: QueryParameters, subject: string, range: LogRange, count: string): string {
  const conditions = ['t.tenant_id = $1', `t.subject_id = ${query.value(subject)}`, ...range.keep('t.sequence')].join(' and ');
  return `select t.sequence from subject_transactions t where ${conditions} order by t.sequence desc limit ${count}`;
}

function hasSubject(query: QueryParameters, subject: string): string {
  return `exists (select from subject_transactions s where s.tenant_id = $1 and s.subject_id = ${query.value(subject)} and s.sequence = t.sequence)`;
}

function hasEffective({ effectiveFromMs, effectiveToMs }: TransactionFilter): boolean {
  return effectiveFromMs !== undefined || effectiveToMs !== undefined;
}

/** Conditions on a time in SQL. */
function whileEffective(query: QueryParameters, { effectiveFromMs: from, effectiveToMs: to }: TransactionFilter, time: string): string {
  const at = (ms: number) => `to_timestamp(${query.value(ms)}::float8 / 1000.0)`;
  return [...(from === undefined ? [] : [`${time} >= ${at(from)}`]), ...(to === undefined ? [] : [`${time} <= ${at(to)}`])].join(' and ');
}

/** Whether the transaction `t` counts between both times. */
function isEffective(query: QueryParameters, filter: TransactionFilter): string {
  return `(select ${whileEffective(query, filter, 'coalesce(s.effective_at, x.created_at)')} from transactions x
    left join shifted_transactions s on s.tenant_id = x.tenant_id and s.sequence = x.sequence
    where x.tenant_id = $1 and x.sequence = t.sequence)`;
}

/** The newest positions that count between both times: those that count when they were recorded, by their place in the log, and shifted ones. */
function newestEffective(query: QueryParameters, filter: TransactionFilter, range: LogRange, count: string): string {
  const { effectiveFromMs: from, effectiveToMs: to } = filter;
  const place = (ms: number) => `(select ${firstAtTime(`to_timestamp(${query.value(ms)}::float8 / 1000.0)`)})`;
  const inLog = [
    ...(from === undefined ? [] : [`t.sequence >= ${place(from)}`]),
    ...(to === undefined ? [] : [`t.sequence < ${place(to + 1)}`]),
  ];
  const shifted = 'select from shifted_transactions s where s.tenant_id = $1 and s.sequence = t.sequence';
  const newest = 'order by t.sequence desc limit';
  return `select sequence from (
      (select t.sequence from transactions t where ${['t.tenant_id = $1', ...inLog, ...range.keep('t.sequence')].join(' and ')}
        and not exists (${shifted}) ${newest} ${count})
      union all
      (select t.sequence from shifted_transactions t
        where ${['t.tenant_id = $1', whileEffective(query, filter, 't.effective_at'), ...range.keep('t.sequence')].join(' and ')} ${newest} ${count})
    ) as t ${newest} ${count}`;
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

/** Conditions for account and currency where no entries are read. */
function ofBalance(query: QueryParameters, filter: TransactionFilter): string[] {
  if (filter.accountCode !== undefined) return [isPostedTo(query, filter)];
  return filter.currency === undefined ? [] : [payloadHas(query, filter.currency)];
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
