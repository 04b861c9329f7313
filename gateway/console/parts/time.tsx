// Times: in the user's zone, or in that of the books where a day of the books depends on it. The time in UTC is shown on hover.
import type { ReactElement } from 'react';
import { useBooksZone } from '../tenant.tsx';

const styles = {
  day: { day: 'numeric', month: 'short', year: 'numeric' },
  time: { hour: '2-digit', minute: '2-digit', second: '2-digit' },
  thisYear: { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
  both: { day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit' },
} as const satisfies Record<string, Intl.DateTimeFormatOptions>;

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(style: keyof typeof styles, timeZone?: string): Intl.DateTimeFormat {
  const name = `${style} ${timeZone ?? ''}`;
  const format = formats.get(name) ?? new Intl.DateTimeFormat(undefined, { ...styles[style], timeZone });
  formats.set(name, format);
  return format;
}

interface TimeProps {
  time: string;
  as?: 'day' | 'time' | 'both';
  /** The user's own by default. */
  zone?: string | undefined;
}

/** `time`: RFC 3339, or a day. `both`, day and time, leaves out this year. */
export function Time({ time, as = 'both', zone }: TimeProps): ReactElement {
  const isDay = time.length === 10;
  const date = new Date(time);
  const format = as === 'both' && date.getFullYear() === new Date().getFullYear() ? 'thisYear' : as;
  const text = isDay ? formatDay(time) : formatOf(format, zone).format(date);
  return (
    <time dateTime={time} title={isDay ? undefined : `${time.replace('T', ' ').replace('Z', '')} UTC`} className="time">
      {text}
    </time>
  );
}

/** When a posting counts: in the zone of the books, so that it falls on the day whose balances it changes. */
export function EffectiveTime(given: Omit<TimeProps, 'zone'>): ReactElement {
  return <Time {...given} zone={useBooksZone()} />;
}

const dayFormat = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });

/** A day, which no time zone moves. */
export function formatDay(day: string): string {
  return dayFormat.format(new Date(`${day}T00:00:00Z`));
}

/** A day of the calendar so many days before today, in the zone of the books: `2030-01-31`. */
export function daysAgo(days: number, timeZone: string | undefined): string {
  const day = new Intl.DateTimeFormat('en', { timeZone, year: 'numeric', month: 'numeric', day: 'numeric' }).formatToParts();
  const part = (type: string): number => Number(day.find((each) => each.type === type)?.value);
  return toDay(Date.UTC(part('year'), part('month') - 1, part('day') - days));
}

/** The day of a moment in UTC. */
export function toDay(moment: number): string {
  return new Date(moment).toISOString().slice(0, 10);
}
