// The RPCs of jobs: check the request's fields, then run the use case.
import { Refusal } from '../accounting.ts';
import { checkedId, checkedText, invalid, oneOf, tenantOf } from '../fields.ts';
import { auditContextOf } from '../mapping.ts';
import { pageOf } from '../page.ts';
import { deleteJob, getJob, listJobs, readResult, startJob } from './jobs.ts';
import type { AuditHandlers, AuditorParts } from './parts.ts';

const maxParameters = 65_536;

/** Handlers of jobs and their results. */
export function jobHandlers({ pool, kinds, started }: AuditorParts): AuditHandlers {
  const jobIdOf = ({ jobId }: { jobId: string }) => checkedId('job_id', 'job', jobId);
  return {
    async startJob(request, { signal }) {
      const tenant = tenantOf(request);
      const name = oneOf('kind', request.kind, Object.keys(kinds));
      const parameters = checkedText('parameters', request.parameters, { max: maxParameters });
      const context = auditContextOf({ ...request, traceparent: '' });
      const connections = pool.of(tenant, signal);
      const kind = kinds[name];
      if (!kind) throw new Refusal('internal', 'a kind without its code');
      await kind.check(connections, tenant, parameters);
      const job = await startJob(connections, tenant, { kind: name, scope: kind.scope, parameters }, context);
      started();
      return { job };
    },
    async listJobs(request, { signal }) {
      const tenant = tenantOf(request);
      return listJobs(pool.of(tenant, signal), tenant, request.scopes, pageOf(request));
    },
    async getJob(request, { signal }) {
      const tenant = tenantOf(request);
      return { job: await getJob(pool.of(tenant, signal), tenant, jobIdOf(request)) };
    },
    async deleteJob(request, { signal }) {
      const tenant = tenantOf(request);
      await deleteJob(pool.of(tenant, signal), tenant, jobIdOf(request));
      return {};
    },
    async *readJobResult(request, { signal }) {
      const tenant = tenantOf(request);
      const { offset, length } = request;
      for (const [field, value] of Object.entries({ offset, length }))
        if (value < 0n) throw invalid(field, 'min', String(value), `${field} must not be negative`);
      const parts = readResult(pool.of(tenant, signal), tenant, jobIdOf(request), { offset, length });
      for await (const bytes of parts) yield { bytes };
    },
  };
}
