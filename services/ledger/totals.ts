// Debits and credits of accounts by both times: what counted until an instant, as far as it was recorded until a sequence.
import { BinaryReader } from '@bufbuild/protobuf/wire';
import { ChangedBalanceSchema, TransactionPostedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { doubleArray } from '../platform/arrays.ts';
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

/** Totals by `<UUID of the account> <currency>`; what is missing is zero. */
export type Totals = Map<string, Total>;

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
  account_id: string;
  currency: string;
  /** Where the account's debits and credits so far stand; null where `debits` and `credits` are all. */
  newest: bigint | null;
  debits: string;
  credits: string;
}

/**
 * Totals at each bound, of the given accounts (UUIDs) or all. Runs in the caller's SQL transaction, which must be a snapshot and see the
 * tenant's rows.
 */
export async function totalsAt(client: Client, tenant: string, bounds: Bound[], accountIds?: string[]): Promise<Totals[]> {
  const { head, places } = await placesOf(
    client,
    tenant,
    bounds.map(({ effectiveMs }) => effectiveMs),
  );
  const shifted = await client.query('select from shifted_transactions where tenant_id = $1 limit 1', [tenant]);
  const answers = await allSettledOrThrow(
    bounds.map(({ effectiveMs, sequence }, index) => {
      const known = sequence < head ? sequence : head;
      const place = places[index] as bigint;
      const until = { effectiveMs, known, place: place < known ? place : known };
      return client.query<TotalRow>(
        statementOf(tenant, until, accountIds, { atHead: until.place === head, shifted: shifted.rows.length > 0 }),
      );
    }),
  );
  const newest = await newestTotals(
    client,
    tenant,
    answers.flatMap(({ rows }) => rows.flatMap((row) => row.newest ?? [])),
  );
  return answers.map(({ rows }) => {
    const totals: Totals = new Map();
    for (const row of rows) {
      const key = `${row.account_id} ${row.currency}`;
      const posted = row.newest === null ? undefined : newest.get(`${row.newest} ${key}`);
      if (row.newest !== null && !posted) throw new Error(`event ${row.newest} of ${tenant} does not have the balance ${key}`);
      const total = { debits: BigInt(row.debits) + (posted?.debits ?? 0n), credits: BigInt(row.credits) + (posted?.credits ?? 0n) };
      if (total.debits !== 0n || total.credits !== 0n) totals.set(key, total);
    }
    return totals;
  });
}

const shiftedKey = (table: string) => `${table}.tenant_id = $1 and ${table}.account_id = b.account_id and ${table}.currency = b.currency`;

// All that was recorded until the place $2, less what was shifted until there, plus what of that counts until $4 and was recorded until $3.
function statementOf(
  tenant: string,
  { effectiveMs, known, place }: { effectiveMs: number; known: bigint; place: bigint },
  accountIds: string[] | undefined,
  { atHead, shifted }: { atHead: boolean; shifted: boolean },
) {
  const newest = `left join lateral (
      select e.sequence from entries e where e.tenant_id = $1 and e.account_id = b.account_id and e.currency = b.currency and e.sequence <= $2
      order by e.sequence desc limit 1) as newest on true`;
  // A month counts as a whole where it is over by then and nothing was added later; the sub-select lets the index use its bounds.
  const moved = `left join lateral (
      select running_debits, running_credits from shifted_entries s where ${shiftedKey('s')} and s.sequence <= $2
      order by s.sequence desc limit 1) as moved on true
    left join lateral (
      select sum(part.debits) as debits, sum(part.credits) as credits from (
        select m.debits, m.credits, m.month < $5::date and m.last_sequence <= $3 as whole,
          m.month::timestamp at time zone 'UTC' as from_at, (m.month + interval '1 month') at time zone 'UTC' as end_at
        from shifted_months m where ${shiftedKey('m')} and m.month <= $5::date offset 0) as month
      cross join lateral (
        select month.debits, month.credits where month.whole
        union all
        select sum(s.debits), sum(s.credits) from shifted_entries s
        where not month.whole and ${shiftedKey('s')} and s.effective_at >= month.from_at and s.effective_at < month.end_at
          and s.effective_at <= to_timestamp($4::float8 / 1000.0) and s.sequence <= $3) as part (debits, credits)) as counted on true`;
  const sum = (side: string) =>
    `${atHead ? `b.${side}` : '0'}${shifted ? ` - coalesce(moved.running_${side}, 0) + coalesce(counted.${side}, 0)` : ''}`;
  const values: unknown[] = [tenant, place, ...(shifted ? [known, effectiveMs, monthOf(effectiveMs)] : [])];
  const accounts = accountIds === undefined ? '' : `and b.account_id = any($${values.push(accountIds)}::uuid[])`;
  return {
    text: `select b.account_id, b.currency, ${atHead ? 'null::bigint' : 'newest.sequence'} as newest, (${sum('debits')})::text as debits, (${sum('credits')})::text as credits
      from balances b ${atHead ? '' : newest} ${shifted ? moved : ''} where b.tenant_id = $1 and $2::bigint >= 0 ${accounts}`,
    values,
  };
}

// The last millisecond of the year 9999.
const latestMs = 253_402_300_799_999;

function monthOf(ms: number): string {
  // Nothing counts before 1970, and dates in SQL end elsewhere than in JavaScript.
  if (ms < 0) return '-infinity';
  return ms > latestMs ? 'infinity' : `${new Date(ms).toISOString().slice(0, 7)}-01`;
}

// Payloads read at once: the largest have some 60 KiB.
const payloadsAtOnce = 500;

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
