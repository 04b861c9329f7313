// Records results of leased deliveries in batches, and only for leases that are still valid.
import { setTimeout as delay } from 'node:timers/promises';
import { plainArray, textArray, uuidArray } from '../platform/arrays.ts';
import { toId } from '../platform/ids.ts';
import { allSettledOrThrow, inTransaction, setTenants, withClient, type Pool } from '../platform/postgres.ts';
import { isLockTimeout, isTransient, splitInHalf } from '../platform/postgres-errors.ts';
import type { Logger } from '../platform/telemetry.ts';
import { firstUnleased, isRetryScheduled } from './leases.ts';
import type { ErrorClass, Status } from './webhook.ts';

/** Result of an attempt. */
export interface DeliveryResult {
  /** UUIDs. */
  tenant: string;
  id: string;
  leaseId: string;
  status: Status;
  statusCode: number | null;
  errorClass: ErrorClass | null;
  responseBody: string | null;
  durationMs: number;
  /** Seconds from the beginning of this attempt to the next; null: none follows. */
  retryAfter: number | null;
}

const record = {
  name: 'record',
  text: `with mine as (
      delete from leases l using unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::int[], $6::text[], $7::text[], $8::int[], $9::float8[])
        as o (tenant_id, id, lease_id, status, status_code, error_class, response_body, duration_ms, delay)
      where l.tenant_id = o.tenant_id and l.delivery_id = o.id and l.lease_id = o.lease_id returning o.*, l.started_at
    ), settled as (
      update deliveries d set status = m.status, status_code = m.status_code, error_class = m.error_class,
        attempts = d.attempts + case when ${isRetryScheduled} then 1 else 0 end,
        next_retry_at = m.started_at + m.delay * interval '1 second',
        run_at = coalesce(m.started_at + m.delay * interval '1 second', d.run_at),
        delivered_at = case when m.status = 'delivered' then clock_timestamp() end,
        failed_at = case when m.status = 'failed' then clock_timestamp() end
      from mine m where d.tenant_id = m.tenant_id and d.id = m.id
      returning d.tenant_id, d.id, d.attempts, m.started_at, m.duration_ms, m.status_code, m.error_class, m.response_body
    ), noted as (
      insert into attempts (tenant_id, delivery_id, number, started_at, duration_ms, status_code, error_class, response_body)
      select tenant_id, id, attempts, started_at, duration_ms, status_code, error_class, response_body from settled
    )
    select id from mine`,
};

// Keeps others from postponing these tenants before the commit. Row locks of `due` would cost each result a write.
const lockTenants = {
  name: 'lock_tenants',
  text: 'select pg_advisory_xact_lock_shared(hashtextextended(t::text, 1)) from unnest($1::uuid[]) as t order by t',
};

// Tenants with work become due, unless they are already.
const advance = {
  name: 'advance',
  text: `with later as materialized (
      select tenant_id from due where tenant_id = any ($1::uuid[]) and (next_at is null or next_at > clock_timestamp())
      order by tenant_id for update
    )
    update due q set next_at = f.at from later cross join lateral (
      select least((select min(l.until) from leases l where l.tenant_id = later.tenant_id), (${firstUnleased('later.tenant_id')})) as at
    ) as f
    where q.tenant_id = later.tenant_id and (q.next_at is null or q.next_at > f.at)`,
};

/** Records results in one transaction; answers the ids of deliveries whose lease was still valid. */
export async function recordResults(pool: Pool, results: DeliveryResult[]): Promise<Set<string>> {
  const tenants = [...new Set(results.map(({ tenant }) => tenant))];
  const concerned = uuidArray(tenants);
  return withClient(pool, async (client) => {
    const [, , recorded] = await allSettledOrThrow([
      client.query('begin'),
      client.query(setTenants(tenants)),
      client.query<{ id: string }>({ ...record, values: [...keysOf(results), ...columnsOf(results)] }),
      client.query({ ...lockTenants, values: [concerned] }),
      client.query({ ...advance, values: [concerned] }),
      client.query('commit'),
    ]);
    return new Set(recorded.rows.map(({ id }) => id));
  });
}

function keysOf(results: DeliveryResult[]): unknown[] {
  return [
    uuidArray(results.map(({ tenant }) => tenant)),
    uuidArray(results.map(({ id }) => id)),
    uuidArray(results.map(({ leaseId }) => leaseId)),
  ];
}

function columnsOf(results: DeliveryResult[]): unknown[] {
  return [
    textArray(results.map(({ status }) => status)),
    plainArray(results.map(({ statusCode }) => statusCode)),
    textArray(results.map(({ errorClass }) => errorClass)),
    textArray(results.map(({ responseBody }) => responseBody)),
    plainArray(results.map(({ durationMs }) => durationMs)),
    plainArray(results.map(({ retryAfter }) => retryAfter)),
  ];
}

const unlocked = {
  name: 'unlocked',
  text: `select d.id from unnest($1::uuid[], $2::uuid[]) as o (tenant_id, id)
      join leases l on l.tenant_id = o.tenant_id and l.delivery_id = o.id
      join deliveries d on d.tenant_id = o.tenant_id and d.id = o.id
      join due q on q.tenant_id = o.tenant_id
    for update of l, d, q skip locked`,
};

/** Ids of the deliveries whose rows no other transaction has locked. */
async function findUnlocked(pool: Pool, results: DeliveryResult[]): Promise<Set<string>> {
  const tenants = [...new Set(results.map(({ tenant }) => tenant))];
  const values = keysOf(results).slice(0, 2);
  const { rows } = await inTransaction(pool, tenants, (client) => client.query<{ id: string }>({ ...unlocked, values }));
  return new Set(rows.map(({ id }) => id));
}

interface Waiting {
  result: DeliveryResult;
  done: (isRecorded: boolean) => void;
}

const maxBatch = 256;
/** A batch begins so long after the one before, milliseconds, or as soon as `enough` results wait. */
const batching = { delayMs: 25, enough: 32 };

/** Records results that wait while the batch before is committed together. */
export class ResultWriter {
  private readonly pool: Pool;
  private readonly logger: Logger;
  private waiting: Waiting[] = [];
  private isBusy = false;
  private isEnding = false;
  private enough: () => void = () => undefined;

  constructor(pool: Pool, logger: Logger) {
    this.pool = pool;
    this.logger = logger;
  }

  /** Resolves after the commit; false: the lease was no longer valid, or the result could not be recorded and the attempt will be repeated. */
  record(result: DeliveryResult): Promise<boolean> {
    return new Promise((done) => {
      this.waiting.push({ result, done });
      if (!this.isBusy) void this.flush();
      else if (this.waiting.length >= batching.enough) this.enough();
    });
  }

  /** From now on, what can't be recorded at once is left to its lease. */
  end(): void {
    this.isEnding = true;
  }

  private async flush(): Promise<void> {
    this.isBusy = true;
    while (this.waiting.length > 0) {
      const started = performance.now();
      await this.write(this.waiting.splice(0, maxBatch));
      const early = started + batching.delayMs - performance.now();
      if (early > 0 && this.waiting.length < batching.enough) await this.gather(early);
    }
    this.isBusy = false;
  }

  private async gather(milliseconds: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, milliseconds);
    this.enough = resolve;
    await promise;
    clearTimeout(timer);
  }

  /** Transient errors are retried, data errors isolated by halves. */
  private async write(batch: Waiting[]): Promise<void> {
    for (let pauseMs = 50; batch.length > 0; pauseMs = Math.min(1_000, pauseMs * 2)) {
      try {
        const recorded = await recordResults(
          this.pool,
          batch.map(({ result }) => result),
        );
        for (const { result, done } of batch) done(recorded.has(result.id));
        return;
      } catch (error) {
        this.logFailure(batch, error);
        if (!isTransient(error) && batch.length > 1) {
          for (const half of splitInHalf(batch)) await this.write(half);
          return;
        }
        if (!isTransient(error) || this.isEnding) {
          for (const { done } of batch) done(false);
          return;
        }
        if (isLockTimeout(error)) batch = await this.withoutLocked(batch).catch(() => batch);
        await delay(pauseMs);
      }
    }
  }

  /** Answers those whose rows nobody has locked. The others are left to their leases, so that nothing else waits for them. */
  private async withoutLocked(batch: Waiting[]): Promise<Waiting[]> {
    const ids = await findUnlocked(
      this.pool,
      batch.map(({ result }) => result),
    );
    const locked = batch.filter(({ result }) => !ids.has(result.id));
    if (locked.length > 0) {
      const tenants = new Set(locked.map(({ result }) => toId('tenant', result.tenant)));
      this.logger.warn({ deliveries: locked.length, tenants: [...tenants] }, 'results not recorded: rows are locked');
    }
    for (const { done } of locked) done(false);
    return batch.filter(({ result }) => ids.has(result.id));
  }

  private logFailure(batch: Waiting[], error: unknown): void {
    const [first] = batch;
    const only = first &&
      batch.length === 1 && { tenant: toId('tenant', first.result.tenant), delivery_id: toId('wh_delivery', first.result.id) };
    this.logger.warn({ err: error, deliveries: batch.length, ...only }, 'recording results failed');
  }
}

/** Statements with the types of their parameters, for the test of their plans. */
export const statements = {
  record: { ...record, types: ['uuid[]', 'uuid[]', 'uuid[]', 'text[]', 'int[]', 'text[]', 'text[]', 'int[]', 'float8[]'] },
  advance: { ...advance, types: ['uuid[]'] },
  unlocked: { ...unlocked, types: ['uuid[]', 'uuid[]'] },
};
