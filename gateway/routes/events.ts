// The route of the audit trail: the tenant's hash-chained log, page by page.
import { Type } from 'typebox';
import { object, pageLimit, shortPages, whole } from '../fields.ts';
import { record, ref } from '../records.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { envelope, eventJson, pageJson } from '../mapping.ts';
import { exampleTransaction } from './postings.ts';

const { transaction_id, kind, idempotency_key, description, reference, currency, amount, entries, reverses, metadata, sequence } =
  exampleTransaction;

/** The event of a posting as an example. */
export const exampleEvent = {
  id: 'evt_01jd1zq5v8e6n9w2k4m7p3r5t8',
  type: 'transaction.posted',
  sequence,
  created: 1_896_091_200,
  actor: 'key_01jd1zq5v8e6n9w2k4m7p3r5t8',
  request_id: 'req-7f3a',
  hash: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  previous_hash: '60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752',
  data: {
    ...{ transaction_id, kind, idempotency_key, description, reference, currency, amount, lines: entries, reverses, metadata, sequence },
    ...{ origin: null, unreversed: null },
  },
};

const query = object({
  after_sequence: Type.Optional(
    whole(0, Number.MAX_SAFE_INTEGER, { default: 0, description: 'Only events after this sequence.', example: 30 }),
  ),
  limit: pageLimit,
});

/** `/events`. */
export function eventRoutes(app: App, { ledger }: Services): void {
  app.get(
    '/v1/tenants/:slug/events',
    {
      schema: { querystring: query },
      config: {
        access: { by: 'key', scope: 'transactions:read' },
        doc: {
          id: 'listEvents',
          tag: 'Events',
          summary: 'Read the audit trail',
          description: [
            `Oldest first, without gaps. Each event has the hash of the previous one; the first has 64 zeros. ${shortPages} The next page begins after the last event’s \`sequence\`.`,
            '`data` of `transaction.posted` is the transaction with its `lines`; of `account.created` the account and its `template` (null: created singly); of `account.updated` the account and the names of the changed fields (`changes`); of `hold.created`, `hold.voided` and `hold.expired` the hold; of `definition.changed` the rule (`record`, null: deleted) with its `kind`, `id` and `version`; of `books.updated` the settings (`books`); of `period.closed` and `period.reopened` the period; of `subject.erased`, `transaction.redacted`, `log.imported` and `books.unfrozen` what was done and why.',
          ].join('\n\n'),
          answers: {
            200: {
              description: 'A page of events',
              schema: record({
                events: { type: 'array', items: ref('Event') },
                pagination: record({ limit: { type: 'integer' }, has_more: { type: 'boolean' } }),
              }),
              example: { events: [exampleEvent], pagination: { limit: 50, has_more: true } },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const {
        caller,
        query: { after_sequence = 0, limit = 50 },
      } = request;
      const page = { tenantId: caller.tenantId, afterSequence: BigInt(after_sequence), limit };
      const { events, hasMore } = await ledger.listEvents(page, callOptions(request, 5_000));
      return envelope(reply, pageJson('events', events.map(eventJson), { limit, has_more: hasMore }));
    },
  );
}
