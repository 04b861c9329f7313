// Reversal of a transaction, or of a part of it.
import { reversalBody } from '../command-bodies.ts';
import { toReversal } from '../commands.ts';
import { takeKeyHeader } from '../idempotency.ts';
import { pathId } from '../pages.ts';
import { dryRunQuery } from '../payment-fields.ts';
import type { Doc } from '../openapi-route.ts';
import type { App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { submitOne } from '../submit.ts';
import { answers, entriesErrorFields, exampleTransaction, idempotencyDoc, postingErrors, send, timeErrors } from './postings.ts';

/** Errors of captures and reversals, which take from entries that exist. */
export const partErrors = ['unbalanced', 'entries_mismatch', ...postingErrors, ...timeErrors] as const;

/** Examples of their fields. `exceeded`: the code for more than there is. */
export function partErrorFields(exceeded: 'hold_exceeded' | 'reversal_exceeded'): Exclude<Doc['errorFields'], undefined> {
  return {
    ...entriesErrorFields,
    entries_mismatch: [{ field: 'entries[0].account_code' }, { field: 'amount', value: '60.00' }],
    [exceeded]: [{ field: 'amount' }, { field: 'entries[0].amount' }],
  };
}

/** `POST /transactions/{transaction_id}/reverse`. */
export function reversalRoutes(app: App, services: Services): void {
  app.post(
    '/v1/tenants/:slug/transactions/:transaction_id/reverse',
    {
      schema: { body: reversalBody, querystring: dryRunQuery },
      preValidation: takeKeyHeader,
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        doc: {
          id: 'reverseTransaction',
          tag: 'Transactions',
          summary: 'Reverse a transaction, or a part of it',
          description: `Posts the mirror of all that is left of it, or of \`amount\` or \`entries\`. Several parts never exceed the transaction (\`reversal_exceeded\`); \`unreversed\` shows what is left, and \`reversed_by\` names the reversal that completed it. After that, and for a reversal itself: \`already_reversed\`. Without \`entries\` errors name the entries of the reversal, in the order of the original. ${idempotencyDoc('transaction and body, however amounts and metadata are written', 'a second call for all that is left is rejected, but one for a part reverses a second part: send a key.')}`,
          idempotent: true,
          bodies: {
            part: { idempotency_key: 'deposit-42-part', description: 'One of two tickets', amount: '40.00' },
            reversal: { idempotency_key: 'deposit-42-back', description: 'Deposit was charged back' },
            bare: {},
          },
          bodyOptional: true,
          answers: answers({
            ...exampleTransaction,
            kind: 'reversal',
            idempotency_key: 'deposit-42-back',
            description: 'Deposit was charged back',
            reference: null,
            metadata: {},
            entries: exampleTransaction.entries.map((entry) => ({
              ...entry,
              side: entry.side === 'debit' ? 'credit' : 'debit',
              balance_after: '0.00',
            })),
            reverses: 'txn_01jd1zq5v8e6n9w2k4m7p3r5t7',
          }),
          errors: ['transaction_not_found', 'already_reversed', 'reversal_exceeded', 'effective_before_original', ...partErrors],
          errorFields: partErrorFields('reversal_exceeded'),
        },
      },
    },
    async (request, reply) => {
      const { body, caller, params, query } = request;
      const dryRun = query.dry_run === true;
      const timeZone = await services.times.zoneFor(caller.tenantId, body.effective_at);
      const value = toReversal(caller, pathId('transaction_id', params), body, timeZone);
      return send(reply, await submitOne(services, request, { case: 'reversal', value }, dryRun), dryRun);
    },
  );
}
