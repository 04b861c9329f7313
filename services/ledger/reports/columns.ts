// The columns of a report: its period split by the calendar, and the periods with which it is compared. Pure.
import { addDays, addMonths, dateOf, firstDayOf, fiscalYearEnd, instantsOf, isMonthEnd, localDay } from '../../platform/calendar.ts';
import { invalid } from '../fields.ts';
import type { Column, Parameters } from './report.ts';

/** The most columns of a report. */
export const maxColumns = 24;

const dayMs = 86_400_000;

interface Period {
  fromMs: number | null;
  toMs: number;
}

/** What columns depend on besides parameters. */
export interface FiscalCalendar {
  timeZone: string;
  /** `MM-DD`. */
  fiscalYearEnd: string;
}

type Asked = Pick<Parameters, 'time' | 'fromMs' | 'toMs' | 'columns' | 'compare' | 'count'>;

/** The columns, those of the report's own period first. Throws {@link Refusal} `validation_failed`: without `from`, or with more than 24 columns. */
export function columnsOf(asked: Asked, calendar: FiscalCalendar): Column[] {
  const { timeZone } = calendar;
  const isSplit = asked.columns !== 'total';
  // Balances by month are those of the fiscal year so far.
  const fromMs = asked.time === 'at' && isSplit ? fiscalYearStart(asked.toMs, calendar) : asked.fromMs;
  if (asked.time === 'between' && fromMs === null) {
    const needing = isSplit ? 'columns' : asked.compare === 'none' ? null : 'compare';
    if (needing !== null) throw invalid('from', 'required', '', `from is required with ${needing}, and from 1970 on`);
  }
  const own = { fromMs, toMs: asked.toMs };
  const before =
    asked.compare === 'none' ? [] : Array.from({ length: asked.count }, (_, index) => earlier(own, index + 1, asked, timeZone));
  const columns: Column[] = [];
  for (const [index, period] of [own, ...before].entries()) {
    for (const each of split(period, asked.columns, timeZone)) {
      const column = { key: dateOf(localDay(timeZone, each.toMs)), fromMs: asked.time === 'at' ? null : each.fromMs, toMs: each.toMs };
      if (columns.every(({ fromMs: from, toMs }) => from !== column.fromMs || toMs !== column.toMs)) columns.push(column);
      if (columns.length <= maxColumns) continue;
      const [field, value] = index === 0 ? (['columns', asked.columns] as const) : (['count', String(asked.count)] as const);
      throw invalid(field, 'max', value, `a report has at most ${maxColumns} columns: ask for a shorter period or fewer comparisons`);
    }
  }
  return columns;
}

/** The first millisecond of the fiscal year in which a time is. */
export function fiscalYearStart(ms: number, { timeZone, fiscalYearEnd: end }: FiscalCalendar): number {
  const last = fiscalYearEnd(localDay(timeZone, ms), end);
  // The end before is 365 or 366 days earlier.
  return instantsOf(timeZone, addDays(fiscalYearEnd(addDays(last, -366), end), 1)).startMs;
}

/** The period that is compared, the `nth` one back. */
function earlier({ fromMs, toMs }: Period, nth: number, { time, compare, columns }: Asked, timeZone: string): Period {
  const moveBack = (ms: number, back: (day: number) => number) => {
    const day = localDay(timeZone, ms);
    const { startMs, endMs } = instantsOf(timeZone, day);
    const moved = instantsOf(timeZone, back(day));
    return ms === endMs ? moved.endMs : moved.startMs + (ms - startMs);
  };
  const byMonths = (months: number) => ({
    fromMs: fromMs === null ? null : moveBack(fromMs, (day) => addMonths(day, -months)),
    toMs: moveBack(toMs, (day) => addMonths(day, -months)),
  });
  if (compare === 'previous_year') return byMonths(12 * nth);
  if (time === 'at' && columns === 'total') {
    const monthStart = firstDayOf('month', localDay(timeZone, toMs));
    return { fromMs: null, toMs: instantsOf(timeZone, addDays(addMonths(monthStart, 1 - nth), -1)).endMs };
  }
  const from = fromMs as number;
  const months = wholeMonths({ fromMs: from, toMs }, timeZone);
  if (months !== null) return byMonths(months * nth);
  const days = Math.max(1, Math.round((toMs - from + 1) / dayMs)) * nth;
  return { fromMs: moveBack(from, (day) => addDays(day, -days)), toMs: moveBack(toMs, (day) => addDays(day, -days)) };
}

/** How many months a period has; null where it begins or ends within one. */
function wholeMonths({ fromMs, toMs }: { fromMs: number; toMs: number }, timeZone: string): number | null {
  const [first, last] = [localDay(timeZone, fromMs), localDay(timeZone, toMs)];
  const isWhole = first === firstDayOf('month', first) && instantsOf(timeZone, first).startMs === fromMs;
  if (!isWhole || !isMonthEnd(last) || instantsOf(timeZone, last).endMs !== toMs) return null;
  const months = (day: number) => new Date(day).getUTCFullYear() * 12 + new Date(day).getUTCMonth();
  return months(last) - months(first) + 1;
}

function* split({ fromMs, toMs }: Period, columns: Parameters['columns'], timeZone: string): Generator<Period> {
  if (columns === 'total' || fromMs === null) {
    yield { fromMs, toMs };
    return;
  }
  for (let from = fromMs; from <= toMs;) {
    const next = instantsOf(timeZone, endOf(columns, localDay(timeZone, from))).endMs;
    yield { fromMs: from, toMs: Math.min(next, toMs) };
    from = next + 1;
  }
}

/** The last day of the calendar month, quarter or year in which a day is. */
function endOf(columns: 'month' | 'quarter' | 'year', day: number): number {
  if (columns === 'year') return addDays(addMonths(firstDayOf('year', day), 12), -1);
  const month = firstDayOf('month', day);
  const months = columns === 'month' ? 1 : 3 - (new Date(month).getUTCMonth() % 3);
  return addDays(addMonths(month, months), -1);
}
