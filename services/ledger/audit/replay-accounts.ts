// Accounts of a replay: made, changed and closed by rules of its own.
import { fromBinary } from '@bufbuild/protobuf';
import { AccountCreatedSchema, AccountUpdatedSchema, type AccountRecord } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toUuid } from '../../platform/ids.ts';
import type { LogRow } from '../log.ts';
import { available, isEmpty, type ReplayedAccount, type ReplayedBalances } from './replay-balances.ts';
import { limitsColumn } from './replay-limits.ts';
import { time, type Report, type Row } from './rows.ts';

/** All accounts of a tenant. */
export class ReplayedAccounts {
  /** The template that was set up, or null. */
  chart: string | null = null;
  private readonly balances: ReplayedBalances;
  /** By TypeID. */
  private readonly byId = new Map<string, ReplayedAccount>();
  private readonly byCode = new Map<string, ReplayedAccount>();

  constructor(balances: ReplayedBalances) {
    this.balances = balances;
  }

  /** The account of an entry, which can take it. Throws where there is none. */
  of(entry: { accountId: string; accountCode: string; currency: string }, problem: Report): ReplayedAccount {
    const account = this.byId.get(entry.accountId);
    if (account?.record.accountCode !== entry.accountCode) throw new Error(`no account ${entry.accountCode}`);
    const { record } = account;
    if (record.isGroup || record.status === 'closed') problem(`posts to ${entry.accountCode}, a group or closed account`);
    if (record.currency !== undefined && record.currency !== entry.currency) problem(`posts ${entry.currency} to ${entry.accountCode}`);
    return account;
  }

  /** Whether there is an account of a code. */
  has(code: string): boolean {
    return this.byCode.has(code);
  }

  /** A code and those of the groups above it, the nearest first. */
  above(code: string): Set<string> {
    const codes = new Set<string>();
    for (let next: string | undefined = code; next !== undefined && !codes.has(next); next = this.byCode.get(next)?.record.parentCode) {
      codes.add(next);
    }
    return codes;
  }

  /** Every account as it is after the last event. Throws for a time outside the calendar. */
  rows(tenant: string): Row[] {
    return [...this.byId.values()].map(({ record, uuid }) => ({
      tenant_id: tenant,
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

  /** Takes an `account.created`. */
  create(row: LogRow, problem: Report): void {
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

  /** Takes an `account.updated`. */
  update(row: LogRow, problem: Report): void {
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
    if (record.status === 'closed' && !this.balances.of(account).every(isEmpty)) problem('closes an account that has a balance');
    if (changed.includes('status') && record.status === 'closed' && record.isGroup && this.hasActiveBelow(record)) {
      problem('closes a group that has active accounts below it');
    }
    // An override may have left one below zero that is changed in something else.
    const forbids = changed.includes('allowNegative') && !record.allowNegative;
    if (forbids && this.balances.of(account).some((balance) => available(balance) < 0n)) {
      problem('forbids an account below zero to be there');
    }
    account.record = record;
  }

  private checkParent({ accountCode, parentCode, type }: AccountRecord, problem: Report): void {
    if (parentCode === undefined) return;
    const parent = this.byCode.get(parentCode)?.record;
    if (!parent?.isGroup || parent.type !== type) problem('puts an account where no group is');
    else if (parent.status === 'closed') problem('has an active account below a closed group');
    if (this.above(parentCode).has(accountCode)) problem('puts a group below itself');
  }

  private hasActiveBelow(group: AccountRecord): boolean {
    return [...this.byId.values()].some(({ record }) => record.parentCode === group.accountCode && record.status === 'active');
  }
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
