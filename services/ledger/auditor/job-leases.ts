// The runner's SQL on jobs: leases, renewals, chunks of results and ends. What a lost lease writes changes nothing.
import { newUuid } from '../../platform/ids.ts';
import { inTransaction, withClient, type Client, type Pool } from '../../platform/postgres.ts';
import { ended } from './jobs.ts';

/** Jobs of one tenant that run at a time. */
export const maxPerTenant = 3;

// A job that ends the process each time must not do so for ever.
const maxRuns = 5;

/** A job that this process runs until its lease ends. */
export interface Lease {
  /** UUIDs. */
  tenant: string;
  id: string;
  leaseId: string;
  kind: string;
  parameters: string;
  /** How often it was begun, this time included. */
  runs: number;
}

/** How many jobs wait or run, and for how long the oldest has waited. */
export interface JobCounts {
  waiting: number;
  running: number;
  oldestMs: number;
}

const isFree = `(status = 'queued' or (status = 'running' and leased_until < clock_timestamp()))`;
const isLeased = `status = 'running' and leased_until >= clock_timestamp()`;

/** Tenants (UUIDs) with a job of these kinds that may run, those first that have fewer running. `pool` has `app.runner` on. */
export async function tenantsWithWork(pool: Pool, kinds: string[]): Promise<string[]> {
  const { rows } = await pool.query<{ tenant_id: string }>({
    name: 'tenants_with_jobs',
    text: `select tenant_id from jobs where status in ('queued', 'running') group by tenant_id
      having count(*) filter (where ${isFree} and kind = any($1)) > 0 and count(*) filter (where ${isLeased}) < ${maxPerTenant}
      order by count(*) filter (where ${isLeased}), min(created_at) filter (where ${isFree}) limit 100`,
    values: [kinds],
  });
  return rows.map((row) => row.tenant_id);
}

/** Counts the jobs of all tenants. */
export async function countJobs(pool: Pool): Promise<JobCounts> {
  const { rows } = await pool.query<JobCounts>({
    name: 'count_jobs',
    text: `select (count(*) filter (where ${isFree}))::int as waiting, (count(*) filter (where ${isLeased}))::int as running,
        coalesce(extract(epoch from clock_timestamp() - min(created_at) filter (where ${isFree})) * 1000, 0)::float8 as "oldestMs"
      from jobs where status in ('queued', 'running')`,
  });
  return rows[0] as JobCounts;
}

/** Leases the oldest job of a tenant that may run, and drops what an earlier run has written; null: none may. */
export function leaseJob(pool: Pool, tenant: string, kinds: string[], leaseMs: number): Promise<Lease | null> {
  return inTransaction(pool, [tenant], async (client) => {
    // Counting the leases and taking one is one step.
    await client.query(`select pg_advisory_xact_lock(hashtextextended('jobs ' || $1, 0))`, [tenant]);
    const leaseId = newUuid();
    const { rows } = await client.query<Lease>({
      name: 'lease_job',
      text: `update jobs set status = 'running', runs = runs + 1, done = 0, total = 0, lease_id = $2,
          leased_until = clock_timestamp() + make_interval(secs => $3::float8 / 1000)
        where tenant_id = $1 and id = (select id from jobs where tenant_id = $1 and status in ('queued', 'running') and kind = any($4) and ${isFree}
            and (select count(*) from jobs where tenant_id = $1 and ${isLeased}) < ${maxPerTenant} order by id limit 1 for update)
        returning tenant_id as tenant, id, lease_id as "leaseId", kind, parameters, runs`,
      values: [tenant, leaseId, leaseMs, kinds],
    });
    const [lease] = rows;
    if (!lease) return null;
    await client.query('delete from job_chunks where tenant_id = $1 and job_id = $2', [tenant, lease.id]);
    if (lease.runs <= maxRuns) return lease;
    const failure = { code: 'internal', message: `the job was begun ${maxRuns} times and did not end` };
    await client.query(fail(lease, failure));
    return null;
  });
}

const isMine = `tenant_id = $1 and id = $2 and lease_id = $3 and status = 'running'`;

const inTenant = <Result>(pool: Pool, { tenant }: Lease, work: (client: Client) => Promise<Result>) => inTransaction(pool, [tenant], work);

/** Prolongs a lease; false: it was lost. */
export async function renew(pool: Pool, lease: Lease, leaseMs: number, { done, total }: { done: number; total: number }): Promise<boolean> {
  const renewed = await inTenant(pool, lease, (client) =>
    client.query({
      name: 'renew_job',
      text: `update jobs set done = $4, total = $5, leased_until = clock_timestamp() + make_interval(secs => $6::float8 / 1000) where ${isMine}`,
      values: [lease.tenant, lease.id, lease.leaseId, done, total, leaseMs],
    }),
  );
  return renewed.rowCount === 1;
}

/** Stores a part of the result; false: the lease was lost. */
export async function addChunk(pool: Pool, lease: Lease, position: number, bytes: Buffer): Promise<boolean> {
  const added = await inTenant(pool, lease, (client) =>
    client.query({
      name: 'add_job_chunk',
      text: `with mine as (select id from jobs where ${isMine} for update)
        insert into job_chunks (tenant_id, job_id, position, bytes) select $1, id, $4, $5 from mine`,
      values: [lease.tenant, lease.id, lease.leaseId, position, bytes],
    }),
  );
  return added.rowCount === 1;
}

/** Records the end of a job with its result; false: the lease was lost. */
export async function succeed(
  pool: Pool,
  lease: Lease,
  result: { contentType: string; bytes: number; sha256: Buffer; total: number },
): Promise<boolean> {
  const done = await inTenant(pool, lease, (client) =>
    client.query({
      name: 'succeed_job',
      text: `with done as (update jobs set status = 'succeeded', done = $7, total = $7, content_type = $4, bytes = $5, sha256 = $6, ${ended}
            where ${isMine} returning id),
          used as (delete from uploads where tenant_id = $1 and id in (select id from done))
        select from done`,
      values: [lease.tenant, lease.id, lease.leaseId, result.contentType, result.bytes, result.sha256, result.total],
    }),
  );
  return done.rowCount === 1;
}

/** Why a job failed. */
export interface Failure {
  code: string;
  message: string;
  /** Of what was uploaded. */
  line?: number;
}

const fail = (lease: Lease, { code, message, line }: Failure) => ({
  name: 'fail_job',
  text: `with failed as (update jobs set status = 'failed', error_code = $4, error_message = $5, error_line = $6, ${ended} where ${isMine} returning id),
      used as (delete from uploads where tenant_id = $1 and id in (select id from failed))
    delete from job_chunks where tenant_id = $1 and job_id in (select id from failed)`,
  values: [lease.tenant, lease.id, lease.leaseId, code, message, line],
});

/** Records why a job failed, and drops what it has written. */
export async function recordFailure(pool: Pool, lease: Lease, failure: Failure): Promise<void> {
  await inTenant(pool, lease, (client) => client.query(fail(lease, failure)));
}

/** Gives a job back, for another process or a later time. `counts`: whether the run counts. */
export async function giveBack(pool: Pool, lease: Lease, counts: boolean): Promise<void> {
  await inTenant(pool, lease, (client) =>
    client.query(`update jobs set status = 'queued', runs = runs - $4, lease_id = null, leased_until = null where ${isMine}`, [
      lease.tenant,
      lease.id,
      lease.leaseId,
      counts ? 0 : 1,
    ]),
  );
}

/** Removes the jobs of all tenants that were kept long enough; answers how many. `runner` has `app.runner` on. */
export async function deleteExpiredJobs(runner: Pool): Promise<number> {
  const text = 'select distinct tenant_id from jobs where expires_at < clock_timestamp()';
  const { rows } = await withClient(runner, (client) => client.query<{ tenant_id: string }>(text));
  let deleted = 0;
  for (const { tenant_id: tenant } of rows) {
    const gone = await inTransaction(runner, [tenant], (client) =>
      client.query('delete from jobs where tenant_id = $1 and expires_at < clock_timestamp()', [tenant]),
    );
    deleted += gone.rowCount ?? 0;
  }
  return deleted;
}
