// Routes of proofs: that an event stands in the log of a signed checkpoint, that a log was only appended to, and the keys that sign.
import { Type } from 'typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Proof } from '../../proto/gen/ledger/v1/audit_pb.js';
import type { ErrorCode } from '../errors.ts';
import { object, oneOf, proofFormats, whole } from '../fields.ts';
import type { Doc } from '../openapi-route.ts';
import { pathId, pathSequence } from '../pages.ts';
import { exampleKey, exampleProof, keyRecord, pathRecord, proofRecord, tlogProof } from '../tlog-records.ts';
import { list, record, ref } from '../records.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';

const access = { by: 'key', scope: 'transactions:read' } as const;
const tag = 'Proofs';
// A proof may need a new checkpoint, after the events before it were walked.
const proofTimeoutMs = 20_000;

const proofQuery = object({
  format: Type.Optional(oneOf(proofFormats, { default: 'json', description: '`tlog-proof`: the text of https://c2sp.org/tlog-proof.' })),
});

function proofDoc(id: string, summary: string, errors: ErrorCode[]): Doc {
  return {
    id,
    tag,
    summary,
    description:
      'Says that the event stands in the log whose root a checkpoint has signed. Who has it, and the `vkey`, can check it offline with `verify.mjs`, `verify.py` or any other verifier of the format; nothing of this server has to be trusted. Without a checkpoint that holds the event yet, one is signed.',
    answers: {
      200: {
        description: 'The proof',
        name: 'Proof',
        schema: record({ proof: ref('Proof') }),
        example: { proof: exampleProof },
        files: { 'text/plain': tlogProof(exampleProof) },
      },
    },
    errors: [...errors, 'books_frozen'],
  };
}

function sendProof(proof: Proof | undefined, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (!proof) throw new Error('the auditor answered without a proof');
  const answer = proofRecord(proof);
  const { format } = request.query as { format?: string };
  if (format !== 'tlog-proof') return reply.send({ success: true, data: { proof: answer } });
  return reply.type('text/plain; charset=utf-8').send(tlogProof(answer));
}

/** `/transactions/{transaction_id}/proof`, `/events/{sequence}/proof`, `/tlog/consistency` and `/tlog/keys`. */
export function proofRoutes(app: App, services: Services): void {
  eventProofs(app, services);
  consistencyRoute(app, services);
  keyRoute(app, services);
}

function eventProofs(app: App, { auditor }: Services): void {
  app.get(
    '/v1/tenants/:slug/transactions/:transaction_id/proof',
    {
      schema: { querystring: proofQuery },
      config: { access, doc: proofDoc('getTransactionProof', 'Prove a transaction', ['transaction_not_found']) },
    },
    async (request, reply) => {
      const event = { case: 'transactionId', value: pathId('transaction_id', request.params) } as const;
      const { proof } = await auditor.getProof({ tenantId: request.caller.tenantId, event }, callOptions(request, proofTimeoutMs));
      return sendProof(proof, request, reply);
    },
  );
  app.get(
    '/v1/tenants/:slug/events/:sequence/proof',
    {
      schema: { querystring: proofQuery },
      config: { access, doc: proofDoc('getEventProof', 'Prove an event', ['event_not_found']) },
    },
    async (request, reply) => {
      const event = { case: 'sequence', value: pathSequence(request.params) } as const;
      const { proof } = await auditor.getProof({ tenantId: request.caller.tenantId, event }, callOptions(request, proofTimeoutMs));
      return sendProof(proof, request, reply);
    },
  );
}

const size = (description: string, example: number) => whole(1, Number.MAX_SAFE_INTEGER, { description, example });
const consistencyQuery = object({
  old: size('Size of the earlier tree.', 1),
  new: size('Size of the later tree, at most that of the newest checkpoint.', 3),
});

function consistencyRoute(app: App, { auditor }: Services): void {
  app.get(
    '/v1/tenants/:slug/tlog/consistency',
    {
      schema: { querystring: consistencyQuery },
      config: {
        access,
        doc: {
          id: 'getConsistency',
          tag,
          summary: 'Prove that nothing before has changed',
          description:
            'Says that the log of a later checkpoint begins with that of an earlier one (RFC 6962, section 2.1.2). Take both sizes from checkpoints that you have, and check the path against their roots.',
          answers: {
            200: {
              description: 'The proof',
              schema: record({ consistency: ref('Consistency') }),
              example: { consistency: { old: 31, new: 32, path: exampleProof.path } },
            },
          },
          errors: ['event_not_found', 'books_frozen'],
        },
      },
    },
    async (request) => {
      const { old, new: later } = request.query;
      const rpcRequest = { tenantId: request.caller.tenantId, oldSize: BigInt(old), newSize: BigInt(later) };
      const { path } = await auditor.getConsistency(rpcRequest, callOptions(request, 10_000));
      return { success: true, data: { consistency: { old, new: later, path: pathRecord(path) } } };
    },
  );
}

function keyRoute(app: App, { auditor }: Services): void {
  app.get(
    '/v1/tenants/:slug/tlog/keys',
    {
      config: {
        access,
        doc: {
          id: 'listCheckpointKeys',
          tag,
          summary: 'List the keys of checkpoints',
          description:
            'Verifiers need the `vkey` of the key that signed. Keep it yourself: who could change the log could answer another one here.',
          answers: {
            200: {
              description: 'The keys, first the one that signs',
              schema: record({ keys: list(ref('CheckpointKey')) }),
              example: { keys: [exampleKey] },
            },
          },
        },
      },
    },
    async (request) => {
      const { keys } = await auditor.listCheckpointKeys({ tenantId: request.caller.tenantId }, callOptions(request, 5_000));
      return { success: true, data: { keys: keys.map(keyRecord) } };
    },
  );
}
