// A tenant's rules: velocity limits, made, changed and deleted under its head, and reads of them and of what they have counted.
import { create, toBinary } from '@bufbuild/protobuf';
import { DefinitionChangedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { DefinitionSchema, GetUsageResponseSchema, type Definition, type GetUsageResponse } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { cutPage, type CursorScope } from '../platform/cursor.ts';
import { newId } from '../platform/ids.ts';
import { toDecimal } from '../platform/money.ts';
import { epochMs, inTransaction, readTenant, type Client, type Connections } from '../platform/postgres.ts';
import { accountsByCode, unknownAccount } from './account-reads.ts';
import { Refusal } from './accounting.ts';
import { writeEvents } from './accounts.ts';
import { nextPosition, type AuditContext } from './chart.ts';
import { invalid } from './fields.ts';
import { changedTerms, limitOf, limitRecordOf, newTerms, termsOf, type LimitRecord, type LimitTerms } from './limit-record.ts';
import { append, lockHead, type NewEvent } from './log.ts';
import { positionOf, type Page } from './page.ts';
import { selectAncestors } from './parents.ts';
import { stepsOf, usedAt, windowAt } from './velocity.ts';

/** The kinds of rules. */
export const kinds = ['limit'] as const;
export type Kind = (typeof kinds)[number];

/** The most limits of a tenant. */
export const maxLimits = 1_000;

/** A rule to be made or changed. */
export interface WantedDefinition {
  /** Null: a new one. */
  id: string | null;
  /** A JSON object as text: all fields, or those to change. */
  record: string;
  /** An unknown id is an error. */
  mustExist: boolean;
}

interface DefinitionRow {
  id: string;
  version: bigint;
  record: string;
}

/**
 * Makes a limit, or changes the one of this id; without effect there is no event. Throws {@link Refusal}: `limit_not_found`,
 * `version_conflict`, `account_not_found`, `account_is_group`, `currency_not_allowed`, `too_many`, and `validation_failed` naming the field.
 */
export function putDefinition(
  pool: Connections,
  tenant: string,
  kind: Kind,
  { id, record: text, mustExist }: WantedDefinition,
  context: AuditContext,
): Promise<Definition> {
  return inTransaction(pool, [tenant], async (client) => {
    const locked = await lockHead(client, tenant, false);
    const before = locked && id !== null ? await storedLimit(client, tenant, id) : null;
    if (!before && mustExist) throw unknownLimit();
    const terms = before ? changedTerms(before, text) : newTerms(text);
    // A tenant without a head has no accounts.
    if (!locked) throw unknownAccountField(terms.account_code);
    const { head, nowMs } = locked;
    if (before && JSON.stringify(termsOf(before)) === JSON.stringify(terms)) return definitionOf(kind, before);
    if (!before) await checkNew(client, tenant, terms);
    const now = new Date(nextPosition(head, nowMs).createdMs).toISOString();
    const record: LimitRecord = {
      limit_id: before?.limit_id ?? id ?? newId('limit'),
      ...terms,
      version: (before?.version ?? 0) + 1,
      created_at: before?.created_at ?? now,
      updated_at: now,
    };
    const definition = definitionOf(kind, record);
    await client.query({
      name: 'put_definition',
      text: `insert into definitions (tenant_id, kind, id, version, record) values ($1, $2, $3, $4, $5)
        on conflict (tenant_id, kind, id) do update set version = excluded.version, record = excluded.record`,
      values: [tenant, kind, definition.id, definition.version, definition.record],
    });
    await writeEvents(client, [append(head, changedEvent(definition, context), nowMs)], head, nowMs);
    return definition;
  });
}

/** Deletes a limit with what it has counted. Throws {@link Refusal}: `limit_not_found`. */
export function deleteDefinition(pool: Connections, tenant: string, kind: Kind, id: string, context: AuditContext): Promise<void> {
  return inTransaction(pool, [tenant], async (client) => {
    const locked = await lockHead(client, tenant, false);
    const before = locked && (await storedLimit(client, tenant, id));
    if (!before) throw unknownLimit();
    const { head, nowMs } = locked;
    await client.query({
      name: 'delete_definition',
      text: `with counted as (delete from velocity where tenant_id = $1 and limit_id = $3)
        delete from definitions where tenant_id = $1 and kind = $2 and id = $3`,
      values: [tenant, kind, id],
    });
    const deleted = { kind, id, version: BigInt(before.version + 1), record: undefined };
    await writeEvents(client, [append(head, changedEvent(deleted, context), nowMs)], head, nowMs);
  });
}

/** One rule. Throws {@link Refusal}: `limit_not_found`. */
export async function getDefinition(pool: Connections, tenant: string, kind: Kind, id: string): Promise<Definition> {
  const [rows] = await readTenant<[DefinitionRow[]]>(pool, tenant, {
    name: 'get_definition',
    text: 'select id, version, record from definitions where tenant_id = $1 and kind = $2 and id = $3',
    values: [tenant, kind, id],
  });
  if (!rows[0]) throw unknownLimit();
  return create(DefinitionSchema, { kind, ...rows[0] });
}

/** A page of rules, newest first (identifiers are ordered by time). Throws {@link Refusal} for a bad cursor. */
export async function listDefinitions(
  pool: Connections,
  tenant: string,
  kind: Kind,
  { limit, cursor }: Page,
): Promise<{ definitions: Definition[]; nextCursor: string }> {
  const scope: CursorScope = ['definitions', tenant, { kind }];
  const before = positionOf(scope, cursor, /^limit_[0-9a-z]{26}$/);
  const [rows] = await readTenant<[DefinitionRow[]]>(pool, tenant, {
    name: 'list_definitions',
    text: `select id, version, record from definitions where tenant_id = $1 and kind = $2 and id < $3 order by id desc limit $4`,
    // Behind all identifiers.
    values: [tenant, kind, before ?? '~', limit + 1],
  });
  const page = cutPage(rows, limit, scope, (row) => row.id);
  return { definitions: page.rows.map((row) => create(DefinitionSchema, { kind, ...row })), nextCursor: page.nextCursor };
}

/**
 * What a limit has counted in its present window. `accountCode`: whose use, where the limit counts each account of a group. Throws
 * {@link Refusal}: `limit_not_found`, `account_not_found` for an account that the limit does not count.
 */
export async function getUsage(pool: Connections, tenant: string, id: string, accountCode: string | null): Promise<GetUsageResponse> {
  const [limits, steps, ancestors] = await readTenant<[{ record: string; now_ms: number }[], { steps: string }[], { above: string[] }[]]>(
    pool,
    tenant,
    {
      name: 'get_counting_limit',
      text: `select record, ${epochMs('greatest(clock_timestamp(), last_at)')} as now_ms from definitions natural join heads
        where tenant_id = $1 and kind = 'limit' and id = $2`,
      values: [tenant, id],
    },
    {
      name: 'get_usage',
      text: `select steps from velocity where tenant_id = $1 and limit_id = $2 and subject = coalesce($3, (
        select record::json ->> 'account_code' from definitions where tenant_id = $1 and kind = 'limit' and id = $2))`,
      values: [tenant, id, accountCode],
    },
    selectAncestors(tenant, accountCode === null ? [] : [accountCode]),
  );
  if (!limits[0]) throw unknownLimit();
  const limit = limitOf(limitRecordOf(limits[0].record));
  const subject = accountCode ?? limit.accountCode;
  if (limit.applies === 'each') {
    if (accountCode === null)
      throw invalid('account_code', 'required', '', 'account_code is required: the limit counts each account by itself');
    const isBelow = subject !== limit.accountCode && ancestors[0]?.above.includes(limit.accountCode);
    if (isBelow !== true) throw unknownAccount(subject);
  } else if (subject !== limit.accountCode) throw unknownAccount(subject);
  const used = usedAt(stepsOf(steps[0]?.steps ?? '[]'), limit.window, limits[0].now_ms);
  const { startMs, endMs } = windowAt(limit.window, limits[0].now_ms);
  const left = limit.maxAmount === null ? null : limit.maxAmount - used.amount;
  return create(GetUsageResponseSchema, {
    limitId: id,
    accountCode: subject,
    amount: toDecimal(used.amount),
    count: BigInt(used.count),
    ...(left !== null && { remainingAmount: toDecimal(left < 0n ? 0n : left) }),
    ...(limit.maxCount !== null && { remainingCount: BigInt(Math.max(0, limit.maxCount - used.count)) }),
    windowStartMs: BigInt(startMs),
    windowEndMs: BigInt(endMs),
  });
}

async function storedLimit(client: Client, tenant: string, id: string): Promise<LimitRecord | null> {
  const { rows } = await client.query<{ record: string }>({
    name: 'stored_limit',
    text: `select record from definitions where tenant_id = $1 and kind = 'limit' and id = $2`,
    values: [tenant, id],
  });
  return rows[0] ? limitRecordOf(rows[0].record) : null;
}

async function checkNew(client: Client, tenant: string, { account_code: code, applies, currency }: LimitTerms): Promise<void> {
  const account = (await accountsByCode(client, tenant, [code])).get(code);
  if (!account) throw unknownAccountField(code);
  if (!account.isGroup && applies !== 'account') {
    throw invalid('applies', 'oneof', applies, `applies must be account, because account ${code} is no group`);
  }
  if (account.isGroup && applies === 'account') {
    const blame = { field: 'account_code', tag: 'account_is_group', value: code };
    throw new Refusal('account_is_group', `account ${code} is a group, whose limits apply to each account below it or to their sum`, blame);
  }
  if (!account.isGroup && account.currency !== undefined && account.currency !== currency) {
    const blame = { field: 'currency', tag: 'currency_not_allowed', value: currency };
    throw new Refusal('currency_not_allowed', `account ${code} holds ${account.currency} only, not ${currency}`, blame);
  }
  const { rows } = await client.query<{ count: bigint }>({
    name: 'count_limits',
    text: `select count(*) from definitions where tenant_id = $1 and kind = 'limit'`,
    values: [tenant],
  });
  if ((rows[0]?.count ?? 0n) < maxLimits) return;
  const blame = { field: 'limits', tag: 'too_many', value: String(maxLimits) };
  throw new Refusal('too_many', `a tenant has at most ${maxLimits} limits`, blame);
}

function definitionOf(kind: Kind, record: LimitRecord): Definition {
  return create(DefinitionSchema, { kind, id: record.limit_id, version: BigInt(record.version), record: JSON.stringify(record) });
}

function changedEvent(
  { kind, id, version, record }: Pick<Definition, 'kind' | 'id' | 'version'> & { record: string | undefined },
  { actor, requestId, traceparent }: AuditContext,
): NewEvent {
  const payload = toBinary(DefinitionChangedSchema, create(DefinitionChangedSchema, { kind, id, version, record }));
  return { type: 'definition.changed', actor, requestId, traceparent, payload };
}

function unknownLimit(): Refusal {
  return new Refusal('limit_not_found', 'limit not found');
}

function unknownAccountField(code: string): Refusal {
  return new Refusal('account_not_found', `account ${code} not found`, { field: 'account_code', tag: 'account_not_found', value: code });
}
