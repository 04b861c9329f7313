// Import of a whole log into a tenant without events.
import type { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { mustEnd } from '../auth.ts';
import { ApiError } from '../errors.ts';
import { exampleNewJob, jobRecord } from '../job-schemas.ts';
import { record, ref } from '../records.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { ndjson, openBytes, refuseCompressed, withUploads } from '../uploads.ts';

// As long as the client sends.
const uploadTimeoutMs = 24 * 3_600_000;

const exampleLines = [
  { sequence: 1, type: 'account.created', header: '["tenant_01jd…",1,"evt_01jd…","account.created",1906545600000,"key_01jd…","req-1"]' },
  { payload: 'CgNhY2M=', payload_hash: '9f86d081…', previous_hash: '00000000…', hash: '60303ae2…' },
];
const example = `${JSON.stringify(Object.assign({}, ...exampleLines))}\n${JSON.stringify({ end: true, count: 1, sequence: 1, hash: '60303ae2…' })}\n`;

/** `POST /v1/tenants/<tenant_id>/import`. */
export function logImportRoutes(app: App, services: Services): void {
  withUploads(app, (scoped) => importRoute(scoped, services));
}

function importRoute(app: App, { auditor, shutdown }: Services): void {
  app.post(
    '/v1/tenants/:tenant_id/import',
    {
      preValidation: [refuseCompressed],
      config: {
        access: { by: 'member', role: 'owner' },
        weight: 4,
        doc: {
          id: 'importLog',
          tag: 'Tenants',
          summary: 'Import a whole log',
          description: [
            `For owners. The body is \`${ndjson}\` of up to 16 GiB, or what the setting \`IMPORT_MAX_GIB\` allows: what \`GET …/export/events\` has answered, from the first event to its last line. The tenant must have no events (\`books_not_empty\`).`,
            'The answer comes when all has arrived. A job then checks the whole log: its chain, each event by the rules of the ledger, and a `checkpoint` in the last line, if there is one. If anything is wrong nothing is written, and the job fails with `import_invalid` and the `line`. Otherwise all events and balances appear at once.',
            'Payloads, ids, keys and times stay as they are, so that keys that were used replay. The log begins with `log.imported`, which names the source, its size and the root of its Merkle tree; every other event follows one position later, with a hash of its own. Nothing but that event is published. Personal data stays sealed.',
            'One import of a tenant runs at a time. After a lost answer, list the jobs.',
          ].join('\n\n'),
          stream: { type: ndjson, schema: { type: 'string', description: 'An export of events.' }, example },
          answers: {
            202: {
              description: 'Queued',
              schema: record({ job: ref('Job') }),
              name: 'Job',
              example: { job: { ...exampleNewJob, kind: 'import' } },
            },
          },
          errors: ['books_not_empty', 'import_invalid', 'job_not_found'],
        },
      },
    },
    async (request, reply) => {
      const { job } = await auditor.importLog(messagesOf(request, reply, shutdown), callOptions(request, uploadTimeoutMs));
      return reply.code(202).send({ success: true, data: { job: jobRecord(job) } });
    },
  );
}

async function* messagesOf(request: FastifyRequest, reply: FastifyReply, shutdown: AbortSignal) {
  const { actor, requestId } = auditContext(request);
  yield { part: { case: 'start' as const, value: { tenantId: request.caller.tenantId, actor, requestId } } };
  const body = request.body as Readable | undefined;
  if (!body) return;
  for await (const bytes of openBytes(request, reply, body, shutdown)) {
    const error = await mustEnd(request, reply, shutdown);
    if (error) throw error;
    yield { part: { case: 'bytes' as const, value: bytes as Buffer } };
  }
  if (!body.readableEnded) throw new ApiError('unavailable', { message: 'the server is stopping' });
}
