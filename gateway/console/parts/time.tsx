// A time in the user's zone; the time in UTC is shown on hover.
import type { ReactElement } from 'react';

const formats = {
  day: new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' }),
  time: new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' }),
  thisYear: new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }),
  both: new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit' }),
};

/** `time`: RFC 3339, or a day. `both`, day and time, leaves out this year. */
export function Time({ time, as = 'both' }: { time: string; as?: 'day' | 'time' | 'both' }): ReactElement {
  const isDay = time.length === 10;
  const date = new Date(time);
  const format = as === 'both' && date.getFullYear() === new Date().getFullYear() ? 'thisYear' : as;
  const text = isDay ? formatDay(time) : formats[format].format(date);
  return (
    <time dateTime={time} title={isDay ? undefined : `${time.replace('T', ' ').replace('Z', '')} UTC`} className="time">
      {text}
    </time>
  );
}

const dayFormat = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });

/** A day, which no time zone moves. */
export function formatDay(day: string): string {
  return dayFormat.format(new Date(`${day}T00:00:00Z`));
}

/** A day of the calendar so many days before today, in the user's zone: `2030-01-31`. */
export function daysAgo(days: number): string {
  const date = new Date();
  date.setDate(date.getDate() - days);
  return toDay(date);
}

/** The day of a date in the user's zone. */
export function toDay(date: Date): string {
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}
