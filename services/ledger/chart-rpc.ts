// The RPCs of the chart and of all reads: check the request's fields, then run the use case.
import type { ServiceImpl } from '@connectrpc/connect';
import type { GetHierarchyRequest, LedgerService, NewAccount as NewAccountMessage } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { FairSemaphore } from '../platform/fair-semaphore.ts';
import { Refusal } from './accounting.ts';
import { checkedBlocked, checkedLimits } from './account-rules.ts';
import { getAccount, listAccounts, unknownAccount } from './account-reads.ts';
import { createAccount, createAccounts, setUpChart, updateAccount, type NewAccount } from './accounts.ts';
import { asOfOf, knownOf } from './as-of.ts';
import { getBalanceAsOf, listDailyBalances } from './balances-as-of.ts';
import { getBalance, listBalanceHistory } from './balances.ts';
import { listEvents } from './events.ts';
import { getHold, listHolds } from './hold-reads.ts';
import { nested, readHierarchy, type Wanted } from './hierarchy.ts';
import { checkedLimit, pageOf } from './page.ts';
import { maxLevels } from './parents.ts';
import { getTransaction, listTransactions } from './reads.ts';
import { accountTypes, businessTypes } from './templates.ts';
import {
  checkedCode,
  checkedCurrency,
  checkedId,
  checkedMetadata,
  checkedText,
  checkedTime,
  invalid,
  oneOf,
  optional,
  tenantOf,
} from './fields.ts';
import { auditContextOf, withTraceparent } from './mapping.ts';
import { timeRangeOf, transactionFilterOf } from './search-fields.ts';
import type { TenantCalls } from './tenant-calls.ts';

// How much longer than a part of its chart took a tenant waits for the next one: read in a loop, it leaves most of the time to others' postings.
const hierarchyRest = 4;

/** Handlers of charts, accounts, balances and reads. They throw {@link Refusal} and, if too many calls wait, Overloaded. */
export function chartAndReads({ pool, changed }: TenantCalls): Partial<ServiceImpl<typeof LedgerService>> {
  const hierarchies = new FairSemaphore({ maxPerKey: 1 });
  const partsOf = (tenant: string, wanted: Wanted, signal: AbortSignal) =>
    readHierarchy(pool.of(tenant, signal), tenant, wanted, async (work) => {
      await hierarchies.acquire(tenant, signal);
      const started = performance.now();
      try {
        return await work();
      } finally {
        setTimeout(() => hierarchies.release(tenant), hierarchyRest * (performance.now() - started)).unref();
      }
    });
  return {
    async setUpChart(request, context) {
      const tenant = tenantOf(request);
      const businessType = oneOf('business_type', request.businessType, businessTypes);
      const auditContext = auditContextOf(withTraceparent(request, context));
      return { businessType, ...(await changed(tenant, context, (own) => setUpChart(own, tenant, businessType, auditContext))) };
    },
    async getHierarchy(request, { signal }) {
      const wanted = wantedOf(request);
      return { accounts: await nested(partsOf(tenantOf(request), wanted, signal), wanted) };
    },
    async *streamHierarchy(request, { signal }) {
      for await (const nodes of partsOf(tenantOf(request), wantedOf(request), signal)) yield { nodes };
    },
    async createAccount(request, context) {
      const tenant = tenantOf(request);
      const wanted = newAccountOf(request, '');
      const auditContext = auditContextOf(withTraceparent(request, context));
      return { account: await changed(tenant, context, (own) => createAccount(own, tenant, wanted, auditContext)) };
    },
    async createAccounts(request, context) {
      const tenant = tenantOf(request);
      const skip = oneOf('on_existing', request.onExisting ?? 'error', ['error', 'skip']) === 'skip';
      const batch = { wanted: newAccountsOf(request.accounts), skip, fieldOf: fieldOfItem };
      const auditContext = auditContextOf(withTraceparent(request, context));
      return changed(tenant, context, (own) => createAccounts(own, tenant, batch, auditContext));
    },
    async updateAccount(request, context) {
      const tenant = tenantOf(request);
      const change = {
        name: optional(request.name, (name) => checkedText('name', name, { min: 1, max: 255 })),
        parentCode: optional(request.parentCode, (code) => checkedCode('parent_code', code)),
        description: optional(request.description, (text) => checkedText('description', text, { max: 1000 })),
        allowNegative: request.allowNegative,
        status: optional(request.status, (status) => oneOf('status', status, ['active', 'closed'])),
        metadata: optional(request.metadata, (text) => checkedMetadata(text).text),
        limits: optional(request.limits, ({ limits }) => checkedLimits(limits)),
        blocked: optional(request.blocked, ({ sides }) => checkedBlocked(sides)),
        version: optional(request.version, checkedVersion),
      };
      const code = namedCode(request.accountCode);
      const auditContext = auditContextOf(withTraceparent(request, context));
      return { account: await changed(tenant, context, (own) => updateAccount(own, tenant, code, change, auditContext)) };
    },
    async getAccount(request, { signal }) {
      const tenant = tenantOf(request);
      return { account: await getAccount(pool.of(tenant, signal), tenant, namedCode(request.accountCode)) };
    },
    async listAccounts(request, { signal }) {
      const filter = {
        type: optional(request.type, (type) => oneOf('type', type, accountTypes)) ?? null,
        status: optional(request.status, (status) => oneOf('status', status, ['active', 'closed'])) ?? null,
        parentCode: optional(request.parentCode, (code) => checkedCode('parent_code', code)) ?? null,
      };
      const tenant = tenantOf(request);
      return listAccounts(pool.of(tenant, signal), tenant, filter, pageOf(request));
    },
    async getTransaction(request, { signal }) {
      const id = checkedId('transaction_id', 'txn', request.transactionId);
      const tenant = tenantOf(request);
      return { transaction: await getTransaction(pool.of(tenant, signal), tenant, id) };
    },
    async listTransactions(request, { signal }) {
      const tenant = tenantOf(request);
      return listTransactions(pool.of(tenant, signal), tenant, transactionFilterOf(request), pageOf(request));
    },
    async getHold(request, { signal }) {
      const id = checkedId('hold_id', 'hold', request.holdId);
      const tenant = tenantOf(request);
      return { hold: await getHold(pool.of(tenant, signal), tenant, id) };
    },
    async listHolds(request, { signal }) {
      const filter = {
        status: optional(request.status, (status) => oneOf('status', status, ['pending', 'captured', 'voided', 'expired'])),
        accountCode: optional(request.accountCode, (code) => checkedCode('account_code', code)),
        currency: optional(request.currency, (currency) => checkedCurrency('currency', currency)),
        reference: optional(request.reference, (text) => checkedText('reference', text, { max: 255 })),
        idempotencyKey: optional(request.idempotencyKey, (text) => checkedText('idempotency_key', text, { min: 1, max: 255 })),
        expiresBeforeMs: optional(request.expiresBeforeMs, (ms) => BigInt(checkedTime('expires_before', ms))),
        ...timeRangeOf(request),
      };
      const tenant = tenantOf(request);
      return listHolds(pool.of(tenant, signal), tenant, filter, pageOf(request));
    },
    async getBalance(request, { signal }) {
      const currency = request.currency === '' ? '' : checkedCurrency('currency', request.currency);
      const asOf = asOfOf(request);
      const tenant = tenantOf(request);
      const of = [pool.of(tenant, signal), tenant, namedCode(request.accountCode), currency] as const;
      return { balance: await (asOf === null ? getBalance(...of) : getBalanceAsOf(...of, asOf)) };
    },
    async listDailyBalances(request, { signal }) {
      const currency = request.currency === '' ? '' : checkedCurrency('currency', request.currency);
      const range = { from: request.from, to: request.to, known: knownOf(request) };
      const tenant = tenantOf(request);
      return { days: await listDailyBalances(pool.of(tenant, signal), tenant, namedCode(request.accountCode), currency, range) };
    },
    async listBalanceHistory(request, { signal }) {
      const currency = request.currency === '' ? '' : checkedCurrency('currency', request.currency);
      const code = namedCode(request.accountCode);
      const tenant = tenantOf(request);
      return listBalanceHistory(pool.of(tenant, signal), tenant, code, currency, timeRangeOf(request), pageOf(request));
    },
    async listEvents(request, { signal }) {
      const { afterSequence } = request;
      if (afterSequence < 0n) throw invalid('after_sequence', 'min', afterSequence.toString(), 'after_sequence must not be below zero');
      const tenant = tenantOf(request);
      return listEvents(pool.of(tenant, signal), tenant, afterSequence, checkedLimit(request.limit));
    },
  };
}

function newAccountOf(account: Omit<NewAccountMessage, '$typeName'>, at: string): NewAccount {
  return {
    code: checkedCode(`${at}account_code`, account.accountCode),
    name: checkedText(`${at}name`, account.name, { min: 1, max: 255 }),
    type: oneOf(`${at}type`, account.type, accountTypes),
    normalBalance: optional(account.normalBalance, (side) => oneOf(`${at}normal_balance`, side, ['debit', 'credit'])) ?? null,
    currency: optional(account.currency, (currency) => checkedCurrency(`${at}currency`, currency)) ?? null,
    parentCode: optional(account.parentCode, (code) => checkedCode(`${at}parent_code`, code)) ?? null,
    isGroup: account.isGroup,
    // An empty description is none, as it is in a change.
    description: checkedText(`${at}description`, account.description ?? '', { max: 1000 }) || undefined,
    allowNegative: account.allowNegative ?? true,
    metadata: checkedMetadata(account.metadata, `${at}metadata`).text,
    limits: checkedLimits(account.limits, at),
    blocked: checkedBlocked(account.blocked, at),
  };
}

const maxAccounts = 1000;
const fieldOfItem = (place: number, field: string) => `accounts[${place}].${field}`;

function newAccountsOf(accounts: NewAccountMessage[]): NewAccount[] {
  if (accounts.length === 0) throw invalid('accounts', 'required', '', 'accounts is required');
  if (accounts.length > maxAccounts) {
    throw invalid('accounts', 'max', String(accounts.length), `accounts must have at most ${maxAccounts} items`);
  }
  const codes = new Set<string>();
  return accounts.map((account, place) => {
    const wanted = newAccountOf(account, fieldOfItem(place, ''));
    const field = fieldOfItem(place, 'account_code');
    if (codes.has(wanted.code)) throw invalid(field, 'unique', wanted.code, `${field} ${wanted.code} repeats within the request`);
    codes.add(wanted.code);
    return wanted;
  });
}

function wantedOf(request: Omit<GetHierarchyRequest, '$typeName' | '$unknown'>): Wanted {
  const { root, depth, includeBalances } = request;
  if (depth !== undefined && depth < 1) throw invalid('depth', 'min', String(depth), 'depth must be at least 1');
  if (depth !== undefined && depth > maxLevels) throw invalid('depth', 'max', String(depth), `depth must be at most ${maxLevels}`);
  const asOf = asOfOf(request);
  if (asOf !== null && !includeBalances)
    throw invalid('include', 'required', '', 'include must be balances with as_of, known_at or known_sequence');
  return { root: optional(root, (code) => checkedCode('root', code)), depth, includeBalances, asOf };
}

function checkedVersion(version: bigint): bigint {
  if (version < 1n) throw invalid('version', 'min', version.toString(), 'version must be at least 1');
  return version;
}

// An account that the request itself names: an impossible code is an unknown account, not a malformed field.
function namedCode(code: string): string {
  try {
    return checkedCode('account_code', code);
  } catch (error) {
    if (error instanceof Refusal && code !== '') throw unknownAccount(code.slice(0, 64));
    throw error;
  }
}
