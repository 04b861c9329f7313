// The lines of the posting form: what they hold, whether they balance, and what they are as a request.
import type { Currency, PostDoubleRequest, PostSingleRequest, Side } from '../../clients/typescript/ledger.ts';
import { toDecimal, toMinor } from '../parts/money.ts';

/** A line as it is typed: an amount on one of both sides. */
export interface Line {
  id: number;
  account: string;
  debit: string;
  credit: string;
  currency: Currency;
}

/** What is typed above the lines. */
export interface Heading {
  description: string;
  reference: string;
  /** A day, or nothing. */
  date: string;
}

/** The side on which a line has an amount. */
export function sideOf({ debit, credit }: Line): Side | undefined {
  if (debit !== '') return 'debit';
  return credit === '' ? undefined : 'credit';
}

/** Whether a text is an amount that may be posted. */
export function isAmount(text: string): boolean {
  return (toMinor(text) ?? 0n) > 0n;
}

/** Whether a line can be sent. */
export function isComplete(line: Line): boolean {
  const side = sideOf(line);
  return line.account !== '' && side !== undefined && isAmount(line[side]);
}

/** What is missing in one currency: nothing, or an amount on the smaller side. */
export interface Difference {
  currency: Currency;
  /** Decimal text. */
  amount: string;
  /** Where it is missing; undefined where both sides are equal. */
  side: Side | undefined;
}

/** Each currency of the lines, in their order. */
export function differences(lines: readonly Line[]): Difference[] {
  const totals = new Map<Currency, bigint>();
  for (const line of lines) {
    const side = sideOf(line);
    if (!side) continue;
    const amount = toMinor(line[side]) ?? 0n;
    totals.set(line.currency, (totals.get(line.currency) ?? 0n) + (side === 'debit' ? amount : -amount));
  }
  return [...totals].map(([currency, total]) => ({
    currency,
    amount: toDecimal(total < 0n ? -total : total),
    side: total === 0n ? undefined : total > 0n ? 'credit' : 'debit',
  }));
}

function common({ description, reference, date }: Heading): Pick<PostDoubleRequest, 'description' | 'reference' | 'effective_at'> {
  return { description, reference: reference === '' ? null : reference, effective_at: date === '' ? null : date };
}

/** The body of a double entry. A line without an amount is sent too: the API says what is wrong with it. */
export function doubleRequest(heading: Heading, lines: readonly Line[]): PostDoubleRequest {
  const entries = lines.map((line) => {
    const side = sideOf(line) ?? 'debit';
    return { account_code: line.account.trim(), amount: line[side].trim(), side, currency: line.currency };
  });
  return { ...common(heading), entries };
}

/** The body of a single entry. */
export function singleRequest(heading: Heading, line: Line): PostSingleRequest {
  const side = sideOf(line) ?? 'debit';
  return { ...common(heading), account_code: line.account.trim(), amount: line[side].trim(), side, currency: line.currency };
}
