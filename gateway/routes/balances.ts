// Routes of balances and their history.
import { Type } from 'typebox';
import { currencies } from '../../services/platform/money.ts';
import { asOf, asOfRequest, known, timeOfBooks } from '../as-of.ts';
import { object, oneOf, paging, period } from '../fields.ts';
import { examplePagination, pageOf, periodOf } from '../pages.ts';
import { pagination, record, ref } from '../records.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { balanceJson, changeRecord, envelope } from '../mapping.ts';
import { codeOf } from './accounts.ts';

const currency = Type.Optional(oneOf(currencies, { description: 'Required unless the account has only one currency.', example: 'USD' }));

const exampleBalance = {
  account_id: 'acc_01jd1zq5v8e6n9w2k4m7p3r5t8',
  account_code: 'CUSTOMER-WALLETS-USD',
  currency: 'USD',
  balance: '100.00',
  debits: '0.00',
  credits: '100.00',
  pending_debits: '0.00',
  pending_credits: '0.00',
  available: '100.00',
  version: 1,
  updated_at: '2030-01-31T12:00:00.000Z',
  as_of: null,
  known_sequence: null,
};
const exampleDay = { date: '2030-01-31', opening: '0.00', debits: '0.00', credits: '100.00', closing: '100.00' };
const exampleChange = {
  transaction_id: 'txn_01jd1zq5v8e6n9w2k4m7p3r5t8',
  sequence: 31,
  side: 'credit',
  amount: '100.00',
  balance_after: '100.00',
  created_at: '2030-01-31T12:00:00.000Z',
};

/** `…/balance`, `…/balance/daily` and `…/balance/history`. */
export function balanceRoutes(app: App, services: Services): void {
  const { ledger } = services;
  app.get(
    '/v1/tenants/:slug/accounts/code/:account_code/balance',
    {
      schema: { querystring: object({ currency, ...asOf }) },
      config: {
        access: { by: 'key', scope: 'balances:read' },
        doc: {
          id: 'getBalance',
          tag: 'Balances',
          summary: 'Read a balance',
          description:
            'Includes every posting that has been answered. An account without postings has zeros. With `as_of` it is what counted until then, with `known_at` or `known_sequence` as it was known then: a posting recorded later for an earlier time changes the first, not the second.',
          answers: {
            200: { description: 'The balance', schema: record({ balance: ref('Balance') }), example: { balance: exampleBalance } },
          },
          errors: ['account_not_found', 'account_is_group', 'currency_not_allowed'],
          errorFields: { currency_not_allowed: { field: 'currency', value: 'NGN' } },
        },
      },
    },
    async (request, reply) => {
      const { caller, params, query } = request;
      const bounds = await asOfRequest(services.times, caller.tenantId, query);
      const rpcRequest = { tenantId: caller.tenantId, accountCode: codeOf(params), currency: query.currency ?? '', ...bounds };
      const { balance } = await ledger.getBalance(rpcRequest, callOptions(request, 5_000));
      if (!balance) throw new Error('the ledger answered without a balance');
      return envelope(reply, `"balance":${balanceJson(balance)}`);
    },
  );

  dailyRoute(app, services);

  app.get(
    '/v1/tenants/:slug/accounts/code/:account_code/balance/history',
    {
      schema: { querystring: object({ currency, ...period, ...paging }) },
      config: {
        access: { by: 'key', scope: 'balances:read' },
        doc: {
          id: 'listBalanceHistory',
          tag: 'Balances',
          summary: 'Read the history of a balance',
          description: 'Newest first.',
          answers: {
            200: {
              description: 'A page of changes',
              schema: record({ history: { type: 'array', items: ref('BalanceChange') }, pagination }),
              example: { history: [exampleChange], pagination: examplePagination },
            },
          },
          errors: ['account_not_found', 'account_is_group', 'currency_not_allowed'],
          errorFields: { currency_not_allowed: { field: 'currency', value: 'NGN' } },
        },
      },
    },
    async (request) => {
      const { caller, params, query } = request;
      const { limit = 50, cursor = '' } = query;
      const { history, nextCursor } = await ledger.listBalanceHistory(
        {
          tenantId: caller.tenantId,
          accountCode: codeOf(params),
          currency: query.currency ?? '',
          ...periodOf(query),
          limit,
          cursor,
        },
        callOptions(request, 5_000),
      );
      return { success: true, data: { history: history.map(changeRecord), pagination: pageOf(limit, nextCursor) } };
    },
  );
}

function dailyRoute(app: App, services: Services): void {
  const day = (edge: string, example: string) =>
    timeOfBooks(`${edge} day: a day of the books’ time zone, or RFC 3339, whose day is meant.`, example);
  app.get(
    '/v1/tenants/:slug/accounts/code/:account_code/balance/daily',
    {
      schema: { querystring: object({ currency, from: day('First', '2030-01-01'), to: day('Last', '2030-01-31'), ...known }) },
      config: {
        access: { by: 'key', scope: 'balances:read' },
        doc: {
          id: 'listDailyBalances',
          tag: 'Balances',
          summary: 'Read a balance day by day',
          description:
            'Opening, movements and closing of each day of the books’ time zone by `effective_at`, oldest first, moved or not, at most 366 days. A day that the time zone skipped is left out.',
          answers: {
            200: {
              description: 'The days',
              schema: record({ days: { type: 'array', items: ref('DailyBalance') } }),
              example: { days: [exampleDay] },
            },
          },
          errors: ['account_not_found', 'account_is_group', 'currency_not_allowed'],
          errorFields: { currency_not_allowed: { field: 'currency', value: 'NGN' } },
        },
      },
    },
    async (request) => {
      const { caller, params, query } = request;
      const { asOfMs: _, ...recorded } = await asOfRequest(services.times, caller.tenantId, query);
      const asked = {
        tenantId: caller.tenantId,
        accountCode: codeOf(params),
        currency: query.currency ?? '',
        from: query.from,
        to: query.to,
      };
      const { days } = await services.ledger.listDailyBalances({ ...asked, ...recorded }, callOptions(request, 5_000));
      const records = days.map(({ date, opening, debits, credits, closing }) => ({ date, opening, debits, credits, closing }));
      return { success: true, data: { days: records } };
    },
  );
}
