// Amounts: decimal text on the wire, whole minor units (`bigint`) to compute with, never floating point.

/** `"12.5"` as `1250n`. Throws where the text is no amount. */
export function toMinor(amount: string): bigint {
  const [, sign, whole = '', fraction = ''] = /^(-?)([0-9]+)(?:\.([0-9]{1,2}))?$/.exec(amount) ?? [];
  if (sign === undefined) throw new RangeError(`not an amount: ${JSON.stringify(amount)}`);
  const minor = BigInt(whole + fraction.padEnd(2, '0'));
  return sign === '-' ? -minor : minor;
}

/** `1250n` as `"12.50"`. */
export function fromMinor(minor: bigint): string {
  const digits = String(minor < 0n ? -minor : minor).padStart(3, '0');
  return `${minor < 0n ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

/** The sum of amounts of one currency. */
export function sum(amounts: Iterable<string>): string {
  let total = 0n;
  for (const amount of amounts) total += toMinor(amount);
  return fromMinor(total);
}
