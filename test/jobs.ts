// Jobs that have ended, as the auditor leaves them, for tests of what is done with them.
import { createHash } from 'node:crypto';
import { withClient } from '../deploy/local/databases.ts';
import { chunkBytes } from '../services/ledger/auditor/jobs.ts';
import { newId, toUuid } from '../services/platform/ids.ts';

/** Adds a job of a tenant (TypeID) that succeeded with this result. */
export async function addJob(
  adminUrl: string,
  tenantId: string,
  result: Buffer,
  { scope = 'reports:read', contentType = 'text/csv; charset=utf-8' } = {},
): Promise<string> {
  const jobId = newId('job');
  const [tenant, job] = [toUuid('tenant', tenantId), toUuid('job', jobId)];
  await withClient(adminUrl, async (client) => {
    // A superuser is not bound by the tenant's policy; another administrator is.
    await client.query(`select set_config('app.tenants', $1, false)`, [`{${tenant}}`]);
    await client.query(
      `insert into jobs (tenant_id, id, kind, scope, parameters, actor, request_id, status, done, total, content_type, bytes, sha256,
        created_at, finished_at, expires_at, runs)
      values ($1, $2, 'journal', $3, '{}', 'test', '', 'succeeded', 1, 1, $4, $5, $6, now(), now(), now() + interval '7 days', 1)`,
      [tenant, job, scope, contentType, result.length, createHash('sha256').update(result).digest()],
    );
    for (let position = 0; position * chunkBytes < result.length; position++) {
      const bytes = result.subarray(position * chunkBytes, (position + 1) * chunkBytes);
      await client.query('insert into job_chunks values ($1, $2, $3, $4)', [tenant, job, position, bytes]);
    }
  });
  return jobId;
}
