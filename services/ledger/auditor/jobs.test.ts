// Jobs over gRPC: their life, what a stalled or stopped run leaves, and how many may run and wait.
import { createHash, randomBytes } from 'node:crypto';
import { startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { newTenant, refusal, startLedger, type RunningLedger } from '../../../test/ledger.ts';
import { until } from '../../../test/polling.ts';
import { newId, toUuid } from '../../platform/ids.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { Refusal } from '../accounting.ts';
import type { JobKinds, RunningJob } from './job-kinds.ts';
import { deleteExpiredJobs } from './job-leases.ts';
import { ResultWriter, maxResultBytes } from './job-result.ts';
import { chunkBytes } from './jobs.ts';

let ledger: RunningLedger;
let auditor: RunningAuditor;

/** Runs of `waits`, by tenant, in the order in which they began. */
const waiting: { job: RunningJob; go: () => void }[] = [];
const waitingOf = (tenant: string) => waiting.filter(({ job }) => job.tenant === tenant);

const bytes = randomBytes(2 * chunkBytes + 1_000);

/** What a job writes is random, but the same in each run. */
const kinds: JobKinds = {
  writes: {
    scope: 'reports:read',
    check: (_, tenant, parameters) => {
      if (parameters === 'bad') throw new Refusal('validation_failed', 'bad', { field: 'depth', tag: 'max', value: '99' });
      return Promise.resolve(tenant);
    },
    async run({ write, progress }) {
      for (let from = 0; from < bytes.length; from += 100_000) await write(bytes.subarray(from, from + 100_000));
      progress(7, 9);
      return 'application/octet-stream';
    },
  },
  waits: {
    scope: 'accounts:read',
    check: () => Promise.resolve(),
    async run(job) {
      await job.write(bytes.subarray(0, chunkBytes + 10));
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.push({ job, go: resolve });
      job.signal.addEventListener('abort', () => resolve());
      await promise;
      await job.write(bytes.subarray(chunkBytes + 10));
      return 'text/plain';
    },
  },
  refuses: {
    scope: 'reports:read',
    check: () => Promise.resolve(),
    run: () => Promise.reject(new Refusal('account_not_found', 'account X not found')),
  },
  breaks: { scope: 'reports:read', check: () => Promise.resolve(), run: () => Promise.reject(new Error('a secret')) },
};

beforeAll(async () => {
  ledger = await startLedger();
  auditor = await startAuditor(ledger.database, { kinds });
});
afterAll(async () => {
  await auditor.end();
  await ledger.end();
});

const start = async (tenantId: string, kind: string) => (await auditor.client.startJob({ tenantId, kind, parameters: '{}' })).job!;
const get = async (tenantId: string, jobId: string) => (await auditor.client.getJob({ tenantId, jobId })).job!;
const ended = (tenantId: string, jobId: string) =>
  until(
    () => get(tenantId, jobId),
    ({ status }) => !['queued', 'running'].includes(status),
  );
const read = async (tenantId: string, jobId: string, offset = 0n, length = 0n) => {
  const parts: Uint8Array[] = [];
  for await (const part of auditor.client.readJobResult({ tenantId, jobId, offset, length })) parts.push(part.bytes);
  return Buffer.concat(parts);
};
const sha256 = (content: Uint8Array) => createHash('sha256').update(content).digest('hex');
/** Changes a job's row, as time or another process would. */
const change = ({ tenant, id }: { tenant: string; id: string }, set: string) =>
  inTransaction(auditor.pool, [tenant], (client) => client.query(`update jobs set ${set} where id = $1`, [toUuid('job', id)]));

test('a job runs, and any range of its result can be read', async () => {
  const { tenantId } = newTenant();
  const started = await start(tenantId, 'writes');
  expect(started).toMatchObject({ kind: 'writes', status: 'queued', scope: 'reports:read', done: 0n, total: 0n });
  const job = await ended(tenantId, started.id);
  expect(job).toMatchObject({ status: 'succeeded', done: 9n, total: 9n });
  expect(job.result).toMatchObject({ contentType: 'application/octet-stream', bytes: BigInt(bytes.length), sha256: sha256(bytes) });
  expect(job.expiresMs! - job.finishedMs!).toBe(7n * 86_400_000n);
  expect(sha256(await read(tenantId, job.id))).toBe(sha256(bytes));
  for (const [from, length] of [
    [chunkBytes - 3, 6],
    [chunkBytes, chunkBytes],
    [bytes.length - 1, 5],
    [5, 2 * chunkBytes],
  ] as const) {
    expect(sha256(await read(tenantId, job.id, BigInt(from), BigInt(length)))).toBe(sha256(bytes.subarray(from, from + length)));
  }
  expect(await refusal(read(newTenant().tenantId, job.id))).toMatchObject({ reason: 'job_not_found' });
});

test('a list has the jobs of the given scopes, newest first, page by page', async () => {
  const { tenantId, tenant } = newTenant();
  const ids: string[] = [];
  for (const kind of ['writes', 'waits', 'refuses']) ids.unshift((await start(tenantId, kind)).id);
  const first = await auditor.client.listJobs({ tenantId, limit: 2 });
  const second = await auditor.client.listJobs({ tenantId, limit: 2, cursor: first.nextCursor });
  expect([...first.jobs, ...second.jobs].map(({ id }) => id)).toEqual(ids);
  expect(second.nextCursor).toBe('');
  const own = await auditor.client.listJobs({ tenantId, scopes: ['accounts:read'] });
  expect(own.jobs.map(({ kind }) => kind)).toEqual(['waits']);
  await until(
    () => Promise.resolve(waitingOf(tenant)),
    ({ length }) => length === 1,
  );
  waitingOf(tenant)[0]!.go();
});

test('a failed job says why, and not what only operators may see', async () => {
  const { tenantId } = newTenant();
  const [refused, broken] = [await start(tenantId, 'refuses'), await start(tenantId, 'breaks')];
  expect((await ended(tenantId, refused.id)).error).toMatchObject({ code: 'account_not_found', message: 'account X not found' });
  expect((await ended(tenantId, broken.id)).error).toMatchObject({ code: 'internal', message: 'internal error' });
  expect(await refusal(read(tenantId, broken.id))).toMatchObject({ reason: 'job_not_finished' });
});

test('a result beyond 256 MiB is refused', async () => {
  let stored = 0;
  const writer = new ResultWriter((_, part) => Promise.resolve(void (stored += part.length)));
  const part = Buffer.alloc(8 << 20);
  for (let total = 0; total < maxResultBytes; total += part.length) await writer.write(part);
  await expect(writer.write(Buffer.alloc(1))).rejects.toMatchObject({ reason: 'report_too_large' });
  expect(stored).toBe(maxResultBytes);
});

test('bad requests name their field', async () => {
  const { tenantId } = newTenant();
  const { client } = auditor;
  const jobId = newId('job');
  const bad: [call: Promise<unknown>, field: string, tag: string][] = [
    [client.startJob({ tenantId, kind: 'nothing' }), 'kind', 'oneof'],
    [client.startJob({ tenantId, kind: 'writes', parameters: 'bad' }), 'depth', 'max'],
    [client.startJob({ tenantId, kind: 'writes', parameters: 'x'.repeat(65_537) }), 'parameters', 'max'],
    [client.startJob({ kind: 'writes' }), 'tenant_id', 'required'],
    [client.getJob({ tenantId, jobId: 'job_1' }), 'job_id', 'id'],
    [client.listJobs({ tenantId, limit: 101 }), 'limit', 'max'],
    [client.listJobs({ tenantId, cursor: 'x' }), 'cursor', 'cursor'],
    [read(tenantId, jobId, -1n), 'offset', 'min'],
    [read(tenantId, jobId, 0n, -1n), 'length', 'min'],
  ];
  const errors = await Promise.all(bad.map(([call]) => refusal(call)));
  expect(errors).toMatchObject(bad.map(([, field, tag]) => ({ reason: 'validation_failed', field, tag })));
  for (const call of [() => client.getJob({ tenantId, jobId }), () => client.deleteJob({ tenantId, jobId }), () => read(tenantId, jobId)])
    expect(await refusal(call())).toMatchObject({ reason: 'job_not_found' });
});

test('three jobs of a tenant run at a time, and those of others do not wait for them', async () => {
  const [one, other] = [newTenant(), newTenant()];
  for (let count = 0; count < 4; count++) await start(one.tenantId, 'waits');
  await start(other.tenantId, 'waits');
  await until(
    () => Promise.resolve(waiting),
    () => waitingOf(one.tenant).length === 3 && waitingOf(other.tenant).length === 1,
  );
  const statuses = async () => (await auditor.client.listJobs({ tenantId: one.tenantId })).jobs.map(({ status }) => status);
  expect(await statuses()).toEqual(['queued', 'running', 'running', 'running']);
  waitingOf(other.tenant)[0]!.go();
  waitingOf(one.tenant)[0]!.go();
  await until(
    () => Promise.resolve(waitingOf(one.tenant)),
    ({ length }) => length === 4,
  );
  for (const { go } of waitingOf(one.tenant)) go();
  await until(statuses, (all) => all.every((status) => status === 'succeeded'));
  expect(await auditor.metrics.metrics()).toMatch(/auditor_jobs_total\{kind="waits",outcome="succeeded"\} [0-9]/);
});

test('a hundred jobs may wait', async () => {
  const { tenantId, tenant } = newTenant();
  const { id } = await start(tenantId, 'waits');
  await inTransaction(auditor.pool, [tenant], (client) =>
    client.query(`insert into jobs (tenant_id, id, kind, scope, parameters, actor, request_id, status, done, total, created_at, runs)
      select tenant_id, gen_random_uuid(), 'of another version', scope, '', '', '', 'queued', 0, 0, now(), 0
      from jobs, generate_series(1, 99) where kind = 'waits'`),
  );
  expect(await refusal(start(tenantId, 'writes'))).toMatchObject({ reason: 'overloaded' });
  await until(
    () => Promise.resolve(waitingOf(tenant)),
    ({ length }) => length === 1,
  );
  waitingOf(tenant)[0]!.go();
  await ended(tenantId, id);
  await start(tenantId, 'writes');
});

test('a job that is cancelled stops, and is removed with its result once it has ended', async () => {
  const { tenantId, tenant } = newTenant();
  const { id: jobId } = await start(tenantId, 'waits');
  await until(
    () => Promise.resolve(waitingOf(tenant)),
    ({ length }) => length === 1,
  );
  await auditor.client.deleteJob({ tenantId, jobId });
  const { status, finishedMs, expiresMs } = await get(tenantId, jobId);
  expect({ status, ends: finishedMs! < expiresMs! }).toEqual({ status: 'cancelled', ends: true });
  expect(await refusal(auditor.client.deleteJob({ tenantId, jobId }))).toMatchObject({ reason: 'job_not_found' });
  waitingOf(tenant)[0]!.go();
  const done = await start(tenantId, 'writes');
  await ended(tenantId, done.id);
  expect((await get(tenantId, jobId)).status).toBe('cancelled');
  await auditor.client.deleteJob({ tenantId, jobId: done.id });
  expect(await refusal(get(tenantId, done.id))).toMatchObject({ reason: 'job_not_found' });
  const left = await inTransaction(auditor.pool, [tenant], (client) => client.query('select from job_chunks'));
  expect(left.rowCount).toBe(0);
});

test('what a stalled run writes after its lease is lost changes nothing', async () => {
  const { tenantId, tenant } = newTenant();
  const { id } = await start(tenantId, 'waits');
  await until(
    () => Promise.resolve(waitingOf(tenant)),
    ({ length }) => length === 1,
  );
  await change({ tenant, id }, `leased_until = clock_timestamp() - interval '1 second'`);
  await until(
    () => Promise.resolve(waitingOf(tenant)),
    ({ length }) => length === 2,
  );
  waitingOf(tenant)[0]!.go();
  await until(
    () => auditor.metrics.metrics(),
    (text) => text.includes('kind="waits",outcome="lost"'),
  );
  expect((await get(tenantId, id)).status).toBe('running');
  waitingOf(tenant)[1]!.go();
  expect((await ended(tenantId, id)).status).toBe('succeeded');
  expect(sha256(await read(tenantId, id))).toBe(sha256(bytes));
});

test('a process that stops gives its jobs back, and the next one runs them', async () => {
  const { tenantId, tenant } = newTenant();
  const second = await startAuditor(ledger.database, { kinds: { ...kinds, mine: kinds['waits']! } });
  const { job } = await second.client.startJob({ tenantId, kind: 'mine', parameters: '{}' });
  await until(
    () => Promise.resolve(waitingOf(tenant)),
    ({ length }) => length === 1,
  );
  await second.end();
  expect((await get(tenantId, job!.id)).status).toBe('queued');
  await change({ tenant, id: job!.id }, `kind = 'writes'`);
  expect((await ended(tenantId, job!.id)).status).toBe('succeeded');
  expect(sha256(await read(tenantId, job!.id))).toBe(sha256(bytes));
});

test('a job that has ended the process five times fails', async () => {
  const { tenantId, tenant } = newTenant();
  const { id } = await start(tenantId, 'waits');
  await until(
    () => Promise.resolve(waitingOf(tenant)),
    ({ length }) => length === 1,
  );
  await change({ tenant, id }, `runs = 5, leased_until = clock_timestamp() - interval '1 second'`);
  expect((await ended(tenantId, id)).error).toMatchObject({ code: 'internal', message: 'the job was begun 5 times and did not end' });
  waitingOf(tenant)[0]!.go();
});

test('jobs are removed after seven days, and refused to deleted tenants', async () => {
  const { tenantId, tenant } = newTenant();
  const { id } = await start(tenantId, 'writes');
  await ended(tenantId, id);
  const kept = await start(tenantId, 'writes');
  await ended(tenantId, kept.id);
  await change({ tenant, id }, `expires_at = clock_timestamp() - interval '1 second'`);
  expect(await deleteExpiredJobs(auditor.all)).toBe(1);
  expect(await refusal(get(tenantId, id))).toMatchObject({ reason: 'job_not_found' });
  expect((await get(tenantId, kept.id)).status).toBe('succeeded');
  await ledger.client.deleteTenant({ tenantId });
  expect(await refusal(start(tenantId, 'writes'))).toMatchObject({ field: 'tenant_id', tag: 'deleted' });
  expect(await refusal(get(tenantId, kept.id))).toMatchObject({ reason: 'job_not_found' });
});
