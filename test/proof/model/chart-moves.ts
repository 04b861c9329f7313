// The steps that change a chart, and those that read: each has its weight, its random parameters, and what it does.
import fc from 'fast-check';
import {
  account,
  accounts,
  anotherType,
  balance,
  change,
  hierarchy,
  history,
  inOrder,
  open,
  setUp,
  takeChart,
  transactions,
} from './chart-model.ts';
import { difference, disagreement, valueOf } from './expectation.ts';
import type { LedgerModel } from './ledger-model.ts';
import type { Step } from './model-run.ts';
import { currency, nat, pick, unknownTransaction, type Moves } from './posting-moves.ts';
import { currencies } from './records.ts';

type Body = Record<string, any>;

const days = fc.constantFrom('any', 'any', 'any', 'that', 'before', 'since', 'later', 'until');
const whats = [
  'name',
  'description',
  'metadata',
  'allow',
  'deny',
  'move',
  'close',
  'close',
  'close',
  'close',
  'open',
  'nothing',
  'immutable',
];
const types = ['asset', 'liability', 'equity', 'revenue', 'expense'];
export const businessTypes = ['wallet', 'exchange', 'lending', 'payment_processor', 'other'];

const defined = (body: Body): Body => Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));

export const chartMoves: Moves = {
  tenant: {
    weight: 2,
    own: {},
    move: async (run) => {
      if (run.tenants.length < 3) await run.newTenant();
    },
  },
  setUp: {
    weight: 2,
    own: { type: fc.constantFrom(...businessTypes) },
    move: async (run, tenant, step) => {
      const { ledger } = tenant;
      const business_type = step['type'] as string;
      const known = setUp(ledger, business_type);
      await run.change(step, tenant, ['setUp', { business_type }], (by) => (seen) => {
        if (known) return disagreement(known, seen);
        if (seen.code === 'account_code_taken') {
          const taken = ledger.accounts.get(seen.value as string);
          return taken && !taken.system ? null : `account code ${String(seen.value)} is not taken`;
        }
        const wrong = disagreement({ status: 201, data: { business_type } }, seen);
        return wrong ?? takeChart(ledger, business_type, seen.data.accounts, by);
      });
    },
  },
  open: {
    weight: 6,
    own: {
      type: fc.constantFrom(...types),
      only: fc.option(currency, { nil: undefined }),
      parent: pick,
      allow: fc.constantFrom(undefined, true, false, false),
      group: fc.nat({ max: 7 }),
      taken: fc.nat({ max: 6 }),
      contra: fc.nat({ max: 5 }),
    },
    move: async (run, tenant, step) => {
      const { type, only, parent, allow, group, taken, contra } = step;
      const { ledger } = tenant;
      const all = [...ledger.accounts.values()];
      const fitting = parent.odd < 5 ? all : all.filter((each) => each.is_group && each.type === type);
      const parent_code =
        parent.odd === 0 ? 'NO-SUCH' : parent.odd > 14 ? undefined : fitting[parent.at % Math.max(1, fitting.length)]?.account_code;
      const account_code = taken === 0 && all.length > 0 ? all[parent.at % all.length]!.account_code : run.next('By.hand:');
      const body = defined({
        ...{ account_code, name: `Account ${account_code}`, type, currency: only, parent_code, allow_negative: allow },
        normal_balance: contra === 0 ? (anotherType(type) === 'liability' ? 'credit' : 'debit') : undefined,
        is_group: group === 0 ? true : undefined,
        metadata: group === 1 ? { of: ['me'] } : undefined,
      });
      await run.change(step, tenant, ['open', body], (by) => open(ledger, body as { account_code: string; type: string }, by));
    },
  },
  change: {
    weight: 10,
    own: { account: pick, what: fc.constantFrom(...whats), version: fc.nat({ max: 5 }) },
    move: async (run, tenant, step) => {
      const { ledger } = tenant;
      const account_code = run.code(tenant, step['account']);
      const groups = [...ledger.accounts.values()].filter((each) => each.is_group);
      const wanted: Record<string, Body> = {
        name: { name: run.next('Name ') },
        description: { description: run.next('Words ') },
        metadata: { metadata: { n: run.next('m') } },
        allow: { allow_negative: true },
        deny: { allow_negative: false },
        move: { parent_code: groups[step['account'].at % Math.max(1, groups.length)]?.account_code ?? 'NO-SUCH' },
        close: { status: 'closed' },
        open: { status: 'active' },
        immutable: { currency: 'NGN' },
      };
      if (step['what'] === 'immutable') {
        const refusal = { code: 'validation_failed', field: 'currency', tag: 'immutable' };
        await run.read({ ...step, via: 'rest' }, tenant, 'change', { account_code, currency: 'NGN' }, { refused: [refusal] });
        return;
      }
      const version = step['version'] === 0 ? 77 : step['version'] === 1 ? ledger.accounts.get(account_code)?.version : undefined;
      const body = defined({ ...wanted[step['what']], version });
      await run.change(step, tenant, ['change', { account_code, ...body }], (by) => change(ledger, account_code, body, by));
    },
  },
};

export const readMoves: Moves = {
  balance: {
    weight: 6,
    own: { account: pick, currency: fc.option(currency, { nil: undefined }) },
    move: async (run, tenant, step) => {
      const request = defined({ account_code: run.code(tenant, step['account'], step['currency']), currency: step['currency'] });
      await run.read(step, tenant, 'balance', request, balance(tenant.ledger, request['account_code'], request['currency']));
    },
  },
  history: {
    weight: 6,
    own: { account: pick, currency, days, at: nat, limit: fc.constantFrom(1, 2, 7, 100) },
    move: async (run, tenant, step) => {
      const { currency, limit } = step;
      const span = daysOf(tenant.ledger, step);
      const request = { account_code: run.code(tenant, step['account'], currency), currency, limit, ...span };
      const all = history(tenant.ledger, request.account_code, currency, span);
      if (Array.isArray(all)) await run.pages(step, tenant, ['history', request], 'history', all);
      else await run.read(step, tenant, 'history', request, all);
    },
  },
  transaction: {
    weight: 3,
    own: { transaction: pick },
    move: async (run, tenant, step) => {
      const { at, odd } = step['transaction'];
      const all = tenant.ledger.transactions;
      const found = odd === 0 ? undefined : all[at % Math.max(1, all.length)];
      const transaction_id = found?.transaction_id.known() ?? unknownTransaction;
      const expected = found ? { status: 200, data: { transaction: found } } : { refused: [{ code: 'transaction_not_found' }] };
      await run.read(step, tenant, 'transaction', { transaction_id }, expected);
    },
  },
  transactions: {
    weight: 4,
    own: {
      filter: fc.constantFrom('none', 'none', 'account_code', 'currency', 'reference', 'idempotency_key', 'kind', 'hold_id'),
      days,
      at: nat,
      limit: fc.constantFrom(3, 10, 100),
    },
    move: async (run, tenant, step) => {
      const { limit, at, filter } = step;
      const all = tenant.ledger.transactions;
      const some = all[at % Math.max(1, all.length)];
      const { account_code } = some?.entries[0] ?? {};
      const values: Body = {
        account_code,
        currency: currencies[at % 3],
        reference: 'INV-1',
        idempotency_key: valueOf(some?.idempotency_key),
        kind: some?.kind,
        hold_id: tenant.ledger.holds[at % Math.max(1, tenant.ledger.holds.length)]?.hold_id.known(),
      };
      const wanted = { ...defined({ [filter]: values[filter] }), ...daysOf(tenant.ledger, step) };
      await run.pages(step, tenant, ['transactions', { ...wanted, limit }], 'transactions', transactions(tenant.ledger, wanted));
    },
  },
  account: {
    weight: 2,
    own: { account: pick },
    move: async (run, tenant, step) => {
      const account_code = run.code(tenant, step['account']);
      await run.read(step, tenant, 'account', { account_code }, account(tenant.ledger, account_code));
    },
  },
  accounts: {
    weight: 2,
    own: { filter: fc.constantFrom('none', 'type', 'status', 'parent_code'), at: nat, limit: fc.constantFrom(10, 100) },
    move: async (run, tenant, step) => {
      const { limit, at, filter } = step;
      const groups = [...tenant.ledger.accounts.values()].filter((each) => each.is_group);
      const parent_code = groups[at % Math.max(1, groups.length)]?.account_code;
      const values: Body = { type: types[at % 3], status: ['active', 'closed'][at % 2], parent_code };
      const wanted = defined({ [filter]: values[filter] });
      await run.pages(step, tenant, ['accounts', { ...wanted, limit }], 'accounts', accounts(tenant.ledger, wanted));
    },
  },
  hierarchy: {
    weight: 2,
    own: { balances: fc.boolean() },
    move: async (run, tenant, step) => {
      const balances = step['balances'] as boolean;
      const expected = hierarchy(tenant.ledger, null, balances);
      const call = run.prepare(step, tenant, 'hierarchy', balances ? { include: 'balances' } : {});
      await run.send(call, ({ code, data }) =>
        code === undefined ? difference(expected, inOrder(data.accounts), 'accounts') : `refused as ${code}`,
      );
    },
  },
  events: {
    weight: 2,
    own: { after: nat, limit: fc.constantFrom(1, 10, 100) },
    move: async (run, tenant, step) => {
      const { log } = tenant.ledger;
      const limit = step['limit'] as number;
      const from = (step['after'] as number) % (log.length + 2);
      const events = log
        .slice(from, from + limit)
        .map(({ changes: _, captured: __, ...event }, index) => ({ ...event, sequence: from + index + 1 }));
      const expected = { status: 200, data: { events, pagination: { has_more: from + limit < log.length } } };
      await run.read(step, tenant, 'events', { after_sequence: from, limit }, expected);
    },
  },
};

const dayMs = 86_400_000;

/** A range of days around one of the transactions, which it includes or just excludes. */
function daysOf({ transactions: all }: LedgerModel, { days: which, at }: Step): { start_date?: string; end_date?: string } {
  const some = all[at % Math.max(1, all.length)];
  if (!some) return {};
  const day = (more: number) => new Date(Date.parse(some.created_at.known().slice(0, 10)) + more * dayMs).toISOString().slice(0, 10);
  const spans: Record<string, { start_date?: string; end_date?: string }> = {
    that: { start_date: day(0), end_date: day(1) },
    before: { start_date: day(-1), end_date: day(0) },
    since: { start_date: day(0) },
    later: { start_date: day(1) },
    until: { end_date: day(0) },
  };
  return spans[which] ?? {};
}
