// The rules of double entry: what a request does to balances, or why it is refused. Pure; amounts are minor units.
import { toDecimal } from '../platform/money.ts';
import {
  Refusal,
  available,
  debitsMustEqualCredits,
  incoming,
  largestTotal,
  net,
  opposite,
  type Account,
  type Balance,
  type BalanceChange,
  type Blame,
  type Books,
  type Condition,
  type Entry,
  type Line,
  type Posted,
  type Reason,
  type Request,
  type Side,
} from './accounting.ts';
import { exceededBy, subjectKey, usesOf, type Use } from './velocity.ts';

const countedKinds: readonly Request['kind'][] = ['single', 'double', 'exchange', 'hold'];

/**
 * Decides a request: its lines and the balances after it. Changes nothing itself. Throws {@link Refusal}; the order of checks is shape,
 * existence and fit, conditions, blocks, floors, ceilings, velocity limits.
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
    const { after } = changeOf(line.account, line.currency, changes, books);
    if (line.side === 'debit') after.debits += line.amount;
    else after.credits += line.amount;
    line.balanceAfter = net(line.account, after);
  }
  const { reserve, release } = request;
  if (reserve) reservePending(reserve, request, changes, books);
  if (release) releasePending(release, changes, books);
  for (const change of changes) totalsMustFit(change, request);
  if (request.require) conditionsMustHold(request.require, books, changes);
  const broken: string[] = [];
  const refuseUnlessOverridden = (refusal: Refusal | null, name: string | undefined = refusal?.reason) => {
    if (!refusal || name === undefined) return;
    if (!request.override) throw refusal;
    if (!broken.includes(name)) broken.push(name);
  };
  lines.forEach(({ account, side }, index) => refuseUnlessOverridden(blockedSide(account, side, index, request)));
  reserve?.forEach(({ code, side }, index) => refuseUnlessOverridden(blockedSide(books.account(code) as Account, side, index, request)));
  for (const change of changes) refuseUnlessOverridden(belowFloor(change, request));
  for (const change of changes) refuseUnlessOverridden(aboveCeiling(change, request));
  const uses = books.velocity ? countedUses(lines, request, books.velocity, refuseUnlessOverridden) : null;
  return { lines, changes, broken, uses };
}

// What velocity limits count. Reversals neither count nor give back, and a hold's capture was counted with the hold.
function countedUses(
  lines: readonly Line[],
  request: Request,
  { rules, atMs }: NonNullable<Books['velocity']>,
  refuse: (refusal: Refusal, name: string) => void,
): Use[] | null {
  if (!countedKinds.includes(request.kind)) return null;
  const counted = request.reserve ?? lines.map(({ account, ...line }) => ({ ...line, code: account.code }));
  const uses = usesOf(counted, rules, atMs);
  for (const use of uses) {
    const { limit, subject, positions } = use;
    const tag = limit.paused ? null : exceededBy(use, rules.steps.get(subjectKey(limit.id, subject)) ?? [], atMs);
    if (tag === null) continue;
    const most = tag === 'max_count' ? limit.maxCount : `${toDecimal(limit.maxAmount ?? 0n)} ${limit.currency}`;
    const message = `the ${limit.side}s of ${subject} would exceed the ${tag} of ${most}, which limit ${limit.id} allows in its window`;
    refuse(new Refusal('limit_exceeded', message, { field: fieldOf(request, positions.at(-1) ?? 0), tag, value: limit.id }), limit.id);
  }
  return uses.length === 0 ? null : uses;
}

/** The change of a balance, begun with the first entry on it. */
function changeOf(account: Account, currency: string, changes: BalanceChange[], books: Books): BalanceChange {
  let change = changes.find((each) => each.account === account && each.currency === currency);
  if (!change) {
    const before = books.balance(account, currency);
    change = { account, currency, before, after: { ...before, version: before.version + 1n } };
    changes.push(change);
  }
  return change;
}

function reservePending(entries: readonly Entry[], request: Request, changes: BalanceChange[], books: Books): void {
  debitsMustEqualCredits(entries);
  const accounts = entries.map(({ code, currency }, index) => accountMustFit(code, currency, books, fieldOf(request, index), request.kind));
  for (const [index, { side, amount, currency }] of entries.entries()) {
    const { after } = changeOf(accounts[index] as Account, currency, changes, books);
    if (side === 'debit') after.pendingDebits += amount;
    else after.pendingCredits += amount;
  }
}

function releasePending(entries: readonly Entry[], changes: BalanceChange[], books: Books): void {
  for (const { code, side, amount, currency } of entries) {
    // It has something pending, so it exists, is open and holds the currency.
    const { after } = changeOf(books.account(code) as Account, currency, changes, books);
    if (side === 'debit') after.pendingDebits -= amount;
    else after.pendingCredits -= amount;
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
  const { debits, credits, pendingDebits, pendingCredits } = change.after;
  // What is pending counts, so that a capture always fits.
  if (debits + pendingDebits > largestTotal || credits + pendingCredits > largestTotal) {
    const blame = blamed(request, change.account, change.currency, 'balance_overflow', () => true);
    throw new Refusal('balance_overflow', `the totals of account ${change.account.code} would have more than 38 digits`, blame);
  }
}

function blockedSide(account: Account, side: Side, index: number, request: Request): Refusal | null {
  if (!account.rules?.blocked.includes(side)) return null;
  const blame = { field: fieldOf(request, index), tag: 'account_blocked', value: account.code };
  return new Refusal('account_blocked', `account ${account.code} is blocked for ${side} entries`, blame);
}

// Compares what is available after the whole request. One that does not lower it is allowed, as captures, voids and expiries.
function belowFloor({ account, currency, before, after }: BalanceChange, request: Request): Refusal | null {
  const own = account.rules?.limits.get(currency)?.minAvailable ?? null;
  const floor = account.allowNegative ? own : own === null || own < 0n ? 0n : own;
  if (floor === null) return null;
  const left = available(account, after);
  if (left >= floor || left >= available(account, before)) return null;
  const blame = blamed(request, account, currency, 'insufficient_funds', (side) => side !== account.normalBalance);
  return new Refusal('insufficient_funds', `account ${account.code} has insufficient funds`, blame);
}

// Compares the balance with what is incoming. A request that does not raise it is allowed, as captures, voids and expiries.
function aboveCeiling({ account, currency, before, after }: BalanceChange, request: Request): Refusal | null {
  const ceiling = account.rules?.limits.get(currency)?.maxBalance ?? null;
  if (ceiling === null) return null;
  const expected = (balance: Balance) => net(account, balance) + incoming(account, balance);
  if (expected(after) <= ceiling || expected(after) <= expected(before)) return null;
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
  const sent = request.reserve ?? request.entries;
  const found = sent.findLastIndex((entry) => entry.code === code && entry.currency === currency && fits(entry.side));
  const index = Math.max(found, 0);
  return { field: fieldOf(request, index), tag, value: (sent[index] as Entry).code };
}

function fieldOf({ kind, entries, reserve }: Request, index: number): string {
  return (reserve ?? entries)[index]?.field ?? (kind === 'single' ? 'account_code' : `entries[${index}].account_code`);
}
