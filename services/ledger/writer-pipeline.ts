// Optimistic writer pipeline: one connection's batches, each decided on cached state while the one before commits.
//
// A batch locks nothing before it decides. Its one call moves the heads on condition that they are as cached, and otherwise fails whole.
// Locking first would let the ledger and PostgreSQL take turns instead of working at the same time.
import { allSettledOrThrow, destroyConnection, sendTogether, type Client, type Pool } from '../platform/postgres.ts';
import { isServerError, isStaleConnection } from '../platform/postgres-errors.ts';
import type { AccountCache, TenantState } from './account-cache.ts';
import { Batch } from './batch.ts';
import { DatabaseClock } from './clock.ts';
import type { ActiveCursors } from './outbox/active-cursors.ts';
import type { Item } from './queue.ts';
import { begin } from './writer-queries.ts';

/** Open batches: one being committed, one that waits behind it, one being decided. */
const maxOpen = 3;
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
  freed: () => void;
  /** Called when a batch is committed. */
  posted: (batch: Batch) => void;
  /**
   * Called, once no batch is open, with the items of failed batches in their order; some may have been committed. The pipeline starts
   * nothing new until it resolves.
   */
  failed: (items: Item[], error: unknown) => Promise<void>;
}

/** Batches on one connection. What fails goes to the locking path. */
export class WriterPipeline {
  private readonly options: PipelineOptions;
  private client: Client | undefined;
  /** Connections on which something is being read for it. */
  private readonly readers = new Set<Client>();
  /** State after the newest batch that was sent and is not yet known to be committed. */
  private readonly sent = new Map<string, TenantState>();
  /** Keys of batches that were sent and are not yet known to be committed. */
  private pending: Batch['keys'][] = [];
  private started = 0;
  private readonly clock = new DatabaseClock();
  private repeatedAt = -Infinity;
  private open = 0;
  private deciding = false;
  private failures: { number: number; items: Item[]; error: unknown; sent: boolean }[] = [];
  private settling = Promise.withResolvers<void>();

  constructor(options: PipelineOptions) {
    this.options = options;
  }

  /** Whether a batch may be started now. */
  get isFree(): boolean {
    return this.open < maxOpen && !this.deciding && this.failures.length === 0;
  }

  /** Whether a batch is open. */
  get isBusy(): boolean {
    return this.open > 0;
  }

  /** Whether a tenant's state is cached, without which a batch takes the locking path. */
  isCached(tenant: string): boolean {
    return this.sent.has(tenant) || this.options.cache.has(tenant);
  }

  /** Runs a batch to its end. Never rejects. Call it when the pipeline is free and all the items' tenants are cached. */
  async start(items: Item[]): Promise<void> {
    const number = this.started++;
    this.open++;
    this.deciding = true;
    let sent = false;
    try {
      const batch = new Batch(items, this.options.cursors, this.pending);
      for (const tenant of batch.tenants) batch.addState(this.stateOf(tenant));
      if (!this.setTime(batch)) await this.readAhead(batch);
      batch.expire();
      this.client ??= await this.options.pool.connect();
      // The batch before has failed meanwhile, so the state that this one builds on is void.
      if (this.failures.length > 0) throw this.failures[0]?.error;
      batch.decide();
      if (batch.needsLock !== null) throw new NeedsLock(batch.needsLock);
      const sentAt = performance.now();
      sent = true;
      const answer = batch.write(this.client);
      for (const state of batch.states) this.sent.set(state.head.tenant, state);
      this.pending = [...this.pending, batch.keys];
      this.deciding = false;
      this.options.freed();
      this.clock.observe(await answer, sentAt);
      if (batch.hasRefusals) await this.recheckRefusals(batch);
      this.committed(batch);
      this.open--;
      this.options.posted(batch);
    } catch (error) {
      this.deciding = false;
      this.open--;
      if ((error as { code?: unknown }).code === '23505') this.repeatedAt = performance.now();
      this.failures.push({ number, items, error, sent });
      // What broke this connection mostly broke the readers' too: without this each would be waited for until its own time-out.
      if (sent && !isServerError(error)) for (const reader of this.readers) destroyConnection(reader);
      if (this.open > 0) await this.settling.promise;
    }
    if (this.open === 0 && this.failures.length > 0) await this.settleFailures();
  }

  /** Releases the connection. */
  close(): void {
    this.client?.release();
    this.client = undefined;
  }

  private stateOf(tenant: string): TenantState {
    const sent = this.sent.get(tenant);
    this.sent.delete(tenant);
    return sent ?? (this.options.cache.take(tenant) as TenantState);
  }

  /** Sets the batch's time and returns true if nothing has to be read first: used keys are then left to the unique index. */
  private setTime(batch: Batch): boolean {
    const nowMs = this.clock.now();
    if (nowMs === null || !batch.isComplete || performance.now() - this.repeatedAt <= readKeysMs) return false;
    batch.nowMs = nowMs;
    return true;
  }

  private async readAhead(batch: Batch): Promise<void> {
    const askedAt = performance.now();
    await this.reading(async (reader) => {
      await allSettledOrThrow(sendTogether(reader, () => [...begin(reader, batch.tenants), batch.read(reader), batch.readMissing(reader)]));
      await batch.readMissing(reader);
    });
    this.clock.observe(batch.nowMs, askedAt);
  }

  /** Reads in a transaction that `read` begins. */
  private async reading(read: (reader: Client) => Promise<void>): Promise<void> {
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
    // Nothing was written, so nothing waits for the end of this.
    reader.query('commit').then(
      () => reader.release(),
      () => reader.release(true),
    );
  }

  /** A failure leaves the outcome open. */
  private async recheckRefusals(batch: Batch): Promise<void> {
    try {
      await this.reading(async (reader) => {
        await allSettledOrThrow(sendTogether(reader, () => [...begin(reader, batch.tenants), batch.recheckRefused(reader)]));
      });
    } catch (error) {
      throw new Error('keys could not be read after the commit', { cause: error });
    }
  }

  private committed(batch: Batch): void {
    for (const state of batch.states) {
      // Unless the next batch has taken it.
      if (this.sent.get(state.head.tenant) !== state) continue;
      this.sent.delete(state.head.tenant);
      this.options.cache.put(state.head.tenant, state);
    }
    this.pending = this.pending.filter((keys) => keys !== batch.keys);
  }

  private async answers(): Promise<boolean> {
    if (!this.client) return false;
    return this.client.query('select').then(
      () => true,
      () => false,
    );
  }

  private async settleFailures(): Promise<void> {
    const failures = this.failures.toSorted((a, b) => a.number - b.number);
    // A refused statement rolls back and the connection still answers; anything else leaves open what was sent.
    // A silent connection is not queried again: that would only wait for another time-out.
    const isLost = failures.some(({ error }) => isServerError(error)) && !(await this.answers());
    const open = failures.filter(({ sent, error }) => sent && (isLost || !isServerError(error)));
    for (const item of open.flatMap(({ items }) => items)) item.uncertain = true;
    if (open.length > 0 || isLost || failures.some(({ error }) => isStaleConnection(error))) {
      this.client?.release(true);
      this.client = undefined;
    }
    this.sent.clear();
    this.pending = [];
    try {
      await this.options.failed(
        failures.flatMap(({ items }) => items),
        failures[0]?.error,
      );
    } finally {
      this.failures = [];
      this.settling.resolve();
      this.settling = Promise.withResolvers<void>();
    }
  }
}
