// Amounts: decimal text outside, whole minor units inside, never a floating-point number.

/** The currencies of a ledger. */
export const currencies = ['NGN', 'USD', 'EUR', 'GBP'] as const;

/** Minor units of a decimal text with an optional sign: `"-10.5"` is -1050n. Null where it is none. */
export function toMinor(text: string): bigint | null {
  const match = /^(-?)([0-9]{1,16})(?:\.([0-9]{0,2}))?$/.exec(text.trim());
  if (!match) return null;
  const minor = BigInt((match[2] ?? '') + (match[3] ?? '').padEnd(2, '0'));
  return match[1] === '-' ? -minor : minor;
}

/** Decimal text with two fraction digits: -5n is `"-0.05"`. */
export function toDecimal(minor: bigint): string {
  const digits = (minor < 0n ? -minor : minor).toString().padStart(3, '0');
  return `${minor < 0n ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

/** The sum of decimal texts. */
export function sum(amounts: readonly string[]): string {
  return toDecimal(amounts.reduce((total, each) => total + (toMinor(each) ?? 0n), 0n));
}

const format = new Intl.NumberFormat(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** An amount for people, in the browser's language, exactly: `1,234.50`. A minus is U+2212, as wide as a digit. */
export function formatAmount(text: string): string {
  return format.format(text as Intl.StringNumericLiteral).replace('-', '−');
}

/** For plots only, which need a number: the amount in major units. */
export function toPlot(text: string): number {
  return Number(text);
}

const short = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });

/** An axis label: `1.2M`. */
export function formatShort(value: number): string {
  return short.format(value).replace('-', '−');
}

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });

/** A count: `15,002`. */
export function formatCount(value: number | bigint): string {
  return whole.format(value);
}
