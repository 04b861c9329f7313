// A lane: batches on one connection, the next one decided while the one before is still being committed. It takes no lock before it decides:
// it decides on the books that this process remembers, and sends everything in one call that begins with locking the heads and fails as a
// whole unless they stand where they are remembered, and unless the keys are new. What it lacks it reads ahead on another connection. What
// fails is run again under locks.
//
// Locking first made the ledger and PostgreSQL take turns on one tenant: neither's core was busy while the other's worked.
import { isStaleConnection } from '../platform/stale-connection.ts';
import { allSettledOrThrow, destroyConnection, sendTogether, type Client, type Pool } from '../platform/postgres.ts';
import { isServerError } from '../platform/postgres-errors.ts';
import { Batch } from './batch.ts';
import type { AccountCache, TenantState } from './account-cache.ts';
import type { ActiveCursors } from './outbox/active-cursors.ts';
import type { Item } from './queue.ts';
import { DatabaseClock } from './clock.ts';
import { begin, commit } from './writer-queries.ts';

/** Batches that may be open at a time: one being committed, one that waits behind it, one being decided. */
const mostOpen = 3;
/** So long after a key was met again keys are read ahead, milliseconds: who repeats one mostly repeats more, and each would fail a batch. */
const repetitionMs = 1_000;

/** What a lane needs. */
export interface PipelineOptions {
  pool: Pool;
  shelf: AccountCache;
  cursors: ActiveCursors;
  /** Called when the next batch may be started. */
  freed: () => void;
  /** Called when a batch is committed. */
  posted: (batch: Batch) => void;
  /**
   * Called, when nothing is open any more, with the items of batches that failed, in their order: some may have been committed. The lane
   * takes nothing new until it resolves.
   */
  failed: (items: Item[], error: unknown) => Promise<void>;
}

/** One connection's work. */
export class WriterPipeline {
  private readonly options: PipelineOptions;
  private client: Client | undefined;
  /** Connections on which something is being read for it. */
  private readonly readers = new Set<Client>();
  /** Books as of the newest batch that was sent and is not yet known to be committed. */
  private readonly sent = new Map<string, TenantState>();
  /** Keys of batches that were sent and are not yet known to be committed. */
  private pending: Batch['keys'][] = [];
  private started = 0;
  private readonly clock = new DatabaseClock();
  private repeatedAt = -Infinity;
  private open = 0;
  private deciding = false;
  private failures: { place: number; items: Item[]; error: unknown; sent: boolean }[] = [];
  private settling = Promise.withResolvers<void>();

  constructor(options: PipelineOptions) {
    this.options = options;
  }

  /** Whether a batch may be started now. */
  get free(): boolean {
    return this.open < mostOpen && !this.deciding && this.failures.length === 0;
  }

  /** Whether a batch is under way. */
  get busy(): boolean {
    return this.open > 0;
  }

  /** Whether a tenant's books are remembered, without which a batch has to lock first. */
  isCached(tenant: string): boolean {
    return this.sent.has(tenant) || this.options.shelf.has(tenant);
  }

  /** Runs a batch to its end. Never rejects. To be called when the lane is free and remembers the books of all the items' tenants. */
  async start(items: Item[]): Promise<void> {
    const place = this.started++;
    this.open++;
    this.deciding = true;
    let sent = false;
    try {
      const batch = new Batch(items, this.options.cursors, this.pending);
      for (const tenant of batch.tenants) batch.open(this.booksOf(tenant));
      const nowMs = this.clock.now();
      const blind = nowMs !== null && batch.complete && performance.now() - this.repeatedAt > repetitionMs;
      const askedAt = performance.now();
      if (blind) batch.nowMs = nowMs;
      else this.clock.observe(await this.readAhead(batch), askedAt);
      batch.expire();
      this.client ??= await this.options.pool.connect();
      // The batch before has failed meanwhile: what this one builds on is void.
      if (this.failures.length > 0) throw this.failures[0]?.error;
      batch.decide();
      if (batch.ambiguous.length > 0) throw new Error('what was refused may be on its way: the heads have to be held');
      const sentAt = performance.now();
      sent = true;
      const answers = this.send(batch, this.client);
      this.pending = [...this.pending, batch.keys];
      this.deciding = false;
      this.options.freed();
      this.clock.observe((await allSettledOrThrow(answers)).at(-1) as number, sentAt);
      if (batch.hasRefusals) await this.lookBack(batch, blind);
      this.committed(batch);
      this.open--;
      this.options.posted(batch);
    } catch (error) {
      this.deciding = false;
      this.open--;
      if ((error as { code?: unknown }).code === '23505') this.repeatedAt = performance.now();
      this.failures.push({ place, items, error, sent });
      // What took this connection has mostly taken theirs: each would be waited for with a patience of its own, and this batch with it. (A ledger whose
      // connections were forgotten posted nothing for 21 s instead of 15.)
      if (sent && !isServerError(error)) for (const reader of this.readers) destroyConnection(reader);
      if (this.open > 0) await this.settling.promise;
    }
    if (this.open === 0 && this.failures.length > 0) await this.settleFailures();
  }

  /** Lets go of the connection. */
  close(): void {
    this.client?.release();
    this.client = undefined;
  }

  private booksOf(tenant: string): TenantState {
    const sent = this.sent.get(tenant);
    this.sent.delete(tenant);
    return sent ?? (this.options.shelf.take(tenant) as TenantState);
  }

  private async readAhead(batch: Batch): Promise<number> {
    await this.reading(async (reader) => {
      await allSettledOrThrow(sendTogether(reader, () => [...begin(reader, batch.tenants), batch.read(reader), batch.readOn(reader)]));
      await batch.readOn(reader);
    });
    return batch.nowMs;
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
    // Nothing was written: nobody waits for the end of this.
    reader.query('commit').then(
      () => reader.release(),
      () => reader.release(true),
    );
  }

  /** What was posted stays posted: a failure leaves its outcome open, as a lost answer does. Where it was not decided `blind` its keys were read. */
  private async lookBack(batch: Batch, blind: boolean): Promise<void> {
    try {
      await this.reading(async (reader) => {
        const read = () => (blind ? batch.readKeysOfRefused(reader) : batch.readIdsOfRefused(reader));
        await allSettledOrThrow(sendTogether(reader, () => [...begin(reader, batch.tenants), read()]));
        if (blind) await batch.readIdsOfRefused(reader);
      });
    } catch (error) {
      throw new Error('keys could not be read after the commit', { cause: error });
    }
  }

  private send(batch: Batch, client: Client): Promise<unknown>[] {
    const answers =
      batch.made.length === 0
        ? batch.write(client)
        : sendTogether(client, () => {
            const begun = begin(client, batch.tenants);
            const written = batch.write(client);
            const committed = commit(client);
            return [...begun, committed, ...written];
          });
    for (const books of batch.books) this.sent.set(books.head.tenant, books);
    return answers;
  }

  private committed(batch: Batch): void {
    for (const books of batch.books) {
      // Unless the next batch has taken them.
      if (this.sent.get(books.head.tenant) !== books) continue;
      this.sent.delete(books.head.tenant);
      this.options.shelf.put(books.head.tenant, books);
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
    const failures = this.failures.toSorted((a, b) => a.place - b.place);
    // A refused statement rolls back and leaves a connection behind that answers; anything else leaves open what was sent. A connection that said
    // nothing is not asked: it may be waited for in vain once more.
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
