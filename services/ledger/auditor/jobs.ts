// Jobs as clients see them: started, listed, read, cancelled, and their results read.
import { create } from '@bufbuild/protobuf';
import { JobSchema, type Job } from '../../../proto/gen/ledger/v1/audit_pb.js';
import { cutPage, uuidPosition, type CursorScope } from '../../platform/cursor.ts';
import { toId, uuidAt } from '../../platform/ids.ts';
import { epochMs, inTransaction, readTenant, type Connections } from '../../platform/postgres.ts';
import { Refusal } from '../accounting.ts';
import type { AuditContext } from '../chart.ts';
import { invalid } from '../fields.ts';
import { positionOf, type Page } from '../page.ts';

/** How long a job is kept after its end, days. */
export const keptDays = 7;
/** Bytes of each part in which a result is stored, but for the last. */
export const chunkBytes = 512 * 1024;

const maxUnfinished = 100;

interface JobRow {
  id: string;
  kind: string;
  status: string;
  done: bigint;
  total: bigint;
  error_code: string | null;
  error_message: string | null;
  error_line: bigint | null;
  content_type: string | null;
  bytes: bigint | null;
  sha256: Buffer | null;
  created_ms: number;
  finished_ms: number | null;
  expires_ms: number | null;
  scope: string;
}

const columns = `id, kind, status, done, total, error_code, error_message, error_line, content_type, bytes, sha256, scope,
  ${epochMs('created_at')} as created_ms, ${epochMs('finished_at')} as finished_ms, ${epochMs('expires_at')} as expires_ms`;

/** What a job is to do. */
export interface WantedJob {
  kind: string;
  scope: string;
  /** JSON. */
  parameters: string;
}

/** The lease of a caller that prepares a job itself. */
export interface StartLease {
  /** UUID. */
  leaseId: string;
  leaseMs: number;
}

/** Adds a job to a tenant's (UUID) queue. `lease`: it is not to run yet. Throws {@link Refusal} where 100 wait already. */
export async function startJob(
  pool: Connections,
  tenant: string,
  wanted: WantedJob,
  context: AuditContext,
  lease?: StartLease,
): Promise<Job> {
  const { rows } = await inTransaction(pool, [tenant], (client) =>
    client.query<JobRow & { is_deleted: boolean }>({
      name: 'start_job',
      text: `insert into jobs (tenant_id, id, kind, scope, parameters, actor, request_id, status, done, total, created_at, runs,
          lease_id, leased_until)
        select $1, $2, $3, $4, $5, $6, $7, case when $8::uuid is null then 'queued' else 'running' end, 0, 0, clock_timestamp(), 0,
          $8, clock_timestamp() + make_interval(secs => $9::float8 / 1000)
        where (select count(*) from jobs where tenant_id = $1 and status in ('queued', 'running')) < ${maxUnfinished}
          and not exists (select from deleted_tenants where tenant_id = $1)
        returning ${columns}`,
      values: [
        tenant,
        uuidAt(Date.now()),
        wanted.kind,
        wanted.scope,
        wanted.parameters,
        context.actor,
        context.requestId,
        lease?.leaseId,
        lease?.leaseMs,
      ],
    }),
  );
  if (rows[0]) return jobOf(rows[0]);
  const [deleted] = await readTenant<[object[]]>(pool, tenant, { text: 'select from deleted_tenants', values: [] });
  if (deleted.length > 0) throw invalid('tenant_id', 'deleted', '', 'tenant_id is that of a deleted tenant');
  throw new Refusal('overloaded', `${maxUnfinished} jobs of the tenant are not finished`);
}

/** A page of a tenant's jobs, newest first. `scopes`: of those that needed one of these; empty: of all. */
export async function listJobs(
  pool: Connections,
  tenant: string,
  scopes: string[],
  { limit, cursor }: Page,
): Promise<{ jobs: Job[]; nextCursor: string }> {
  const scope: CursorScope = ['jobs', tenant, { scopes: [...scopes].sort() }];
  const before = positionOf(scope, cursor, uuidPosition);
  const [rows] = await readTenant<[JobRow[]]>(pool, tenant, {
    name: 'list_jobs',
    text: `select ${columns} from jobs where tenant_id = $1 and id < coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        and (cardinality($3::text[]) = 0 or scope = any($3)) order by id desc limit $4`,
    values: [tenant, before, scopes, limit + 1],
  });
  const page = cutPage(rows, limit, scope, ({ id }) => id);
  return { jobs: page.rows.map(jobOf), nextCursor: page.nextCursor };
}

/** A job by its id (UUID). Throws {@link Refusal} where there is none. */
export async function getJob(pool: Connections, tenant: string, id: string): Promise<Job> {
  const [rows] = await readTenant<[JobRow[]]>(pool, tenant, {
    name: 'get_job',
    text: `select ${columns} from jobs where tenant_id = $1 and id = $2`,
    values: [tenant, id],
  });
  if (!rows[0]) throw notFound();
  return jobOf(rows[0]);
}

/** Cancels a job that is not finished; removes one that is, with its result. Throws {@link Refusal} where there is none, or it is cancelled. */
export async function deleteJob(pool: Connections, tenant: string, id: string): Promise<void> {
  await inTransaction(pool, [tenant], async (client) => {
    const { rows } = await client.query<{ status: string }>('select status from jobs where tenant_id = $1 and id = $2 for update', [
      tenant,
      id,
    ]);
    const status = rows[0]?.status ?? 'cancelled';
    if (status === 'cancelled') throw notFound();
    if (status === 'succeeded' || status === 'failed') {
      await client.query('delete from jobs where tenant_id = $1 and id = $2', [tenant, id]);
      return;
    }
    await client.query(`update jobs set status = 'cancelled', ${ended} where tenant_id = $1 and id = $2`, [tenant, id]);
    await client.query('delete from job_chunks where tenant_id = $1 and job_id = $2', [tenant, id]);
    await client.query('delete from uploads where tenant_id = $1 and id = $2', [tenant, id]);
  });
}

/** What changes in a row when a job ends, as SQL. */
export const ended = `finished_at = clock_timestamp(), expires_at = clock_timestamp() + interval '${keptDays} days', lease_id = null, leased_until = null`;

/** The bytes of a result from an offset on, `length` of them; 0: all. Throws {@link Refusal}. */
export async function* readResult(
  pool: Connections,
  tenant: string,
  id: string,
  range: { offset: bigint; length: bigint },
): AsyncGenerator<Buffer> {
  const { result, status } = await getJob(pool, tenant, id);
  if (!result) throw new Refusal('job_not_finished', `the job is ${status}: it has no result`);
  const offset = Number(range.offset);
  const end = range.length === 0n ? Number(result.bytes) : Math.min(Number(result.bytes), offset + Number(range.length));
  for (let from = offset; from < end;) {
    const position = Math.floor(from / chunkBytes);
    const start = from - position * chunkBytes;
    const [rows] = await readTenant<[{ bytes: Buffer }[]]>(pool, tenant, {
      name: 'job_chunk',
      text: 'select substring(bytes from $4::int) as bytes from job_chunks where tenant_id = $1 and job_id = $2 and position = $3',
      values: [tenant, id, position, start + 1],
    });
    // Deleted meanwhile.
    if (!rows[0]) throw notFound();
    const bytes = rows[0].bytes.subarray(0, end - from);
    yield bytes;
    from += bytes.length;
  }
}

function notFound(): Refusal {
  return new Refusal('job_not_found', 'job not found');
}

function jobOf(row: JobRow): Job {
  const { error_code: code, error_message: message, error_line: line, content_type: contentType, bytes, sha256 } = row;
  return create(JobSchema, {
    id: toId('job', row.id),
    kind: row.kind,
    status: row.status,
    done: row.done,
    total: row.total,
    ...(code !== null && { error: { code, message: message ?? '', ...(line !== null && { line }) } }),
    ...(contentType !== null && bytes !== null && sha256 !== null && { result: { contentType, bytes, sha256: sha256.toString('hex') } }),
    createdMs: BigInt(row.created_ms),
    ...(row.finished_ms !== null && { finishedMs: BigInt(row.finished_ms) }),
    ...(row.expires_ms !== null && { expiresMs: BigInt(row.expires_ms) }),
    scope: row.scope,
  });
}
