// Removal of texts from a posted transaction.
import { Type } from 'typebox';
import { object } from '../fields.ts';
import { envelope } from '../mapping.ts';
import { pathId } from '../pages.ts';
import { openPersonal } from '../personal.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { transactionJson } from '../../services/platform/ledger-records.ts';
import { exampleTransaction, oneTransaction } from './postings.ts';

const redaction = object({
  fields: Type.Unsafe<string[]>({
    type: 'array',
    minItems: 1,
    maxItems: 20,
    items: { type: 'string', example: 'metadata.order' },
    description: '`description`, `reference` or `metadata.<key>`, the key being one at the top level.',
  }),
  reason: Type.Unsafe<string>({ type: 'string', minLength: 1, maxLength: 1000, example: 'A customer’s name slipped in' }),
});

/** `POST /transactions/{transaction_id}/redact`. */
export function redactionRoutes(app: App, services: Services): void {
  app.post(
    '/v1/tenants/:slug/transactions/:transaction_id/redact',
    {
      schema: { body: redaction },
      config: {
        access: { by: 'key', scope: 'personal:manage' },
        doc: {
          id: 'redactTransaction',
          tag: 'Transactions',
          summary: 'Redact texts of a transaction',
          description: [
            'For what slipped in: removes texts from a posted transaction for ever, also from its event, searches, exports and stored deliveries, which end even if they are pending. Finished jobs with results are deleted, because they may hold the texts. `redacted` names the fields; amounts stay, and so do the event’s hash and all proofs.',
            'Backups, the topic and receivers of webhooks still have the texts, and a hold keeps its own. Fields that are redacted already change nothing. One that the transaction does not have is rejected (400 `oneof`).',
          ].join('\n\n'),
          bodies: { slip: { fields: ['reference', 'metadata.order'], reason: 'A customer’s name slipped in' } },
          answers: {
            200: {
              description: 'The transaction without them',
              ...oneTransaction,
              example: { transaction: { ...exampleTransaction, reference: null, metadata: {}, redacted: ['reference', 'metadata.order'] } },
            },
          },
          errors: ['transaction_not_found', 'books_frozen'],
        },
      },
    },
    async (request, reply) => {
      const { body, caller, params } = request;
      const transactionId = pathId('transaction_id', params);
      const call = { tenantId: caller.tenantId, transactionId, ...body, ...auditContext(request) };
      const { transaction } = await services.ledger.redactTransaction(call, callOptions(request, 10_000));
      if (!transaction) throw new Error('the ledger answered without a transaction');
      const opened = await openPersonal(services, request, [transaction]);
      return envelope(reply, `"transaction":${transactionJson(transaction, opened)}`);
    },
  );
}
