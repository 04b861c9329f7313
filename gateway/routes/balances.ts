// Routes of balances and their history.
import { Type } from 'typebox';
import { currencies } from '../../services/platform/money.ts';
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
};
const exampleChange = {
  transaction_id: 'txn_01jd1zq5v8e6n9w2k4m7p3r5t8',
  sequence: 31,
  side: 'credit',
  amount: '100.00',
  balance_after: '100.00',
  created_at: '2030-01-31T12:00:00.000Z',
};

/** `…/balance` and `…/balance/history`. */
export function balanceRoutes(app: App, { ledger }: Services): void {
  app.get(
    '/v1/tenants/:slug/accounts/code/:account_code/balance',
    {
      schema: { querystring: object({ currency }) },
      config: {
        access: { by: 'key', scope: 'balances:read' },
        doc: {
          id: 'getBalance',
          tag: 'Balances',
          summary: 'Read a balance',
          description: 'Includes every posting that has been answered. An account without postings has zeros.',
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
      const rpcRequest = { tenantId: caller.tenantId, accountCode: codeOf(params), currency: query.currency ?? '' };
      const { balance } = await ledger.getBalance(rpcRequest, callOptions(request, 5_000));
      if (!balance) throw new Error('the ledger answered without a balance');
      return envelope(reply, `"balance":${balanceJson(balance)}`);
    },
  );

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
