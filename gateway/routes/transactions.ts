// Routes that read transactions.
import { Type } from 'typebox';
import { filters, idOf, object, oneOf, paging, period, shortPages, transactionKinds } from '../fields.ts';
import { examplePagination, pageOf, pathId, periodOf } from '../pages.ts';
import { pagination, record, ref } from '../records.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { transactionJson } from '../../services/platform/ledger-records.ts';
import { envelope, pageJson } from '../mapping.ts';
import { exampleTransaction, oneTransaction } from './postings.ts';

const listQuery = object({
  ...filters,
  kind: Type.Optional(oneOf(transactionKinds, { example: 'double' })),
  hold_id: Type.Optional(idOf('hold', 'Captures of this hold.')),
  reverses: Type.Optional(idOf('txn', 'Reversals of this transaction, also of parts of it.')),
  ...period,
  ...paging,
});

/** `GET /transactions` and `GET /transactions/{transaction_id}`. */
export function transactionRoutes(app: App, { ledger }: Services): void {
  app.get(
    '/v1/tenants/:slug/transactions',
    {
      schema: { querystring: listQuery },
      config: {
        access: { by: 'key', scope: 'transactions:read' },
        doc: {
          id: 'listTransactions',
          tag: 'Transactions',
          summary: 'List transactions',
          description: `Newest first. ${shortPages} A page may be empty if few of many transactions of a reference match the other filters.`,
          answers: {
            200: {
              description: 'A page of transactions',
              schema: record({ transactions: { type: 'array', items: ref('Transaction') }, pagination }),
              example: { transactions: [exampleTransaction], pagination: examplePagination },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const { caller, query } = request;
      const { limit = 50, cursor = '' } = query;
      const { transactions, nextCursor } = await ledger.listTransactions(
        {
          tenantId: caller.tenantId,
          accountCode: query.account_code,
          currency: query.currency,
          reference: query.reference,
          idempotencyKey: query.idempotency_key,
          kind: query.kind,
          holdId: query.hold_id,
          reverses: query.reverses,
          ...periodOf(query),
          limit,
          cursor,
        },
        callOptions(request, 5_000),
      );
      return envelope(reply, pageJson('transactions', transactions.map(transactionJson), pageOf(limit, nextCursor)));
    },
  );

  app.get(
    '/v1/tenants/:slug/transactions/:transaction_id',
    {
      config: {
        access: { by: 'key', scope: 'transactions:read' },
        doc: {
          id: 'getTransaction',
          tag: 'Transactions',
          summary: 'Read a transaction',
          answers: {
            200: {
              description: 'The transaction',
              ...oneTransaction,
              example: { transaction: exampleTransaction },
            },
          },
          errors: ['validation_failed', 'transaction_not_found'],
        },
      },
    },
    async (request, reply) => {
      const { caller, params } = request;
      const transactionId = pathId('transaction_id', params);
      const { transaction } = await ledger.getTransaction({ tenantId: caller.tenantId, transactionId }, callOptions(request, 5_000));
      if (!transaction) throw new Error('the ledger answered without a transaction');
      return envelope(reply, `"transaction":${transactionJson(transaction)}`);
    },
  );
}
