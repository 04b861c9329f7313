// Reads of balances by both times: as of an instant, and day by day.
import { create } from '@bufbuild/protobuf';
import { BalanceSchema, DailyBalanceSchema, type Balance, type DailyBalance } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { addDays, dateOf, dayOf, instantOf, instantsOf, localDay } from '../platform/calendar.ts';
import { toId } from '../platform/ids.ts';
import { toDecimal } from '../platform/money.ts';
import { allSettledOrThrow, epochMs, inSnapshot, type Client, type Connections } from '../platform/postgres.ts';
import { net } from './accounting.ts';
import { unknownAccount } from './account-reads.ts';
import { boundOf, knownSequenceOf, type AsOf, type Known } from './as-of.ts';
import { accountStatement, currencyOf, type AccountRow } from './balances.ts';
import { getBooks } from './books.ts';
import { invalid } from './fields.ts';
import { decodePosted } from './mapping.ts';
import { firstAtTime } from './time-range.ts';
import { totalsAt, type AccountTotal, type Bound } from './totals.ts';

const noTotal: AccountTotal = { debits: 0n, credits: 0n, lastShifted: 0n };

/**
 * An account's balance of what counts until an instant and is recorded until a sequence. Version and time are those of the newest transaction
 * that counts; holds are not known. Throws {@link Refusal} as `getBalance`.
 */
export function getBalanceAsOf(pool: Connections, tenant: string, code: string, requested: string, asOf: AsOf): Promise<Balance> {
  return inSnapshot(pool, [tenant], async (client) => {
    const [{ account, currency }, bound] = await allSettledOrThrow([
      accountIn(client, tenant, code, requested),
      boundOf(client, tenant, asOf),
    ]);
    const [totals] = await totalsAt(client, tenant, [bound], [account.id]);
    const total = totals?.get(`${account.id} ${currency}`) ?? noTotal;
    const last = await lastCounted(client, tenant, { account: account.id, currency, bound, lastShifted: total.lastShifted });
    return create(BalanceSchema, {
      accountId: toId('acc', account.id),
      accountCode: code,
      currency,
      balance: toDecimal(net({ normalBalance: account.normal_balance }, total)),
      debits: toDecimal(total.debits),
      credits: toDecimal(total.credits),
      ...last,
      asOfMs: asOf.asOfMs === null ? undefined : BigInt(asOf.asOfMs),
      knownSequence: bound.sequence,
    });
  });
}

async function accountIn(
  client: Client,
  tenant: string,
  code: string,
  requested: string,
): Promise<{ account: AccountRow; currency: string }> {
  const { rows } = await client.query<AccountRow>(accountStatement(tenant, code));
  if (!rows[0]) throw unknownAccount(code);
  return { account: rows[0], currency: currencyOf(code, rows[0], requested) };
}

/** The balance's version and time after the newest transaction that counts. */
async function lastCounted(
  client: Client,
  tenant: string,
  { account, currency, bound, lastShifted }: { account: string; currency: string; bound: Bound; lastShifted: bigint },
): Promise<Pick<Balance, 'version' | 'updatedMs'> | null> {
  const place = `${firstAtTime('to_timestamp(($6::float8 + 1) / 1000.0)')} - 1`;
  const { rows } = await client.query<{ created_ms: number; payload: Buffer }>({
    name: 'last_counted',
    // Newer than the newest shifted one that counts are only plain ones and those that do not count yet. A sub-select, because row-level security
    // keeps a coalesce next to a column out of an index's condition.
    text: `select ${epochMs('l.created_at')} as created_ms, l.payload from log l
      where l.tenant_id = $1 and l.sequence = (select coalesce((
        select e.sequence from entries e
        where e.tenant_id = $1 and e.account_id = $2 and e.currency = $3 and e.sequence > $4 and e.sequence <= (select least($5, ${place}))
          and not exists (select from shifted_transactions t where t.tenant_id = $1 and t.sequence = e.sequence offset 0)
        order by e.sequence desc limit 1), $4))`,
    values: [tenant, account, currency, lastShifted, bound.sequence, bound.effectiveMs],
  });
  const [row] = rows;
  if (!row) return null;
  const accountId = toId('acc', account);
  const changed = decodePosted(row.payload).balances.find((each) => each.accountId === accountId && each.currency === currency);
  if (!changed) throw new Error(`the event that changed ${accountId} in ${currency} last does not say so`);
  return { version: changed.version, updatedMs: BigInt(row.created_ms) };
}

/** Which days are read: `YYYY-MM-DD`, or times, whose days are meant. */
export interface DailyRange {
  from: string;
  to: string;
  known: Known;
}

const maxDays = 366;

/**
 * Opening, movements and closing of each day of the books' time zone, by effective time; a day that the zone skipped is left out. Throws
 * {@link Refusal} as `getBalance`, and naming `from` or `to`.
 */
export async function listDailyBalances(
  pool: Connections,
  tenant: string,
  code: string,
  requested: string,
  range: DailyRange,
): Promise<DailyBalance[]> {
  const { timezone } = await getBooks(pool, tenant);
  const days = daysOf(range, timezone);
  return inSnapshot(pool, [tenant], async (client) => {
    const [{ account, currency }, sequence] = await allSettledOrThrow([
      accountIn(client, tenant, code, requested),
      knownSequenceOf(client, tenant, range.known),
    ]);
    const ends = days.flatMap(({ startMs, endMs }, index) => (index === 0 ? [startMs - 1, endMs] : [endMs]));
    const bounds = ends.map((effectiveMs) => ({ effectiveMs, sequence }));
    const totals = (await totalsAt(client, tenant, bounds, [account.id])).map((each) => each.get(`${account.id} ${currency}`) ?? noTotal);
    const balanceOf = (total: AccountTotal) => toDecimal(net({ normalBalance: account.normal_balance }, total));
    return days.map(({ date }, index) => {
      const [before, after] = totals.slice(index) as [AccountTotal, AccountTotal];
      return create(DailyBalanceSchema, {
        date,
        opening: balanceOf(before),
        debits: toDecimal(after.debits - before.debits),
        credits: toDecimal(after.credits - before.credits),
        closing: balanceOf(after),
      });
    });
  });
}

interface Day {
  date: string;
  startMs: number;
  endMs: number;
}

function daysOf({ from, to }: DailyRange, timezone: string): Day[] {
  const [first, last] = [localDayOf('from', from, timezone), localDayOf('to', to, timezone)];
  if (last < first) throw invalid('from', 'oneof', from, `from must not be after to`);
  if (addDays(first, maxDays) <= last) throw invalid('to', 'max', to, `to must be at most ${maxDays} days from from on`);
  const days: Day[] = [];
  for (let day = first; day <= last; day = addDays(day, 1)) days.push({ date: dateOf(day), ...instantsOf(timezone, day) });
  return days.filter(({ startMs, endMs }) => startMs <= endMs);
}

function localDayOf(field: string, text: string, timezone: string): number {
  if (text === '') throw invalid(field, 'required', text, `${field} is required`);
  const day = dayOf(text);
  if (day !== null) return day;
  const ms = instantOf(text, 'first', timezone);
  if (ms === null)
    throw invalid(field, 'datetime', text, `${field} must be a date like 2030-01-31 or a time like 2030-01-31T12:00:00.000Z`);
  return localDay(timezone, ms);
}
