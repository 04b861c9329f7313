// Accounts as records, rows and events, and the statements that write them.
import { create, toBinary } from '@bufbuild/protobuf';
import { v7 } from 'uuid';
import {
  AccountCreatedSchema,
  AccountRecordSchema,
  AccountUpdatedSchema,
  type AccountRecord,
} from '../../proto/gen/ledger/v1/events_pb.js';
import { toId, toUuid } from '../platform/ids.ts';
import type { Client } from '../platform/postgres.ts';
import { ruleColumns, rulesOfRow, type RuleColumns, type RulesOfRecord } from './account-rules.ts';
import type { Head, NewEvent } from './log.ts';
import { systemLine, type BusinessType, type TemplateAccount } from './templates.ts';

/** Who made a change and in which request, for the log. */
export interface AuditContext {
  actor: string;
  requestId: string;
  /** Trace context of the request. */
  traceparent?: string | null;
}

/** A position in a tenant's log. */
export interface LogPosition {
  sequence: bigint;
  /** Milliseconds since the Unix epoch. */
  createdMs: number;
}

/** The position of the next event appended to this head. `nowMs` is as for `append`. */
export function nextPosition(head: Head, nowMs: number): LogPosition {
  return { sequence: head.sequence + 1n, createdMs: Math.max(nowMs, head.lastMs) };
}

/** What a new account has besides a template's line. */
export interface AccountTexts extends Partial<RulesOfRecord> {
  description?: string | undefined;
  /** A JSON object as text. */
  metadata?: string;
}

/** A new account. Its id is ordered by its position in the log: the newest account has the highest id. */
export function newAccount(
  line: TemplateAccount,
  position: LogPosition,
  { description, metadata = '{}', limits = [], blocked = [] }: AccountTexts = {},
): AccountRecord {
  const uuid = v7({ msecs: position.createdMs, seq: Number(position.sequence & 0xffffffffn) });
  return create(AccountRecordSchema, {
    id: toId('acc', uuid),
    accountCode: line.code,
    name: line.name,
    type: line.type,
    normalBalance: line.normalBalance,
    currency: line.currency ?? undefined,
    parentCode: line.parentCode ?? undefined,
    isGroup: line.isGroup,
    description,
    allowNegative: line.allowNegative,
    status: 'active',
    system: line.system,
    metadata,
    version: 1n,
    createdMs: BigInt(position.createdMs),
    updatedMs: BigInt(position.createdMs),
    limits,
    blocked,
  });
}

/** A system account that a tenant has none of yet. */
export function newSystemAccount(code: string, position: LogPosition): AccountRecord {
  return newAccount(systemLine(code), position);
}

/** The event of a new account; `template` is null if no template made it. */
export function createdEvent(
  account: AccountRecord,
  template: BusinessType | null,
  { actor, requestId, traceparent }: AuditContext,
): NewEvent {
  const message = create(AccountCreatedSchema, { account, template: template ?? undefined });
  return { type: 'account.created', actor, requestId, traceparent, payload: toBinary(AccountCreatedSchema, message) };
}

/** The event of a changed account; `changes` names the fields. */
export function updatedEvent(account: AccountRecord, changes: string[], { actor, requestId, traceparent }: AuditContext): NewEvent {
  const message = create(AccountUpdatedSchema, { account, changes });
  return { type: 'account.updated', actor, requestId, traceparent, payload: toBinary(AccountUpdatedSchema, message) };
}

/** A row of `accounts` as {@link accountColumns} reads it. */
export interface AccountRow extends RuleColumns {
  id: string;
  code: string;
  name: string;
  type: string;
  normal_balance: string;
  currency: string | null;
  parent_code: string | null;
  is_group: boolean;
  description: string | null;
  allow_negative: boolean;
  status: string;
  system: boolean;
  metadata: string;
  version: bigint;
  created_ms: bigint;
  updated_ms: bigint;
}

/** The columns of `accounts`, named `a`. */
export const accountColumns = `a.id, a.code, a.name, a.type, a.normal_balance, a.currency, a.parent_code, a.is_group, a.description,
  a.allow_negative, a.status, a.system, a.metadata, a.version, a.limits, a.blocked,
  floor(extract(epoch from a.created_at) * 1000)::bigint as created_ms, floor(extract(epoch from a.updated_at) * 1000)::bigint as updated_ms`;

/** An account's record from its row. */
export function recordOf(row: AccountRow): AccountRecord {
  return create(AccountRecordSchema, {
    id: toId('acc', row.id),
    accountCode: row.code,
    name: row.name,
    type: row.type,
    normalBalance: row.normal_balance,
    currency: row.currency ?? undefined,
    parentCode: row.parent_code ?? undefined,
    isGroup: row.is_group,
    description: row.description ?? undefined,
    allowNegative: row.allow_negative,
    status: row.status,
    system: row.system,
    metadata: row.metadata,
    version: row.version,
    createdMs: row.created_ms,
    updatedMs: row.updated_ms,
    ...rulesOfRow(row),
  });
}

/** An account to be inserted, and its tenant (UUID). */
export interface NewAccount {
  tenant: string;
  account: AccountRecord;
}

/** Inserts accounts in one statement, parents and children in any order. Call it with the heads locked and the codes free. */
export function insertAccounts(client: Client, rows: NewAccount[]): Promise<unknown> {
  return client.query({
    name: 'insert_accounts',
    text: 'insert into accounts select * from json_populate_recordset(null::accounts, $1)',
    values: [JSON.stringify(rows.map(({ tenant, account }) => insertedRow(tenant, account)))],
  });
}

function insertedRow(tenant: string, account: AccountRecord): Record<string, unknown> {
  return {
    tenant_id: tenant,
    id: toUuid('acc', account.id),
    code: account.accountCode,
    name: account.name,
    type: account.type,
    normal_balance: account.normalBalance,
    currency: account.currency,
    parent_code: account.parentCode,
    is_group: account.isGroup,
    description: account.description,
    allow_negative: account.allowNegative,
    status: account.status,
    system: account.system,
    metadata: account.metadata,
    version: account.version.toString(),
    created_at: new Date(Number(account.createdMs)),
    updated_at: new Date(Number(account.updatedMs)),
    ...ruleColumns(account),
  };
}

/** Updates an account; the transaction rolls back if the row does not have the version before. */
export function updateAccountRow(client: Client, tenant: string, account: AccountRecord): Promise<unknown> {
  const { limits, blocked } = ruleColumns(account);
  return client.query({
    name: 'update_account',
    text: `with changed as (
        update accounts set name = $3, parent_code = $4, description = $5, allow_negative = $6, status = $7, metadata = $8, version = $9,
          updated_at = to_timestamp($10::float8 / 1000.0), limits = $11, blocked = $12
        where tenant_id = $1 and id = $2 and version = $9::bigint - 1 returning 1)
      select must_change(1, (select count(*) from changed), 'accounts')`,
    values: [
      tenant,
      toUuid('acc', account.id),
      account.name,
      account.parentCode ?? null,
      account.description ?? null,
      account.allowNegative,
      account.status,
      account.metadata,
      account.version,
      Number(account.updatedMs),
      limits,
      blocked,
    ],
  });
}
