// Reads of balances: the current one and its history.
import { create } from '@bufbuild/protobuf';
import { BalanceChangeSchema, BalanceSchema, type Balance, type BalanceChange } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { cutPage, type CursorScope } from '../platform/cursor.ts';
import { toId } from '../platform/ids.ts';
import { toDecimal } from '../platform/money.ts';
import { epochMs, readTenant, type Connections, type Statement } from '../platform/postgres.ts';
import { Refusal, net, outgoing, type Reason, type Side } from './accounting.ts';
import { unknownAccount } from './account-reads.ts';
import { positionOf, type Page } from './page.ts';
import { QueryParameters, logRangeOf, type TimeRange } from './time-range.ts';

/** What a balance needs of its account. */
export interface AccountRow {
  id: string;
  normal_balance: Side;
  currency: string | null;
  is_group: boolean;
}

interface BalanceRow extends AccountRow {
  debits: string | null;
  credits: string | null;
  pending_debits: string | null;
  pending_credits: string | null;
  version: bigint | null;
  updated_ms: bigint | null;
}

/** The requested currency, or the account's only one. Throws {@link Refusal} as {@link getBalance}. */
export function currencyOf(code: string, account: Pick<AccountRow, 'currency' | 'is_group'>, requested: string): string {
  const refuse = (reason: Reason, tag: string, message: string, field = 'currency', value = requested) =>
    new Refusal(reason, message, { field, tag, value });
  if (account.is_group) {
    throw refuse('account_is_group', 'account_is_group', `account ${code} is a group and has no balance`, 'account_code', code);
  }
  if (requested === '' && account.currency === null) throw refuse('validation_failed', 'required', 'currency is required');
  if (requested !== '' && account.currency !== null && account.currency !== requested) {
    throw refuse('currency_not_allowed', 'currency_not_allowed', `account ${code} holds ${account.currency} only, not ${requested}`);
  }
  return account.currency ?? requested;
}

/**
 * An account's balance in a currency; empty: the account's only one. Zeros and version 0 where nothing was posted. Throws
 * {@link Refusal}: `account_not_found`, `account_is_group`, `validation_failed` (a currency is required), `currency_not_allowed`.
 */
export async function getBalance(pool: Connections, tenant: string, code: string, currency: string): Promise<Balance> {
  const [rows] = await readTenant<[BalanceRow[]]>(pool, tenant, {
    name: 'get_balance',
    text: `select a.id, a.normal_balance, a.currency, a.is_group, b.debits::text, b.credits::text, b.pending_debits::text,
        b.pending_credits::text, b.version, ${epochMs('b.updated_at')}::bigint as updated_ms
      from accounts a
      left join balances b on b.tenant_id = a.tenant_id and b.account_id = a.id and b.currency = coalesce(nullif($3, ''), a.currency)
      where a.tenant_id = $1 and a.code = $2`,
    values: [tenant, code, currency],
  });
  const row = rows[0];
  if (!row) throw unknownAccount(code);
  const balanceCurrency = currencyOf(code, row, currency);
  const account = { normalBalance: row.normal_balance };
  const balance = {
    debits: BigInt(row.debits ?? 0),
    credits: BigInt(row.credits ?? 0),
    pendingDebits: BigInt(row.pending_debits ?? 0),
    pendingCredits: BigInt(row.pending_credits ?? 0),
    version: row.version ?? 0n,
  };
  return create(BalanceSchema, {
    accountId: toId('acc', row.id),
    accountCode: code,
    currency: balanceCurrency,
    balance: toDecimal(net(account, balance)),
    debits: toDecimal(balance.debits),
    credits: toDecimal(balance.credits),
    pendingDebits: toDecimal(balance.pendingDebits),
    pendingCredits: toDecimal(balance.pendingCredits),
    available: toDecimal(net(account, balance) - outgoing(account, balance)),
    version: balance.version,
    updatedMs: row.updated_ms ?? undefined,
  });
}

/** The statement that reads an account as an {@link AccountRow}. */
export function accountStatement(tenant: string, code: string): Statement {
  return {
    name: 'account_currency',
    text: 'select id, normal_balance, currency, is_group from accounts where tenant_id = $1 and code = $2',
    values: [tenant, code],
  };
}

interface HistoryRow {
  sequence: bigint;
  position: number;
  side: string;
  amount: bigint;
  balance_after: string;
  transaction: string;
  created_ms: number;
}

// Position in the log, and the entry's within its transaction.
const entryPosition = /^[0-9]{1,18} [0-9]{1,9}$/;

/** A page of the entries of one account and currency, newest first. Throws {@link Refusal} as {@link getBalance}, and for a bad cursor. */
export async function listBalanceHistory(
  pool: Connections,
  tenant: string,
  code: string,
  currency: string,
  timeRange: TimeRange,
  { limit, cursor }: Page,
): Promise<{ history: BalanceChange[]; nextCursor: string }> {
  const scope: CursorScope = ['history', tenant, { code, currency, ...timeRange }];
  const before = positionOf(scope, cursor, entryPosition)?.split(' ');
  const query = new QueryParameters(tenant);
  const account = `accounts a where a.tenant_id = $1 and a.code = ${query.value(code)}`;
  const requested = query.value(currency);
  const range = logRangeOf(query, timeRange);
  const conditions = [
    'e.tenant_id = $1',
    `e.account_id = (select a.id from ${account})`,
    // A sub-select, because row-level security keeps a coalesce next to a column out of an index's condition.
    `e.currency = (select coalesce(nullif(${requested}, ''), (select a.currency from ${account})))`,
    ...(before ? [`(e.sequence, e.position) < (${before.map((part) => `${query.value(part)}::bigint`).join(', ')})`] : []),
    ...range.keep('e.sequence'),
  ];
  const [accounts, rows] = await readTenant<[AccountRow[], HistoryRow[]]>(pool, tenant, accountStatement(tenant, code), {
    text: `${range.with}, page as materialized (
        select e.sequence, e.position, e.side, e.amount, e.balance_after::text from entries e
        where ${conditions.join(' and ')} order by e.sequence desc, e.position desc limit ${query.value(limit + 1)})
      select page.*, t.* from page cross join lateral (
        select t.id as transaction, ${epochMs('t.created_at')} as created_ms from transactions t
        where t.tenant_id = $1 and t.sequence = page.sequence limit 1) as t
      order by page.sequence desc, page.position desc`,
    values: query.values,
  });
  if (!accounts[0]) throw unknownAccount(code);
  currencyOf(code, accounts[0], currency);
  const page = cutPage(rows, limit, scope, (row) => `${row.sequence} ${row.position}`);
  const history = page.rows.map((row) =>
    create(BalanceChangeSchema, {
      transactionId: toId('txn', row.transaction),
      sequence: row.sequence,
      side: row.side,
      amount: toDecimal(row.amount),
      balanceAfter: toDecimal(BigInt(row.balance_after)),
      createdMs: BigInt(row.created_ms),
    }),
  );
  return { history, nextCursor: page.nextCursor };
}
