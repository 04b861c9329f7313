// Group commit: postings that wait while one batch commits form the next, fairly over tenants. Also handles failures.
// A posting goes through queue, writer-pipeline (seldom locking-path), batch, changes, posting-rules and write.
import type { Registry } from 'prom-client';
import type { Pool } from '../platform/postgres.ts';
import { splitInHalf, isPermanent } from '../platform/postgres-errors.ts';
import type { Logger } from '../platform/telemetry.ts';
import { AccountCache } from './account-cache.ts';
import { Refusal } from './accounting.ts';
import { traceBatch } from './batch-trace.ts';
import type { Batch } from './batch.ts';
import { idReused } from './fingerprint.ts';
import { RolledBack, runLockingPath } from './locking-path.ts';
import type { ValidatedPosting } from './mapping.ts';
import { ActiveCursors } from './outbox/active-cursors.ts';
import {
  TenantQueues,
  failsFast,
  isolated,
  neverSent,
  type Commands,
  type Done,
  type Item,
  type ItemOutcome,
  type Outcome,
  type QueueLimits,
} from './queue.ts';
import { openWriterMetrics, type WriterMetrics } from './writer-metrics.ts';
import { NeedsLock, WriterPipeline } from './writer-pipeline.ts';

/** What a writer needs. */
export interface WriterOptions {
  /** Connections: two per pipeline, one per waiter. */
  pool: Pool;
  /** Batches of mixed tenants at a time, each on a connection of its own. */
  pipelines: number;
  /** Batches at a time that wait for one tenant's head. */
  waiters: number;
  limits: QueueLimits;
  /** Accounts cached between batches. */
  maxCachedAccounts: number;
  /** Called after the commit with each tenant (UUID) whose log has grown; must not throw. */
  committed?: (tenant: string) => void;
  logger: Logger;
  metrics: Registry;
}

/** How long the caller of a posting waits, and for what. */
export interface PostOptions {
  signal?: AbortSignal;
  /** Milliseconds; the posting's own time-out counts too. */
  timeoutMs?: number | undefined;
  /** Return the posting instead of waiting if another replica has locked the tenant's log head. */
  failFastOnLock?: boolean;
}

/** Items that must wait before a second batch is started while one commits: two half-empty batches cost more than one. */
const minItemsAhead = 16;
/** Pause after the database was unreachable, milliseconds. */
const pauseMs = 100;
/** How long after its caller has stopped waiting an item with an unknown outcome is still resolved, milliseconds. */
const resolveMs = 5_000;

/** Posts validated postings. */
export class Writer {
  private readonly options: WriterOptions;
  private readonly queues: TenantQueues;
  private readonly cache: AccountCache;
  private readonly cursors = new ActiveCursors();
  private readonly running = new Set<Promise<void>>();
  private readonly pipelines: WriterPipeline[];
  private readonly metrics: WriterMetrics;
  /** Batches on the locking path: of uncached tenants, and of one tenant that waits for its lock. */
  private uncachedBatches = 0;
  private waitingBatches = 0;
  private isWakeScheduled = false;
  private isClosing = false;
  /** No batch is begun before then, `performance.now()`. */
  private pausedUntil = -Infinity;

  constructor(options: WriterOptions) {
    this.options = options;
    this.queues = new TenantQueues(options.limits);
    this.cache = new AccountCache(options.maxCachedAccounts);
    const { pool } = options;
    pool.on('connect', () => this.cursors.clear());
    const pipeline = {
      pool,
      cache: this.cache,
      cursors: this.cursors,
      onFree: () => this.wake(),
      onCommitted: (batch: Batch, ms: number) => {
        this.metrics.commitSeconds.observe({ path: 'optimistic' }, ms / 1000);
        this.settle(batch, 'optimistic');
      },
      onFailed: (items: Item[], error: unknown) => this.retryWithLocks(items, error),
    };
    this.pipelines = Array.from({ length: options.pipelines }, () => new WriterPipeline(pipeline));
    this.metrics = openWriterMetrics(options.metrics, () => this.queues.size, options.limits.waiting);
  }

  /**
   * Posts: answers after the durable commit, or with the refusal. Never throws. A posting that is undecided when `signal` aborts or its
   * time is over is not posted.
   */
  post(posting: ValidatedPosting, options: PostOptions = {}): Promise<Outcome> {
    return new Promise((resolve) => {
      const settle = (outcome: ItemOutcome) => resolve(Array.isArray(outcome) ? (outcome[0] as Done) : outcome);
      this.enqueue([posting], posting.dryRun, options, settle);
    });
  }

  /** Does all of these commands of one tenant, consecutively, or none; else as {@link post}. `dryRun`: none, but answers as if. */
  submit(commands: Commands, dryRun: boolean, options: PostOptions = {}): Promise<ItemOutcome> {
    return new Promise((resolve) => this.enqueue(commands, dryRun, options, resolve));
  }

  /** Whether a tenant's state is cached: it was posted to here lately. */
  isCached(tenant: string): boolean {
    return this.pipelines.some((pipeline) => pipeline.isCached(tenant));
  }

  private enqueue(commands: Commands, dryRun: boolean, options: PostOptions, answer: (outcome: ItemOutcome) => void): void {
    const { signal, timeoutMs = Infinity, failFastOnLock = false } = options;
    const settle = (outcome: ItemOutcome) => {
      if (commands[0].kind !== 'expire') this.metrics.count(outcome);
      answer(outcome);
    };
    if (this.isClosing) {
      settle({ refusal: new Refusal('unavailable', 'the ledger is stopping') });
      return;
    }
    let bytes = 0;
    let waitMs = timeoutMs;
    for (const command of commands) {
      bytes += command.bytes;
      waitMs = Math.min(waitMs, command.timeoutMs);
    }
    const [{ tenant }] = commands;
    const expires = performance.now() + waitMs;
    this.queues.add({ tenant, commands, dryRun, bytes, expires, uncertain: false, failFastOnLock, signal, settle });
    this.wake();
  }

  /** The refusal of a malformed posting, which is `error`; any other error is logged whole and answered as `internal`. */
  rejectInvalid(error: unknown, { tenantId, requestId }: Pick<ValidatedPosting, 'tenantId' | 'requestId'>): Refusal {
    const refusal = error instanceof Refusal ? error : new Refusal('internal', 'internal error');
    if (refusal !== error)
      this.options.logger.error({ err: error, tenant: tenantId, request_id: requestId }, 'a posting could not be read');
    this.metrics.count({ refusal });
    return refusal;
  }

  /** Finishes what waits and what is in flight, then stops. */
  async close(): Promise<void> {
    this.isClosing = true;
    this.wake();
    while (this.running.size > 0 || this.isWakeScheduled) {
      await Promise.all(this.running);
      await new Promise((done) => setImmediate(done));
    }
    for (const pipeline of this.pipelines) pipeline.close();
    for (const item of this.queues.takeAll()) item.settle({ refusal: new Refusal('unavailable', 'the ledger is stopping') });
  }

  // After the current turn of the event loop, so that all items of one message are in the queue.
  private wake(): void {
    if (this.isWakeScheduled) return;
    this.isWakeScheduled = true;
    const pause = this.pausedUntil - performance.now();
    const start = () => {
      this.isWakeScheduled = false;
      this.startBatches();
    };
    if (pause > 0) setTimeout(start, pause);
    else setImmediate(start);
  }

  private startBatches(): void {
    const { pipelines, waiters } = this.options;
    for (const [number, pipeline] of this.pipelines.entries()) {
      while (pipeline.isFree) {
        const isCached = (tenant: string) => pipeline.isCached(tenant);
        const items = this.queues.takeMixed(number, pipelines, pipeline.isBusy ? minItemsAhead : 1, isCached);
        if (!items) break;
        this.track(items, pipeline.start(items));
      }
    }
    const isUncached = (tenant: string) => !this.isCached(tenant);
    while (this.uncachedBatches < pipelines) {
      const items = this.queues.takeMixed(isolated, pipelines, 1, isUncached);
      if (!items) break;
      this.uncachedBatches++;
      this.track(
        items,
        this.run(items, false).finally(() => this.uncachedBatches--),
      );
    }
    while (this.waitingBatches < waiters) {
      const items = this.queues.takeLockedElsewhere();
      if (!items) break;
      this.waitingBatches++;
      this.track(
        items,
        this.run(items, true).finally(() => this.waitingBatches--),
      );
    }
  }

  private track(items: Item[], work: Promise<void>): void {
    const tracked = work
      .catch((error: unknown) => this.options.logger.error({ err: error }, 'the writer failed'))
      .finally(() => {
        this.running.delete(tracked);
        this.queues.release(tenantsOf(items));
        this.wake();
      });
    this.running.add(tracked);
  }

  private settle(batch: Batch, path: Parameters<typeof traceBatch>[1]): void {
    this.metrics.batchItems.observe(batch.items.length);
    batch.markCommitted();
    if (this.options.committed) for (const tenant of batch.writtenTenants) this.options.committed(tenant);
    for (const { item, outcome } of batch.settled) {
      if ('refusal' in outcome && outcome.refusal.reason === 'internal') this.settleFault(item, outcome.refusal);
      else item.settle(outcome);
    }
    traceBatch(batch, path);
  }

  private settleFault(item: Item, error: unknown): void {
    const [first] = item.commands;
    const { constraint } = error as { constraint?: string };
    if (constraint === 'transactions_tenant_id_id_key' || constraint === 'holds_tenant_id_id_key') {
      item.settle({ refusal: idReused(first) });
      return;
    }
    const { tenantId, transactionId, requestId } = first;
    this.options.logger.error({ err: error, tenant: tenantId, transaction: transactionId, request_id: requestId }, 'a posting failed');
    item.settle({ refusal: new Refusal('internal', 'internal error') });
  }

  // Mostly another replica has written to one of the tenants, or a key was repeated. The locking path finds out.
  private async retryWithLocks(items: Item[], error: unknown): Promise<void> {
    if (!(error instanceof NeedsLock)) {
      const isExpected = ['40001', '55P03', '23505'].includes(this.countFailure(error));
      this.options.logger[isExpected ? 'debug' : 'warn']({ err: error, items: items.length }, 'an optimistic batch failed');
    }
    await this.run(items, false);
  }

  private countFailure(error: unknown): string {
    const { code } = error as { code?: unknown };
    const sqlstate = typeof code === 'string' ? code : 'none';
    this.metrics.failures.inc({ sqlstate });
    return sqlstate;
  }

  /** Runs items on the locking path to their end: settled, or back in their queues. `wait`: for the lock of their only tenant. */
  private async run(items: Item[], wait: boolean): Promise<void> {
    this.queues.putBack(await this.runLocked(items, wait));
  }

  /** Runs items on the locking path; returns those that are not settled, each tenant's in their order. */
  private async runLocked(items: Item[], wait: boolean): Promise<Item[]> {
    const started = performance.now();
    try {
      const { batch, lockedElsewhere, undecided, current } = await runLockingPath(this.options.pool, this.cache, this.cursors, items, wait);
      this.metrics.commitSeconds.observe({ path: 'locking' }, (performance.now() - started) / 1000);
      // No other replica wrote, so the tenant's next batch may contain other tenants again.
      if (wait) for (const tenant of current) this.queues.setLockedElsewhere(tenant, false);
      const unsettled = this.isolateTenants(lockedElsewhere);
      this.settle(batch, 'locking');
      return [...unsettled, ...undecided];
    } catch (error) {
      return this.handleFailure(items, wait, error);
    }
  }

  /** Makes these items' tenants wait for their locks in batches of their own; returns the items that do not fail fast. */
  private isolateTenants(items: Item[]): Item[] {
    for (const tenant of tenantsOf(items)) this.queues.setLockedElsewhere(tenant, true);
    for (const item of items.filter(failsFast)) item.settle({ lockConflict: true });
    return items.filter((item) => !failsFast(item));
  }

  /** Runs a batch by halves to find the item that fails it. An item that is left keeps its tenant's later items waiting. */
  private async bisect(items: Item[], wait: boolean): Promise<Item[]> {
    const [first, second] = splitInHalf(items);
    const left = await this.runLocked(first, wait);
    const leftTenants = tenantsOf(left);
    const groups = Object.groupBy(second, ({ tenant }) => {
      if (!wait && this.queues.isLockedElsewhere(tenant)) return 'locked';
      return leftTenants.has(tenant) ? 'behind' : 'next';
    });
    left.push(...this.isolateTenants(groups.locked ?? []), ...(groups.behind ?? []));
    return groups.next ? [...left, ...(await this.runLocked(groups.next, wait))] : left;
  }

  /** Decides what happens to items whose batch failed; returns those that are not settled. */
  private async handleFailure(items: Item[], wait: boolean, failure: unknown): Promise<Item[]> {
    const rolledBack = failure instanceof RolledBack;
    const error = rolledBack ? failure.cause : failure;
    const sqlstate = this.countFailure(error);
    if (rolledBack && isPermanent(error)) {
      if (items.length > 1) return this.bisect(items, wait);
      this.settleFault(items[0] as Item, error);
      return [];
    }
    const isLocked = sqlstate === '55P03';
    // A batch of several tenants never waits for a head, so the table itself is locked, by a schema change for example.
    if (isLocked && tenantsOf(items).size > 1) return this.isolateTenants(items);
    // Uncertain items are tried again, because the lock may be that of the very call whose outcome is unknown.
    const { certain = [], uncertain = [] } = Object.groupBy(items, (item) => (item.uncertain ? 'uncertain' : 'certain'));
    if (certain.length > 0 && (isLocked || (rolledBack && sqlstate === '53100'))) {
      this.refuseUnavailable(certain, isLocked ? 'the ledger is locked' : 'the database disk is full', error);
      return uncertain;
    }
    return this.resolveLater(items, error);
  }

  private refuseUnavailable(items: Item[], why: string, error: unknown): void {
    this.options.logger.warn({ err: error, tenant: items[0]?.commands[0].tenantId, items: items.length }, why);
    for (const item of items) {
      const outcome = neverSent(item) ? 'nothing was posted' : 'a retry with the same key finds out';
      item.settle({ refusal: new Refusal('unavailable', `${why}; ${outcome}`) });
    }
  }

  // A lost connection, server stop or time-out leaves open whether the batch was committed. Running the items again resolves it, because
  // under the head's lock what was posted is found by its key.
  private resolveLater(items: Item[], error: unknown): Item[] {
    const now = performance.now();
    // One warning per outage.
    const isSameOutage = now < this.pausedUntil + 1_000;
    this.options.logger[isSameOutage ? 'debug' : 'warn']({ err: error, items: items.length }, 'outcome of a batch unknown, resolving');
    for (const item of items) {
      item.uncertain = true;
      if (item.expires + resolveMs >= now) continue;
      item.settle({ refusal: new Refusal('unavailable', 'the database is unreachable; a retry with the same key finds out') });
    }
    this.pausedUntil = now + pauseMs;
    return items.filter((item) => item.expires + resolveMs >= now);
  }
}

function tenantsOf(items: Item[]): Set<string> {
  return new Set(items.map(({ tenant }) => tenant));
}
