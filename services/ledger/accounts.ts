// The chart of accounts: set-up, new accounts, changes and reads. A change locks the tenant's head and appends to the log.
import { clone } from '@bufbuild/protobuf';
import { AccountRecordSchema, type AccountRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import { toUuid } from '../platform/ids.ts';
import type { Currency } from '../platform/money.ts';
import { allSettledOrThrow, inTransaction, sendTogether, type Client, type Connections } from '../platform/postgres.ts';
import { accountsByCode, unknownAccount } from './account-reads.ts';
import { Refusal, type Reason, type Side } from './accounting.ts';
import { ruleColumns, rulesMustFit } from './account-rules.ts';
import { createdEvent, newAccount, nextPosition, updateAccountRow, updatedEvent, type AuditContext } from './chart.ts';
import { append, lockHead, type Head, type LogRow } from './log.ts';
import { activeUntil } from './outbox/active-cursors.ts';
import { expireFirst } from './expiry-first.ts';
import { ancestorsOf, checkParent, levelsBelow, parentsFirst } from './parents.ts';
import { checkBalances } from './writer-queries.ts';
import { isSystemCode, normalSide, templates, type AccountType, type BusinessType } from './templates.ts';
import { writeLocked } from './write.ts';
import { noExtras } from './write-extras.ts';

/**
 * Creates all accounts of a template. Returns them in the template's order; a second call returns them as they are now with `created`
 * false. System accounts that exist already are moved to their parent. Throws {@link Refusal}: `chart_exists`, `account_code_taken`.
 */
export function setUpChart(
  pool: Connections,
  tenant: string,
  template: BusinessType,
  context: AuditContext,
): Promise<{ accounts: AccountRecord[]; created: boolean }> {
  return inTransaction(pool, [tenant], async (client) => {
    const { head, nowMs } = await lock(client, tenant);
    const lines = templates[template];
    const codes = lines.map((line) => line.code);
    const existing = await accountsByCode(client, tenant, codes);
    if (head.chart === template) return { accounts: lines.flatMap((line) => existing.get(line.code) ?? []), created: false };
    if (head.chart !== null) {
      throw refusalOf('chart_exists', `the chart of ${head.chart} has been set up already`, 'business_type', template);
    }
    const taken = lines.find((line) => !line.system && existing.has(line.code));
    if (taken) throw codeTaken(taken.code, 'is taken');

    const created: AccountRecord[] = [];
    const moved: AccountRecord[] = [];
    const events: LogRow[] = [];
    const accounts = lines.map((line) => {
      const position = nextPosition(head, nowMs);
      const before = existing.get(line.code);
      const parentCode = line.parentCode ?? undefined;
      const account = before ? changed(before, { parentCode }, position.createdMs) : newAccount(line, position);
      (before ? moved : created).push(account);
      const event = before ? updatedEvent(account, ['parent_code'], context) : createdEvent(account, template, context);
      events.push(append(head, event, nowMs));
      return account;
    });
    head.chart = template;
    await writeEvents(client, events, head, nowMs, created);
    // Not before their parents, which may be new.
    for (const account of moved) await updateAccountRow(client, tenant, account);
    return { accounts, created: true };
  });
}

/** A checked request for a new account. */
export interface NewAccount {
  code: string;
  name: string;
  type: AccountType;
  /** Null: that of the type. */
  normalBalance: Side | null;
  currency: Currency | null;
  parentCode: string | null;
  isGroup: boolean;
  description: string | undefined;
  allowNegative: boolean;
  /** A JSON object as text. */
  metadata: string;
  limits: AccountRecord['limits'];
  blocked: string[];
}

/** Accounts to create together. */
export interface Batch {
  /** With different codes. */
  wanted: NewAccount[];
  /** Leaves accounts that exist as they are. */
  skip: boolean;
  /** The name of a field of the account at a place in the request. */
  fieldOf: (place: number, field: string) => string;
}

/** What a batch has made. */
export interface Created {
  created: number;
  /** Accounts that existed. */
  skipped: number;
  /** Every account in the order of the request, as it is now. */
  accounts: AccountRecord[];
}

/**
 * Creates accounts, all or none; parents may be among them in any order. Throws {@link Refusal}: `account_code_taken` (also for the codes of
 * system accounts), `account_not_found` for an unknown parent, `parent_invalid` for one that does not fit, `too_large` where the answer would be.
 */
export function createAccounts(
  pool: Connections,
  tenant: string,
  { wanted, skip, fieldOf }: Batch,
  context: AuditContext,
): Promise<Created> {
  return inTransaction(pool, [tenant], async (client) => {
    const { head, nowMs } = await lock(client, tenant);
    const parents = wanted.flatMap(({ parentCode }) => parentCode ?? []);
    const known = await accountsByCode(client, tenant, [...new Set([...wanted.map(({ code }) => code), ...parents])]);
    const above = await ancestorsOf(
      client,
      tenant,
      [...new Set(parents)].filter((code) => known.has(code)),
    );
    const levels = new Map([...above].map(([code, { length }]) => [code, length]));
    const codes = new Set(wanted.map(({ code }) => code));
    const created: AccountRecord[] = [];
    const events: LogRow[] = [];
    for (const place of parentsFirst(wanted)) {
      const each = wanted[place] as NewAccount;
      const { code, parentCode, type } = each;
      const field = fieldOf(place, 'account_code');
      if (known.has(code) && skip) continue;
      if (known.has(code)) throw codeTaken(code, 'is taken', field);
      if (isSystemCode(code)) throw codeTaken(code, 'is reserved for the ledger', field);
      if (parentCode !== null) {
        const [parent, blamed] = [known.get(parentCode), fieldOf(place, 'parent_code')];
        if (!parent && parentCode !== code && codes.has(parentCode)) {
          throw refusalOf('parent_invalid', `group ${parentCode} would be below itself`, blamed, parentCode);
        }
        checkParent(parent, levels.get(parentCode) ?? 1, { type, parentCode, levels: 1 }, blamed);
      }
      rulesMustFit({ accountCode: code, isGroup: each.isGroup, currency: each.currency ?? undefined }, each, fieldOf(place, ''));
      const line = { ...each, normalBalance: each.normalBalance ?? normalSide(type), system: false };
      const account = newAccount(line, nextPosition(head, nowMs), each);
      events.push(append(head, createdEvent(account, null, context), nowMs));
      created.push(account);
      known.set(code, account);
      levels.set(code, (parentCode === null ? 0 : (levels.get(parentCode) ?? 1)) + 1);
    }
    const accounts = wanted.map(({ code }) => known.get(code) as AccountRecord);
    checkAnswerSize(accounts);
    if (created.length > 0) await writeEvents(client, events, head, nowMs, created);
    return { created: created.length, skipped: wanted.length - created.length, accounts };
  });
}

/** Creates one account. Throws as {@link createAccounts}. */
export async function createAccount(pool: Connections, tenant: string, wanted: NewAccount, context: AuditContext): Promise<AccountRecord> {
  const { accounts } = await createAccounts(pool, tenant, { wanted: [wanted], skip: false, fieldOf: (_, field) => field }, context);
  return accounts[0] as AccountRecord;
}

// An answer must fit into a gRPC message of 8 MiB; those that exist may have more metadata than a request could hold.
const maxAnswerBytes = 6 << 20;

function checkAnswerSize(accounts: AccountRecord[]): void {
  const bytes = accounts.reduce((sum, { metadata, description = '' }) => sum + 1_500 + Buffer.byteLength(metadata + description), 0);
  if (bytes <= maxAnswerBytes) return;
  const message = 'the answer would have more than 6 MiB: send fewer accounts at once';
  throw refusalOf('too_large', message, 'accounts', String(accounts.length));
}

/** A checked change of an account; undefined fields stay. */
export interface AccountChange {
  name?: string | undefined;
  /** A group of the same type that is not below the account. */
  parentCode?: string | undefined;
  /** Empty: removed. */
  description?: string | undefined;
  allowNegative?: boolean | undefined;
  status?: 'active' | 'closed' | undefined;
  /** A JSON object as text. */
  metadata?: string | undefined;
  /** Both replace all. */
  limits?: AccountRecord['limits'] | undefined;
  blocked?: string[] | undefined;
}

/** A change, with the version that the caller expects, if any. */
export type AccountUpdate = AccountChange & { version?: bigint | undefined };

/**
 * Changes an account; a change without effect makes no event. Throws {@link Refusal}: `account_not_found`, `account_is_system`,
 * `version_conflict`, `account_not_empty` (closing one with a balance, or a group with active accounts), `parent_invalid` (reopening one
 * below a closed group, or a parent that does not fit) `insufficient_funds` (forbidding a negative balance where there is one),
 * and `account_is_group` or `currency_not_allowed` for limits that the account can't have.
 */
export function updateAccount(
  pool: Connections,
  tenant: string,
  code: string,
  update: AccountUpdate,
  context: AuditContext,
): Promise<AccountRecord> {
  const { version, ...change } = update;
  return inTransaction(pool, [tenant], async (client) => {
    const locked = await lockHead(client, tenant, false);
    // A tenant without a head has no accounts.
    if (!locked) throw unknownAccount(code);
    const { head, nowMs } = locked;
    const account = (await accountsByCode(client, tenant, [code])).get(code);
    if (!account) throw unknownAccount(code);
    if (account.system) throw new Refusal('account_is_system', `account ${code} is a system account, which can't be changed`);
    if (version !== undefined && version !== account.version) {
      const message = `account ${code} has version ${account.version}, not ${version}`;
      throw refusalOf('version_conflict', message, 'version', version.toString());
    }
    const changes = changesOf(account, change);
    if (changes.length === 0) return account;
    rulesMustFit(account, change);
    const closes = changes.includes('status') && account.status === 'active';
    const forbids = changes.includes('allow_negative') && account.allowNegative;
    if (closes || forbids) {
      await expireFirst(client, head, nowMs);
      await checkBalances(client, tenant, code);
    }
    if (changes.includes('parent_code')) await checkMove(client, tenant, account, change.parentCode as string);
    if (changes.includes('status'))
      await checkStatusChange(client, tenant, { ...account, parentCode: change.parentCode ?? account.parentCode });
    if (forbids) await checkNotNegative(client, tenant, account);

    const after = changed(account, change, nextPosition(head, nowMs).createdMs);
    const event = append(head, updatedEvent(after, changes, context), nowMs);
    await updateAccountRow(client, tenant, after);
    await writeEvents(client, [event], head, nowMs);
    return after;
  });
}

// Makes a missing head, so there is one.
async function lock(client: Client, tenant: string): Promise<{ head: Head; nowMs: number }> {
  return (await lockHead(client, tenant, true)) as { head: Head; nowMs: number };
}

/** Writes events, and the accounts they create, in a transaction that has locked the head. */
export function writeEvents(client: Client, events: LogRow[], head: Head, nowMs: number, created: AccountRecord[] = []): Promise<unknown> {
  const tenants = [head.tenant];
  const relayCursors = { tenants, activeUntilMs: activeUntil(nowMs) };
  const rows = { tenants, relayCursors, log: events, posted: [], balances: [], extras: noExtras };
  const newAccounts = created.map((account) => ({ tenant: head.tenant, account }));
  return allSettledOrThrow(sendTogether(client, () => writeLocked(client, [head], rows, newAccounts)));
}

async function checkMove(client: Client, tenant: string, account: AccountRecord, parentCode: string): Promise<void> {
  const { accountCode: code, type } = account;
  const parent = (await accountsByCode(client, tenant, [parentCode])).get(parentCode);
  const above = (await ancestorsOf(client, tenant, [parentCode])).get(parentCode) ?? [];
  if (above.includes(code)) {
    throw refusalOf('parent_invalid', `group ${parentCode} is account ${code} itself or below it`, 'parent_code', parentCode);
  }
  const levels = await levelsBelow(client, tenant, account);
  checkParent(parent, above.length, { type, parentCode, levels }, 'parent_code');
}

async function checkStatusChange(client: Client, tenant: string, account: AccountRecord): Promise<void> {
  const { accountCode: code, parentCode } = account;
  if (account.status === 'closed') {
    const parent = parentCode === undefined ? undefined : (await accountsByCode(client, tenant, [parentCode])).get(parentCode);
    if (parent?.status !== 'closed') return;
    throw refusalOf('parent_invalid', `group ${parent.accountCode} above account ${code} is closed`, 'status', 'active');
  }
  const { rows } = await client.query<{ why: string }>({
    name: 'reason_not_to_close',
    text: `select case when debits <> credits then 'has a balance in ' else 'has something pending in ' end || currency as why from balances
        where tenant_id = $1 and account_id = $2 and (debits <> credits or pending_debits <> 0 or pending_credits <> 0)
      union all
      (select 'still has active accounts below it' from accounts where tenant_id = $1 and parent_code = $3 and status = 'active' limit 1)`,
    values: [tenant, toUuid('acc', account.id), code],
  });
  if (rows[0]) throw refusalOf('account_not_empty', `account ${code} ${rows[0].why}`, 'status', 'closed');
}

async function checkNotNegative(client: Client, tenant: string, account: AccountRecord): Promise<void> {
  const { rows } = await client.query<{ currency: string }>({
    name: 'negative_balances',
    text: `select currency from balances
      where tenant_id = $1 and account_id = $2
        and case $3::text when 'debit' then debits - credits < pending_credits else credits - debits < pending_debits end`,
    values: [tenant, toUuid('acc', account.id), account.normalBalance],
  });
  if (!rows[0]) return;
  const message = `what is available in account ${account.accountCode} is below zero in ${rows[0].currency}`;
  throw refusalOf('insufficient_funds', message, 'allow_negative', 'false');
}

// The names of the fields that change, in the record's order.
function changesOf(account: AccountRecord, change: AccountChange): string[] {
  const differs = <Value>(wanted: Value | undefined, is: Value) => wanted !== undefined && wanted !== is;
  return [
    differs(change.name, account.name) ? ['name'] : [],
    differs(change.parentCode, account.parentCode) ? ['parent_code'] : [],
    differs(change.description, account.description ?? '') ? ['description'] : [],
    differs(change.allowNegative, account.allowNegative) ? ['allow_negative'] : [],
    differs(change.status, account.status) ? ['status'] : [],
    differs(change.metadata, account.metadata) ? ['metadata'] : [],
    differs(change.limits && ruleColumns({ limits: change.limits, blocked: [] }).limits, ruleColumns(account).limits) ? ['limits'] : [],
    differs(change.blocked?.join(), account.blocked.join()) ? ['blocked'] : [],
  ].flat();
}

function changed(account: AccountRecord, wanted: AccountChange, atMs: number): AccountRecord {
  const after = clone(AccountRecordSchema, account);
  for (const [field, value] of Object.entries(wanted) as [string, unknown][]) {
    if (value !== undefined) Object.assign(after, { [field]: value });
  }
  if (after.description === '') after.description = undefined;
  after.version += 1n;
  after.updatedMs = BigInt(atMs);
  return after;
}

function refusalOf(reason: Reason, message: string, field: string, value: string): Refusal {
  return new Refusal(reason, message, { field, tag: reason, value });
}

function codeTaken(code: string, why: string, field = 'account_code'): Refusal {
  return new Refusal('account_code_taken', `account code ${code} ${why}`, { field, tag: 'unique', value: code });
}
