// Routes that post: single entry, double entry, reversal. They are the hot path, so answers are written as text.
import { setTimeout as pause } from 'node:timers/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type, type Static } from 'typebox';
import type {
  Posting,
  ReverseTransactionRequestSchema,
  ReverseTransactionResponse,
  Transaction,
} from '../../proto/gen/ledger/v1/ledger_pb.js';
import { refusalOf } from '../../services/platform/caller.ts';
import { newId } from '../../services/platform/ids.ts';
import { accountCode, amount, currency, description, idempotencyKey, metadata, object, optional, reference, side } from '../fields.ts';
import { takeKeyHeader } from '../idempotency.ts';
import { metadataText } from '../metadata.ts';
import type { Answer, Doc } from '../openapi.ts';
import { pathId } from '../pages.ts';
import { record, ref } from '../records.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { dryRunEnvelope, envelope, transactionJson } from '../mapping.ts';
import { addTerms, conditionOf, dryRunQuery, entryRequire, terms } from '../payment-fields.ts';

/** Fields of every posting, before and after its own. */
export const commonFields = {
  idempotency_key: optional(idempotencyKey),
  description: optional(description),
  reference: optional(reference),
};
/** The same, after its own. */
export const lastFields = { metadata: optional(metadata), ...terms };
const lineFields = { account_code: accountCode, amount, side, currency };
const entryFields = { ...lineFields, require: entryRequire };

const singleBody = object({ ...commonFields, ...lineFields, ...lastFields });

const doubleBody = object({
  ...commonFields,
  entries: Type.Unsafe<Static<ReturnType<typeof object<typeof entryFields>>>[]>({
    type: 'array',
    minItems: 2,
    maxItems: 200,
    items: object(entryFields),
    description: 'Debits and credits must be equal in each currency. An account may appear more than once.',
  }),
  ...lastFields,
});

const reversalBody = object({ idempotency_key: commonFields.idempotency_key, description: commonFields.description });

/** A transaction as an example. */
export const exampleTransaction = {
  transaction_id: 'txn_01jd1zq5v8e6n9w2k4m7p3r5t8',
  kind: 'double',
  status: 'posted',
  idempotency_key: 'deposit-42',
  description: 'Deposit by card',
  reference: 'INV-1001',
  currency: 'USD',
  amount: '100.00',
  entries: [
    {
      account_id: 'acc_01jd1zq5v8e6n9w2k4m7p3r5t8',
      account_code: 'SETTLEMENT-USD',
      amount: '100.00',
      side: 'debit',
      currency: 'USD',
      balance_after: '100.00',
      counter: false,
    },
    {
      account_id: 'acc_01jd1zq5v8e6n9w2k4m7p3r5t9',
      account_code: 'CUSTOMER-WALLETS-USD',
      amount: '100.00',
      side: 'credit',
      currency: 'USD',
      balance_after: '100.00',
      counter: false,
    },
  ],
  metadata: { order: 42 },
  effective_at: '2030-01-31T12:00:00.000Z',
  created_at: '2030-01-31T12:00:00.000Z',
  sequence: 31,
  reverses: null,
  reversed_by: null,
  origin: null,
};

/** The answer of routes that return one transaction. */
export const oneTransaction = { name: 'TransactionResponse', schema: record({ transaction: ref('Transaction') }) };

const oneOrTried = {
  name: 'TransactionOrTrialResponse',
  schema: record({ transaction: { anyOf: [ref('Transaction'), ref('TriedTransaction')] } }),
  tries: true,
};

/** The answers of a posting; `tries` where it takes `dry_run`. */
export function answers(example: object, tries = true): Record<number, Answer> {
  const posted = { ...oneTransaction, example: { transaction: example } };
  const earlier = 'Posted by an earlier request with this key';
  return {
    201: { ...posted, description: 'Posted' },
    200: {
      ...(tries ? { ...posted, ...oneOrTried, description: `${earlier}, or a dry run` } : { ...posted, description: earlier }),
      headers: ['Idempotent-Replayed'],
    },
  };
}

/** Documents what a second call does. `same`: what makes it the same request. */
export function idempotencyDoc(same: string, withoutKey: string): string {
  return [
    'The same request with the same key is answered 200 with the transaction as it is now. Another request with that key is rejected (`idempotency_key_reused`).',
    `Requests are the same if they have the same ${same}. Keys are per tenant, whichever API key sends them.`,
    'A rejected request does not use up its key. After a 503, or without an answer within 10 seconds, send the same request again with the same key. If you retry earlier and are rejected, check 10 seconds later by `idempotency_key` whether the first request has posted.',
    `Without a key ${withoutKey}`,
  ].join(' ');
}
/** What a second call of a posting does. */
export const postingIdempotency = idempotencyDoc(
  'kind, description, reference and metadata, and the same entries in the same order, however amounts and metadata are written',
  'a second call posts a second time: after a lost answer, check first whether it has posted.',
);

const exampleBody = { idempotency_key: 'deposit-42', description: 'Deposit by card', reference: 'INV-1001', metadata: { order: 42 } };
const exampleSingle = { ...exampleBody, idempotency_key: 'credit-43', description: 'Credit of unknown origin', reference: 'INV-1002' };
const exampleLines = [
  { account_code: 'SETTLEMENT-USD', amount: '100.00', side: 'debit', currency: 'USD' },
  { account_code: 'CUSTOMER-WALLETS-USD', amount: '100.00', side: 'credit', currency: 'USD' },
];

// Errors that a reversal may meet too.
const entryErrors = [
  ...(['insufficient_funds', 'account_closed', 'account_blocked', 'limit_exceeded', 'balance_overflow'] as const),
  'idempotency_key_reused',
] as const;
export const postingErrors = [
  ...(['account_not_found', 'account_is_group', 'currency_not_allowed', 'condition_failed', 'too_late'] as const),
  ...entryErrors,
];

/** Examples of errors that blame the account of one of these fields, or of a condition. */
export function accountErrors(...names: string[]): Exclude<Doc['errorFields'], undefined> {
  const fields = names.map((field) => ({ field }));
  const ofConditions = [...fields, { field: 'require[0].account_code' }];
  return {
    ...Object.fromEntries(entryErrors.slice(0, -1).map((code) => [code, fields])),
    limit_exceeded: [...fields, { ...fields[0], tag: 'max_amount', value: 'limit_01jd1zq5v8e6n9w2k4m7p3r5t8' }],
    ...Object.fromEntries((['account_not_found', 'account_is_group', 'currency_not_allowed'] as const).map((code) => [code, ofConditions])),
  };
}
// For several entries the error names the first that can't be posted.
const errorFields = {
  ...accountErrors('entries[0].account_code'),
  condition_failed: [{ field: 'entries[0].require.available.gte' }, { field: 'require[0].available.gte' }],
};

/** Answers with a transaction that was posted, now or by an earlier request, or only tried. */
export function send(
  reply: FastifyReply,
  { transaction, replayed }: { transaction?: Transaction | undefined; replayed: boolean },
  dryRun = false,
): string {
  if (!transaction) throw new Error('the ledger answered without a transaction');
  reply.code(replayed || dryRun ? 200 : 201);
  if (replayed) reply.header('idempotent-replayed', 'true');
  return (dryRun ? dryRunEnvelope : envelope)(reply, `"transaction":${transactionJson(transaction)}`);
}

type Body = Pick<Static<typeof singleBody>, keyof typeof commonFields | keyof typeof lastFields>;
type Query = Static<typeof dryRunQuery>;
type Reversal = MessageInitShape<typeof ReverseTransactionRequestSchema>;

/** How long a reversal may take in all. */
const reversalMs = 5_000;

/** The message of a posting, with a new transaction id. Written as literals, because protobuf's `create` costs eight times as much. */
export function toPosting(request: FastifyRequest, body: Body, entries: Static<typeof doubleBody>['entries'], query: Query): Posting {
  const { actor, requestId, traceparent } = auditContext(request);
  const posting: Posting = {
    $typeName: 'ledger.v1.Posting',
    tenantId: request.caller.tenantId,
    transactionId: newId('txn'),
    idempotencyKey: body.idempotency_key ?? '',
    description: body.description ?? '',
    entries: entries.map((entry) => ({
      $typeName: 'ledger.v1.Entry',
      accountCode: entry.account_code,
      amount: entry.amount,
      side: entry.side,
      currency: entry.currency,
      ...(entry.require != null && { require: conditionOf(entry.require) }),
    })),
    metadata: metadataText(body.metadata),
    actor,
    requestId,
    traceparent,
    timeoutMs: 0,
    retry: false,
    require: [],
    dryRun: false,
  };
  if (body.reference != null) posting.reference = body.reference;
  return addTerms(posting, body, query, request.caller);
}

/**
 * Reverses, and repeats the call with the same id while its outcome is unknown. An earlier error would mislead the client: its retry could be
 * rejected, and the first call could post after that.
 */
async function reverse(ledger: Services['ledger'], reversal: Reversal, request: FastifyRequest): Promise<ReverseTransactionResponse> {
  const until = performance.now() + reversalMs;
  for (let attempt = 0; ; attempt++) {
    const options = callOptions(request, Math.max(1, Math.round(until - performance.now())));
    try {
      return await ledger.reverseTransaction({ ...reversal, retry: attempt > 0 }, options);
    } catch (error) {
      const refusal = refusalOf(error);
      if ((refusal && refusal.reason !== 'unavailable') || options.signal.aborted) throw error;
      await pause(Math.max(0, Math.min(50 * 2 ** attempt, 500, until - performance.now())));
      if (performance.now() >= until) throw error;
    }
  }
}

/** `/transactions`, `/transactions/double-entry` and `/transactions/:transaction_id/reverse`. */
export function postingRoutes(app: App, { ledger, post }: Services): void {
  app.post(
    '/v1/tenants/:slug/transactions',
    {
      schema: { body: singleBody, querystring: dryRunQuery },
      preValidation: takeKeyHeader,
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        doc: {
          id: 'postSingle',
          tag: 'Transactions',
          summary: 'Post a single entry',
          description: `A counter-entry on the suspense account of the currency balances it; that account is created on first use. ${postingIdempotency}`,
          idempotent: true,
          bodies: { credit: { ...exampleSingle, account_code: 'CUSTOMER-WALLETS-USD', amount: '100.00', side: 'credit', currency: 'USD' } },
          answers: answers({
            ...exampleTransaction,
            ...exampleSingle,
            kind: 'single',
            entries: [
              { ...exampleTransaction.entries[0], account_code: 'CUSTOMER-WALLETS-USD', side: 'credit' },
              { ...exampleTransaction.entries[1], account_code: 'SUSPENSE-USD', side: 'debit', balance_after: '-100.00', counter: true },
            ],
          }),
          errors: [...postingErrors, 'account_is_system'],
          errorFields: accountErrors('account_code'),
        },
      },
    },
    async (request, reply) => {
      const { account_code, amount, side, currency } = request.body;
      const posting = toPosting(request, request.body, [{ account_code, amount, side, currency }], request.query);
      return send(reply, await post(posting, reply.raw), posting.dryRun);
    },
  );

  app.post(
    '/v1/tenants/:slug/transactions/double-entry',
    {
      schema: { body: doubleBody, querystring: dryRunQuery },
      preValidation: takeKeyHeader,
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        doc: {
          id: 'postDouble',
          tag: 'Transactions',
          summary: 'Post a balanced transaction',
          description: postingIdempotency,
          idempotent: true,
          bodies: { deposit: { ...exampleBody, entries: exampleLines } },
          answers: answers(exampleTransaction),
          errors: [...postingErrors, 'unbalanced'],
          errorFields,
        },
      },
    },
    async (request, reply) => {
      const posting = toPosting(request, request.body, request.body.entries, request.query);
      return send(reply, await post(posting, reply.raw), posting.dryRun);
    },
  );

  app.post(
    '/v1/tenants/:slug/transactions/:transaction_id/reverse',
    {
      schema: { body: reversalBody },
      preValidation: takeKeyHeader,
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        doc: {
          id: 'reverseTransaction',
          tag: 'Transactions',
          summary: 'Reverse a transaction',
          description: `Posts its mirror entries, once; a reversal cannot be reversed (\`already_reversed\`). It is always in full: post a partial refund as a double entry. Errors name the entries of the reversal, in the order of the original. ${idempotencyDoc('transaction and description', 'a second call is rejected too: \`reversed_by\` of the transaction names the reversal.')}`,
          idempotent: true,
          bodies: { reversal: { idempotency_key: 'deposit-42-back', description: 'Deposit was charged back' }, bare: {} },
          bodyOptional: true,
          answers: answers(
            {
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
            },
            false,
          ),
          errors: ['transaction_not_found', 'already_reversed', ...entryErrors],
          errorFields,
        },
      },
    },
    async (request, reply) => {
      const { body, caller, params } = request;
      const reversal = {
        tenantId: caller.tenantId,
        transactionId: pathId('transaction_id', params),
        reversalId: newId('txn'),
        idempotencyKey: body.idempotency_key ?? '',
        description: body.description ?? '',
        ...auditContext(request),
      };
      return send(reply, await reverse(ledger, reversal, request));
    },
  );
}
