// What the kit must be told of a ledger: an adapter is a module that exports `open`.
import type { Http } from './http.ts';

/** A module that is given by its path exports this. */
export interface AdapterModule {
  open: Open;
}

/** Reaches a running ledger. `url` is what `--url` says, without a slash at its end. Every request goes through `http`, which keeps it for the report. */
export type Open = (place: { url: string; http: Http }) => Promise<Ledger>;

/** What not every ledger has. */
export const notions = {
  keys: 'a posting carries a key that its caller chose',
  replay: 'a repetition is answered with the transaction that the first one made',
  floor: 'an account may be told not to go below zero',
  entries: 'a posting may have entries of any amount on either side',
  history: 'the changes of an account can be listed',
  reading: 'balances of several accounts can be read as they were at one moment',
} as const;

/** One of them. */
export type Notion = keyof typeof notions;

/** A running ledger. */
export interface Ledger {
  /** Name and version, for the report. */
  name: string;
  /** Currencies with two decimals that its books hold: one or more. */
  currencies: [string, ...string[]];
  /** The largest amount of one posting that it promises to take, as decimal text. */
  largest: string;
  /** The notions that it does not have, each with the reason; checks that need one are "not offered". */
  lacks: Partial<Record<Notion, string>>;
  /** A new book that nobody else writes to; every balance is zero. */
  prepare(want: { accounts: number; floored: number }): Promise<Book>;
}

/** A book with accounts of its own. Amounts and balances are decimal text in units of the currency: `"12.34"`. */
export interface Book {
  /** Accounts that may go below zero. */
  accounts: string[];
  /** Accounts that may not; empty where `floor` is lacking. */
  floored: string[];
  /**
   * Moves an amount. Resolves when the balances show it, and never rejects for what the ledger answered.
   * `cutAfter`: drop the connection so many milliseconds after the request was sent, whatever comes; the outcome is `unknown`.
   */
  post(transfer: Transfer, cutAfter?: number): Promise<Answer>;
  /** What has come to an account less what has gone from it, in one currency. */
  balance(account: string, currency: string): Promise<string>;
  /** Unless `entries` is lacking. */
  postEntries?(posting: { key: string; entries: Entry[] }): Promise<Answer>;
  /** Unless `history` is lacking: every change of an account in a currency, in any order. */
  history?(account: string, currency: string): Promise<Change[]>;
  /** Unless `reading` is lacking: several balances of one moment, in the order of the accounts. */
  balances?(accounts: string[], currency: string): Promise<string[]>;
}

/** Moves `amount` from one account to another. */
export interface Transfer {
  /** Unique over all books and runs. */
  key: string;
  from: string;
  to: string;
  amount: string;
  currency: string;
}

/** One line of a posting: `in` raises the account's balance, `out` lowers it. */
export interface Entry {
  account: string;
  way: 'in' | 'out';
  amount: string;
  currency: string;
}

/** One posting's effect on one account: positive where money came in. */
export interface Change {
  transaction: string;
  amount: string;
}

/** What became of a posting. */
export interface Answer {
  /**
   * `created`: posted now. `replayed`: posted before under this key. `duplicate`: refused because the key was used. `refused`: refused for
   * another reason, nothing was posted. `unknown`: no answer, or one that leaves open whether it was posted (any 5xx, "in progress").
   */
  outcome: 'created' | 'replayed' | 'duplicate' | 'refused' | 'unknown';
  /** The transaction, where the ledger named it. */
  id?: string | undefined;
  /** Status and reason, for the report. */
  said: string;
}
