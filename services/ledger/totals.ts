// Debits and credits of accounts by both times: what counted until an instant, as far as it was recorded until a sequence.
import { BinaryReader } from '@bufbuild/protobuf/wire';
import { ChangedBalanceSchema, TransactionPostedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { bigintArray, doubleArray } from '../platform/arrays.ts';
import { toUuid } from '../platform/ids.ts';
import { allSettledOrThrow, type Client } from '../platform/postgres.ts';
import { firstAtTime } from './time-range.ts';

/** Up to where totals are summed. */
export interface Bound {
  /** What counts until then: milliseconds since the Unix epoch, inclusive; Infinity: at any time. */
  effectiveMs: number;
  /** What is recorded until there, inclusive. Beyond the head: all. */
  sequence: bigint;
}

/** Minor units. */
export interface Total {
  debits: bigint;
  credits: bigint;
}

/** What counts of an account in a currency. */
export interface AccountTotal extends Total {
  /** The newest transaction that counts at another time than it was recorded; 0: none. */
  lastShifted: bigint;
}

/** Totals by `<UUID of the account> <currency>`; what is missing is zero. */
export type Totals<Each extends Total = Total> = Map<string, Each>;

/**
 * A tenant's head, and for each time (milliseconds since the Unix epoch) the last sequence that was recorded until then. For a caller whose SQL
 * transaction sees the tenant's rows.
 */
export async function placesOf(client: Client, tenant: string, timesMs: number[]): Promise<{ head: bigint; places: bigint[] }> {
  const { rows } = await client.query<{ head: bigint; places: string[] }>({
    name: 'places_of_times',
    text: `select coalesce((select sequence from heads where tenant_id = $1), 0) as head,
      array(select ${firstAtTime('to_timestamp((ms + 1) / 1000.0)')} - 1 from unnest($2::float8[]) with ordinality as t (ms, n) order by n) as places`,
    values: [tenant, doubleArray(timesMs)],
  });
  const { head, places } = rows[0] as (typeof rows)[number];
  return { head, places: places.map(BigInt) };
}

interface TotalRow {
  bound: number;
  account_id: string;
  currency: string;
  /** Where the account's debits and credits so far stand; null where `debits` and `credits` are all. */
  newest: bigint | null;
  /** What was recorded until the place, without what is shifted. */
  debits: string;
  credits: string;
  /** What is shifted and counts after the bound before in its chain. */
  shifted_debits: string;
  shifted_credits: string;
  last_shifted: bigint;
}

/**
 * Totals at each bound, of the given accounts (UUIDs) or all. Runs in the caller's SQL transaction, which must be a snapshot and see the
 * tenant's rows.
 */
export async function totalsAt(client: Client, tenant: string, bounds: Bound[], accountIds?: string[]): Promise<Totals<AccountTotal>[]> {
  const times = bounds.map(({ effectiveMs }) => effectiveMs);
  const [{ head, places }, anyShifted] = await allSettledOrThrow([
    placesOf(client, tenant, times),
    client.query({ name: 'any_shifted', text: 'select from shifted_transactions where tenant_id = $1 limit 1', values: [tenant] }),
  ]);
  const knowns = bounds.map(({ sequence }) => min(sequence, head));
  const { order, afters } = chainsOf(times, knowns);
  const untils = knowns.map((known, index) => min(known, places[index] as bigint));
  const shifted = anyShifted.rows.length > 0;
  const ends = [doubleArray(times), times.map(monthOf), doubleArray(afters), afters.map(monthOf)];
  const { rows } = await client.query<TotalRow>({
    name: `totals_at${shifted ? '_shifted' : ''}${accountIds ? '_of' : ''}`,
    text: totalsText(shifted, accountIds !== undefined),
    values: [tenant, head, bigintArray(untils), bigintArray(knowns), ...ends, ...(accountIds ? [accountIds] : [])],
  });
  const sequences = rows.flatMap((row) => row.newest ?? []);
  const newest = await newestTotals(client, tenant, sequences);
  const totals = bounds.map((): Totals<AccountTotal> => new Map());
  const byBound = Map.groupBy(rows, (row) => row.bound);
  let counted: Totals<AccountTotal> = new Map();
  for (const index of order) {
    if (afters[index] === -Infinity) counted = new Map();
    for (const row of byBound.get(index) ?? []) {
      const key = `${row.account_id} ${row.currency}`;
      const posted = row.newest === null ? noTotal : newest.get(`${row.newest} ${key}`);
      if (!posted) throw new Error(`event ${row.newest} of ${tenant} does not have the balance ${key}`);
      const before = counted.get(key) ?? noTotal;
      const shiftedSoFar = {
        debits: before.debits + BigInt(row.shifted_debits),
        credits: before.credits + BigInt(row.shifted_credits),
        lastShifted: before.lastShifted > row.last_shifted ? before.lastShifted : row.last_shifted,
      };
      if (shifted) counted.set(key, shiftedSoFar);
      const debits = BigInt(row.debits) + posted.debits + shiftedSoFar.debits;
      const credits = BigInt(row.credits) + posted.credits + shiftedSoFar.credits;
      if (debits !== 0n || credits !== 0n) totals[index]?.set(key, { debits, credits, lastShifted: shiftedSoFar.lastShifted });
    }
  }
  return totals;
}

/**
 * The order in which bounds of one sequence follow each other, and for each the time after which it reads what is shifted: that of the one before,
 * or -Infinity. So a row is read once, for however many bounds.
 */
function chainsOf(times: number[], knowns: bigint[]): { order: number[]; afters: number[] } {
  const time = (index: number) => times[index] as number;
  const known = (index: number) => knowns[index] as bigint;
  const order = [...times.keys()].sort((one, other) => Number(known(one) - known(other)) || (time(one) < time(other) ? -1 : 1));
  const afters = times.map(() => -Infinity);
  for (const [place, index] of order.entries()) {
    const before = order[place - 1];
    if (before !== undefined && known(before) === known(index)) afters[index] = time(before);
  }
  return { order, afters };
}

const noTotal: AccountTotal = { debits: 0n, credits: 0n, lastShifted: 0n };
const min = (one: bigint, other: bigint) => (one < other ? one : other);

const keyOf = (table: string) => `${table}.tenant_id = $1 and ${table}.account_id = b.account_id and ${table}.currency = b.currency`;

// What was recorded until the place, less what of that is shifted; beside it what is shifted, counts until the bound and was recorded until it.
function totalsText(shifted: boolean, ofAccounts: boolean): string {
  // A month counts as a whole where it is over by then and nothing was added later. Sub-selects let indexes use their bounds, and `+ 0` keeps the
  // planner from the index by sequence.
  const moved = `left join lateral (
      select s.running_debits, s.running_credits from shifted_entries s where ${keyOf('s')} and s.sequence <= bound.place
      order by s.sequence desc limit 1) as moved on true
    left join lateral (
      select sum(part.debits) as debits, sum(part.credits) as credits, max(part.last) as last
      from (
        select *, from_at > bound.after_at and end_at <= bound.until_at + interval '1 ms' and last_sequence <= bound.known as whole from (
          select m.debits, m.credits, m.last_sequence,
            m.month::timestamp at time zone 'UTC' as from_at, (m.month + interval '1 month') at time zone 'UTC' as end_at
          from shifted_months m where ${keyOf('m')} and m.month >= bound.after_month and m.month <= bound.month) as m
        offset 0) as month
      cross join lateral (
        select month.debits, month.credits, month.last_sequence where month.whole
        union all
        select sum(s.debits), sum(s.credits), max(s.sequence) from shifted_entries s
        where not month.whole and ${keyOf('s')} and s.effective_at >= month.from_at and s.effective_at < month.end_at
          and s.effective_at > bound.after_at and s.effective_at <= bound.until_at and s.sequence + 0 <= bound.known
      ) as part (debits, credits, last)) as counted on true`;
  const posted = (side: string) =>
    `(case when bound.place = $2 then b.${side} else 0 end${shifted ? ` - coalesce(moved.running_${side}, 0)` : ''})::text as ${side}`;
  const ofShifted = (side: string) => `${shifted ? `coalesce(counted.${side}, 0)::text` : `'0'`} as shifted_${side}`;
  return `with bound as materialized (
      select n::int - 1 as bound, place, known, to_timestamp(ms / 1000.0) as until_at, month, to_timestamp(after_ms / 1000.0) as after_at, after_month
      from unnest($3::bigint[], $4::bigint[], $5::float8[], $6::date[], $7::float8[], $8::date[])
        with ordinality as t (place, known, ms, month, after_ms, after_month, n))
    select bound.bound, b.account_id, b.currency, newest.sequence as newest, ${posted('debits')}, ${posted('credits')},
      ${ofShifted('debits')}, ${ofShifted('credits')}, ${shifted ? 'coalesce(counted.last, 0)' : '0::bigint'} as last_shifted
    from bound cross join balances b
    left join lateral (
      select e.sequence from entries e where bound.place < $2::bigint and ${keyOf('e')} and e.sequence <= bound.place
      order by e.sequence desc limit 1) as newest on true ${shifted ? moved : ''}
    where b.tenant_id = $1 ${ofAccounts ? 'and b.account_id = any($9::uuid[])' : ''}`;
}

// The last millisecond of the year 9999.
const latestMs = 253_402_300_799_999;

function monthOf(ms: number): string {
  // Nothing counts before 1970, and dates in SQL end elsewhere than in JavaScript.
  if (ms < 0) return '-infinity';
  return ms > latestMs ? 'infinity' : `${new Date(ms).toISOString().slice(0, 7)}-01`;
}

// Payloads read at once: the largest have some 60 KiB.
const payloadsAtOnce = 1_000;

// Debits and credits so far, by `<sequence> <account> <currency>`, of all balances that these events changed.
async function newestTotals(client: Client, tenant: string, sequences: bigint[]): Promise<Map<string, Total>> {
  const distinct = [...new Set(sequences)];
  const totals = new Map<string, Total>();
  for (let from = 0; from < distinct.length; from += payloadsAtOnce) {
    const { rows } = await client.query<{ sequence: bigint; payload: Buffer }>({
      name: 'payloads_of_sequences',
      text: `select l.sequence, l.payload from unnest($2::bigint[]) as wanted (sequence),
        lateral (select sequence, payload from log where tenant_id = $1 and sequence = wanted.sequence offset 0) as l`,
      values: [tenant, distinct.slice(from, from + payloadsAtOnce)],
    });
    for (const { sequence, payload } of rows) {
      for (const { key, total } of balancesIn(payload)) totals.set(`${sequence} ${key}`, total);
    }
  }
  return totals;
}

const balancesField = TransactionPostedSchema.field.balances.number;
const { accountId, currency, debits, credits } = ChangedBalanceSchema.field;
const wantedFields = [accountId, currency, debits, credits].map(({ number }) => number);

// Only what is needed of an event: all of it takes ten times as long, and a report reads one per account.
function* balancesIn(payload: Uint8Array): Generator<{ key: string; total: Total }> {
  const reader = new BinaryReader(payload);
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field !== balancesField) {
      reader.skip(wire, field);
      continue;
    }
    const end = reader.uint32() + reader.pos;
    const texts = new Map<number, string>();
    while (reader.pos < end) {
      const [inner, innerWire] = reader.tag();
      if (wantedFields.includes(inner)) texts.set(inner, reader.string());
      else reader.skip(innerWire, inner);
    }
    // Always with two fraction digits.
    const amount = (number: number) => BigInt((texts.get(number) as string).replace('.', ''));
    yield {
      key: `${toUuid('acc', texts.get(accountId.number) ?? '')} ${texts.get(currency.number)}`,
      total: { debits: amount(debits.number), credits: amount(credits.number) },
    };
  }
}
