// Days of a time zone: where they begin, which day a time is on, and the periods that days form.
//
// A day is a number: milliseconds of its midnight as if that were in UTC.

const dayMs = 86_400_000;

/** A period by the calendar. */
export type Calendar = 'day' | 'week' | 'month' | 'year';

/** Whether a time zone is known by this name. */
export function isTimeZone(name: string): boolean {
  // Intl accepts offsets such as `+01:00` as well, which know no summer time.
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    formatOf(name);
    return true;
  } catch {
    return false;
  }
}

/** The day of a text `YYYY-MM-DD`; null where it is none. */
export function dayOf(text: string): number | null {
  if (!/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(text)) return null;
  const day = Date.parse(`${text}T00:00:00Z`);
  return Number.isNaN(day) || dateOf(day) !== text ? null : day;
}

/** The text `YYYY-MM-DD` of a day. */
export function dateOf(day: number): string {
  return new Date(day).toISOString().slice(0, 10);
}

/** First and last millisecond of a local day, since the Unix epoch. A day that the zone skipped has none: then its end is before its start. */
export function instantsOf(timeZone: string, day: number): { startMs: number; endMs: number } {
  return { startMs: beginOf(timeZone, day), endMs: beginOf(timeZone, day + dayMs) - 1 };
}

/** The day this many days later. */
export function addDays(day: number, days: number): number {
  return day + days * dayMs;
}

/** The day this many months later; in a shorter month its last day. The last day of a month stays the last. */
export function addMonths(day: number, months: number): number {
  const date = new Date(day);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth() + months];
  const end = Date.UTC(year, month + 1, 0);
  return isMonthEnd(day) ? end : Math.min(end, Date.UTC(year, month, date.getUTCDate()));
}

/** Whether a day is the last of its month. */
export function isMonthEnd(day: number): boolean {
  return new Date(addDays(day, 1)).getUTCDate() === 1;
}

/** Whether a text `MM-DD` is a day of some year. */
export function isFiscalYearEnd(text: string): boolean {
  // 2000 was a leap year.
  return dayOf(`2000-${text}`) !== null;
}

/** The last day of the fiscal year in which a day is; `end`: `MM-DD`, of which `02-29` means the last day of February. */
export function fiscalYearEnd(day: number, end: string): number {
  const [month = 12, date = 31] = end.split('-').map(Number);
  const inYear = (year: number) => Math.min(Date.UTC(year, month - 1, date), Date.UTC(year, month, 0));
  const year = new Date(day).getUTCFullYear();
  return day <= inYear(year) ? inYear(year) : inYear(year + 1);
}

/** The first day of the day, week (Monday), month or year in which a day is. */
export function firstDayOf(calendar: Calendar, day: number): number {
  const date = new Date(day);
  if (calendar === 'week') return day - ((date.getUTCDay() + 6) % 7) * dayMs;
  if (calendar === 'month') return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
  return calendar === 'year' ? Date.UTC(date.getUTCFullYear()) : day;
}

/** The first second of a local day, milliseconds since the Unix epoch, by binary search: midnight may be skipped, and so may be a whole day. */
export function beginOf(timeZone: string, day: number): number {
  let [before, from] = [(day - dayMs) / 1000, (day + dayMs) / 1000];
  while (from - before > 1) {
    const middle = Math.floor((before + from) / 2);
    if (localDay(timeZone, middle * 1000) >= day) from = middle;
    else before = middle;
  }
  return from * 1000;
}

/** The local day at a time. */
export function localDay(timeZone: string, atMs: number): number {
  const parts = Object.fromEntries(
    formatOf(timeZone)
      .formatToParts(atMs)
      .map(({ type, value }) => [type, Number(value)]),
  );
  return Date.UTC(parts['year'] as number, (parts['month'] as number) - 1, parts['day']);
}

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timeZone: string): Intl.DateTimeFormat {
  let format = formats.get(timeZone);
  if (!format) {
    format = new Intl.DateTimeFormat('en-US', { timeZone, calendar: 'gregory', year: 'numeric', month: 'numeric', day: 'numeric' });
    // The names of clients: with their upper and lower case there are more than there are time zones.
    if (formats.size >= 1_000) formats.clear();
    formats.set(timeZone, format);
  }
  return format;
}

const rfc3339 =
  /^([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,3})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$/;

/**
 * The instant, in milliseconds since the Unix epoch, of RFC 3339 with a zone and at most three fraction digits, or of a day `YYYY-MM-DD` of the time
 * zone: its first or last millisecond. Null where the text is neither, or a day that the zone skipped.
 */
export function instantOf(text: string, edge: 'first' | 'last', timeZone: string): number | null {
  const day = dayOf(text);
  if (day !== null) {
    const { startMs, endMs } = instantsOf(timeZone, day);
    if (endMs < startMs) return null;
    return edge === 'first' ? startMs : endMs;
  }
  const date = rfc3339.exec(text)?.[1];
  return date === undefined || dayOf(date) === null ? null : Date.parse(text);
}
