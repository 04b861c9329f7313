// The interface between the kit and a ledger: an adapter is a module that exports `open`.
import type { Http } from './http.ts';

/** What an adapter exports. */
export interface AdapterModule {
  open: Open;
}

/** Connects to a running ledger. `url`: of `--url`, without a trailing slash. All requests go through `http`, which records them. */
export type Open = (place: { url: string; http: Http }) => Promise<Ledger>;

/** What not every ledger offers. */
export const capabilities = {
  keys: 'a posting has a key that the client chooses',
  replay: 'a repetition is answered with the transaction that the first one made',
  floor: 'an account can be forbidden to go below zero',
  entries: 'a posting may have entries of any amount on either side',
  history: 'the changes of an account can be listed',
  reading: 'balances of several accounts can be read at one moment',
  holds: 'money can be held, captured in parts and released',
  refunds: 'a part of a posting can be reversed',
  atomic: 'several postings can be sent that are posted all or none',
} as const;

/** One capability. */
export type Capability = keyof typeof capabilities;

/** A running ledger. */
export interface Ledger {
  /** Name and version, for the report. */
  name: string;
  /** Its currencies with two decimals. */
  currencies: [string, ...string[]];
  /** The largest amount of a posting, as decimal text. */
  largest: string;
  /** Capabilities that it lacks, with the reason; checks that need one are "not offered". */
  lacks: Partial<Record<Capability, string>>;
  /** A new book of its own; every balance is zero. */
  prepare(want: { accounts: number; floored: number }): Promise<Book>;
}

/** A book with accounts of its own. Amounts and balances are decimal text in units of the currency: `"12.34"`. */
export interface Book {
  /** Accounts that may go below zero. */
  accounts: string[];
  /** Accounts that may not; empty where `floor` is lacking. */
  floored: string[];
  /**
   * Moves an amount. Resolves when the balances show it; never rejects because of an answer.
   * `cutAfter`: drops the connection so many milliseconds after sending; the outcome is `unknown`.
   */
  post(transfer: Transfer, cutAfter?: number): Promise<Answer>;
  /** What came to an account less what left it, in one currency. */
  balance(account: string, currency: string): Promise<string>;
  /** Unless `entries` is lacking. */
  postEntries?(posting: { key: string; entries: Entry[] }): Promise<Answer>;
  /** Unless `history` is lacking: every change of an account in a currency, in any order. */
  history?(account: string, currency: string): Promise<Change[]>;
  /** Unless `holds` is lacking: reserves an amount, which stays in the balance and can't be spent. `id` names the hold. */
  hold?(transfer: Transfer): Promise<Answer>;
  /** Moves a part of a hold; the rest stays held unless it is `final`. */
  capture?(part: { key: string; hold: string; amount: string; currency: string; final: boolean }): Promise<Answer>;
  /** Releases what is left of a hold. */
  release?(hold: string): Promise<Answer>;
  /** Unless `refunds` is lacking: reverses a part of what moved under an answer's id. */
  refund?(part: { key: string; transaction: string; amount: string; currency: string }): Promise<Answer>;
  /** Unless `atomic` is lacking. */
  postTogether?(transfers: Transfer[]): Promise<Answer>;
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

/** The outcome of a posting. */
export interface Answer {
  /**
   * `created`: posted now. `replayed`: posted before under this key. `duplicate`: refused because the key was used. `refused`: refused for
   * another reason, nothing was posted. `unknown`: no answer, or one that leaves open whether it was posted (any 5xx, "in progress").
   */
  outcome: 'created' | 'replayed' | 'duplicate' | 'refused' | 'unknown';
  /** The transaction, where the ledger named it. */
  id?: string | undefined;
  /** Status and reason, for the report. */
  detail: string;
}
