// Decimal text ↔ minor units (kobo, cents, pence). Money is never a floating-point number.

/** Supported currencies, each with two fraction digits. */
export const currencies = ['NGN', 'USD', 'EUR', 'GBP'] as const;

/** One of the supported currencies. */
export type Currency = (typeof currencies)[number];

/** The decimal form that clients may send: up to 13 digits before the point and 2 after. */
export const amountPattern = /^[0-9]{1,13}(\.[0-9]{1,2})?$/;

/** Minor units of a decimal text, or null where it is not one; `"10.5"` is 1050n. Zero is valid here. */
export function toMinor(text: string): bigint | null {
  if (!amountPattern.test(text)) return null;
  const point = text.indexOf('.');
  if (point < 0) return BigInt(text) * 100n;
  return BigInt(text.slice(0, point) + text.slice(point + 1).padEnd(2, '0'));
}

/** The same with a sign: `"-5"` is -500n. */
export function signedMinor(text: string): bigint | null {
  const minor = toMinor(text.replace(/^-/, ''));
  return minor !== null && text.startsWith('-') ? -minor : minor;
}

/** Decimal text with two fraction digits: -5n is `"-0.05"`. */
export function toDecimal(minor: bigint): string {
  const text = minor.toString();
  if (minor > 99n || minor < -99n) return `${text.slice(0, -2)}.${text.slice(-2)}`;
  const digits = (minor < 0n ? text.slice(1) : text).padStart(2, '0');
  return `${minor < 0n ? '-' : ''}0.${digits}`;
}

/** Whether a text names a supported currency. */
export function isCurrency(text: string): text is Currency {
  return (currencies as readonly string[]).includes(text);
}
