// Runs jobs: leases them fairly over tenants, renews leases, stores results, and gives back what it does not finish.
import { setTimeout as pause } from 'node:timers/promises';
import { Counter, Histogram, type Registry } from 'prom-client';
import { openGauges } from '../../platform/gauges.ts';
import type { Connections, Pool } from '../../platform/postgres.ts';
import { isTransient } from '../../platform/postgres-errors.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { Refusal } from '../accounting.ts';
import type { JobKinds } from './job-kinds.ts';
import {
  addChunk,
  countJobs,
  deleteExpiredJobs,
  giveBack,
  leaseJob,
  recordFailure,
  renew,
  succeed,
  tenantsWithWork,
  type Failure,
  type Lease,
} from './job-leases.ts';
import { ResultWriter } from './job-result.ts';

/** What the runner needs. */
export interface RunnerOptions {
  kinds: JobKinds;
  /** Connections for long reads of jobs; as many jobs run at a time. */
  reads: Pool;
  /** For kinds that only read; `reads` unless given. */
  readOnly?: Connections;
  /** Connections for leases and results. */
  work: Pool;
  /** One connection with `app.runner` on, which sees the jobs of all tenants. */
  all: Pool;
  logger: Logger;
  metrics: Registry;
  /** How long a lease lasts unless it is renewed. */
  leaseMs?: number;
  pollMs?: number;
}

const retentionMs = 10 * 60_000;

/** Why a run ends early. */
class LostLease extends Error {}
class Closing extends Error {}

/** Runs jobs until it is closed. Every replica does: a lease keeps a job for one of them. */
export class JobRunner {
  private readonly options: Required<RunnerOptions>;
  private readonly names: string[];
  private readonly concurrency: number;
  private readonly ended: Counter;
  private readonly seconds: Histogram;
  private readonly closed = new AbortController();
  private readonly running = new Set<Promise<void>>();
  private woken = Promise.withResolvers<void>();
  private retainedMs = -Infinity;
  private readonly loop: Promise<void>;

  constructor(options: RunnerOptions) {
    this.options = { leaseMs: 10_000, pollMs: 1_000, readOnly: options.reads, ...options };
    this.names = Object.keys(options.kinds);
    this.concurrency = options.reads.options.max;
    const registers = [options.metrics];
    this.ended = new Counter({
      name: 'auditor_jobs_total',
      help: 'Runs of jobs by outcome: succeeded; failed; lost, where the job was cancelled or another process took it; or retried',
      labelNames: ['kind', 'outcome'],
      registers,
    });
    // An alert counts what is added, so a series has to be there before the first failure.
    for (const kind of this.names) this.ended.inc({ kind, outcome: 'failed' }, 0);
    this.seconds = new Histogram({
      name: 'auditor_job_seconds',
      help: 'Duration of runs of jobs',
      labelNames: ['kind'],
      buckets: [0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600],
      registers,
    });
    const gauge = openGauges(options.metrics, () => countJobs(options.all));
    gauge('auditor_jobs_waiting', 'Jobs of all tenants that wait to run', ({ waiting }) => waiting);
    gauge('auditor_jobs_running', 'Jobs of all tenants that run, in any process', ({ running }) => running);
    gauge('auditor_job_oldest_seconds', 'How long the oldest job has waited to run', ({ oldestMs }) => oldestMs / 1000);
    this.loop = this.repeat();
  }

  /** Looks for work at once. */
  wake(): void {
    this.woken.resolve();
  }

  /** Ends the loops; jobs that run are given back to the queue. */
  async close(): Promise<void> {
    this.closed.abort();
    this.woken.resolve();
    await this.loop;
    await Promise.all(this.running);
  }

  private async repeat(): Promise<void> {
    const { signal } = this.closed;
    const { pollMs, logger } = this.options;
    while (!signal.aborted) {
      this.woken = Promise.withResolvers();
      await this.poll().catch((error: unknown) => {
        if (!signal.aborted) logger.warn({ err: error }, 'the jobs could not be read');
      });
      await Promise.race([pause(pollMs, undefined, { signal, ref: false }).catch(() => undefined), this.woken.promise]);
    }
  }

  private async retain(): Promise<void> {
    if (performance.now() - this.retainedMs < retentionMs) return;
    this.retainedMs = performance.now();
    const deleted = await deleteExpiredJobs(this.options.all);
    if (deleted > 0) this.options.logger.info({ jobs: deleted }, 'expired jobs deleted');
  }

  private async poll(): Promise<void> {
    await this.retain();
    const { all, work, leaseMs } = this.options;
    const hasRoom = () => this.running.size < this.concurrency && !this.closed.signal.aborted;
    while (hasRoom()) {
      let leased = 0;
      for (const tenant of await tenantsWithWork(all, this.names)) {
        if (!hasRoom()) break;
        const lease = await leaseJob(work, tenant, this.names, leaseMs);
        if (!lease) continue;
        leased++;
        const run = this.run(lease).finally(() => {
          this.running.delete(run);
          this.wake();
        });
        this.running.add(run);
      }
      if (leased === 0) break;
    }
  }

  /** Runs one job. Never rejects. */
  private async run(lease: Lease): Promise<void> {
    const { work, logger } = this.options;
    const { tenant, id: job, kind } = lease;
    const started = performance.now();
    let outcome: string;
    try {
      outcome = await this.attempt(lease);
    } catch (error) {
      const failure = failureOf(error);
      if (error instanceof LostLease) outcome = 'lost';
      else if (error instanceof Closing || this.closed.signal.aborted || failure === null) {
        outcome = 'retried';
        // After a failure of the database the lease runs out, and the job runs again.
        if (failure !== null || this.closed.signal.aborted) await giveBack(work, lease, false).catch(() => undefined);
      } else {
        outcome = 'failed';
        if (failure.code === 'internal') logger.error({ err: error, tenant, job, kind }, 'job failed');
        await recordFailure(work, lease, failure).catch((late: unknown) =>
          logger.warn({ err: late, tenant, job, kind }, 'the end of a job could not be recorded'),
        );
      }
      if (failure === null) logger.warn({ err: error, tenant, job, kind }, 'job interrupted');
    }
    const ms = Math.round(performance.now() - started);
    this.seconds.observe({ kind }, ms / 1000);
    this.ended.inc({ kind, outcome });
    logger.info({ tenant, job, kind, outcome, ms }, 'job');
  }

  private async attempt(lease: Lease): Promise<string> {
    const { kinds, reads, readOnly, work, leaseMs } = this.options;
    const stopped = new AbortController();
    const stop = (reason: Error) => stopped.abort(reason);
    const close = () => stop(new Closing('the process stops'));
    this.closed.signal.addEventListener('abort', close);
    if (this.closed.signal.aborted) close();
    const progress = { done: 0, total: 0 };
    const renewing = keepRenewing(() => renew(work, lease, leaseMs, progress), leaseMs, stopped);
    const writer = new ResultWriter(async (position, bytes) => {
      stopped.signal.throwIfAborted();
      if (!(await addChunk(work, lease, position, bytes))) throw new LostLease('the job is not this run’s');
    });
    try {
      const kind = kinds[lease.kind] as JobKinds[string];
      const contentType = await kind.run({
        tenant: lease.tenant,
        id: lease.id,
        parameters: lease.parameters,
        connections: kind.isReadOnly === true ? readOnly : reads,
        signal: stopped.signal,
        write: (bytes) => writer.write(bytes),
        progress: (done, total) => Object.assign(progress, { done, total }),
      });
      stopped.signal.throwIfAborted();
      const { bytes, sha256 } = await writer.end();
      return (await succeed(work, lease, { contentType, bytes, sha256, total: progress.total })) ? 'succeeded' : 'lost';
    } catch (error) {
      // What a run throws when it was stopped is of no interest.
      throw stopped.signal.aborted ? stopped.signal.reason : error;
    } finally {
      this.closed.signal.removeEventListener('abort', close);
      await renewing.end();
    }
  }
}

/** Renews a lease until `end`; stops the run where the lease is lost, or could not be renewed in time. */
function keepRenewing(renewOnce: () => Promise<boolean>, leaseMs: number, stopped: AbortController): { end: () => Promise<void> } {
  const ended = new AbortController();
  const loop = async () => {
    for (let renewed = performance.now(); ;) {
      await pause(leaseMs / 4, undefined, { signal: ended.signal });
      const asked = performance.now();
      const isMine = await renewOnce().catch(() => null);
      if (isMine === true) renewed = asked;
      if (isMine === false || performance.now() - renewed > leaseMs) stopped.abort(new LostLease('the lease was lost'));
      if (stopped.signal.aborted) return;
    }
  };
  const looping = loop().catch(() => undefined);
  return {
    end: () => {
      ended.abort();
      return looping;
    },
  };
}

/** What a job reports of its failure; null: the database has failed, and the job may run again. */
function failureOf(error: unknown): Failure | null {
  if (error instanceof Refusal) {
    const { reason: code, message, blame } = error;
    return { code, message, ...(blame?.field === 'line' && { line: Number(blame.value) }) };
  }
  return isTransient(error) ? null : { code: 'internal', message: 'internal error' };
}
