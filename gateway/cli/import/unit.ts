// What a file of another ledger asks for, one unit each, and the amounts and dates in it.

/** A line of a transaction, with the account's name in the file. */
export interface Line {
  account: string;
  side: 'debit' | 'credit';
  minor: bigint;
  currency: string;
}

/** Where a unit is in its file, for messages: `line 12`, `transaction 4`. */
interface Found {
  where: string;
}

/** A posting or a hold. */
export interface Posting extends Found {
  kind: 'posting' | 'hold';
  /** The id of the source. Without one the content is the key. */
  id?: string | undefined;
  /** A day, or a time with its offset. */
  date: string;
  description: string;
  reference?: string | undefined;
  metadata?: Record<string, unknown> | undefined;
  lines: Line[];
}

/** The reversal of a posting before it. */
export interface Reversal extends Found {
  kind: 'reversal';
  id: string;
  date: string;
  description: string;
  /** The id of what it reverses. */
  reverses: string;
}

/** What can't be brought over, an error. */
interface Refused extends Found {
  kind: 'refused';
  reason: string;
}

/** What has no effect on balances. */
interface Skipped extends Found {
  kind: 'skipped';
  reason: string;
}

/** What a file says of an account. */
export interface AccountFacts {
  kind: 'account';
  name: string;
  type?: string | undefined;
  metadata?: Record<string, unknown> | undefined;
}

export type Unit = Posting | Reversal | Refused | Skipped | AccountFacts;

/** Options of the readers. */
export interface ReadOptions {
  /** Of CSV: our name of a column to theirs. */
  columns?: Record<string, string>;
}

/** Reads a file from its beginning. */
export type Reader = (path: string, options: ReadOptions) => AsyncIterable<Unit>;

/** Why a unit can't be brought over. */
export class Unreadable extends Error {}

const symbols: Record<string, string> = { $: 'USD', US$: 'USD', '€': 'EUR', '£': 'GBP', '₦': 'NGN' };

/** The code of a currency: a commodity's name or a usual sign. */
export function currencyOf(commodity: string): string {
  const code = symbols[commodity] ?? commodity;
  if (/^[A-Z]{3}$/.test(code)) return code;
  throw new Unreadable(commodity === '' ? 'an amount has no currency' : `${commodity} is no currency`);
}

/** Minor units of a decimal text such as `-1,000.50`; more than two decimals must be zeros. */
export function minorOf(text: string): bigint {
  const plain = /^[-+]?\d{1,3}(,\d{3})+(\.\d*)?$/.test(text.trim()) ? text.replaceAll(',', '') : text;
  const [, sign, whole = '', fraction = ''] = /^([-+]?)(\d*)(?:\.(\d*))?$/.exec(plain.trim()) ?? [];
  if (sign === undefined || whole + fraction === '') throw new Unreadable(`${JSON.stringify(text)} is no amount`);
  if (/[1-9]/.test(fraction.slice(2))) throw new Unreadable(`${text.trim()} has more than two decimals`);
  const minor = BigInt(`${whole}${fraction.slice(0, 2).padEnd(2, '0')}`);
  return sign === '-' ? -minor : minor;
}

/** Minor units of a whole number of parts, where so many parts are one of the currency. */
export function minorOfParts(parts: string, precision: string): bigint {
  if (!/^-?\d+$/.test(parts) || !/^\d+$/.test(precision) || BigInt(precision) === 0n)
    throw new Unreadable(`${parts} of ${precision} parts is no amount`);
  const hundredths = BigInt(parts) * 100n;
  if (hundredths % BigInt(precision) !== 0n) throw new Unreadable(`${parts} of ${precision} parts has more than two decimals`);
  return hundredths / BigInt(precision);
}

/** A line of a signed amount: above zero it is a debit. */
export function signedLine(account: string, minor: bigint, currency: string): Line {
  return { account, side: minor < 0n ? 'credit' : 'debit', minor: minor < 0n ? -minor : minor, currency };
}

/** A day, or a time to the millisecond, as the API takes it. */
export function dateOf(text: string): string {
  const trimmed = text.trim();
  const [, year, month, day] = /^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})$/.exec(trimmed) ?? [];
  if (year !== undefined && month !== undefined && day !== undefined) return [year, month.padStart(2, '0'), day.padStart(2, '0')].join('-');
  const [, time, milliseconds = '', zone] = /^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:?\d\d)$/.exec(trimmed) ?? [];
  if (time === undefined || zone === undefined) throw new Unreadable(`${JSON.stringify(text)} is no date such as 2030-01-31`);
  return `${time.replace(' ', 'T')}${milliseconds.slice(0, 4)}${zone.replace(/^([+-]\d\d)(\d\d)$/, '$1:$2')}`;
}

/** JSON with its numbers exact: one that a double would change is a text. */
export function exactJson(text: string): unknown {
  const exact = (_: string, value: unknown, context?: { source?: string }): unknown => {
    if (typeof value !== 'number' || context?.source === undefined) return value;
    return String(value) === context.source ? value : context.source;
  };
  return JSON.parse(text, exact as Parameters<typeof JSON.parse>[1]);
}

/** What `read` gives, or why it can't. */
export function unitOf(where: string, read: () => Unit): Unit {
  try {
    return read();
  } catch (error) {
    if (error instanceof Unreadable) return { kind: 'refused', where, reason: error.message };
    throw error;
  }
}
