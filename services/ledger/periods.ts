// Periods: closed and reopened under the tenant's head, so that no posting slips in between, and reads of what was closed.
import { create, toBinary } from '@bufbuild/protobuf';
import { PeriodChangedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { PeriodSchema, type Period } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { dayOf, instantsOf } from '../platform/calendar.ts';
import { cutPage, type CursorScope } from '../platform/cursor.ts';
import { newId, toId, toUuid } from '../platform/ids.ts';
import {
  allSettledOrThrow,
  epochMs,
  inTransaction,
  readTenant,
  sendTogether,
  type Client,
  type Connections,
} from '../platform/postgres.ts';
import { Refusal, type Reason } from './accounting.ts';
import { storeBooks, storedBooks, type StoredBooks } from './books.ts';
import { Changes } from './changes.ts';
import { nextPosition, type AuditContext } from './chart.ts';
import { invalid } from './fields.ts';
import { lockHead, type Head } from './log.ts';
import { activeUntil } from './outbox/active-cursors.ts';
import { positionOf, type Page } from './page.ts';
import { writeLocked } from './write.ts';
import { postClosings } from './year-end.ts';

/** A closing as it is asked for. */
export interface WantedClosing {
  /** `YYYY-MM-DD` in the books' time zone. */
  through: string;
  /** For ever. */
  final: boolean;
  /** Brings revenue and expense to zero. */
  yearEnd: boolean;
  reason: string;
}

/** What a call has made, or a call before it. */
export interface PeriodAnswer {
  period: Period;
  repeated: boolean;
}

/** What one commit changes. */
interface Commit {
  client: Client;
  head: Head;
  nowMs: number;
  context: AuditContext;
}

/**
 * Closes all that counts until the end of a day. Throws {@link Refusal}: `period_not_over`, `period_closed` for an earlier day than the last closed
 * one, and for a year end `report_too_large` or what `postClosings` throws.
 */
export function closePeriod(pool: Connections, tenant: string, wanted: WantedClosing, context: AuditContext): Promise<PeriodAnswer> {
  return inTransaction(pool, [tenant], async (client) => {
    // Made if it is missing, so there is one.
    const { head, nowMs } = (await lockHead(client, tenant, true)) as { head: Head; nowMs: number };
    const books = await storedBooks(client, tenant);
    const { through, final, yearEnd, reason } = wanted;
    const openFromMs = openFrom(through, books);
    if (nextPosition(head, nowMs).createdMs < openFromMs) throw refusalOf('period_not_over', `${through} is not over yet`, through);
    if (books.closedThrough !== null && through < books.closedThrough) {
      throw refusalOf('period_closed', `all is closed through ${books.closedThrough} already`, through);
    }
    if (through === books.closedThrough) {
      const earlier = await earlierClosing(client, tenant, wanted);
      if (earlier) return { period: earlier, repeated: true };
    }
    const id = newId('period');
    const { settings } = books;
    const closing = { periodId: id, through, atMs: openFromMs - 1, retainedCode: settings.retained_earnings_code };
    const closings = yearEnd
      ? await postClosings(client, { head, nowMs, context, ...closing }, (changes) => write(client, head, nowMs, changes))
      : [];
    const after = { ...books, closedThrough: through, openFromMs, finalThrough: final ? through : books.finalThrough };
    const period = { id, through, final, yearEnd, reason, closings };
    return { period: await commitPeriod({ client, head, nowMs, context }, 'close', period, after), repeated: false };
  });
}

/**
 * Leaves closed only what ends at or before a day; null: nothing. Throws {@link Refusal}: `period_closed` beyond the last closed day, `period_final`.
 */
export function reopenPeriod(
  pool: Connections,
  tenant: string,
  { through, reason }: { through: string | null; reason: string },
  context: AuditContext,
): Promise<PeriodAnswer> {
  return inTransaction(pool, [tenant], async (client) => {
    const locked = await lockHead(client, tenant, false);
    const books = await storedBooks(client, tenant);
    const { closedThrough, finalThrough } = books;
    if (locked && through === closedThrough) {
      const [newest] = await selectPeriods(client, tenant, { limit: 1 });
      if (newest?.action === 'reopen' && newest.reason === reason) return { period: newest, repeated: true };
    }
    if (!locked || closedThrough === null) throw refusalOf('period_closed', 'nothing is closed', through ?? '');
    const openFromMs = through === null ? null : openFrom(through, books);
    if (through !== null && through > closedThrough) {
      throw refusalOf('period_closed', `nothing is closed after ${closedThrough}`, through);
    }
    if (finalThrough !== null && (through === null || through < finalThrough)) {
      throw refusalOf('period_final', `all is closed for ever through ${finalThrough}`, through ?? '');
    }
    const period = { id: newId('period'), through, final: false, yearEnd: false, reason, closings: [] };
    const after = { ...books, closedThrough: through, openFromMs };
    return { period: await commitPeriod({ client, ...locked, context }, 'reopen', period, after), repeated: false };
  });
}

/** A page of closings and reopenings, newest first. Throws {@link Refusal} for a bad cursor. */
export async function listPeriods(
  pool: Connections,
  tenant: string,
  { limit, cursor }: Page,
): Promise<{ periods: Period[]; nextCursor: string }> {
  const scope: CursorScope = ['periods', tenant, {}];
  const before = positionOf(scope, cursor, /^[0-9]{1,19}$/);
  const [rows] = await readTenant<[PeriodRow[]]>(pool, tenant, {
    name: 'list_periods',
    text: `select ${periodColumns} from periods where tenant_id = $1 and sequence < $2 order by sequence desc limit $3`,
    values: [tenant, before ?? '9223372036854775807', limit + 1],
  });
  const page = cutPage(rows, limit, scope, ({ sequence }) => sequence.toString());
  return { periods: page.rows.map(periodOf), nextCursor: page.nextCursor };
}

interface PeriodRow {
  id: string;
  action: string;
  through: string | null;
  final: boolean;
  year_end: boolean;
  closing_transactions: string[];
  reason: string;
  actor: string;
  created_ms: number;
  sequence: bigint;
}

const periodColumns = `id, action, through::text, final, year_end, closing_transactions, reason, actor, ${epochMs('created_at')} as created_ms, sequence`;

/** What the event of a period says, with the TypeIDs of its closing transactions. */
interface NewPeriod {
  id: string;
  through: string | null;
  final: boolean;
  yearEnd: boolean;
  reason: string;
  closings: string[];
}

/** Writes the event of a period, and what is derived from it. */
async function commitPeriod(
  { client, head, nowMs, context }: Commit,
  action: 'close' | 'reopen',
  { id, through, final, yearEnd, reason, closings }: NewPeriod,
  books: StoredBooks,
): Promise<Period> {
  const { tenant } = head;
  const message = create(PeriodChangedSchema, {
    id,
    through: through ?? undefined,
    openFromMs: books.openFromMs === null ? undefined : BigInt(books.openFromMs),
    final,
    yearEnd,
    reason,
    closingTransactions: closings,
  });
  const type = action === 'close' ? 'period.closed' : 'period.reopened';
  const event = { type, ...context, payload: toBinary(PeriodChangedSchema, message) } as const;
  const state = { head, accounts: new Map<string, never>() };
  const changes = new Changes();
  const row = changes.append(state, event, { lines: [], changes: [], broken: [], uses: null }, nowMs);
  await storeBooks(client, tenant, { ...books, version: books.version + 1n, updatedMs: row.createdMs });
  const { rows } = await client.query<PeriodRow>({
    name: 'add_period',
    text: `insert into periods
        (tenant_id, sequence, id, action, through, final, year_end, closing_transactions, reason, actor, created_at)
      values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, to_timestamp($11::float8 / 1000.0)) returning ${periodColumns}`,
    values: [
      ...[tenant, row.sequence, toUuid('period', id), action, through, final, yearEnd],
      ...[closings.map((each) => toUuid('txn', each)), reason, context.actor, row.createdMs],
    ],
  });
  await write(client, head, nowMs, changes);
  return periodOf(rows[0] as PeriodRow);
}

function write(client: Client, head: Head, nowMs: number, { log, posted, balances, extras }: Changes): Promise<unknown> {
  const tenants = [head.tenant];
  const relayCursors = { tenants, activeUntilMs: activeUntil(nowMs) };
  const rows = { tenants, relayCursors, log, posted, balances, extras };
  return allSettledOrThrow(sendTogether(client, () => writeLocked(client, [head], rows)));
}

/** The closing of this day that did what is asked for; null where there is something new to do. */
async function earlierClosing(client: Client, tenant: string, { through, final, yearEnd }: WantedClosing): Promise<Period | null> {
  const closings = await selectPeriods(client, tenant, { closedAt: through });
  const isNew = (final && !closings.some((each) => each.final)) || (yearEnd && !closings.some((each) => each.yearEnd));
  if (isNew) return null;
  const isSame = (each: Period) => (each.final || !final) && (each.yearEnd || !yearEnd);
  return closings.find(isSame) ?? closings[0] ?? null;
}

// Newest first. `closedAt`: closings of this day after the last reopening of it.
async function selectPeriods(client: Client, tenant: string, { limit = 1_000, closedAt }: { limit?: number; closedAt?: string }) {
  const { rows } = await client.query<PeriodRow>({
    name: closedAt === undefined ? 'newest_periods' : 'closings_of_day',
    text: `select ${periodColumns} from periods where tenant_id = $1 ${
      closedAt === undefined
        ? ''
        : `and action = 'close' and through = $3::date and sequence > coalesce((select max(sequence) from periods
            where tenant_id = $1 and action = 'reopen' and (through is null or through < $3::date)), 0)`
    } order by sequence desc limit $2`,
    values: [tenant, limit, ...(closedAt === undefined ? [] : [closedAt])],
  });
  return rows.map(periodOf);
}

/** The first millisecond after a day of the books. Throws {@link Refusal} for one that the time zone skipped. */
function openFrom(through: string, { settings }: StoredBooks): number {
  const { startMs, endMs } = instantsOf(settings.timezone, dayOf(through) as number);
  if (endMs < startMs) throw invalid('through', 'datetime', through, `through must be a day that there was in ${settings.timezone}`);
  return endMs + 1;
}

function periodOf(row: PeriodRow): Period {
  return create(PeriodSchema, {
    id: toId('period', row.id),
    action: row.action,
    through: row.through ?? undefined,
    final: row.final,
    yearEnd: row.year_end,
    closingTransactions: row.closing_transactions.map((each) => toId('txn', each)),
    reason: row.reason,
    actor: row.actor,
    createdMs: BigInt(row.created_ms),
    sequence: row.sequence,
  });
}

function refusalOf(reason: Reason, message: string, value: string): Refusal {
  return new Refusal(reason, message, { field: 'through', tag: reason, value });
}
