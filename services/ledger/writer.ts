// Group commit: lanes take what waits, fairly over tenants, into one SQL transaction each; and what happens when that goes wrong.
import { Counter, Histogram, type Registry } from 'prom-client';
import { openGauge } from '../platform/gauges.ts';
import type { Pool } from '../platform/postgres.ts';
import { splitInHalf, isPermanent } from '../platform/postgres-errors.ts';
import type { Logger } from '../platform/telemetry.ts';
import { Refusal } from './accounting.ts';
import { idReused, type Batch } from './batch.ts';
import { AccountCache } from './account-cache.ts';
import { WriterPipeline } from './writer-pipeline.ts';
import { RolledBack, runLockingPath } from './locking-path.ts';
import { ActiveCursors } from './outbox/active-cursors.ts';
import { TenantQueues, neverSent, type QueueLimits, type Item, type Outcome } from './queue.ts';
import type { ValidatedPosting } from './mapping.ts';

/** What a writer needs. */
export interface WriterOptions {
  /** Connections for lanes and waiters. */
  pool: Pool;
  /** Lanes, each with a connection of its own. */
  pipelines: number;
  /** Batches at a time that wait for one tenant's head. */
  waiters: number;
  bounds: QueueLimits;
  /** Accounts remembered between batches. */
  maxCachedAccounts: number;
  /** Told each tenant (UUID) whose log has grown, after the commit; must not throw. */
  committed?: (tenant: string) => void;
  logger: Logger;
  metrics: Registry;
}

// A second batch is begun while one is being committed only if so many wait: two half-empty batches cost more than one.
const aheadItems = 16;

/** Posts orders. */
export class Writer {
  private readonly options: WriterOptions;
  private readonly queues: TenantQueues;
  private readonly shelf: AccountCache;
  private readonly cursors = new ActiveCursors();
  private readonly running = new Set<Promise<void>>();
  private readonly lanes: WriterPipeline[];
  private cold = 0;
  private waiters = 0;
  private woken = false;
  private closing = false;
  /** When the database's disk last had no room for a batch, `performance.now()`. */
  private fullAt = -Infinity;
  /** Until then the database is left alone after it was away, `performance.now()`. */
  private pausedUntil = -Infinity;
  private readonly batchItems: Histogram;
  private readonly lockedSeconds: Histogram;
  private readonly outcomes: Counter;
  private readonly failures: Counter;

  constructor(options: WriterOptions) {
    this.options = options;
    this.queues = new TenantQueues(options.bounds);
    this.shelf = new AccountCache(options.maxCachedAccounts);
    const { pool } = options;
    pool.on('connect', () => this.cursors.clear());
    const lane: ConstructorParameters<typeof WriterPipeline>[0] = {
      pool,
      shelf: this.shelf,
      cursors: this.cursors,
      freed: () => this.wake(),
      posted: (batch) => this.settle(batch),
      failed: (items, error) => this.runAgain(items, error),
    };
    this.lanes = Array.from({ length: options.pipelines }, () => new WriterPipeline(lane));
    const registers = [options.metrics];
    openGauge(options.metrics, 'ledger_postings_waiting', 'Postings that wait for a batch', () => this.queues.size);
    this.batchItems = new Histogram({
      name: 'ledger_batch_items',
      help: 'Postings in a batch',
      buckets: [1, 2, 5, 10, 20, 50, 100, 200, 500],
      registers,
    });
    this.lockedSeconds = new Histogram({
      name: 'ledger_locked_batch_seconds',
      help: 'Duration of a batch that locks first, to its commit',
      buckets: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5, 10],
      registers,
    });
    this.outcomes = new Counter({
      name: 'ledger_postings_total',
      help: 'Answers to postings: posted; found, where an earlier call has posted and the caller sends it again or waits no more; replayed; held, where it is handed back and comes again; or the reason of the refusal',
      labelNames: ['outcome'],
      registers,
    });
    this.failures = new Counter({
      name: 'ledger_batch_failures_total',
      help: 'Batches that failed, by SQLSTATE; those that were refused for what is in them are halved until the culprit is alone',
      labelNames: ['sqlstate'],
      registers,
    });
  }

  /**
   * Posts one order: answers after the durable commit, or with the refusal. Never throws. `signal` tells that the caller is gone: an order
   * that is not yet decided is then not posted, nor is one whose time is over. With `failFastOnLock` an order of a tenant whose head another process
   * holds is not waited for. `timeoutMs` (milliseconds) is how long the caller waits where that is less than the order says.
   */
  post(
    order: ValidatedPosting,
    {
      signal,
      timeoutMs = Infinity,
      failFastOnLock = false,
    }: { signal?: AbortSignal; timeoutMs?: number | undefined; failFastOnLock?: boolean } = {},
  ): Promise<Outcome> {
    return new Promise((resolve) => {
      const settle = (outcome: Outcome) => {
        this.outcomes.inc({ outcome: nameOf(outcome) });
        resolve(outcome);
      };
      if (this.closing) {
        settle({ refusal: new Refusal('unavailable', 'the ledger is stopping') });
        return;
      }
      const expires = performance.now() + Math.min(order.timeoutMs, timeoutMs);
      this.queues.add({ posting: order, expires, uncertain: false, failFastOnLock, signal, settle });
      this.wake();
    });
  }

  /** The refusal of a posting in which something is malformed, which is the `error`; or a fault of this program, which is logged whole. */
  rejectInvalid(error: unknown, { tenantId, requestId }: Pick<ValidatedPosting, 'tenantId' | 'requestId'>): Refusal {
    const refusal = error instanceof Refusal ? error : new Refusal('internal', 'internal error');
    if (refusal !== error)
      this.options.logger.error({ err: error, tenant: tenantId, request_id: requestId }, 'a posting could not be read');
    this.outcomes.inc({ outcome: nameOf({ refusal }) });
    return refusal;
  }

  /** Whether the database's disk had no room for a batch within 5 s: while it is full, small ones may still find some on the pages there are. */
  get isDiskFull(): boolean {
    return performance.now() - this.fullAt < 5_000;
  }

  /** Finishes what waits and is in flight, then stops. */
  async close(): Promise<void> {
    this.closing = true;
    this.wake();
    while (this.running.size > 0 || this.woken) {
      await Promise.all(this.running);
      await new Promise((done) => setImmediate(done));
    }
    for (const lane of this.lanes) lane.close();
    for (const item of this.queues.takeAll()) item.settle({ refusal: new Refusal('unavailable', 'the ledger is stopping') });
  }

  // After the current turn of the event loop, so that all items of one message are in the queue.
  private wake(): void {
    if (this.woken) return;
    this.woken = true;
    const pause = this.pausedUntil - performance.now();
    const start = () => {
      this.woken = false;
      this.fillLanes();
    };
    if (pause > 0) setTimeout(start, pause);
    else setImmediate(start);
  }

  private fillLanes(): void {
    for (const [number, lane] of this.lanes.entries()) {
      while (lane.free) {
        const items = this.queues.takeMixed(number, this.lanes.length, lane.busy ? aheadItems : 1);
        if (!items || !this.begin(lane, items)) break;
      }
    }
    while (this.waiters < this.options.waiters) {
      const items = this.queues.takeLockedElsewhere();
      if (!items) break;
      this.waiters++;
      this.track(
        items,
        this.run(items, true).finally(() => this.waiters--),
      );
    }
  }

  // Tenants whose books are not remembered go under locks, beside the lane; false where there is no room for them yet.
  private begin(lane: WriterPipeline, items: Item[]): boolean {
    const warm = items.filter(({ posting }) => lane.isCached(posting.tenant));
    const cold = items.filter(({ posting }) => !lane.isCached(posting.tenant));
    if (warm.length > 0) this.track(warm, lane.start(warm));
    if (cold.length === 0) return true;
    if (this.cold >= this.options.pipelines) {
      this.queues.putBack(cold);
      this.queues.release(tenantsOf(cold));
      return false;
    }
    this.cold++;
    this.queues.isolate(tenantsOf(cold));
    this.track(
      cold,
      this.run(cold, false).finally(() => this.cold--),
    );
    return true;
  }

  private track(items: Item[], work: Promise<void>): void {
    const tracked = work
      .catch((error: unknown) => this.options.logger.error({ err: error }, 'a lane failed'))
      .finally(() => {
        this.running.delete(tracked);
        this.queues.release(tenantsOf(items));
        this.wake();
      });
    this.running.add(tracked);
  }

  private settle(batch: Batch): void {
    this.batchItems.observe(batch.items.length);
    batch.committed();
    if (this.options.committed) for (const tenant of batch.written) this.options.committed(tenant);
    for (const { item, outcome } of batch.settled) {
      if ('refusal' in outcome && outcome.refusal.reason === 'internal') this.fail(item, outcome.refusal);
      else item.settle(outcome);
    }
  }

  /** Its caller can't help it; who watches the house is told. */
  private fail(item: Item, error: unknown): void {
    const { tenantId, transactionId, requestId } = item.posting;
    this.options.logger.error({ err: error, tenant: tenantId, transaction: transactionId, request_id: requestId }, 'a posting failed');
    item.settle({ refusal: new Refusal('internal', 'internal error') });
  }

  // A lane's batch failed as a whole: mostly because another process has written to one of its tenants, or a key came again. What it was is
  // found out under locks.
  private async runAgain(items: Item[], error: unknown): Promise<void> {
    const code = (error as { code?: unknown }).code;
    this.failures.inc({ sqlstate: typeof code === 'string' ? code : 'none' });
    this.options.logger[code === '40001' || code === '55P03' || code === '23505' ? 'debug' : 'warn'](
      { err: error, items: items.length },
      'a batch was not committed ahead',
    );
    await this.run(items, false);
  }

  /** Runs items under locks to their end: settled, or back in their queues. */
  private async run(items: Item[], wait: boolean): Promise<void> {
    this.queues.putBack(await this.settleUnderLocks(items, wait));
  }

  /** Runs items under locks; answers those that are not settled, a tenant's in their order. */
  private async settleUnderLocks(items: Item[], wait: boolean): Promise<Item[]> {
    const started = performance.now();
    try {
      const { batch, held, current } = await runLockingPath(this.options.pool, this.shelf, this.cursors, items, wait);
      this.lockedSeconds.observe((performance.now() - started) / 1000);
      // Nobody else wrote: the next batch of this tenant may travel with others again.
      if (wait) for (const tenant of current) this.queues.setLockedElsewhere(tenant, false);
      const left = this.setApart(held);
      this.settle(batch);
      return left;
    } catch (error) {
      return this.failed(items, wait, error);
    }
  }

  /** Lets these items' tenants go alone from now on, waiting for their locks; answers the items that are not handed back. */
  private setApart(items: Item[]): Item[] {
    for (const tenant of tenantsOf(items)) this.queues.setLockedElsewhere(tenant, true);
    // What may have been posted has to be resolved here.
    const handedBack = items.filter((item) => item.failFastOnLock && !item.uncertain);
    for (const item of handedBack) item.settle({ lockConflict: true });
    return items.filter((item) => !handedBack.includes(item));
  }

  /** Runs a batch by halves, to find the item that undoes it. What comes behind an item of its tenant that is left waits with it. */
  private async halve(items: Item[], wait: boolean): Promise<Item[]> {
    const [first, second] = splitInHalf(items);
    const left = await this.settleUnderLocks(first, wait);
    const leftOf = tenantsOf(left);
    const {
      apart = [],
      behind = [],
      next = [],
    } = Object.groupBy(second, ({ posting: { tenant } }) => {
      if (!wait && this.queues.isLockedElsewhere(tenant)) return 'apart';
      return leftOf.has(tenant) ? 'behind' : 'next';
    });
    left.push(...this.setApart(apart), ...behind);
    return next.length === 0 ? left : [...left, ...(await this.settleUnderLocks(next, wait))];
  }

  /** What becomes of items whose run has failed; answers those that are not settled. */
  private async failed(items: Item[], wait: boolean, failure: unknown): Promise<Item[]> {
    const { logger } = this.options;
    const undone = failure instanceof RolledBack;
    const error = undone ? failure.cause : failure;
    const state = (error as { code?: unknown }).code;
    const sqlstate = typeof state === 'string' ? state : 'none';
    this.failures.inc({ sqlstate });
    if (sqlstate === '53100') this.fullAt = performance.now();
    if (undone && isPermanent(error)) {
      if (items.length > 1) return this.halve(items, wait);
      const item = items[0] as Item;
      const constraint = (error as { constraint?: string }).constraint;
      if (sqlstate === '23505' && constraint === 'transactions_tenant_id_id_key') {
        item.settle({ refusal: idReused(item.posting) });
        return [];
      }
      this.fail(item, error);
      return [];
    }
    // Heads of several tenants are not waited for: somebody changes a table. Who has need of it waits by himself, and the others go on.
    if (sqlstate === '55P03' && tenantsOf(items).size > 1) return this.setApart(items);
    // The head stayed locked for lock_timeout: this tenant is told, the others never knew. Or the disk had no room for a statement, and nothing was
    // posted. The lock may be that of the very call whose outcome is open, and what it posted is still to be found: then it is tried again.
    const isFull = undone && sqlstate === '53100';
    if ((isFull || sqlstate === '55P03') && items.some((item) => !item.uncertain)) {
      const why = isFull ? 'the database has no room' : 'the books are locked';
      logger.warn(
        { err: error, tenant: items[0]?.posting.tenantId, items: items.length },
        isFull ? 'the disk is full' : 'a head stayed locked',
      );
      for (const item of items) {
        const outcome = isFull || !neverSent(item) ? 'a retry with the same key finds out' : 'nothing was posted';
        if (!item.uncertain) item.settle({ refusal: new Refusal('unavailable', `${why}; ${outcome}`) });
      }
      return items.filter((item) => item.uncertain);
    }
    // Anything else (connection lost, server stopping, statement time-out) leaves open whether it was committed. Running the same items
    // again resolves it: under the head's lock, what was posted is found by its key.
    const now = performance.now();
    // One line for each time that the database is away.
    const goesOn = now < this.pausedUntil + 1_000;
    logger[goesOn ? 'debug' : 'warn']({ err: error, items: items.length }, 'outcome of a batch unknown, resolving');
    for (const item of items) item.uncertain = true;
    const [hopeless, hopeful] = [items.filter((item) => item.expires + 5_000 < now), items.filter((item) => item.expires + 5_000 >= now)];
    for (const item of hopeless) {
      item.settle({ refusal: new Refusal('unavailable', 'the database is away; a retry with the same key finds out') });
    }
    this.pausedUntil = now + 100;
    return hopeful;
  }
}

function tenantsOf(items: Item[]): Set<string> {
  return new Set(items.map(({ posting }) => posting.tenant));
}

function nameOf(outcome: Outcome): string {
  if ('refusal' in outcome) return outcome.refusal.reason;
  if ('lockConflict' in outcome) return 'lock_conflict';
  if (outcome.found === true) return 'found';
  return outcome.result.replayed ? 'replayed' : 'posted';
}
