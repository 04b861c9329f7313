// Balances of a replay: what one event changes, compared with what it says, and whether the accounts allow it.
import type { AccountRecord, ChangedBalance } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toDecimal } from '../../platform/money.ts';
import { limitProblems } from './replay-limits.ts';
import { time, type Report, type Row } from './rows.ts';

/** An account after its last event. */
export interface ReplayedAccount {
  record: AccountRecord;
  uuid: string;
}

/** A balance after its last event, minor units. */
export interface ReplayedBalance {
  account: ReplayedAccount;
  currency: string;
  debits: bigint;
  credits: bigint;
  pendingDebits: bigint;
  pendingCredits: bigint;
  /** Counts the events that have changed it. */
  version: bigint;
  updatedMs: number;
}

/** One side of an account in a currency. */
export interface Place {
  account: ReplayedAccount;
  currency: string;
  side: string;
}

/** All balances of a tenant. */
export class ReplayedBalances {
  private readonly byKey = new Map<string, ReplayedBalance>();

  /** The balances of an account. */
  of(account: ReplayedAccount): ReplayedBalance[] {
    return ['NGN', 'USD', 'EUR', 'GBP'].flatMap((currency) => this.byKey.get(`${account.uuid} ${currency}`) ?? []);
  }

  /** The balance of an account in a currency, which begins with nothing. */
  at(account: ReplayedAccount, currency: string): ReplayedBalance {
    const key = `${account.uuid} ${currency}`;
    let balance = this.byKey.get(key);
    if (!balance) {
      balance = { account, currency, debits: 0n, credits: 0n, pendingDebits: 0n, pendingCredits: 0n, version: 0n, updatedMs: 0 };
      this.byKey.set(key, balance);
    }
    return balance;
  }

  /** Every balance as it is after the last event. Throws for a time outside the calendar. */
  rows(tenant: string): Row[] {
    return [...this.byKey.values()].map((balance) => ({
      tenant_id: tenant,
      account_id: balance.account.uuid,
      currency: balance.currency,
      debits: balance.debits.toString(),
      credits: balance.credits.toString(),
      pending_debits: balance.pendingDebits.toString(),
      pending_credits: balance.pendingCredits.toString(),
      version: balance.version.toString(),
      updated_at: time(balance.updatedMs),
    }));
  }
}

/** What one event changes. */
export class BalanceChanges {
  private readonly balances: ReplayedBalances;
  private readonly problem: Report;
  /** As they were before, in order of their first change. */
  private readonly before = new Map<ReplayedBalance, ReplayedBalance>();

  constructor(balances: ReplayedBalances, problem: Report) {
    this.balances = balances;
    this.problem = problem;
  }

  /** Moves an amount; returns the balance after it. */
  post(place: Place, amount: bigint): bigint {
    const balance = this.touch(place);
    if (place.side === 'debit') balance.debits += amount;
    else balance.credits += amount;
    return net(balance);
  }

  /** Reserves an amount, or releases it where it is below zero. */
  pend(place: Place, amount: bigint): void {
    if (amount === 0n) return;
    const balance = this.touch(place);
    if (place.side === 'debit') balance.pendingDebits += amount;
    else balance.pendingCredits += amount;
  }

  /** Compares the balances before and after with those that the event contains, and with what accounts allow unless it is overridden. */
  end(atMs: number, promised: ChangedBalance[], isOverridden: boolean): void {
    if (promised.length !== this.before.size) {
      this.problem(`changes ${this.before.size} balances and tells of ${promised.length}`);
    }
    [...this.before].forEach(([after, before], index) => {
      after.version += 1n;
      after.updatedMs = atMs;
      if (!isOverridden) limitProblems(after.account.record, after.currency, limited(before), limited(after), this.problem);
      if (promised[index]) this.compare(before, after, promised[index]);
    });
  }

  private compare(before: ReplayedBalance, after: ReplayedBalance, event: ChangedBalance): void {
    const pending = [after.pendingDebits, after.pendingCredits];
    const actual = [
      ...[after.account.record.id, after.account.record.accountCode, after.currency, after.version.toString()],
      ...[net(before), net(after), after.debits, after.credits, ...pending, available(after)].map(toDecimal),
    ];
    const expected = [
      ...[event.accountId, event.accountCode, event.currency, event.version.toString()],
      ...[event.previousBalance, event.balance, event.debits, event.credits, event.pendingDebits, event.pendingCredits, event.available],
    ];
    if (actual.join() !== expected.join()) this.problem(`promises the balance ${expected.join(' ')}, not ${actual.join(' ')}`);
  }

  private touch({ account, currency }: Place): ReplayedBalance {
    const balance = this.balances.at(account, currency);
    if (!this.before.has(balance)) this.before.set(balance, { ...balance });
    return balance;
  }
}

/** What an account can spend in its normal direction. */
export function available(balance: ReplayedBalance): bigint {
  return limited(balance).available;
}

/** Whether nothing is on an account or on its way. */
export function isEmpty({ debits, credits, pendingDebits, pendingCredits }: ReplayedBalance): boolean {
  return debits === credits && pendingDebits === 0n && pendingCredits === 0n;
}

function net({ account, debits, credits }: ReplayedBalance): bigint {
  return account.record.normalBalance === 'debit' ? debits - credits : credits - debits;
}

function limited(balance: ReplayedBalance): { available: bigint; expected: bigint } {
  const { account, pendingDebits, pendingCredits } = balance;
  const [raising, lowering] = account.record.normalBalance === 'debit' ? [pendingDebits, pendingCredits] : [pendingCredits, pendingDebits];
  return { available: net(balance) - lowering, expected: net(balance) + raising };
}
