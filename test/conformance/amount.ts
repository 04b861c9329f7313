// Amounts as the kit counts them: whole hundredths, in bigint.

/** `"-12.3"` → -1230n. Throws where the text is no decimal number, or has more than two decimals that are not zero. */
export function hundredths(text: string): bigint {
  const found = /^([+-]?)([0-9]+)(?:\.([0-9]+))?$/.exec(text);
  const decimals = (found?.[3] ?? '').replace(/0+$/, '');
  if (!found || decimals.length > 2) throw new Error(`${JSON.stringify(text)} is no amount of two decimals`);
  const value = BigInt(found[2]!) * 100n + BigInt(decimals.padEnd(2, '0'));
  return found[1] === '-' ? -value : value;
}

/** -1230n → `"-12.30"`. */
export function decimal(value: bigint): string {
  const digits = (value < 0n ? -value : value).toString().padStart(3, '0');
  return `${value < 0n ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`;
}
