// The words of double entry: accounts, balances, entries, and why a change is refused. Pure; amounts are minor units.
import { toDecimal } from '../platform/money.ts';
import type { LimitRules, Use } from './velocity.ts';

/** The two sides of an account. */
export type Side = 'debit' | 'credit';

/** Why a change was refused; the same as the error codes of REST. */
export type Reason =
  | 'validation_failed'
  | 'account_not_found'
  | 'transaction_not_found'
  | 'hold_not_found'
  | 'limit_not_found'
  | 'job_not_found'
  | 'account_code_taken'
  | 'chart_exists'
  | 'version_conflict'
  | 'account_not_empty'
  | 'parent_invalid'
  | 'already_reversed'
  | 'unbalanced'
  | 'insufficient_funds'
  | 'account_closed'
  | 'account_is_group'
  | 'account_is_system'
  | 'currency_not_allowed'
  | 'balance_overflow'
  | 'too_late'
  | 'effective_at_out_of_range'
  | 'effective_before_original'
  | 'future_dated'
  | 'period_closed'
  | 'index_building'
  | 'filter_not_found'
  | 'period_not_over'
  | 'period_final'
  | 'condition_failed'
  | 'account_blocked'
  | 'limit_exceeded'
  | 'too_many'
  | 'hold_ended'
  | 'hold_exceeded'
  | 'reversal_exceeded'
  | 'entries_mismatch'
  | 'idempotency_key_reused'
  | 'too_large'
  | 'report_too_large'
  | 'job_not_finished'
  | 'event_not_found'
  | 'tile_not_found'
  | 'books_frozen'
  | 'books_not_empty'
  | 'import_invalid'
  | 'overloaded'
  | 'unavailable'
  | 'internal';

/** The field at fault, the rule's tag and the value that was sent. */
export interface Blame {
  field: string;
  tag: string;
  value: string;
  /** More for the client, such as the `difference` of unbalanced entries; decimal text where it is an amount. */
  details?: Record<string, string>;
}

/** A request refused by a rule. Nothing was changed. */
export class Refusal extends Error {
  readonly reason: Reason;
  readonly blame: Blame | null;

  constructor(reason: Reason, message: string, blame: Blame | null = null) {
    super(message);
    this.name = 'Refusal';
    this.reason = reason;
    this.blame = blame;
  }
}

/** What the rules need of an account. */
export interface Account {
  id: string;
  code: string;
  normalBalance: Side;
  /** The only currency, or null for all. */
  currency: string | null;
  isGroup: boolean;
  allowNegative: boolean;
  closed: boolean;
  /** Suspense or FX position. */
  system: boolean;
  /** What the account itself allows besides; null where it has neither blocks nor limits. */
  rules: AccountRules | null;
}

/** Blocks and limits of an account. */
export interface AccountRules {
  /** Sides on which it takes no entries. */
  blocked: readonly string[];
  /** By currency. */
  limits: ReadonlyMap<string, AccountLimit>;
}

/** Floor of `available` and ceiling of the balance with what is incoming, minor units in the normal direction; null: none. */
export interface AccountLimit {
  minAvailable: bigint | null;
  maxBalance: bigint | null;
}

/** Totals of one account in one currency, minor units. */
export interface Balance {
  debits: bigint;
  credits: bigint;
  pendingDebits: bigint;
  pendingCredits: bigint;
  /** Number of events that have changed it: postings, holds, releases. */
  version: bigint;
}

/** One requested entry. */
export interface Entry {
  code: string;
  /** Minor units, greater than zero. */
  amount: bigint;
  side: Side;
  currency: string;
  /** True where a reversal mirrors the line that balanced a single entry. */
  counter: boolean;
  /** The request's field of the account, where it is none of `entries`. */
  field?: string;
}

/** What is to be posted, held or released. */
export interface Request {
  kind: 'single' | 'double' | 'reversal' | 'exchange' | 'hold' | 'capture' | 'void' | 'expire' | 'closing';
  /** What moves. */
  entries: Entry[];
  /** What becomes pending. */
  reserve?: readonly Entry[];
  /** What is pending no more. */
  release?: readonly Entry[];
  /** What must hold, or nothing is posted. */
  require?: readonly Condition[];
  /** Posts although blocks or limits would refuse it. */
  override?: boolean;
}

/** One comparison of a condition. */
export interface Check {
  /** Below the condition's field, for example `available.gte`. */
  path: string;
  measure: 'version' | 'balance' | 'available';
  comparator: 'gte' | 'lte' | 'eq';
  /** Minor units in the account's normal direction, or the version. */
  value: bigint;
  /** As it was sent. */
  text: string;
}

/** What must hold for an account in a currency. */
export interface Condition {
  /** The condition's field: `entries[0].require` or `require[2]`. */
  field: string;
  code: string;
  currency: string;
  checks: Check[];
}

/** The accounts and balances that a posting applies to. */
export interface Books {
  /** The same object whenever one posting asks for a code. */
  account(code: string): Account | undefined;
  /** Totals so far; all zero where nothing was posted. */
  balance(account: Account, currency: string): Balance;
  /** The account that balances single entries in a currency. */
  suspense(currency: string): Account;
  /** The tenant's velocity limits, and the time of the event, milliseconds since the Unix epoch; null or absent where it has none. */
  velocity?: { rules: LimitRules; atMs: number } | null;
}

/** One line as it is posted. */
export interface Line {
  account: Account;
  amount: bigint;
  side: Side;
  currency: string;
  /** True for the line that balances a single entry. */
  counter: boolean;
  /** Balance after this line, in the account's normal direction. */
  balanceAfter: bigint;
}

/** A balance before and after a request. */
export interface BalanceChange {
  account: Account;
  currency: string;
  before: Balance;
  after: Balance;
}

/** A request that the rules allow. */
export interface Posted {
  lines: Line[];
  /** One an account and currency, in order of first appearance. */
  changes: BalanceChange[];
  /** Reasons, and ids of velocity limits, for which it would have been refused without an override. */
  broken: string[];
  /** What velocity limits count of it, or get back; null where there is nothing. */
  uses: Use[] | null;
}

/** The balance of an account without postings. */
export const nothing: Balance = { debits: 0n, credits: 0n, pendingDebits: 0n, pendingCredits: 0n, version: 0n };

/** The largest total a balance can hold with what is pending: 38 digits. */
export const largestTotal = 10n ** 38n - 1n;

/** An account's balance in its normal direction, minor units. */
export function net(account: Pick<Account, 'normalBalance'>, balance: Pick<Balance, 'debits' | 'credits'>): bigint {
  return account.normalBalance === 'debit' ? balance.debits - balance.credits : balance.credits - balance.debits;
}

/** Pending outgoing money, minor units: it can't be spent again, while pending incoming money can't be spent yet. */
export function outgoing(account: Pick<Account, 'normalBalance'>, balance: Balance): bigint {
  return account.normalBalance === 'debit' ? balance.pendingCredits : balance.pendingDebits;
}

/** Pending incoming money, minor units. */
export function incoming(account: Pick<Account, 'normalBalance'>, balance: Balance): bigint {
  return account.normalBalance === 'debit' ? balance.pendingDebits : balance.pendingCredits;
}

/** What an account can spend in its normal direction, minor units. */
export function available(account: Pick<Account, 'normalBalance'>, balance: Balance): bigint {
  return net(account, balance) - outgoing(account, balance);
}

/** The other side. */
export function opposite(side: Side): Side {
  return side === 'debit' ? 'credit' : 'debit';
}

/** Throws {@link Refusal} `unbalanced` for the first currency in which debits and credits differ. */
export function debitsMustEqualCredits(entries: readonly Entry[]): void {
  const sums = new Map<string, Record<Side, bigint>>();
  for (const { currency, side, amount } of entries) {
    const sum = sums.get(currency) ?? { debit: 0n, credit: 0n };
    sum[side] += amount;
    sums.set(currency, sum);
  }
  for (const [currency, { debit, credit }] of sums) {
    if (debit === credit) continue;
    const details = { debits: toDecimal(debit), credits: toDecimal(credit), difference: toDecimal(debit - credit) };
    const message = `debits and credits in ${currency} differ: debits are ${details.debits}, credits ${details.credits}`;
    throw new Refusal('unbalanced', message, { field: 'entries', tag: 'unbalanced', value: currency, details });
  }
}
