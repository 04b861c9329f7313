// The steps that read: balances, history, transactions, accounts, hierarchy and log, over REST and gRPC, page by page.
import type { LedgerModel } from './ledger-model.ts';
import { account, accounts, balance, hierarchy, history, inOrder, transactions } from './chart-model.ts';
import type { Call } from '../api-clients.ts';
import { Learned, difference, type Expected } from './expectation.ts';
import type { Move } from './posting-moves.ts';
import type { Step } from './steps.ts';
import { Divergence } from './model-run.ts';

const unknownTransaction = 'txn_01jd1zq5v8e6n9w2k4m7p3r5t8';

export const readMoves: Record<string, Move> = {
  async balance(run, tenant, step) {
    const code = run.code(tenant, step['account'], step['currency']);
    const currency = step['currency'] as string | undefined;
    const rest = () => run.rest(tenant, 'GET', `/accounts/code/${code}/balance${currency ? `?currency=${currency}` : ''}`);
    const call = step.via === 'rest' ? rest() : run.grpc(tenant, 'getBalance', { accountCode: code, currency: currency ?? '' });
    await run.call(call, balance(tenant.ledger, code, currency));
  },
  async history(run, tenant, step) {
    const { currency, limit } = step;
    const code = run.code(tenant, step['account'], currency);
    const days = daysOf(tenant.ledger, step);
    const query = new URLSearchParams({ currency, limit: String(limit), ...days });
    const call = (cursor: string): Call =>
      step.via === 'rest'
        ? run.rest(tenant, 'GET', `/accounts/code/${code}/balance/history?${query.toString()}${after(cursor)}`)
        : run.grpc(tenant, 'listBalanceHistory', { accountCode: code, currency, ...span(days), limit, cursor });
    const all = history(tenant.ledger, code, currency, days);
    if (Array.isArray(all)) await run.pages(call, 'history', all, limit);
    else await run.call(call(''), all);
  },
  async transaction(run, tenant, step) {
    const { at, odd } = step['transaction'];
    const all = tenant.ledger.transactions;
    const found = odd === 0 ? undefined : all[at % Math.max(1, all.length)];
    const id = found?.transaction_id.known() ?? unknownTransaction;
    const expected: Expected = found ? { status: 200, data: { transaction: found } } : { refused: [{ code: 'transaction_not_found' }] };
    const rest = () => run.rest(tenant, 'GET', `/transactions/${id}`);
    await run.call(step.via === 'rest' ? rest() : run.grpc(tenant, 'getTransaction', { transactionId: id }), expected);
  },
  async transactions(run, tenant, step) {
    const { limit, at } = step;
    const all = tenant.ledger.transactions;
    const some = all[at % Math.max(1, all.length)];
    const key = some?.['idempotency_key'];
    const values: Record<string, string | undefined> = {
      account_code: some?.entries[0]?.account_code,
      currency: ['NGN', 'USD', 'GBP'][at % 3],
      reference: 'INV-1',
      idempotency_key: key instanceof Learned ? key.known() : key,
    };
    const value = values[step['filter']];
    const filter = value === undefined ? {} : { [step['filter']]: value };
    const days = daysOf(tenant.ledger, step);
    const query = new URLSearchParams({ ...filter, ...days, limit: String(limit) });
    const named = Object.fromEntries(
      Object.entries(filter).map(([name, each]) => [name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), each]),
    );
    const call = (cursor: string): Call =>
      step.via === 'rest'
        ? run.rest(tenant, 'GET', `/transactions?${query.toString()}${after(cursor)}`)
        : run.grpc(tenant, 'listTransactions', { ...named, ...span(days), limit, cursor });
    await run.pages(call, 'transactions', transactions(tenant.ledger, { ...filter, ...days }), limit);
  },
  async account(run, tenant, step) {
    const code = run.code(tenant, step['account']);
    const call =
      step.via === 'rest' ? run.rest(tenant, 'GET', `/accounts/code/${code}`) : run.grpc(tenant, 'getAccount', { accountCode: code });
    await run.call(call, account(tenant.ledger, code));
  },
  async accounts(run, tenant, step) {
    const { limit, at } = step;
    const groups = [...tenant.ledger.accounts.values()].filter((each) => each.is_group);
    const values: Record<string, string | undefined> = {
      type: ['asset', 'liability', 'equity'][at % 3],
      status: ['active', 'closed'][at % 2],
      parent_code: groups[at % Math.max(1, groups.length)]?.account_code,
    };
    const value = values[step['filter']];
    const filter = value === undefined ? {} : { [step['filter']]: value };
    const query = new URLSearchParams({ ...filter, limit: String(limit) });
    const named = 'parent_code' in filter ? { parentCode: value } : filter;
    const call = (cursor: string): Call =>
      step.via === 'rest'
        ? run.rest(tenant, 'GET', `/accounts?${query.toString()}${after(cursor)}`)
        : run.grpc(tenant, 'listAccounts', { ...named, limit, cursor });
    await run.pages(call, 'accounts', accounts(tenant.ledger, filter), limit);
  },
  async hierarchy(run, tenant, step) {
    const balances = step['balances'] as boolean;
    const rest = () => run.rest(tenant, 'GET', `/accounts/hierarchy${balances ? '?include=balances' : ''}`);
    const call = step.via === 'rest' ? rest() : run.grpc(tenant, 'getHierarchy', { includeBalances: balances });
    const expected = hierarchy(tenant.ledger, null, balances);
    await run.call(call, ({ code, data }) =>
      code === undefined ? difference(expected, inOrder(data.accounts), 'accounts') : `refused as ${code}`,
    );
  },
  async events(run, tenant, step) {
    const { log } = tenant.ledger;
    const limit = step['limit'] as number;
    const from = (step['after'] as number) % (log.length + 2);
    const rest = () => run.rest(tenant, 'GET', `/events?after_sequence=${from}&limit=${limit}`);
    const call = step.via === 'rest' ? rest() : run.grpc(tenant, 'listEvents', { afterSequence: BigInt(from), limit });
    const events = log.slice(from, from + limit).map(({ changes: _, ...event }, index) => ({ ...event, sequence: from + index + 1 }));
    const seen = await run.call(call, { status: 200, data: { events } });
    const more = seen.status === null ? seen.data.has_more : seen.data.pagination.has_more;
    const wrong = difference(from + limit < log.length, more, 'has_more');
    if (wrong !== null) throw new Divergence(wrong);
  },
};

const dayMs = 86_400_000;

/** A range of days around one of the transactions, which it includes or just excludes. */
function daysOf({ transactions: all }: LedgerModel, { days, at }: Step): { start_date?: string; end_date?: string } {
  const some = all[at % Math.max(1, all.length)];
  if (!some) return {};
  const day = (more: number) => new Date(Date.parse(some.created_at.known().slice(0, 10)) + more * dayMs).toISOString().slice(0, 10);
  const asked: Record<string, { start_date?: string; end_date?: string }> = {
    that: { start_date: day(0), end_date: day(1) },
    before: { start_date: day(-1), end_date: day(0) },
    since: { start_date: day(0) },
    later: { start_date: day(1) },
    until: { end_date: day(0) },
  };
  return asked[days] ?? {};
}

function span({ start_date, end_date }: { start_date?: string; end_date?: string }): { startMs?: bigint; endMs?: bigint } {
  return {
    ...(start_date !== undefined && { startMs: BigInt(Date.parse(start_date)) }),
    ...(end_date !== undefined && { endMs: BigInt(Date.parse(end_date)) }),
  };
}

const after = (cursor: string) => (cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`);
