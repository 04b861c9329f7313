// Days of the calendar as text.

/** The day of a date in the user's zone: `2030-01-31`. */
export function toDay(date: Date): string {
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}
