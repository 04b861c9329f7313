// Routes that post single and double entries, and what all routes of transactions document. They are the hot path, so answers are written as text.
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { doubleBody, singleBody } from '../command-bodies.ts';
import { toPosting } from '../commands.ts';
import { takeKeyHeader } from '../idempotency.ts';
import { transactionJson } from '../../services/platform/ledger-records.ts';
import { outcomeEnvelope } from '../mapping.ts';
import type { Answer, Doc } from '../openapi-route.ts';
import { dryRunQuery } from '../payment-fields.ts';
import { openPersonal, seal, type OpenedPersonal, type UnsealedPosting } from '../personal.ts';
import { record, ref } from '../records.ts';
import type { App } from '../request-context.ts';
import type { Services } from '../services.ts';

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
  requested_effective_at: null,
  created_at: '2030-01-31T12:00:00.000Z',
  sequence: 31,
  reverses: null,
  reversed_by: null,
  origin: null,
  unreversed: null,
  personal: [],
  redacted: [],
};

/** The answer of routes that return one transaction. */
export const oneTransaction = { name: 'Transaction', schema: record({ transaction: ref('Transaction') }) };

const oneOrTried = {
  name: 'TransactionOrDryRun',
  schema: record({ transaction: { anyOf: [ref('Transaction'), ref('TriedTransaction')] } }),
  tries: true,
};

/** The answers of a posting. */
export function answers(example: object): Record<number, Answer> {
  const data = { transaction: example };
  return {
    201: { ...oneTransaction, example: data, description: 'Posted' },
    200: {
      ...{ ...oneOrTried, example: data, description: 'Posted by an earlier request with this key, or a dry run' },
      headers: ['Idempotent-Replayed'],
    },
  };
}

/** Documents what a second call does. `same`: what makes it the same request. */
export function idempotencyDoc(same: string, withoutKey: string): string {
  return [
    'The same request with the same key is answered 200 with what the first one has made, as it is now. Another request with that key is rejected (`idempotency_key_reused`).',
    `Requests are the same if they have the same ${same}. Keys are per tenant, whichever API key sends them.`,
    'A rejected request does not use up its key. After a 503, or without an answer within 10 seconds, send the same request again with the same key. If you retry earlier and are rejected, check 10 seconds later by `idempotency_key` whether the first request has posted.',
    `Without a key ${withoutKey}`,
  ].join(' ');
}
/** What a second call of a posting does. */
export const postingIdempotency = idempotencyDoc(
  'kind, description, reference, metadata, `effective_at`, `require`, `valid_until` and `override_reason`, and the same entries in the same order, however amounts and metadata are written',
  'a second call posts a second time: after a lost answer, check first whether it has posted.',
);

const exampleBody = { idempotency_key: 'deposit-42', description: 'Deposit by card', reference: 'INV-1001', metadata: { order: 42 } };
const exampleSingle = { ...exampleBody, idempotency_key: 'credit-43', description: 'Credit of unknown origin', reference: 'INV-1002' };
const examplePersonal = [{ subject: 'customer-42', data: { name: 'Ada Lovelace' } }];
const exampleLines = [
  { account_code: 'SETTLEMENT-USD', amount: '100.00', side: 'debit', currency: 'USD' },
  { account_code: 'CUSTOMER-WALLETS-USD', amount: '100.00', side: 'credit', currency: 'USD' },
];

const entryErrors = [
  ...(['insufficient_funds', 'account_closed', 'account_blocked', 'limit_exceeded', 'balance_overflow'] as const),
  'idempotency_key_reused',
] as const;
export const postingErrors = [
  ...(['account_not_found', 'account_is_group', 'currency_not_allowed', 'condition_failed', 'too_late'] as const),
  ...entryErrors,
];

/** Errors of `effective_at`. */
export const timeErrors = ['effective_at_out_of_range', 'period_closed'] as const;

/** Examples of errors that blame the account of one of these fields, or of a condition. */
export function accountErrors(...names: string[]): Exclude<Doc['errorFields'], undefined> {
  const fields = names.map((field) => ({ field }));
  const ofConditions = [...fields, { field: 'require[0].account_code' }];
  return {
    ...Object.fromEntries([...entryErrors.slice(0, -1), 'future_dated'].map((code) => [code, fields])),
    limit_exceeded: [...fields, { ...fields[0], tag: 'max_amount', value: 'limit_01jd1zq5v8e6n9w2k4m7p3r5t8' }],
    ...Object.fromEntries((['account_not_found', 'account_is_group', 'currency_not_allowed'] as const).map((code) => [code, ofConditions])),
  };
}
/** For several entries the error names the first that can't be posted. */
export const entriesErrorFields = {
  ...accountErrors('entries[0].account_code'),
  condition_failed: [{ field: 'entries[0].require.available.gte' }, { field: 'require[0].available.gte' }],
};

/** Answers with a transaction that was posted, now or by an earlier request, or only tried. `opened`: its personal data. */
export function send(
  reply: FastifyReply,
  { transaction, replayed }: { transaction?: Transaction | undefined; replayed: boolean },
  dryRun: boolean,
  opened?: OpenedPersonal,
): string {
  if (!transaction) throw new Error('the ledger answered without a transaction');
  return outcomeEnvelope(reply, `"transaction":${transactionJson(transaction, opened)}`, { status: 201, replayed, dryRun });
}

/** Posts, with its personal data sealed, and answers. */
export async function postAndSend(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  posting: UnsealedPosting,
): Promise<string> {
  if (posting.unsealed && !posting.dryRun) await seal(services, request, [posting]);
  const posted = await services.post(posting, reply.raw);
  const { transaction } = posted;
  const opened = transaction.personal.length === 0 ? undefined : await openPersonal(services, request, [transaction]);
  return send(reply, posted, posting.dryRun, opened);
}

/** `/transactions` and `/transactions/double-entry`. */
export function postingRoutes(app: App, services: Services): void {
  const { times } = services;
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
          errors: [...postingErrors, ...timeErrors, 'future_dated', 'account_is_system'],
          errorFields: accountErrors('account_code'),
        },
      },
    },
    async (request, reply) => {
      const { account_code, amount, side, currency } = request.body;
      const timeZone = await times.zoneFor(request.caller.tenantId, request.body.effective_at);
      const options = { dryRun: request.query.dry_run === true, timeZone };
      const posting = toPosting(request, request.body, [{ account_code, amount, side, currency }], options);
      return postAndSend(services, request, reply, posting);
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
          bodies: {
            customer: { idempotency_key: 'deposit-44', entries: exampleLines, personal: examplePersonal },
            deposit: { ...exampleBody, entries: exampleLines },
          },
          answers: answers(exampleTransaction),
          errors: [...postingErrors, ...timeErrors, 'future_dated', 'unbalanced'],
          errorFields: entriesErrorFields,
        },
      },
    },
    async (request, reply) => {
      const timeZone = await times.zoneFor(request.caller.tenantId, request.body.effective_at);
      const options = { dryRun: request.query.dry_run === true, timeZone };
      const posting = toPosting(request, request.body, request.body.entries, options);
      return postAndSend(services, request, reply, posting);
    },
  );
}
