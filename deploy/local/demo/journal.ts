// The items that the demo posts, and the balances that they lead to, so that no customer spends what is not there.
import { toDecimal } from '../../../services/platform/money.ts';
import type { Currency } from './chart.ts';

/** Which side of an account. */
export type Side = 'debit' | 'credit';

/** An account, the side, minor units and their currency. */
export type Line = readonly [code: string, side: Side, minor: bigint, currency: Currency];

/** Fields that every item may have. */
export interface Words {
  description: string;
  reference?: string;
  metadata?: Record<string, string>;
}

/** An entry as the API takes it. */
export interface Entry {
  account_code: string;
  side: Side;
  amount: string;
  currency: Currency;
}

interface Common extends Words {
  idempotency_key: string;
  effective_at: string;
}

/** Currencies, rate, fees and spread of an exchange. */
export interface Conversion {
  debit: { account_code: string; currency: Currency; amount: string };
  credit: { account_code: string; currency: Currency };
  rate: { base: Currency; quote: Currency; value: string };
  fees?: { account_code: string; currency: Currency; amount: string }[];
  spread?: { account_code: string; reference_rate: string };
}

/** An item of `transactions/batch`; a reversal names the key of what it reverses. */
export type Item =
  | (Common & { op: 'double'; entries: Entry[] })
  | (Common & { op: 'single'; account_code: string; amount: string; side: Side; currency: Currency })
  | (Common & { op: 'exchange' } & Conversion)
  | (Common & { op: 'reverse'; reverses: string; amount?: string });

/** Lines as entries. */
export function entriesOf(lines: readonly Line[]): Entry[] {
  return lines.map(([account_code, side, minor, currency]) => ({ account_code, side, amount: toDecimal(minor), currency }));
}

/** Collects items in the order in which they are posted. */
export class Journal {
  /** How many items there are so far. */
  count = 0;
  private waiting: Item[] = [];
  private readonly credits = new Map<string, bigint>();

  /** What an account has on its credit side, less debits. */
  balance(code: string, currency: Currency): bigint {
    return this.credits.get(`${code} ${currency}`) ?? 0n;
  }

  /** The items since the last call. */
  take(): Item[] {
    const items = this.waiting;
    this.waiting = [];
    return items;
  }

  /** A posting; answers its key. */
  post(at: Date, words: Words, ...lines: Line[]): string {
    this.move(lines);
    return this.add({ op: 'double', ...this.common(at, words), entries: entriesOf(lines) });
  }

  /** A posting of one line, which the suspense account balances. */
  single(at: Date, words: Words, line: Line): string {
    const [code, side, minor, currency] = line;
    this.move([line, [`SUSPENSE-${currency}`, side === 'debit' ? 'credit' : 'debit', minor, currency]]);
    return this.add({ op: 'single', ...this.common(at, words), account_code: code, side, amount: toDecimal(minor), currency });
  }

  /** An exchange; `lines` are what it does to the accounts of its two sides. */
  exchange(at: Date, words: Words, conversion: Conversion, ...lines: Line[]): string {
    this.move(lines);
    return this.add({ op: 'exchange', ...this.common(at, words), ...conversion });
  }

  /** Reverses a posting of two lines, or a part of it. */
  reverse(at: Date, words: Words, key: string, [debit, credit]: readonly [Line, Line], part?: bigint): string {
    const mirror = ([code, side, minor, currency]: Line): Line => [code, side === 'debit' ? 'credit' : 'debit', part ?? minor, currency];
    this.move([mirror(debit), mirror(credit)]);
    const amount = part === undefined ? {} : { amount: toDecimal(part) };
    return this.add({ op: 'reverse', ...this.common(at, words), reverses: key, ...amount });
  }

  private common(at: Date, words: Words): Common {
    return { idempotency_key: `demo-${this.count + 1}`, effective_at: at.toISOString(), ...words };
  }

  private add(item: Item): string {
    this.count += 1;
    this.waiting.push(item);
    return item.idempotency_key;
  }

  private move(lines: readonly Line[]): void {
    for (const [code, side, minor, currency] of lines) {
      this.credits.set(`${code} ${currency}`, this.balance(code, currency) + (side === 'credit' ? minor : -minor));
    }
  }
}
