// The chart of accounts: set-up, new accounts, changes and reads. A change locks the tenant's head and appends to the log.
import { clone } from '@bufbuild/protobuf';
import { AccountRecordSchema, type AccountRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import { cutPage, uuidPosition, type CursorScope } from '../platform/cursor.ts';
import { toUuid } from '../platform/ids.ts';
import type { Currency } from '../platform/money.ts';
import { allSettledOrThrow, inTransaction, readTenant, sendTogether, type Client, type Connections } from '../platform/postgres.ts';
import { Refusal, type Reason, type Side } from './accounting.ts';
import {
  accountColumns,
  createdEvent,
  insertAccounts,
  newAccount,
  nextPosition,
  recordOf,
  updateAccountRow,
  updatedEvent,
  type AccountRow,
  type AuditContext,
} from './chart.ts';
import { append, lockHead, type Head, type LogRow } from './log.ts';
import { activeUntil } from './outbox/active-cursors.ts';
import { positionOf, type Page } from './page.ts';
import { checkBalances } from './writer-queries.ts';
import { isSystemCode, normalSide, templates, type AccountType, type BusinessType } from './templates.ts';
import { writeLocked } from './write.ts';

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
    const { head, nowMs } = await lock(client, tenant, { make: true });
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
    await insertAccounts(
      client,
      created.map((account) => ({ tenant, account })),
    );
    for (const account of moved) await updateAccountRow(client, tenant, account);
    await write(client, events, head, nowMs);
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
}

/**
 * Creates an account. Throws {@link Refusal}: `account_code_taken` (also for the codes of system accounts), `account_not_found` for an
 * unknown parent, `parent_invalid` for one that is no group of the same type or is closed.
 */
export function createAccount(pool: Connections, tenant: string, wanted: NewAccount, context: AuditContext): Promise<AccountRecord> {
  return inTransaction(pool, [tenant], async (client) => {
    const { head, nowMs } = await lock(client, tenant, { make: true });
    const { code, parentCode } = wanted;
    const existing = await accountsByCode(client, tenant, parentCode === null ? [code] : [code, parentCode]);
    if (existing.has(code)) throw codeTaken(code, 'is taken');
    if (isSystemCode(code)) throw codeTaken(code, 'is reserved for the ledger');
    if (parentCode !== null) await checkParent(client, tenant, existing.get(parentCode), parentCode, wanted.type);

    const line = { ...wanted, normalBalance: wanted.normalBalance ?? normalSide(wanted.type), system: false };
    const account = newAccount(line, nextPosition(head, nowMs), wanted);
    const event = append(head, createdEvent(account, null, context), nowMs);
    await insertAccounts(client, [{ tenant, account }]);
    await write(client, [event], head, nowMs);
    return account;
  });
}

/** A checked change of an account; undefined fields stay. */
export interface AccountChange {
  name?: string | undefined;
  /** Empty: removed. */
  description?: string | undefined;
  allowNegative?: boolean | undefined;
  status?: 'active' | 'closed' | undefined;
  /** A JSON object as text. */
  metadata?: string | undefined;
}

/** A change, with the version that the caller expects, if any. */
export type AccountUpdate = AccountChange & { version?: bigint | undefined };

/**
 * Changes an account; a change without effect makes no event. Throws {@link Refusal}: `account_not_found`, `account_is_system`,
 * `version_conflict`, `account_not_empty` (closing one with a balance, or a group with active accounts), `parent_invalid` (reopening one
 * below a closed group) and `insufficient_funds` (forbidding a negative balance where there is one).
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
    const { head, nowMs } = await lock(client, tenant, { make: false, code });
    const account = (await accountsByCode(client, tenant, [code])).get(code);
    if (!account) throw unknownAccount(code);
    if (account.system) throw new Refusal('account_is_system', `account ${code} is a system account, which can't be changed`);
    if (version !== undefined && version !== account.version) {
      const message = `account ${code} has version ${account.version}, not ${version}`;
      throw refusalOf('version_conflict', message, 'version', version.toString());
    }
    const changes = changesOf(account, change);
    if (changes.length === 0) return account;
    const closes = changes.includes('status') && account.status === 'active';
    const forbids = changes.includes('allow_negative') && account.allowNegative;
    if (closes || forbids) await checkBalances(client, tenant, code);
    if (changes.includes('status')) await checkStatusChange(client, tenant, account);
    if (forbids) await checkNotNegative(client, tenant, account);

    const after = changed(account, change, nextPosition(head, nowMs).createdMs);
    const event = append(head, updatedEvent(after, changes, context), nowMs);
    await updateAccountRow(client, tenant, after);
    await write(client, [event], head, nowMs);
    return after;
  });
}

/** One account. Throws {@link Refusal}: `account_not_found`. */
export async function getAccount(pool: Connections, tenant: string, code: string): Promise<AccountRecord> {
  const [rows] = await readTenant<[AccountRow[]]>(pool, tenant, {
    name: 'get_account',
    text: `select ${accountColumns} from accounts a where a.tenant_id = $1 and a.code = $2`,
    values: [tenant, code],
  });
  if (!rows[0]) throw unknownAccount(code);
  return recordOf(rows[0]);
}

/** Which accounts are listed; null: all. */
export interface AccountFilter {
  type: string | null;
  status: string | null;
  parentCode: string | null;
}

/** A page of accounts, newest first (identifiers are ordered by time). Throws {@link Refusal} for a bad cursor. */
export async function listAccounts(
  pool: Connections,
  tenant: string,
  filter: AccountFilter,
  { limit, cursor }: Page,
): Promise<{ accounts: AccountRecord[]; nextCursor: string }> {
  const scope: CursorScope = ['accounts', tenant, filter];
  const before = positionOf(scope, cursor, uuidPosition) ?? 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  const { type, status, parentCode } = filter;
  const values = [tenant, before, type, status, limit + 1];
  const [rows] = await readTenant<[AccountRow[]]>(pool, tenant, {
    name: parentCode === null ? 'list_accounts' : 'list_accounts_below',
    // A parameter that may be null (`$6 is null or …`) could not use the index of parents.
    text: `select ${accountColumns} from accounts a
      where a.tenant_id = $1 and a.id < $2 and ($3::text is null or a.type = $3) and ($4::text is null or a.status = $4)
        ${parentCode === null ? '' : 'and a.parent_code = $6'}
      order by a.id desc limit $5`,
    values: parentCode === null ? values : [...values, parentCode],
  });
  const page = cutPage(rows, limit, scope, (row) => row.id);
  return { accounts: page.rows.map(recordOf), nextCursor: page.nextCursor };
}

/** The refusal of a request whose own path names an unknown account. */
export function unknownAccount(code: string): Refusal {
  return new Refusal('account_not_found', `account ${code} not found`);
}

async function lock(
  client: Client,
  tenant: string,
  how: { make: true } | { make: false; code: string },
): Promise<{ head: Head; nowMs: number }> {
  const locked = await lockHead(client, tenant, how.make);
  // A tenant without a head has no accounts.
  if (!locked) throw unknownAccount(how.make ? '' : how.code);
  return locked;
}

function write(client: Client, events: LogRow[], head: Head, nowMs: number): Promise<unknown> {
  const tenants = [head.tenant];
  const opened = { tenants, untilMs: activeUntil(nowMs) };
  const rows = { tenants, opened, log: events, posted: [], balances: [] };
  return allSettledOrThrow(sendTogether(client, () => writeLocked(client, [head], rows)));
}

async function accountsByCode(client: Client, tenant: string, codes: string[]): Promise<Map<string, AccountRecord>> {
  const { rows } = await client.query<AccountRow>({
    name: 'accounts_by_code',
    // `offset 0`: each by its whole key. With `= any`, PostgreSQL 15 may read all accounts of a tenant.
    text: `select ${accountColumns} from unnest($2::text[]) as wanted (code),
      lateral (select * from accounts where tenant_id = $1 and code = wanted.code offset 0) a`,
    values: [tenant, codes],
  });
  return new Map(rows.map((row) => [row.code, recordOf(row)]));
}

// A tree is answered as nested messages, which protobuf parsers limit to a depth of 100.
const maxDepth = 32;

async function checkParent(
  client: Client,
  tenant: string,
  parent: AccountRecord | undefined,
  code: string,
  type: AccountType,
): Promise<void> {
  const refuse = (reason: Reason, message: string) => refusalOf(reason, message, 'parent_code', code);
  if (!parent) throw refuse('account_not_found', `account ${code} not found`);
  if (!parent.isGroup) throw refuse('parent_invalid', `account ${code} is not a group`);
  if (parent.type !== type) throw refuse('parent_invalid', `group ${code} holds accounts of the type ${parent.type}, not ${type}`);
  if (parent.status === 'closed') throw refuse('parent_invalid', `group ${code} is closed`);
  const { rows } = await client.query<{ depth: number }>({
    name: 'depth_of_account',
    // `offset 0`: each group by its whole key, also in a table that was not analysed.
    text: `with recursive above (code, depth) as (
        select $2::text collate "C", 1
        union all
        select a.parent_code, above.depth + 1 from above, lateral (
            select parent_code from accounts where tenant_id = $1 and code = above.code offset 0) a
          where a.parent_code is not null and above.depth < $3)
      select max(depth)::int as depth from above`,
    values: [tenant, code, maxDepth],
  });
  if ((rows[0]?.depth ?? 0) >= maxDepth)
    throw refuse('parent_invalid', `group ${code} is ${maxDepth} levels deep, the most that a chart may have`);
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
    text: `select 'has a balance in ' || currency as why from balances
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
      where tenant_id = $1 and account_id = $2 and case $3::text when 'debit' then debits < credits else credits < debits end`,
    values: [tenant, toUuid('acc', account.id), account.normalBalance],
  });
  if (!rows[0]) return;
  const message = `account ${account.accountCode} is below zero in ${rows[0].currency}`;
  throw refusalOf('insufficient_funds', message, 'allow_negative', 'false');
}

// The names of the fields that change, in the record's order.
function changesOf(account: AccountRecord, change: AccountChange): string[] {
  const differs = <Value>(wanted: Value | undefined, is: Value) => wanted !== undefined && wanted !== is;
  return [
    differs(change.name, account.name) ? ['name'] : [],
    differs(change.description, account.description ?? '') ? ['description'] : [],
    differs(change.allowNegative, account.allowNegative) ? ['allow_negative'] : [],
    differs(change.status, account.status) ? ['status'] : [],
    differs(change.metadata, account.metadata) ? ['metadata'] : [],
  ].flat();
}

function changed(account: AccountRecord, wanted: AccountChange & { parentCode?: string | undefined }, atMs: number): AccountRecord {
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

function codeTaken(code: string, why: string): Refusal {
  return new Refusal('account_code_taken', `account code ${code} ${why}`, { field: 'account_code', tag: 'unique', value: code });
}
