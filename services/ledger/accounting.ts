// The rules of double entry: what a posting does to balances, or why it is refused. Pure; amounts are minor units.
import { toDecimal } from '../platform/money.ts';

/** The two sides of an account. */
export type Side = 'debit' | 'credit';

/** Why a change was refused; the same as the error codes of REST. */
export type Reason =
  | 'validation_failed'
  | 'account_not_found'
  | 'transaction_not_found'
  | 'hold_not_found'
  | 'limit_not_found'
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
  /** Number of postings so far. */
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

/** What is to be posted. */
export interface Request {
  kind: 'single' | 'double' | 'reversal' | 'exchange' | 'hold' | 'capture' | 'void' | 'expire';
  entries: Entry[];
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

/** A balance before and after a posting. */
export interface BalanceChange {
  account: Account;
  currency: string;
  before: Balance;
  after: Balance;
}

/** A posting that the rules allow. */
export interface Posted {
  lines: Line[];
  /** One an account and currency, in order of first appearance. */
  changes: BalanceChange[];
  /** Reasons for which it would have been refused without an override. */
  broken: Reason[];
}

/** The balance of an account without postings. */
export const nothing: Balance = { debits: 0n, credits: 0n, pendingDebits: 0n, pendingCredits: 0n, version: 0n };

/** The largest total a balance can hold: 38 digits. */
export const largestTotal = 10n ** 38n - 1n;

/** An account's balance in its normal direction, minor units. */
export function net(account: Pick<Account, 'normalBalance'>, balance: Pick<Balance, 'debits' | 'credits'>): bigint {
  return account.normalBalance === 'debit' ? balance.debits - balance.credits : balance.credits - balance.debits;
}

/** Pending outgoing money, minor units: it can't be spent again, while pending incoming money can't be spent yet. */
export function outgoing(account: Pick<Account, 'normalBalance'>, balance: Balance): bigint {
  return account.normalBalance === 'debit' ? balance.pendingCredits : balance.pendingDebits;
}

/** What an account can spend in its normal direction, minor units. */
export function available(account: Pick<Account, 'normalBalance'>, balance: Balance): bigint {
  return net(account, balance) - outgoing(account, balance);
}

/** The other side. */
export function opposite(side: Side): Side {
  return side === 'debit' ? 'credit' : 'debit';
}

/**
 * Decides a posting: its lines and the balances after it. Changes nothing itself. Throws {@link Refusal}; the order of checks is shape,
 * existence, fit, limits.
 */
export function post(request: Request, books: Books): Posted {
  if (request.kind !== 'single') debitsMustEqualCredits(request.entries);
  const lines = request.entries.map((entry, index) => {
    const account = accountMustFit(entry.code, entry.currency, books, fieldOf(request, index), request.kind);
    return { account, amount: entry.amount, side: entry.side, currency: entry.currency, counter: entry.counter, balanceAfter: 0n };
  });
  if (request.kind === 'single') {
    const entry = lines[0] as Line;
    lines.push({ ...entry, account: books.suspense(entry.currency), side: opposite(entry.side), counter: true });
  }

  const changes: BalanceChange[] = [];
  for (const line of lines) {
    let change = changes.find(({ account, currency }) => account === line.account && currency === line.currency);
    if (!change) {
      const before = books.balance(line.account, line.currency);
      change = { account: line.account, currency: line.currency, before, after: { ...before, version: before.version + 1n } };
      changes.push(change);
    }
    if (line.side === 'debit') change.after.debits += line.amount;
    else change.after.credits += line.amount;
    line.balanceAfter = net(line.account, change.after);
  }
  for (const change of changes) totalsMustFit(change, request);
  if (request.require) conditionsMustHold(request.require, books, changes);
  const broken: Reason[] = [];
  const refuseUnlessOverridden = (refusal: Refusal | null) => {
    if (!refusal) return;
    if (!request.override) throw refusal;
    if (!broken.includes(refusal.reason)) broken.push(refusal.reason);
  };
  lines.forEach((line, index) => refuseUnlessOverridden(blockedLine(line, index, request)));
  for (const change of changes) refuseUnlessOverridden(belowFloor(change, request));
  for (const change of changes) refuseUnlessOverridden(aboveCeiling(change, request));
  return { lines, changes, broken };
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

// An account that exists and holds the currency; one of an entry, whose request is of the kind `entryOf`, also takes entries.
function accountMustFit(code: string, currency: string, books: Books, field: string, entryOf: Request['kind'] | null): Account {
  const refuse = (reason: Reason, message: string) => new Refusal(reason, message, { field, tag: reason, value: code });
  const account = books.account(code);
  if (!account) throw refuse('account_not_found', `account ${code} not found`);
  if (entryOf !== null && account.closed) throw refuse('account_closed', `account ${code} is closed`);
  if (account.isGroup) throw refuse('account_is_group', `account ${code} is a group and takes no postings`);
  if (entryOf === 'single' && account.system) {
    throw refuse('account_is_system', `account ${code} is a system account, which a single entry may not use`);
  }
  if (account.currency !== null && account.currency !== currency) {
    throw refuse('currency_not_allowed', `account ${code} holds ${account.currency} only, not ${currency}`);
  }
  return account;
}

function totalsMustFit(change: BalanceChange, request: Request): void {
  if (change.after.debits > largestTotal || change.after.credits > largestTotal) {
    const blame = blamed(request, change.account, change.currency, 'balance_overflow', () => true);
    throw new Refusal('balance_overflow', `the totals of account ${change.account.code} would have more than 38 digits`, blame);
  }
}

function blockedLine({ account, side }: Line, index: number, request: Request): Refusal | null {
  if (!account.rules?.blocked.includes(side)) return null;
  const blame = { field: fieldOf(request, index), tag: 'account_blocked', value: account.code };
  return new Refusal('account_blocked', `account ${account.code} is blocked for ${side} entries`, blame);
}

// Compares what is available after the whole transaction. A transaction that does not lower it is allowed.
function belowFloor({ account, currency, before, after }: BalanceChange, request: Request): Refusal | null {
  const own = account.rules?.limits.get(currency)?.minAvailable ?? null;
  const floor = account.allowNegative ? own : own === null || own < 0n ? 0n : own;
  if (floor === null) return null;
  const left = available(account, after);
  if (left >= floor || left >= available(account, before)) return null;
  const blame = blamed(request, account, currency, 'insufficient_funds', (side) => side !== account.normalBalance);
  return new Refusal('insufficient_funds', `account ${account.code} has insufficient funds`, blame);
}

// Compares the balance with what is incoming. A transaction that does not raise it is allowed.
function aboveCeiling({ account, currency, before, after }: BalanceChange, request: Request): Refusal | null {
  const ceiling = account.rules?.limits.get(currency)?.maxBalance ?? null;
  if (ceiling === null) return null;
  const held = (balance: Balance) =>
    net(account, balance) + (account.normalBalance === 'debit' ? balance.pendingDebits : balance.pendingCredits);
  if (held(after) <= ceiling || held(after) <= held(before)) return null;
  const blame = blamed(request, account, currency, 'max_balance', (side) => side === account.normalBalance);
  const message = `account ${account.code} would hold more than its max_balance of ${toDecimal(ceiling)} ${currency}`;
  return new Refusal('limit_exceeded', message, blame);
}

/** Versions are compared with those before the request, amounts with those after it. */
function conditionsMustHold(conditions: readonly Condition[], books: Books, changes: BalanceChange[]): void {
  // An account that does not exist or fit is a mistake of the request: it is refused for that, whatever holds.
  const accounts = conditions.map(({ field, code, currency }) => accountMustFit(code, currency, books, `${field}.account_code`, null));
  for (const [index, { field, code, currency, checks }] of conditions.entries()) {
    const account = accounts[index] as Account;
    const change = changes.find((each) => each.account === account && each.currency === currency);
    const before = change?.before ?? books.balance(account, currency);
    for (const { path, measure, comparator, value, text } of checks) {
      const balance = measure === 'version' ? before : (change?.after ?? before);
      const actual = measure === 'version' ? balance.version : measure === 'balance' ? net(account, balance) : available(account, balance);
      if (comparator === 'gte' ? actual >= value : comparator === 'lte' ? actual <= value : actual === value) continue;
      const blame = { field: `${field}.${path}`, tag: 'condition_failed', value: text };
      throw new Refusal('condition_failed', `the condition on the ${measure} of account ${code} in ${currency} does not hold`, blame);
    }
  }
}

// The last entry that fits on the changed balance; for a single entry's suspense account it is the only entry.
function blamed(request: Request, { code }: Account, currency: string, tag: string, fits: (side: Side) => boolean): Blame {
  const found = request.entries.findLastIndex((entry) => entry.code === code && entry.currency === currency && fits(entry.side));
  const index = Math.max(found, 0);
  return { field: fieldOf(request, index), tag, value: (request.entries[index] as Entry).code };
}

function fieldOf({ kind, entries }: Request, index: number): string {
  return entries[index]?.field ?? (kind === 'single' ? 'account_code' : `entries[${index}].account_code`);
}
