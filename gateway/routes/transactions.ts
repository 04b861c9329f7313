// Routes that read transactions.
import type { FastifyRequest } from 'fastify';
import { refusalOf } from '../../services/platform/caller.ts';
import { missingScope } from '../auth.ts';
import { shortPages } from '../fields.ts';
import { examplePagination, pageOf, pathId } from '../pages.ts';
import { pagination, record, ref } from '../records.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { transactionJson } from '../../services/platform/ledger-records.ts';
import { envelope, pageJson } from '../mapping.ts';
import { openPersonal } from '../personal.ts';
import { listQuery, listRequest, withKept } from '../transaction-query.ts';
import { exampleTransaction, oneTransaction } from './postings.ts';

/** `GET /transactions` and `GET /transactions/{transaction_id}`. */
export function transactionRoutes(app: App, services: Services): void {
  const { ledger, times } = services;
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
          description: [
            `Newest first. ${shortPages} A page may be empty if few of many transactions match: go on while \`has_more\`.`,
            '`metadata.<key>=value` finds transactions by a key in `indexed_metadata` of the books: a string, number or boolean at the top level as text, at most 255 characters. A trailing `*` is a prefix. The same key again, at most 16 times: one of them. Up to 4 keys, all must fit. Postings are found at once, older ones when the key is `ready` (before that 409 `index_building`).',
            '`subject` finds transactions with personal data of a subject, and needs the scope `personal:read`. After its erasure there are none.',
            '`q` finds words at most two seconds after their posting, later while thousands are posted each second. Until a log is indexed for the first time it answers 409 `index_building`.',
          ].join('\n\n'),
          errors: ['index_building', 'filter_not_found'],
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
      const { tenantId } = request.caller;
      const query = await withKept(request.query, async (name) => {
        const { filter } = await ledger.getFilter({ tenantId, name }, callOptions(request, 5_000));
        return filter?.query ?? '';
      });
      const { limit = 50, cursor = '' } = query;
      const subjectId = await subjectOf(services, request, query.subject);
      if (subjectId === null) return envelope(reply, pageJson('transactions', [], pageOf(limit, '')));
      const { transactions, nextCursor } = await ledger.listTransactions(
        { tenantId, ...(await listRequest(times, tenantId, query)), subjectId, limit, cursor },
        callOptions(request, 5_000),
      );
      const opened = await openPersonal(services, request, transactions);
      const records = transactions.map((each) => transactionJson(each, opened));
      return envelope(reply, pageJson('transactions', records, pageOf(limit, nextCursor)));
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
      const opened = await openPersonal(services, request, [transaction]);
      return envelope(reply, `"transaction":${transactionJson(transaction, opened)}`);
    },
  );
}

/** The id of the subject that a list asks for; null: there is none of this name. Throws `forbidden` where the key may not read personal data. */
async function subjectOf({ vault }: Services, request: FastifyRequest, subject: string | undefined): Promise<string | null | undefined> {
  if (subject === undefined) return undefined;
  const { tenantId, scopes } = request.caller;
  if (!scopes.has('personal:read')) throw missingScope('personal:read');
  try {
    return (await vault.findSubject({ tenantId, subject }, callOptions(request, 5_000))).subjectId;
  } catch (error) {
    if (refusalOf(error)?.reason === 'subject_not_found') return null;
    throw error;
  }
}
