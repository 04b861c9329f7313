// Postings: what moves money. The hot path of the house, so the answers are written as text.
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
import type { Answer } from '../openapi.ts';
import { pathId } from '../pages.ts';
import { record, ref } from '../records.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { envelope, transactionJson } from '../mapping.ts';

const about = { idempotency_key: optional(idempotencyKey), description: optional(description), reference: optional(reference) };
const line = { account_code: accountCode, amount, side, currency };

const single = object({ ...about, ...line, metadata: optional(metadata) });

const double = object({
  ...about,
  entries: Type.Unsafe<Static<ReturnType<typeof object<typeof line>>>[]>({
    type: 'array',
    minItems: 2,
    maxItems: 200,
    items: object(line),
    description: 'Debits and credits must be equal in each currency; an account may appear more than once.',
  }),
  metadata: optional(metadata),
});

const reversal = object({ idempotency_key: about.idempotency_key, description: about.description });

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
};

/** What is answered that is one transaction. */
export const oneTransaction = { name: 'TransactionResponse', schema: record({ transaction: ref('Transaction') }) };

function answers(example: object): Record<number, Answer> {
  const answer = { ...oneTransaction, example: { transaction: example } };
  return {
    201: { ...answer, description: 'Posted' },
    200: { ...answer, description: 'Posted by an earlier request with this key', headers: ['Idempotent-Replayed'] },
  };
}

// What a second call does; `same`: what makes it one, `keyless`: without a key.
function repeated(same: string, keyless: string): string {
  return [
    'The same request under the same key is answered 200 with the transaction as it stands now; another one under it is refused (`idempotency_key_reused`).',
    `The same is what has the same ${same}. The key is the tenant’s, whichever API key sends it.`,
    'A refused request does not use up its key. After a 503, or no answer within ten seconds, send the same again under the same key: who waits less, and is refused then, looks ten seconds later by `idempotency_key` whether the first request was posted after all.',
    `Without a key ${keyless}`,
  ].join(' ');
}
const postedTwice = repeated(
  'kind, description, reference and metadata and the same entries in the same order, however amounts and metadata are spelt',
  'a second call posts a second time: after a lost answer look first whether it was posted.',
);

const exampleBody = { idempotency_key: 'deposit-42', description: 'Deposit by card', reference: 'INV-1001', metadata: { order: 42 } };
const exampleSingle = { ...exampleBody, idempotency_key: 'credit-43', description: 'Credit of unknown origin', reference: 'INV-1002' };
const exampleLines = [
  { account_code: 'SETTLEMENT-USD', amount: '100.00', side: 'debit', currency: 'USD' },
  { account_code: 'CUSTOMER-WALLETS-USD', amount: '100.00', side: 'credit', currency: 'USD' },
];

// Of accounts that have taken such entries before.
const standingRefusals = ['insufficient_funds', 'account_closed', 'balance_overflow', 'idempotency_key_reused'] as const;
const postingRefusals = ['account_not_found', 'account_is_group', 'currency_not_allowed', ...standingRefusals] as const;

// Of several entries the first that can't be posted.
const blames = Object.fromEntries(postingRefusals.slice(0, -1).map((code) => [code, { field: 'entries[0].account_code' }]));

function send(reply: FastifyReply, { transaction, replayed }: { transaction?: Transaction | undefined; replayed: boolean }): string {
  if (!transaction) throw new Error('the ledger answered without a transaction');
  reply.code(replayed ? 200 : 201);
  if (replayed) reply.header('idempotent-replayed', 'true');
  return envelope(reply, `"transaction":${transactionJson(transaction)}`);
}

type Body = Static<typeof single> | Static<typeof double>;
type Reversal = MessageInitShape<typeof ReverseTransactionRequestSchema>;

/** How long a reversal may take in all. */
const reversalMs = 5_000;

// Literals: made by `create`, field by field, a posting's messages cost eight times as much.
function posting(request: FastifyRequest, body: Body, entries: Static<typeof double>['entries']): Posting {
  const { actor, requestId, traceparent } = auditContext(request);
  const made: Posting = {
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
    })),
    metadata: metadataText(body.metadata),
    actor,
    requestId,
    traceparent,
    timeoutMs: 0,
    retry: false,
  };
  if (body.reference != null) made.reference = body.reference;
  return made;
}

/** Both postings and the reversal. */
export function postingRoutes(app: App, { ledger, post }: Services): void {
  app.post(
    '/v1/tenants/:slug/transactions',
    {
      schema: { body: single },
      preValidation: takeKeyHeader,
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        doc: {
          id: 'postSingle',
          tag: 'Transactions',
          summary: 'Post a single entry',
          description: `A counter-line on the suspense account of the currency balances it, which the first one makes where no template has. ${postedTwice}`,
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
          errors: [...postingRefusals, 'account_is_system'],
        },
      },
    },
    async (request, reply) => {
      const { body } = request;
      return send(reply, await post(posting(request, body, [body]), reply.raw));
    },
  );

  app.post(
    '/v1/tenants/:slug/transactions/double-entry',
    {
      schema: { body: double },
      preValidation: takeKeyHeader,
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        doc: {
          id: 'postDouble',
          tag: 'Transactions',
          summary: 'Post a balanced transaction',
          description: postedTwice,
          idempotent: true,
          bodies: { deposit: { ...exampleBody, entries: exampleLines } },
          answers: answers(exampleTransaction),
          errors: [...postingRefusals, 'unbalanced'],
          errorFields: blames,
        },
      },
    },
    async (request, reply) => {
      const { body } = request;
      return send(reply, await post(posting(request, body, body.entries), reply.raw));
    },
  );

  app.post(
    '/v1/tenants/:slug/transactions/:transaction_id/reverse',
    {
      schema: { body: reversal },
      preValidation: takeKeyHeader,
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        doc: {
          id: 'reverseTransaction',
          tag: 'Transactions',
          summary: 'Reverse a transaction',
          description: `Posts its mirror entries, once; a reversal cannot be reversed (\`already_reversed\`). Always in full: \`amount\`, \`entries\`, \`reference\` and \`metadata\` mean nothing here, and what is refunded in part is a double entry of its own. A refusal blames the entries of the reversal, which stand in the order of the original's. ${repeated('transaction and description', 'a second call is refused, too: \`reversed_by\` of the transaction names the reversal.')}`,
          idempotent: true,
          bodies: { reversal: { idempotency_key: 'deposit-42-back', description: 'Deposit was charged back' }, bare: {} },
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
          errors: ['transaction_not_found', 'already_reversed', ...standingRefusals],
          errorFields: blames,
        },
      },
    },
    async (request, reply) => {
      const { body, caller, params } = request;
      const given = {
        tenantId: caller.tenantId,
        transactionId: pathId('transaction_id', params),
        reversalId: newId('txn'),
        idempotencyKey: body.idempotency_key ?? '',
        description: body.description ?? '',
        ...auditContext(request),
      };
      const reversed = await reverse(ledger, given, request);
      return send(reply, reversed);
    },
  );
}

/**
 * Reverses, again and again while it is open whether it was done, for as long as the first call may still be posted: whoever were told of it
 * sooner, and asked once more under his key, could be refused and find the reversal posted afterwards. The same id again posts once, and is no
 * replay to the client.
 */
async function reverse(ledger: Services['ledger'], given: Reversal, request: FastifyRequest): Promise<ReverseTransactionResponse> {
  const until = performance.now() + reversalMs;
  for (let attempt = 0; ; attempt++) {
    const limits = callOptions(request, Math.max(1, Math.round(until - performance.now())));
    try {
      return await ledger.reverseTransaction({ ...given, retry: attempt > 0 }, limits);
    } catch (error) {
      const refusal = refusalOf(error);
      if ((refusal && refusal.reason !== 'unavailable') || limits.signal.aborted) throw error;
      await pause(Math.max(0, Math.min(50 * 2 ** attempt, 500, until - performance.now())));
      if (performance.now() >= until) throw error;
    }
  }
}
