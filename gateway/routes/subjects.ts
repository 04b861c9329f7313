// Erasure of a subject of personal data.
import { Type } from 'typebox';
import { object, optional, subjectName } from '../fields.ts';
import { timeOf } from '../../services/platform/ledger-records.ts';
import { id, record, time } from '../records.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';

const erasing = object({
  subject: subjectName,
  reason: optional(
    Type.Unsafe<string>({
      type: 'string',
      maxLength: 1000,
      description: 'Stays in the log: write no personal data into it.',
      example: 'Request 4711',
    }),
  ),
});

/** `POST /subjects/erase`. */
export function subjectRoutes(app: App, { vault }: Services): void {
  app.post(
    '/v1/tenants/:slug/subjects/erase',
    {
      schema: { body: erasing },
      config: {
        access: { by: 'key', scope: 'personal:manage' },
        doc: {
          id: 'eraseSubject',
          tag: 'Transactions',
          summary: 'Erase a subject of personal data',
          description:
            'Deletes the key of the subject’s data and its name for ever: no read shows them any more. The transactions stay as they are, so hashes and proofs do as well. The log gets the event `subject.erased`. A second call is 404; after a lost answer that says that the first one was done. Postings that name the subject later make a new one. Backups and receivers of webhooks keep what they have.',
          bodies: { request: { subject: 'customer-42', reason: 'Request 4711' } },
          answers: {
            200: {
              description: 'Erased',
              name: 'ErasedSubject',
              schema: record({ subject_id: id('subj'), erased_at: time }),
              example: { subject_id: 'subj_01jd1zq5v8e6n9w2k4m7p3r5t8', erased_at: '2030-01-31T12:00:00.000Z' },
            },
          },
          errors: ['subject_not_found', 'books_frozen'],
        },
      },
    },
    async (request) => {
      const { subject, reason } = request.body;
      const { actor, requestId } = auditContext(request);
      const call = { tenantId: request.caller.tenantId, subject, reason: reason ?? '', actor, requestId };
      const { subjectId, erasedMs } = await vault.eraseSubject(call, callOptions(request, 15_000));
      return { success: true, data: { subject_id: subjectId, erased_at: timeOf(erasedMs) } };
    },
  );
}
