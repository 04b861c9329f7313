// The steps that only read: balances, their history, transactions, accounts, the tree and the log, through both doors and page by page.
import type { Books } from './books.ts';
import { account, accounts, balance, hierarchy, history, inOrder, transactions } from './chart.ts';
import type { Call } from './doors.ts';
import { Learned, difference, type Expected } from './expectation.ts';
import type { Move } from './ledger-moves.ts';
import type { Step } from './steps.ts';
import { Divergence } from './world.ts';

const unknownTransaction = 'txn_01jd1zq5v8e6n9w2k4m7p3r5t8';

export const readMoves: Record<string, Move> = {
  async balance(world, tenant, step) {
    const code = world.code(tenant, step['account'], step['currency']);
    const currency = step['currency'] as string | undefined;
    const rest = () => world.rest(tenant, 'GET', `/accounts/code/${code}/balance${currency ? `?currency=${currency}` : ''}`);
    const call = step.via === 'rest' ? rest() : world.grpc(tenant, 'getBalance', { accountCode: code, currency: currency ?? '' });
    await world.ask(call, balance(tenant.books, code, currency));
  },
  async history(world, tenant, step) {
    const { currency, limit } = step;
    const code = world.code(tenant, step['account'], currency);
    const days = daysOf(tenant.books, step);
    const query = new URLSearchParams({ currency, limit: String(limit), ...days });
    const call = (cursor: string): Call =>
      step.via === 'rest'
        ? world.rest(tenant, 'GET', `/accounts/code/${code}/balance/history?${query.toString()}${after(cursor)}`)
        : world.grpc(tenant, 'listBalanceHistory', { accountCode: code, currency, ...span(days), limit, cursor });
    const all = history(tenant.books, code, currency, days);
    if (Array.isArray(all)) await world.pages(call, 'history', all, limit);
    else await world.ask(call(''), all);
  },
  async transaction(world, tenant, step) {
    const { at, odd } = step['transaction'];
    const all = tenant.books.transactions;
    const found = odd === 0 ? undefined : all[at % Math.max(1, all.length)];
    const id = found?.transaction_id.known() ?? unknownTransaction;
    const expected: Expected = found ? { status: 200, data: { transaction: found } } : { refused: [{ code: 'transaction_not_found' }] };
    const rest = () => world.rest(tenant, 'GET', `/transactions/${id}`);
    await world.ask(step.via === 'rest' ? rest() : world.grpc(tenant, 'getTransaction', { transactionId: id }), expected);
  },
  async transactions(world, tenant, step) {
    const { limit, at } = step;
    const all = tenant.books.transactions;
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
    const days = daysOf(tenant.books, step);
    const query = new URLSearchParams({ ...filter, ...days, limit: String(limit) });
    const named = Object.fromEntries(
      Object.entries(filter).map(([name, each]) => [name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), each]),
    );
    const call = (cursor: string): Call =>
      step.via === 'rest'
        ? world.rest(tenant, 'GET', `/transactions?${query.toString()}${after(cursor)}`)
        : world.grpc(tenant, 'listTransactions', { ...named, ...span(days), limit, cursor });
    await world.pages(call, 'transactions', transactions(tenant.books, { ...filter, ...days }), limit);
  },
  async account(world, tenant, step) {
    const code = world.code(tenant, step['account']);
    const call =
      step.via === 'rest' ? world.rest(tenant, 'GET', `/accounts/code/${code}`) : world.grpc(tenant, 'getAccount', { accountCode: code });
    await world.ask(call, account(tenant.books, code));
  },
  async accounts(world, tenant, step) {
    const { limit, at } = step;
    const groups = [...tenant.books.accounts.values()].filter((each) => each.is_group);
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
        ? world.rest(tenant, 'GET', `/accounts?${query.toString()}${after(cursor)}`)
        : world.grpc(tenant, 'listAccounts', { ...named, limit, cursor });
    await world.pages(call, 'accounts', accounts(tenant.books, filter), limit);
  },
  async hierarchy(world, tenant, step) {
    const balances = step['balances'] as boolean;
    const rest = () => world.rest(tenant, 'GET', `/accounts/hierarchy${balances ? '?include=balances' : ''}`);
    const call = step.via === 'rest' ? rest() : world.grpc(tenant, 'getHierarchy', { includeBalances: balances });
    const expected = hierarchy(tenant.books, null, balances);
    await world.ask(call, ({ code, data }) =>
      code === undefined ? difference(expected, inOrder(data.accounts), 'accounts') : `refused as ${code}`,
    );
  },
  async events(world, tenant, step) {
    const { log } = tenant.books;
    const limit = step['limit'] as number;
    const from = (step['after'] as number) % (log.length + 2);
    const rest = () => world.rest(tenant, 'GET', `/events?after_sequence=${from}&limit=${limit}`);
    const call = step.via === 'rest' ? rest() : world.grpc(tenant, 'listEvents', { afterSequence: BigInt(from), limit });
    const events = log.slice(from, from + limit).map(({ changes: _, ...event }, place) => ({ ...event, sequence: from + place + 1 }));
    const seen = await world.ask(call, { status: 200, data: { events } });
    const more = seen.status === null ? seen.data.has_more : seen.data.pagination.has_more;
    const wrong = difference(from + limit < log.length, more, 'has_more');
    if (wrong !== null) throw new Divergence(wrong);
  },
};

const dayMs = 86_400_000;

/** The days that a list is asked for: round that of one of its transactions, which is in, or just out of, what is asked for. */
function daysOf({ transactions: all }: Books, { days, at }: Step): { start_date?: string; end_date?: string } {
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
