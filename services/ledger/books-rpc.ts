// The RPCs of the chart and of every read: what a caller may send, checked field by field, then the use case.
import type { HandlerContext, ServiceImpl } from '@connectrpc/connect';
import type { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { currencies } from '../platform/money.ts';
import type { Pool } from '../platform/postgres.ts';
import { traceparentOf } from '../platform/trace.ts';
import { Refusal } from './accounting.ts';
import { createAccount, getAccount, listAccounts, setUpChart, unknownAccount, updateAccount } from './accounts.ts';
import { getBalance, listBalanceHistory } from './balances.ts';
import type { By } from './chart.ts';
import { listEvents } from './events.ts';
import { getHierarchy } from './hierarchy.ts';
import { checkedLimit } from './page.ts';
import { getTransaction, listTransactions } from './reads.ts';
import type { Span } from './span.ts';
import { accountTypes, businessTypes } from './templates.ts';
import { Turns } from './turns.ts';
import { checkedCode, checkedId, checkedMetadata, checkedText, traced } from './wire.ts';

/**
 * The handlers of charts, accounts, balances and of everything that only reads. They throw {@link Refusal}. `committed` is told the tenant
 * (UUID) whose log has grown, after the commit.
 */
export function chartAndReads(pool: Pool, committed: (tenant: string) => void): Partial<ServiceImpl<typeof LedgerService>> {
  // A tenant's changes wait for his head anyway: they wait here, and not each with a connection that everybody's reads need.
  const turns = new Turns();
  const changed = async <Answer>(tenant: string, { signal }: HandlerContext, change: () => Promise<Answer>): Promise<Answer> => {
    const answer = await turns.take(tenant, signal, change);
    committed(tenant);
    return answer;
  };
  return {
    async setUpChart(request, context) {
      const tenant = tenantOf(request);
      const businessType = oneOf('business_type', request.businessType, businessTypes);
      const by = byOf(traced(request, context));
      return { businessType, ...(await changed(tenant, context, () => setUpChart(pool, tenant, businessType, by))) };
    },
    async getHierarchy(request, { signal }) {
      return { accounts: await getHierarchy(pool, tenantOf(request), request.includeBalances, signal) };
    },
    async createAccount(request, context) {
      const tenant = tenantOf(request);
      const wanted = {
        code: checkedCode('account_code', request.accountCode),
        name: checkedText('name', request.name, { min: 1, max: 255 }),
        type: oneOf('type', request.type, accountTypes),
        normalBalance: optional(request.normalBalance, (side) => oneOf('normal_balance', side, ['debit', 'credit'])) ?? null,
        currency: optional(request.currency, (currency) => oneOf('currency', currency, currencies)) ?? null,
        parentCode: optional(request.parentCode, (code) => checkedCode('parent_code', code)) ?? null,
        isGroup: request.isGroup,
        // An empty description is none, as it is in a change.
        description: checkedText('description', request.description ?? '', { max: 1000 }) || undefined,
        allowNegative: request.allowNegative ?? true,
        metadata: checkedMetadata(request.metadata).text,
      };
      const by = byOf(traced(request, context));
      return { account: await changed(tenant, context, () => createAccount(pool, tenant, wanted, by)) };
    },
    async updateAccount(request, context) {
      const tenant = tenantOf(request);
      const change = {
        name: optional(request.name, (name) => checkedText('name', name, { min: 1, max: 255 })),
        description: optional(request.description, (text) => checkedText('description', text, { max: 1000 })),
        allowNegative: request.allowNegative,
        status: optional(request.status, (status) => oneOf('status', status, ['active', 'closed'])),
        metadata: optional(request.metadata, (text) => checkedMetadata(text).text),
        version: request.version,
      };
      const code = namedCode(request.accountCode);
      const by = byOf(traced(request, context));
      return { account: await changed(tenant, context, () => updateAccount(pool, tenant, code, change, by)) };
    },
    async getAccount(request) {
      return { account: await getAccount(pool, tenantOf(request), namedCode(request.accountCode)) };
    },
    async listAccounts(request) {
      const filter = {
        type: optional(request.type, (type) => oneOf('type', type, accountTypes)) ?? null,
        status: optional(request.status, (status) => oneOf('status', status, ['active', 'closed'])) ?? null,
        parentCode: optional(request.parentCode, (code) => checkedCode('parent_code', code)) ?? null,
      };
      return listAccounts(pool, tenantOf(request), filter, pageOf(request));
    },
    async getTransaction(request) {
      const id = checkedId('transaction_id', 'txn', request.transactionId);
      return { transaction: await getTransaction(pool, tenantOf(request), id) };
    },
    async listTransactions(request) {
      const filter = {
        accountCode: optional(request.accountCode, (code) => checkedCode('account_code', code)),
        currency: optional(request.currency, (currency) => oneOf('currency', currency, currencies)),
        reference: optional(request.reference, (text) => checkedText('reference', text, { max: 255 })),
        idempotencyKey: optional(request.idempotencyKey, (text) => checkedText('idempotency_key', text, { min: 1, max: 255 })),
        ...spanOf(request),
      };
      return listTransactions(pool, tenantOf(request), filter, pageOf(request));
    },
    async getBalance(request) {
      const currency = request.currency === '' ? '' : oneOf('currency', request.currency, currencies);
      return { balance: await getBalance(pool, tenantOf(request), namedCode(request.accountCode), currency) };
    },
    async listBalanceHistory(request) {
      const currency = request.currency === '' ? '' : oneOf('currency', request.currency, currencies);
      const code = namedCode(request.accountCode);
      return listBalanceHistory(pool, tenantOf(request), code, currency, spanOf(request), pageOf(request));
    },
    async listEvents(request) {
      const { afterSequence } = request;
      if (afterSequence < 0n) throw invalid('after_sequence', 'min', afterSequence.toString(), 'after_sequence must not be below zero');
      return listEvents(pool, tenantOf(request), afterSequence, checkedLimit(request.limit));
    },
  };
}

function invalid(field: string, tag: string, value: string, message: string): Refusal {
  return new Refusal('validation_failed', message, { field, tag, value: value.slice(0, 255) });
}

function tenantOf(request: { tenantId: string }): string {
  return checkedId('tenant_id', 'tenant', request.tenantId);
}

function byOf(request: { actor: string; requestId: string; traceparent: string }): By {
  return {
    actor: request.actor === '' ? 'internal' : checkedText('actor', request.actor, { max: 255 }),
    requestId: checkedText('request_id', request.requestId, { max: 255 }),
    traceparent: traceparentOf(request.traceparent),
  };
}

function pageOf(request: { limit: number; cursor: string }) {
  return { limit: checkedLimit(request.limit), cursor: request.cursor };
}

// The last millisecond of the year 9999: what PostgreSQL and ISO 8601 with four digits can tell.
const latestMs = 253_402_300_799_999n;

function spanOf({ startMs, endMs }: Span): Span {
  for (const [field, time] of Object.entries({ start_date: startMs, end_date: endMs })) {
    if (time !== undefined && (time < 0n || time > latestMs)) {
      throw invalid(field, 'datetime', time.toString(), `${field} must be from 1970 to 9999`);
    }
  }
  return { startMs, endMs };
}

function optional<Value, Checked>(value: Value | undefined, check: (value: Value) => Checked): Checked | undefined {
  return value === undefined ? undefined : check(value);
}

function oneOf<const Word extends string>(field: string, value: string, words: readonly Word[]): Word {
  const word = words.find((each) => each === value);
  if (word === undefined) throw invalid(field, value === '' ? 'required' : 'oneof', value, `${field} must be one of ${words.join(' ')}`);
  return word;
}

// The account that the request itself names: a code that none can have is an unknown one.
function namedCode(code: string): string {
  try {
    return checkedCode('account_code', code);
  } catch (error) {
    if (error instanceof Refusal && code !== '') throw unknownAccount(code.slice(0, 64));
    throw error;
  }
}
