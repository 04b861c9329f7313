// Many transactions and holds in one request: each by itself, or all or none.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Command } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { entriesOf, errorOfItem, failed, maxEntries, outcomeJson, outcomeOf, readItem, timeOfItem, type Item } from '../batch-items.ts';
import { anyItem, batchRecord } from '../batch-schemas.ts';
import { ApiError, validationError } from '../errors.ts';
import { flag, object, optional } from '../fields.ts';
import { outcomeEnvelope } from '../mapping.ts';
import type { Doc } from '../openapi-route.ts';
import { dryRunQuery } from '../payment-fields.ts';
import { openPersonal } from '../personal.ts';
import type { App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { submit } from '../submit.ts';
import { exampleHold } from './holds.ts';
import { accountErrors, exampleTransaction, postingErrors, timeErrors } from './postings.ts';

const maxItems = 1_000;

const batchBody = object({
  atomic: optional(Type.Unsafe<boolean>({ ...flag, default: false, description: 'true: all items or none, consecutive in the log.' })),
  // Each item is validated by itself: one that is wrong does not spoil the others.
  items: Type.Unsafe<unknown[]>({
    type: 'array',
    minItems: 1,
    maxItems,
    items: {},
    description: `At most ${maxItems.toLocaleString('en')} with ${maxEntries.toLocaleString('en')} entries in all. Every item but \`void\` needs an \`idempotency_key\`.`,
    'x-published': { items: anyItem },
  }),
});

/** A preValidation hook: the keys are in the items, and one header can't be the key of several. */
export function refuseKeyHeader({ headers }: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  const value = headers['idempotency-key'];
  const message = 'idempotency_key must be in each item: leave out the Idempotency-Key header';
  done(value === undefined ? undefined : validationError([{ field: 'idempotency_key', tag: 'same', value, message }]));
}

const salary = (person: string, amount: string) => ({
  op: 'double',
  idempotency_key: `payroll-2030-01-${person}`,
  description: 'Salary January 2030',
  entries: [
    { account_code: 'SALARIES', amount, side: 'debit', currency: 'USD' },
    { account_code: 'SETTLEMENT-USD', amount, side: 'credit', currency: 'USD' },
  ],
});
const exampleHoldItem = {
  op: 'hold',
  idempotency_key: 'order-43',
  expires_in: 604_800,
  entries: exampleHold.entries.map(({ account_code, side, currency }) => ({ account_code, amount: '5.00', side, currency })),
};
const exampleRefused = {
  status: 422,
  replayed: false,
  error: 'insufficient funds',
  code: 'insufficient_funds',
  details: { field: 'entries[0].account_code', tag: 'insufficient_funds', value: 'CUSTOMER-WALLETS-USD' },
};
const done = { status: 201, replayed: false };

const entryField = 'items[0].entries[0].account_code';
const errorFields: Exclude<Doc['errorFields'], undefined> = {
  ...accountErrors(
    ...[entryField, 'items[0].account_code', 'items[0].debit.account_code', 'items[0].credit.account_code'],
    ...['items[0].fees[0].account_code', 'items[0].spread.account_code'],
  ),
  validation_failed: { field: 'items[0].idempotency_key' },
  account_not_found: [entryField, 'items[0].account_code', 'items[0].debit.account_code', 'items[0].require[0].account_code'].map(
    (field) => ({ field }),
  ),
  account_is_system: { field: 'items[0].account_code' },
  condition_failed: [{ field: 'items[0].entries[0].require.available.gte' }, { field: 'items[0].require[0].available.gte' }],
  too_late: { field: 'items[0].valid_until' },
  ...Object.fromEntries([...timeErrors, 'effective_before_original'].map((code) => [code, { field: 'items[0].effective_at' }])),
  unbalanced: { field: 'items[0].entries' },
  idempotency_key_reused: { field: 'items[0].idempotency_key' },
  entries_mismatch: [{ field: entryField }, { field: 'items[0].amount', value: '60.00' }],
  hold_exceeded: [{ field: 'items[0].amount' }, { field: 'items[0].entries[0].amount' }],
  reversal_exceeded: [{ field: 'items[0].amount' }, { field: 'items[0].entries[0].amount' }],
  hold_ended: { field: 'items[0].hold_id' },
};

/** `POST /transactions/batch`. */
export function batchRoutes(app: App, services: Services): void {
  app.post(
    '/v1/tenants/:slug/transactions/batch',
    {
      schema: { body: batchBody, querystring: dryRunQuery },
      preValidation: refuseKeyHeader,
      bodyLimit: 4 << 20,
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        weight: 4,
        doc: {
          id: 'submitBatch',
          repeatable: true,
          tag: 'Transactions',
          summary: 'Post, hold, capture, void and reverse many at once',
          description: [
            'An item is the body of its route with `op`, its key, and `hold_id` or `transaction_id` where the route has it in the path. Items are decided in their order. The body may have 4 MiB. The header `Idempotency-Key` is rejected.',
            'Independent items, the default: the answer is 200, and each result is what the item’s route alone would have answered. A malformed item fails by itself. An item with 503 is in doubt: send it again with its key. A dry run tries each alone.',
            'With `atomic` each item sees those before it, and all are done or none. The first that fails is the error of the whole request: its fields begin with `items[3].`, and no key is used up. Items that an earlier request has done are replays and fail nothing.',
            'A batch that is sent again does nothing twice.',
          ].join('\n\n'),
          bodies: {
            payroll: { atomic: true, items: [salary('ada', '20.00'), salary('ben', '30.00')] },
            independent: { items: [salary('chi', '25.00'), exampleHoldItem] },
          },
          answers: {
            200: {
              description: 'Independent items, or an atomic batch that earlier requests had done, or a dry run',
              name: 'BatchOrDryRun',
              schema: batchRecord,
              example: {
                results: [{ ...done, data: { transaction: exampleTransaction } }, exampleRefused],
                ...{ posted: 1, replayed: 0, failed: 1 },
              },
              tries: true,
              headers: ['Idempotent-Replayed'],
            },
            201: {
              description: 'All items of an atomic batch',
              name: 'Batch',
              schema: batchRecord,
              example: {
                results: [
                  { ...done, data: { transaction: exampleTransaction } },
                  { ...done, data: { hold: exampleHold } },
                ],
                ...{ posted: 2, replayed: 0, failed: 0 },
              },
            },
          },
          errors: [
            ...postingErrors,
            ...timeErrors,
            ...(['effective_before_original', 'future_dated'] as const),
            ...(['unbalanced', 'account_is_system', 'transaction_not_found', 'already_reversed', 'reversal_exceeded'] as const),
            ...(['hold_not_found', 'hold_ended', 'hold_exceeded', 'entries_mismatch'] as const),
          ],
          errorFields,
        },
      },
    },
    async (request, reply) => {
      const { body, query } = request;
      const [atomic, dryRun] = [body.atomic === true, query.dry_run === true];
      const timeZone = await services.times.zoneFor(request.caller.tenantId, ...body.items.map(timeOfItem));
      const items = body.items.map((item) => readItem({ request, whole: body, timeZone }, item));
      const commands = commandsOf(items, atomic);
      const decided = commands.length === 0 ? [] : await submit(services, request, commands, { atomic, dryRun });
      const results = decided.values();
      const outcomes = items.map((item) => {
        if (item.command instanceof ApiError) return failed(item.command);
        const { value: result } = results.next();
        if (!result) throw new Error('the ledger answered with too few results');
        return outcomeOf(item, result, dryRun);
      });
      const opened = await openPersonal(
        services,
        request,
        outcomes.map(({ result }) => (result instanceof ApiError ? undefined : result.transaction)),
      );
      const [refused] = atomic ? outcomes.flatMap(({ result }, index) => (result instanceof ApiError ? [{ result, index }] : [])) : [];
      if (refused) throw errorOfItem(refused.result, refused.index, items[refused.index] as Item);
      const count = (of: (each: (typeof outcomes)[number]) => boolean) => outcomes.filter(of).length;
      const failures = count(({ result }) => result instanceof ApiError);
      const replays = count(({ replayed }) => replayed);
      const fields = `"results":[${outcomes.map((each) => outcomeJson(each, opened)).join()}],"posted":${items.length - failures - replays},"replayed":${replays},"failed":${failures}`;
      return outcomeEnvelope(reply, fields, { status: atomic ? 201 : 200, replayed: atomic && replays === items.length, dryRun });
    },
  );
}

/** The commands of the items that could be read. Throws for too many entries, and for the first wrong item of an atomic batch. */
function commandsOf(items: Item[], atomic: boolean): Command[] {
  const commands = items.flatMap((item, index) => {
    if (!(item.command instanceof ApiError)) return [item.command];
    if (atomic) throw errorOfItem(item.command, index, item);
    return [];
  });
  const entries = commands.reduce((sum, command) => sum + entriesOf(command), 0);
  if (entries <= maxEntries) return commands;
  const message = `items must have at most ${maxEntries.toLocaleString('en')} entries in all, not ${entries.toLocaleString('en')}`;
  throw validationError([{ field: 'items', tag: 'max', value: entries, message }]);
}
