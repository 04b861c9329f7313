// Routes of jobs: list, read, cancel or remove, and the bytes of a result.
import { Readable } from 'node:stream';
import type { Job } from '../../proto/gen/ledger/v1/audit_pb.js';
import type { Scope } from '../../services/platform/roles.ts';
import { missingScope, type Caller } from '../auth.ts';
import { byteRange } from '../byte-ranges.ts';
import { ApiError } from '../errors.ts';
import { object, paging } from '../fields.ts';
import { exampleJob, jobRecord } from '../job-schemas.ts';
import { examplePagination, pageOf, pathId } from '../pages.ts';
import { id, pagination, record, ref } from '../records.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';

const tag = 'Jobs';
const access = { by: 'key', scope: 'reports:read' } as const;
const path = '/v1/tenants/:slug/jobs/:job_id';

// Beyond the time that a client may take for 256 MiB, at 8 KiB a second.
const resultTimeoutMs = 10 * 3_600_000;

/** The job of a path. Throws where the key lacks the scope that its start needed. */
function allowed(job: Job | undefined, caller: Caller): Job {
  if (!job) throw new Error('the auditor answered without a job');
  if (!caller.scopes.has(job.scope)) throw missingScope(job.scope as Scope);
  return job;
}

/** `/jobs` and below. */
export function jobRoutes(app: App, services: Services): void {
  listRoute(app, services);
  oneRoutes(app, services);
  resultRoute(app, services);
}

function listRoute(app: App, { auditor }: Services): void {
  app.get(
    '/v1/tenants/:slug/jobs',
    {
      schema: { querystring: object(paging) },
      config: {
        access,
        doc: {
          id: 'listJobs',
          tag,
          summary: 'List jobs',
          description: 'Newest first. Jobs whose start needed a scope that the key lacks are left out.',
          answers: {
            200: {
              description: 'A page of jobs',
              schema: record({ jobs: { type: 'array', items: ref('Job') }, pagination }),
              example: { jobs: [exampleJob], pagination: examplePagination },
            },
          },
        },
      },
    },
    async (request) => {
      const { caller, query } = request;
      const { limit = 50, cursor = '' } = query;
      const rpcRequest = { tenantId: caller.tenantId, scopes: [...caller.scopes], limit, cursor };
      const { jobs, nextCursor } = await auditor.listJobs(rpcRequest, callOptions(request, 5_000));
      return { success: true, data: { jobs: jobs.map(jobRecord), pagination: pageOf(limit, nextCursor) } };
    },
  );
}

function oneRoutes(app: App, { auditor }: Services): void {
  app.get(
    path,
    {
      config: {
        access,
        doc: {
          id: 'getJob',
          tag,
          summary: 'Read a job',
          description:
            'What takes long is a job: it is `queued`, then `running`, and ends as `succeeded`, `failed` or `cancelled`. Three jobs of a tenant run at a time. After a crash a job runs again. Needs the scope that its start needed.',
          answers: {
            200: { description: 'The job', schema: record({ job: ref('Job') }), name: 'Job', example: { job: exampleJob } },
          },
          errors: ['validation_failed', 'job_not_found'],
          errorFields: { validation_failed: { field: 'job_id', tag: 'id', value: 'job_1' } },
        },
      },
    },
    async (request) => {
      const rpcRequest = { tenantId: request.caller.tenantId, jobId: pathId('job_id', request.params) };
      const { job } = await auditor.getJob(rpcRequest, callOptions(request, 5_000));
      return { success: true, data: { job: jobRecord(allowed(job, request.caller)) } };
    },
  );

  app.delete(
    path,
    {
      config: {
        access,
        doc: {
          id: 'deleteJob',
          tag,
          summary: 'Cancel or remove a job',
          description:
            'Cancels a job that has not ended; it stays in the list as `cancelled`. Removes one that has ended, with its result. A second call answers 404.',
          answers: {
            200: {
              description: 'Cancelled or removed',
              schema: record({ id: id('job'), deleted: { type: 'boolean' } }),
              example: { id: exampleJob.id, deleted: true },
            },
          },
          errors: ['validation_failed', 'job_not_found'],
          errorFields: { validation_failed: { field: 'job_id', tag: 'id', value: 'job_1' } },
        },
      },
    },
    async (request) => {
      const rpcRequest = { tenantId: request.caller.tenantId, jobId: pathId('job_id', request.params) };
      const { job } = await auditor.getJob(rpcRequest, callOptions(request, 5_000));
      allowed(job, request.caller);
      await auditor.deleteJob(rpcRequest, callOptions(request, 10_000));
      return { success: true, data: { id: rpcRequest.jobId, deleted: true } };
    },
  );
}

function resultRoute(app: App, { auditor }: Services): void {
  const file = { schema: { type: 'string', format: 'binary' }, example: 'account_code,name\r\n', unwrappedType: '*/*' };
  app.get(
    `${path}/result`,
    {
      config: {
        access,
        doc: {
          id: 'getJobResult',
          tag,
          summary: 'Download the result of a job',
          description:
            'The bytes, with the content type that `result` of the job names. They never change: after a cut go on with `Range: bytes=<from>-`, and `If-Range` with the `ETag`, which is the SHA-256.',
          answers: {
            200: { ...file, description: 'All bytes', headers: ['ETag', 'Accept-Ranges'] },
            206: { ...file, description: 'A part of them', headers: ['ETag', 'Accept-Ranges', 'Content-Range'] },
          },
          errors: ['validation_failed', 'job_not_found', 'job_not_finished', 'range_not_satisfiable'],
          errorFields: { validation_failed: { field: 'job_id', tag: 'id', value: 'job_1' } },
        },
      },
    },
    async (request, reply) => {
      const rpcRequest = { tenantId: request.caller.tenantId, jobId: pathId('job_id', request.params) };
      const job = allowed((await auditor.getJob(rpcRequest, callOptions(request, 5_000))).job, request.caller);
      if (!job.result) throw new ApiError('job_not_finished', { message: `the job is ${job.status}: it has no result` });
      const { contentType, sha256 } = job.result;
      const bytes = Number(job.result.bytes);
      const etag = `"${sha256}"`;
      const range = byteRange(request.headers, bytes, etag);
      if (range === 'unsatisfiable') throw new ApiError('range_not_satisfiable', { headers: { 'content-range': `bytes */${bytes}` } });
      const { offset, length } = range ?? { offset: 0, length: bytes };
      reply.headers({ 'content-type': contentType, etag, 'accept-ranges': 'bytes', 'content-length': length });
      if (range) reply.code(206).header('content-range', `bytes ${offset}-${offset + length - 1}/${bytes}`);
      if (length === 0) return reply.send('');
      // An empty text would make the length 0.
      if (request.method === 'HEAD') return reply.send(Readable.from([]));
      const part = { ...rpcRequest, offset: BigInt(offset), length: BigInt(length) };
      const answers = auditor.readJobResult(part, callOptions(request, resultTimeoutMs));
      return reply.send(Readable.from(bytesOf(answers), { objectMode: false, highWaterMark: 65_536 }));
    },
  );
}

/** The bytes of a stream of messages. */
export async function* bytesOf(answers: AsyncIterable<{ bytes: Uint8Array }>): AsyncGenerator<Uint8Array> {
  for await (const { bytes } of answers) if (bytes.length > 0) yield bytes;
}
