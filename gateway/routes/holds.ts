// Holds: money is reserved, captured in one or several parts, or released.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type, type Static } from 'typebox';
import type { Command } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { captureBody, holdBody, voidBody } from '../command-bodies.ts';
import { toCapture, toHold, toVoid } from '../commands.ts';
import { filters, holdStatuses, object, oneOf, paging, period, shortPages, time } from '../fields.ts';
import { takeKeyHeader } from '../idempotency.ts';
import { commandFields, envelope, holdJson, outcomeEnvelope, pageJson } from '../mapping.ts';
import { examplePagination, pageOf, pathId, periodOf } from '../pages.ts';
import { dryRunQuery } from '../payment-fields.ts';
import { pagination, record, ref } from '../records.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { submitOne } from '../submit.ts';
import { entriesErrorFields, exampleTransaction, idempotencyDoc, postingErrors } from './postings.ts';
import { partErrorFields, partErrors } from './reversals.ts';

const lines = [
  { account_code: 'CUSTOMER-WALLETS-USD', amount: '60.00', side: 'debit', currency: 'USD' },
  { account_code: 'SETTLEMENT-USD', amount: '60.00', side: 'credit', currency: 'USD' },
];
const exampleBody = {
  idempotency_key: 'order-42',
  description: 'Card payment',
  reference: 'INV-1001',
  entries: lines,
  expires_in: 604_800,
};

/** A hold as an example. */
export const exampleHold = {
  hold_id: 'hold_01jd1zq5v8e6n9w2k4m7p3r5t8',
  status: 'pending',
  idempotency_key: 'order-42',
  description: 'Card payment',
  reference: 'INV-1001',
  currency: 'USD',
  amount: '60.00',
  entries: lines.map((line) => ({ account_id: 'acc_01jd1zq5v8e6n9w2k4m7p3r5t9', ...line, captured: '0.00', remaining: '60.00' })),
  metadata: {},
  expires_at: '2030-02-07T12:00:00.000Z',
  captures: 0,
  created_at: '2030-01-31T12:00:00.000Z',
  ended_at: null,
  sequence: 32,
  origin: null,
};
const ended = { ended_at: '2030-02-01T12:00:00.000Z' };
const exampleCaptured = {
  ...{ ...exampleHold, ...ended, status: 'captured', captures: 1 },
  entries: exampleHold.entries.map((entry) => ({ ...entry, captured: '40.00', remaining: '0.00' })),
};
const exampleCapture = {
  ...{ ...exampleTransaction, kind: 'capture', idempotency_key: 'order-42-1', description: 'Shipped', reference: null, amount: '40.00' },
  entries: exampleTransaction.entries
    .toReversed()
    .map((entry, index) => ({ ...entry, amount: '40.00', side: lines[index]?.side, balance_after: '60.00' })),
  metadata: {},
  sequence: 33,
  origin: { ...{ template: null, schedule_id: null, occurrence: null, exchange: null, override: null }, hold_id: exampleHold.hold_id },
};

const oneHold = { name: 'Hold', schema: record({ hold: ref('Hold') }) };
const replayable = { tries: true, headers: ['Idempotent-Replayed' as const] };

const listQuery = object({
  status: Type.Optional(oneOf(holdStatuses, { example: 'pending' })),
  ...filters,
  ...period,
  expires_before: Type.Optional({ ...time, description: 'Only holds that expire before then.' } as typeof time),
  ...paging,
});

/** Submits a command on a hold and answers it. `status`: of one that is done now. */
async function change(
  services: Services,
  request: FastifyRequest<{ Querystring: Static<typeof dryRunQuery> }>,
  reply: FastifyReply,
  command: Command['command'],
  status = 201,
): Promise<string> {
  const dryRun = request.query.dry_run === true;
  const result = await submitOne(services, request, command, dryRun);
  return outcomeEnvelope(reply, commandFields(result), { status, replayed: result.replayed, dryRun });
}

/** `POST /holds`, `POST /holds/{hold_id}/capture` and `…/void`. */
export function holdRoutes(app: App, services: Services): void {
  app.post(
    '/v1/tenants/:slug/holds',
    {
      schema: { body: holdBody, querystring: dryRunQuery },
      preValidation: takeKeyHeader,
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        doc: {
          id: 'createHold',
          tag: 'Holds',
          summary: 'Reserve money',
          description: `Nothing moves: the entries count as pending, and \`available\` of the accounts that they would lower goes down. Keys of holds are no keys of transactions, so a hold and its capture may have the same. ${idempotencyDoc('body, however amounts and metadata are written', 'a second call holds a second time: after a lost answer, check first whether it has been made.')}`,
          idempotent: true,
          bodies: { card: exampleBody },
          answers: {
            201: { ...oneHold, description: 'Held', example: { hold: exampleHold } },
            200: {
              ...replayable,
              name: 'HoldOrDryRun',
              description: 'Held by an earlier request with this key, or a dry run',
              schema: record({ hold: { anyOf: [ref('Hold'), ref('TriedHold')] } }),
              example: { hold: exampleHold },
            },
          },
          errors: [...postingErrors, 'unbalanced'],
          errorFields: entriesErrorFields,
        },
      },
    },
    (request, reply) => {
      return change(services, request, reply, { case: 'hold', value: toHold(request.caller, request.body) });
    },
  );

  app.post(
    '/v1/tenants/:slug/holds/:hold_id/capture',
    {
      schema: { body: captureBody, querystring: dryRunQuery },
      preValidation: takeKeyHeader,
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        doc: {
          id: 'captureHold',
          tag: 'Holds',
          summary: 'Move what a hold has reserved',
          description: `Posts a transaction of the kind \`capture\` of all that remains, or of \`amount\` or \`entries\`, and releases the rest unless \`final\` is false. Limits and floors do not refuse it, because the hold has counted already; blocks and conditions do. A capture is reversed and refunded like any transaction; that does not revive the hold. ${idempotencyDoc('hold and body, however amounts and metadata are written', 'a second call of a part captures a second part: send a key.')}`,
          idempotent: true,
          bodies: {
            part: { idempotency_key: 'order-42-1', description: 'Shipped', amount: '40.00', final: false },
            rest: {},
          },
          bodyOptional: true,
          answers: {
            201: {
              name: 'Capture',
              description: 'Captured',
              schema: record({ transaction: ref('Transaction'), hold: ref('Hold') }),
              example: { transaction: exampleCapture, hold: exampleCaptured },
            },
            200: {
              ...replayable,
              name: 'CaptureOrDryRun',
              description: 'Captured by an earlier request with this key, or a dry run',
              schema: record({ transaction: { anyOf: [ref('Transaction'), ref('TriedTransaction')] }, hold: ref('Hold') }),
              example: { transaction: exampleCapture, hold: exampleCaptured },
            },
          },
          errors: ['hold_not_found', 'hold_ended', 'hold_exceeded', 'future_dated', ...partErrors],
          errorFields: partErrorFields('hold_exceeded'),
        },
      },
    },
    async (request, reply) => {
      const { body, caller, params } = request;
      const timeZone = await services.times.zoneFor(caller.tenantId, body.effective_at);
      const value = toCapture(caller, pathId('hold_id', params), body, timeZone);
      return change(services, request, reply, { case: 'capture', value });
    },
  );

  app.post(
    '/v1/tenants/:slug/holds/:hold_id/void',
    {
      schema: { body: voidBody, querystring: dryRunQuery },
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        doc: {
          id: 'voidHold',
          repeatable: true,
          tag: 'Holds',
          summary: 'Release what remains of a hold',
          description:
            'Also after captures of parts. Neither limits nor blocks refuse it. A hold that is voided already is answered as it is, with `Idempotent-Replayed`; one that ended otherwise is rejected (`hold_ended`).',
          bodies: { cancelled: { description: 'Order cancelled' }, bare: {} },
          bodyOptional: true,
          answers: {
            200: {
              ...replayable,
              name: 'Void',
              description: 'Released, now or before, or a dry run',
              schema: record({ hold: ref('Hold') }),
              example: {
                hold: {
                  ...exampleHold,
                  ...ended,
                  status: 'voided',
                  entries: exampleHold.entries.map((entry) => ({ ...entry, remaining: '0.00' })),
                },
              },
            },
          },
          errors: ['hold_not_found', 'hold_ended'],
        },
      },
    },
    (request, reply) => {
      return change(services, request, reply, { case: 'void', value: toVoid(pathId('hold_id', request.params), request.body) }, 200);
    },
  );
}

/** `GET /holds` and `GET /holds/{hold_id}`. */
export function holdReads(app: App, { ledger }: Services): void {
  app.get(
    '/v1/tenants/:slug/holds',
    {
      schema: { querystring: listQuery },
      config: {
        access: { by: 'key', scope: 'transactions:read' },
        doc: {
          id: 'listHolds',
          tag: 'Holds',
          summary: 'List holds',
          description: `Newest first. ${shortPages} Its captures: \`GET …/transactions?hold_id=\`. A hold that is due reads \`pending\` until its event is written, at most 2 seconds; from \`expires_at\` on it can’t be captured in any case.`,
          answers: {
            200: {
              description: 'A page of holds',
              schema: record({ holds: { type: 'array', items: ref('Hold') }, pagination }),
              example: { holds: [exampleHold], pagination: examplePagination },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const { caller, query } = request;
      const { limit = 50, cursor = '', expires_before } = query;
      const rpcRequest = {
        tenantId: caller.tenantId,
        status: query.status,
        accountCode: query.account_code,
        currency: query.currency,
        reference: query.reference,
        idempotencyKey: query.idempotency_key,
        ...periodOf(query),
        ...(expires_before !== undefined && { expiresBeforeMs: BigInt(Math.max(0, Date.parse(expires_before))) }),
        ...{ limit, cursor },
      };
      const { holds, nextCursor } = await ledger.listHolds(rpcRequest, callOptions(request, 5_000));
      return envelope(reply, pageJson('holds', holds.map(holdJson), pageOf(limit, nextCursor)));
    },
  );

  app.get(
    '/v1/tenants/:slug/holds/:hold_id',
    {
      config: {
        access: { by: 'key', scope: 'transactions:read' },
        doc: {
          id: 'getHold',
          tag: 'Holds',
          summary: 'Read a hold',
          answers: { 200: { ...oneHold, description: 'The hold', example: { hold: exampleHold } } },
          errors: ['validation_failed', 'hold_not_found'],
        },
      },
    },
    async (request, reply) => {
      const holdId = pathId('hold_id', request.params);
      const { hold } = await ledger.getHold({ tenantId: request.caller.tenantId, holdId }, callOptions(request, 5_000));
      if (!hold) throw new Error('the ledger answered without a hold');
      return envelope(reply, `"hold":${holdJson(hold)}`);
    },
  );
}
