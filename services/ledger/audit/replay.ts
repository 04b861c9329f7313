// Replay of a tenant's log into table rows, which `verify` and `rebuild` compare with the projections.
//
// Its rules share no code with the writer, so that a mistake of one is found by the other.
import { fromBinary } from '@bufbuild/protobuf';
import {
  AccountCreatedSchema,
  AccountUpdatedSchema,
  TransactionPostedSchema,
  type AccountRecord,
  type ChangedBalance,
  type PostedEntry,
  type TransactionPosted,
} from '../../../proto/gen/ledger/v1/events_pb.js';
import { toUuid } from '../../platform/ids.ts';
import { toDecimal } from '../../platform/money.ts';
import { chainHash, genesisHash, type LogRow } from '../log.ts';
import { blockProblem, limitProblems, limitsColumn, minorUnits } from './replay-limits.ts';

/** A row of a table by its columns' names, values as PostgreSQL reads them from JSON. */
export type Row = Record<string, string | number | boolean | null>;

/** A time in the log that is outside the calendar. */
export class InvalidTime extends Error {}

/** Rows that one event adds to the append-only tables. */
export interface AddedRows {
  transactions: Row[];
  entries: Row[];
  /** The event, if it is a posting. */
  posted?: TransactionPosted;
}

interface ReplayedAccount {
  record: AccountRecord;
  uuid: string;
}

interface ReplayedBalance {
  account: ReplayedAccount;
  currency: string;
  debits: bigint;
  credits: bigint;
  pendingDebits: bigint;
  pendingCredits: bigint;
  version: bigint;
  updatedMs: number;
}

/** Accounts and balances of one tenant, event by event. Keeps no transactions in memory. */
export class Replay {
  private readonly tenant: string;
  private readonly report: (problem: string) => void;
  /** By TypeID. */
  private readonly byId = new Map<string, ReplayedAccount>();
  private readonly byCode = new Map<string, ReplayedAccount>();
  private readonly balances = new Map<string, ReplayedBalance>();
  private sequence = 0n;
  private hash: Buffer = genesisHash;
  private lastMs = 0;
  private chart: string | null = null;

  /** `report` is called for every event that breaks the chain or a rule; the replay goes on with what the event says. */
  constructor(tenant: string, report: (problem: string) => void) {
    this.tenant = tenant;
    this.report = report;
  }

  /** Takes the next event. */
  apply(row: LogRow): AddedRows {
    const problem = (what: string) => this.report(`event ${row.sequence} ${what}`);
    if (row.sequence !== this.sequence + 1n) problem(`follows event ${this.sequence}`);
    if (!chainHash(this.hash, row).equals(row.hash)) problem('does not have the hash of its content and of the event before it');
    if (row.createdMs < this.lastMs) problem('is older than the event before it');
    this.sequence = row.sequence;
    this.hash = row.hash;
    this.lastMs = row.createdMs;
    const added: AddedRows = { transactions: [], entries: [] };
    try {
      if (row.type === 'transaction.posted') this.post(row, added, problem);
      else if (row.type === 'account.created') this.create(row, problem);
      else this.update(row, problem);
    } catch (error) {
      problem(`can't be read: ${(error as Error).message}`);
    }
    return added;
  }

  /** The head after the last event, if there was one. Throws {@link InvalidTime}, as the two below do. */
  head(): Row[] {
    if (this.sequence === 0n) return [];
    return [
      {
        tenant_id: this.tenant,
        sequence: this.sequence.toString(),
        hash: bytea(this.hash),
        last_at: time(this.lastMs),
        chart: this.chart,
      },
    ];
  }

  /** Every account as it is after the last event. */
  accountRows(): Row[] {
    return [...this.byId.values()].map(({ record, uuid }) => ({
      tenant_id: this.tenant,
      id: uuid,
      code: record.accountCode,
      name: record.name,
      type: record.type,
      normal_balance: record.normalBalance,
      currency: record.currency ?? null,
      parent_code: record.parentCode ?? null,
      is_group: record.isGroup,
      description: record.description ?? null,
      allow_negative: record.allowNegative,
      status: record.status,
      system: record.system,
      metadata: record.metadata,
      version: record.version.toString(),
      created_at: time(Number(record.createdMs)),
      updated_at: time(Number(record.updatedMs)),
      limits: limitsColumn(record),
      blocked: record.blocked.length === 0 ? null : JSON.stringify(record.blocked),
    }));
  }

  /** Every balance as it is after the last event. */
  balanceRows(): Row[] {
    return [...this.balances.values()].map((balance) => ({
      tenant_id: this.tenant,
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

  private create(row: LogRow, problem: (what: string) => void): void {
    const { account: record, template } = fromBinary(AccountCreatedSchema, row.payload);
    const uuid = record ? toUuid('acc', record.id) : null;
    if (!record || uuid === null) throw new Error('no account');
    if (this.byId.has(record.id) || this.byCode.has(record.accountCode)) problem(`makes account ${record.accountCode} again`);
    const now = BigInt(row.createdMs);
    if (record.version !== 1n || record.createdMs !== now || record.updatedMs !== now) problem('makes an account that is not new');
    this.checkParent(record, problem);
    if (template !== undefined) {
      if (this.chart !== null && this.chart !== template) problem(`is of the chart ${template}, not ${this.chart}`);
      this.chart = template;
    }
    const account = { record, uuid };
    this.byId.set(record.id, account);
    this.byCode.set(record.accountCode, account);
  }

  private update(row: LogRow, problem: (what: string) => void): void {
    const { account: record, changes } = fromBinary(AccountUpdatedSchema, row.payload);
    const account = record && this.byId.get(record.id);
    if (!account) throw new Error('no account that was made before');
    const [before, after] = [fieldsOf(account.record), fieldsOf(record)];
    const changed = Object.keys(after).filter((field) => after[field] !== before[field]);
    const constant = ['accountCode', 'type', 'normalBalance', 'currency', 'isGroup', 'system', 'createdMs'];
    // Chart set-up moves existing system accounts to their parent and changes nothing else of them.
    if (record.system) constant.push('name', 'description', 'allowNegative', 'status', 'metadata', 'limits', 'blocked');
    if (changed.some((field) => constant.includes(field))) problem('changes what can’t change of an account');
    if (record.version !== account.record.version + 1n || record.updatedMs !== BigInt(row.createdMs)) {
      problem('has another version or time than its change');
    }
    const named = changed.filter((field) => field !== 'version' && field !== 'updatedMs').map(snakeCase);
    if (named.sort().join() !== [...changes].sort().join()) problem(`changes ${named.join()} and says ${changes.join()}`);
    if (changed.includes('parentCode') || (changed.includes('status') && record.status === 'active')) this.checkParent(record, problem);
    if (record.status === 'closed' && [...this.balancesOf(account)].some(holdsSomething)) problem('closes an account that has a balance');
    if (changed.includes('status') && record.status === 'closed' && record.isGroup && this.hasActiveBelow(record)) {
      problem('closes a group that has active accounts below it');
    }
    // An override may have left one below zero that is changed in something else.
    const forbids = changed.includes('allowNegative') && !record.allowNegative;
    if (forbids && [...this.balancesOf(account)].some((balance) => net(balance) < 0n)) {
      problem('forbids an account below zero to be there');
    }
    account.record = record;
  }

  private checkParent({ accountCode, parentCode, type }: AccountRecord, problem: (what: string) => void): void {
    if (parentCode === undefined) return;
    const parent = this.byCode.get(parentCode)?.record;
    if (!parent?.isGroup || parent.type !== type) problem('puts an account where no group is');
    else if (parent.status === 'closed') problem('has an active account below a closed group');
    const above = new Set<string>();
    for (
      let code: string | undefined = parentCode;
      code !== undefined && !above.has(code);
      code = this.byCode.get(code)?.record.parentCode
    ) {
      above.add(code);
    }
    if (above.has(accountCode)) problem('puts a group below itself');
  }

  private hasActiveBelow(group: AccountRecord): boolean {
    return [...this.byId.values()].some(({ record }) => record.parentCode === group.accountCode && record.status === 'active');
  }

  private *balancesOf(account: ReplayedAccount): Iterable<ReplayedBalance> {
    for (const currency of ['NGN', 'USD', 'EUR', 'GBP']) {
      const balance = this.balances.get(`${account.uuid} ${currency}`);
      if (balance) yield balance;
    }
  }

  private post(row: LogRow, added: AddedRows, problem: (what: string) => void): void {
    const event = fromBinary(TransactionPostedSchema, row.payload);
    added.posted = event;
    added.transactions.push({
      tenant_id: this.tenant,
      sequence: row.sequence.toString(),
      id: toUuid('txn', event.transactionId),
      idempotency_key: event.idempotencyKey,
      fingerprint: bytea(event.fingerprint),
      reference: event.reference ?? null,
      reverses: event.reverses === undefined ? null : toUuid('txn', event.reverses),
      created_at: time(row.createdMs),
    });
    if (!['single', 'double', 'reversal', 'exchange'].includes(event.kind)) problem(`is of the kind ${event.kind}, which there is not`);
    if ((event.kind === 'reversal') !== (event.reverses !== undefined))
      problem(`is ${event.kind} and reverses ${event.reverses ?? 'nothing'}`);
    const sums = new Map<string, bigint>();
    const touched = new Map<ReplayedBalance, bigint>();
    event.entries.forEach((entry, position) => {
      const account = this.accountFor(entry, event.kind, problem);
      if (!event.origin?.override) blockProblem(account.record, entry, problem);
      const amount = minorUnits(entry.amount);
      if (amount <= 0n) problem('has an entry that is not greater than zero');
      const balance = this.balanceOf(account, entry.currency);
      if (!touched.has(balance)) touched.set(balance, net(balance));
      if (entry.side === 'debit') balance.debits += amount;
      else balance.credits += amount;
      sums.set(entry.currency, (sums.get(entry.currency) ?? 0n) + (entry.side === 'debit' ? amount : -amount));
      if (minorUnits(entry.balanceAfter) !== net(balance)) {
        problem(`leaves ${entry.accountCode} at ${entry.balanceAfter}, where the entries add up to ${toDecimal(net(balance))}`);
      }
      added.entries.push({
        tenant_id: this.tenant,
        account_id: account.uuid,
        currency: entry.currency,
        sequence: row.sequence.toString(),
        position,
        side: entry.side,
        amount: amount.toString(),
        balance_after: net(balance).toString(),
      });
    });
    for (const [currency, sum] of sums) if (sum !== 0n) problem(`does not balance in ${currency}`);
    const counters = event.entries.filter((entry) => entry.counter).length;
    if (event.kind === 'single' ? counters !== 1 || event.entries.length !== 2 : event.kind !== 'reversal' && counters !== 0) {
      problem(`is ${event.kind} with ${event.entries.length} entries, ${counters} of them counter-entries`);
    }
    for (const [balance, before] of touched) {
      balance.version += 1n;
      balance.updatedMs = row.createdMs;
      if (!event.origin?.override) limitProblems(balance.account.record, balance.currency, before, net(balance), problem);
    }
    this.compareBalances([...touched], event.balances, problem);
  }

  private accountFor(entry: PostedEntry, kind: string, problem: (what: string) => void): ReplayedAccount {
    const account = this.byId.get(entry.accountId);
    if (account?.record.accountCode !== entry.accountCode) throw new Error(`no account ${entry.accountCode}`);
    const { record } = account;
    if (record.isGroup || record.status === 'closed') problem(`posts to ${entry.accountCode}, a group or closed account`);
    if (record.currency !== undefined && record.currency !== entry.currency) problem(`posts ${entry.currency} to ${entry.accountCode}`);
    const fits = entry.counter ? record.system && entry.accountCode === `SUSPENSE-${entry.currency}` : !record.system;
    if (kind === 'single' && !fits) problem(`is single with ${entry.counter ? 'its counter-entry' : 'an entry'} on ${entry.accountCode}`);
    return account;
  }

  // An event contains every balance that it changes, before and after.
  private compareBalances(touched: [ReplayedBalance, bigint][], promised: ChangedBalance[], problem: (what: string) => void): void {
    if (promised.length !== touched.length) problem(`changes ${touched.length} balances and tells of ${promised.length}`);
    touched.forEach(([balance, before], index) => {
      const event = promised[index];
      if (!event) return;
      // Nothing changes these yet, so they are taken from the event.
      balance.pendingDebits = minorUnits(event.pendingDebits);
      balance.pendingCredits = minorUnits(event.pendingCredits);
      const outgoing = balance.account.record.normalBalance === 'debit' ? balance.pendingCredits : balance.pendingDebits;
      const actual = [
        ...[balance.account.record.id, balance.account.record.accountCode, balance.currency, balance.version.toString()],
        ...[before, net(balance), balance.debits, balance.credits, net(balance) - outgoing].map(toDecimal),
      ];
      const expected = [
        ...[event.accountId, event.accountCode, event.currency, event.version.toString()],
        ...[event.previousBalance, event.balance, event.debits, event.credits, event.available],
      ];
      if (actual.join() !== expected.join()) problem(`promises the balance ${expected.join(' ')}, not ${actual.join(' ')}`);
    });
  }

  private balanceOf(account: ReplayedAccount, currency: string): ReplayedBalance {
    const key = `${account.uuid} ${currency}`;
    let balance = this.balances.get(key);
    if (!balance) {
      balance = { account, currency, debits: 0n, credits: 0n, pendingDebits: 0n, pendingCredits: 0n, version: 0n, updatedMs: 0 };
      this.balances.set(key, balance);
    }
    return balance;
  }
}

function net({ account, debits, credits }: ReplayedBalance): bigint {
  return account.record.normalBalance === 'debit' ? debits - credits : credits - debits;
}

function holdsSomething({ debits, credits, pendingDebits, pendingCredits }: ReplayedBalance): boolean {
  return debits !== credits || pendingDebits !== 0n || pendingCredits !== 0n;
}

function bytea(bytes: Uint8Array): string {
  return `\\x${Buffer.from(bytes).toString('hex')}`;
}

function time(ms: number): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) throw new InvalidTime(`${ms} ms after 1970 is no time`);
  return date.toISOString();
}

function fieldsOf(record: AccountRecord): Record<string, unknown> {
  const { $typeName: _typeName, $unknown: _unknown, ...fields } = record;
  // An absent optional field is no property of the message.
  return {
    currency: undefined,
    parentCode: undefined,
    description: undefined,
    ...fields,
    limits: limitsColumn(record),
    blocked: record.blocked.join(),
  };
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
