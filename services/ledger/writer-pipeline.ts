// Optimistic writer pipeline: one connection's batches, each decided on cached state while the one before commits.
//
// A batch locks nothing before it decides. Its one call moves the heads on condition that they are as cached, and otherwise fails whole.
// Locking first would let the ledger and PostgreSQL take turns instead of working at the same time.
import { allSettledOrThrow, destroyConnection, sendTogether, type Client, type Pool } from '../platform/postgres.ts';
import { isServerError, isStaleConnection } from '../platform/postgres-errors.ts';
import type { AccountCache, TenantState } from './account-cache.ts';
import { Batch } from './batch.ts';
import { DatabaseClock } from './clock.ts';
import type { Decided } from './known.ts';
import type { ActiveCursors } from './outbox/active-cursors.ts';
import type { Item } from './queue.ts';
import { begin } from './writer-queries.ts';

/** Open batches: one being committed, one that waits behind it, one being decided. */
const maxOpenBatches = 3;
/** After a repeated key, read keys before deciding for so long: a client that repeats one mostly repeats more. */
const readKeysMs = 1_000;

/** Why only the locking path can write a batch. */
export class NeedsLock extends Error {}

/** What a pipeline needs. */
export interface PipelineOptions {
  pool: Pool;
  cache: AccountCache;
  cursors: ActiveCursors;
  /** Called when the next batch may be started. */
  onFree: () => void;
  /** Called when a batch is committed, `ms` after it was sent. */
  onCommitted: (batch: Batch, ms: number) => void;
  /**
   * Called, once no batch is open, with the items of failed batches in their order; some may have been committed. The pipeline starts
   * nothing new until it resolves.
   */
  onFailed: (items: Item[], error: unknown) => Promise<void>;
}

/** Batches on one connection. What fails goes to the locking path. */
export class WriterPipeline {
  private readonly options: PipelineOptions;
  private client: Client | undefined;
  /** Connections on which a batch reads at this moment. */
  private readonly readers = new Set<Client>();
  /** State after the newest batch that was sent and is not yet known to be committed. */
  private readonly unconfirmedStates = new Map<string, TenantState>();
  /** Of batches that were sent and are not yet known to be committed, oldest first. */
  private unconfirmed: readonly Decided[] = [];
  private batchesStarted = 0;
  private readonly clock = new DatabaseClock();
  private keyRepeatedAt = -Infinity;
  private openBatches = 0;
  private isDeciding = false;
  private failures: { number: number; items: Item[]; error: unknown; sent: boolean }[] = [];
  private failuresSettled = Promise.withResolvers<void>();

  constructor(options: PipelineOptions) {
    this.options = options;
  }

  /** Whether a batch may be started now. */
  get isFree(): boolean {
    return this.openBatches < maxOpenBatches && !this.isDeciding && this.failures.length === 0;
  }

  /** Whether a batch is open. */
  get isBusy(): boolean {
    return this.openBatches > 0;
  }

  /** Whether a tenant's state is cached, without which a batch takes the locking path. */
  isCached(tenant: string): boolean {
    return this.unconfirmedStates.has(tenant) || this.options.cache.has(tenant);
  }

  /** Runs a batch to its end. Never rejects. Call it when the pipeline is free and all the items' tenants are cached. */
  async start(items: Item[]): Promise<void> {
    const number = this.batchesStarted++;
    this.openBatches++;
    this.isDeciding = true;
    let sent = false;
    try {
      const batch = new Batch(items, this.options.cursors, this.unconfirmed);
      for (const tenant of batch.tenants) batch.addState(this.stateOf(tenant));
      if (!this.estimateTime(batch)) await this.readAhead(batch);
      batch.setDeadline();
      this.client ??= await this.options.pool.connect();
      // An earlier batch has failed meanwhile, so the state that this one builds on is void.
      if (this.failures.length > 0) throw this.failures[0]?.error;
      batch.decide();
      if (batch.lockReason !== null) throw new NeedsLock(batch.lockReason);
      const sentAt = performance.now();
      sent = true;
      const answer = batch.write(this.client);
      for (const state of batch.states) this.unconfirmedStates.set(state.head.tenant, state);
      this.unconfirmed = [...this.unconfirmed, batch.known.decided];
      this.isDeciding = false;
      this.options.onFree();
      const committed = await answer;
      const commitMs = performance.now() - sentAt;
      this.clock.observe(committed, sentAt);
      if (batch.hasRefusals) await this.recheckRefusals(batch);
      this.keepStates(batch);
      this.openBatches--;
      this.options.onCommitted(batch, commitMs);
    } catch (error) {
      this.isDeciding = false;
      this.openBatches--;
      if ((error as { code?: unknown }).code === '23505') this.keyRepeatedAt = performance.now();
      this.failures.push({ number, items, error, sent });
      // What broke this connection has mostly broken the readers' too. Waiting for each one's time-out would take longer.
      if (sent && !isServerError(error)) for (const reader of this.readers) destroyConnection(reader);
      if (this.openBatches > 0) await this.failuresSettled.promise;
    }
    if (this.openBatches === 0 && this.failures.length > 0) await this.settleFailures();
  }

  /** Releases the connection. */
  close(): void {
    this.client?.release();
    this.client = undefined;
  }

  /** The tenant's newest state, confirmed or not. The batch that takes it may change it. */
  private stateOf(tenant: string): TenantState {
    const unconfirmed = this.unconfirmedStates.get(tenant);
    this.unconfirmedStates.delete(tenant);
    return unconfirmed ?? (this.options.cache.take(tenant) as TenantState);
  }

  /** Sets the batch's time from the estimated clock. False if the batch must read first: accounts, keys or the time. */
  private estimateTime(batch: Batch): boolean {
    const nowMs = this.clock.now();
    if (nowMs === null || !batch.canSkipReads || performance.now() - this.keyRepeatedAt <= readKeysMs) return false;
    batch.nowMs = nowMs;
    return true;
  }

  /** Reads what the batch needs in a transaction of its own, while the batch before commits. */
  private async readAhead(batch: Batch): Promise<void> {
    const requestedAt = performance.now();
    await this.readInTransaction(async (reader) => {
      await allSettledOrThrow(sendTogether(reader, () => [...begin(reader, batch.tenants), batch.read(reader), batch.readMissing(reader)]));
      await batch.readMissing(reader);
    });
    this.clock.observe(batch.nowMs, requestedAt);
  }

  /** Reads in a transaction that `read` begins. */
  private async readInTransaction(read: (reader: Client) => Promise<void>): Promise<void> {
    const reader = await this.options.pool.connect();
    this.readers.add(reader);
    try {
      await read(reader);
    } catch (error) {
      reader.release(true);
      throw error;
    } finally {
      this.readers.delete(reader);
    }
    // Nothing was written, so nobody has to wait for this commit.
    reader.query('commit').then(
      () => reader.release(),
      () => reader.release(true),
    );
  }

  /** Checks refusals against keys and ids that earlier batches used. The batch is committed: if this fails, its outcome counts as unknown. */
  private async recheckRefusals(batch: Batch): Promise<void> {
    try {
      await this.readInTransaction(async (reader) => {
        await allSettledOrThrow(sendTogether(reader, () => [...begin(reader, batch.tenants), batch.recheckRefused(reader)]));
      });
    } catch (error) {
      throw new Error('keys could not be read after the commit', { cause: error });
    }
  }

  /** Puts the states after a committed batch into the cache. */
  private keepStates(batch: Batch): void {
    for (const state of batch.states) {
      // The next batch has taken this state, and keeps it when it commits.
      if (this.unconfirmedStates.get(state.head.tenant) !== state) continue;
      this.unconfirmedStates.delete(state.head.tenant);
      this.options.cache.put(state.head.tenant, state);
    }
    // Older ones are committed too, though they may still look up refusals: what they know of holds and transactions is out of date.
    this.unconfirmed = this.unconfirmed.slice(this.unconfirmed.indexOf(batch.known.decided) + 1);
  }

  /** Whether the writing connection still works. */
  private async connectionAnswers(): Promise<boolean> {
    if (!this.client) return false;
    return this.client.query('select').then(
      () => true,
      () => false,
    );
  }

  /** Once no batch is open: marks items of unknown outcome, drops a broken connection, and hands all items to `onFailed`. */
  private async settleFailures(): Promise<void> {
    const failures = this.failures.toSorted((a, b) => a.number - b.number);
    // A refused statement rolls back and the connection still answers; anything else leaves open what was sent.
    // A silent connection is not queried again: that would only wait for another time-out.
    const isLost = failures.some(({ error }) => isServerError(error)) && !(await this.connectionAnswers());
    const unknown = failures.filter(({ sent, error }) => sent && (isLost || !isServerError(error)));
    for (const item of unknown.flatMap(({ items }) => items)) item.uncertain = true;
    if (unknown.length > 0 || isLost || failures.some(({ error }) => isStaleConnection(error))) {
      this.client?.release(true);
      this.client = undefined;
    }
    this.unconfirmedStates.clear();
    this.unconfirmed = [];
    try {
      await this.options.onFailed(
        failures.flatMap(({ items }) => items),
        failures[0]?.error,
      );
    } finally {
      this.failures = [];
      this.failuresSettled.resolve();
      this.failuresSettled = Promise.withResolvers<void>();
    }
  }
}
