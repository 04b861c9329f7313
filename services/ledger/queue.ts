// Postings that wait for a batch: one queue per tenant, drained round-robin so that no tenant starves another.
import { Refusal } from './accounting.ts';
import type { HoldRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import type { PostingResult } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { ValidatedPosting } from './mapping.ts';

/** One command or more. */
export type Commands = readonly [ValidatedPosting, ...ValidatedPosting[]];

/** What waits: commands of one tenant, of which all are done, consecutively, or none; and their caller. */
export interface Item {
  /** UUID. */
  tenant: string;
  commands: Commands;
  /** Decided and answered, but not done. */
  dryRun: boolean;
  /** Estimated size of all commands in messages and in the log, bytes. */
  bytes: number;
  /** `performance.now()` at which the caller stops waiting. */
  expires: number;
  /** An earlier attempt may have been committed. */
  uncertain: boolean;
  /** Return the posting instead of waiting if another replica has locked the tenant's log head. */
  failFastOnLock: boolean;
  /** Aborted when the client has disconnected: what is not yet decided is then not posted. */
  signal: AbortSignal | undefined;
  settle: (result: ItemOutcome) => void;
}

/** What a command did. `found`: an earlier call had done it. */
export interface Done {
  result: PostingResult;
  /** The hold that it made, captured or voided, as it is after the command. */
  hold?: HoldRecord;
  found?: boolean;
}

/** How a command ended. `lockConflict`: returned, not done. */
export type Outcome = Done | { refusal: Refusal } | { lockConflict: true };

/** How an item ended: what each command did, or why none was done. `at`: index of the command that was refused; absent: 0. */
export type ItemOutcome = Done[] | { refusal: Refusal; at?: number } | { lockConflict: true };

/** Limits of the queue and of one batch. */
export interface QueueLimits {
  /** Items waiting in total; half per tenant. */
  waiting: number;
  /** Bytes waiting in total; half per tenant. */
  waitingBytes: number;
  /** A batch: items, entries and bytes. A larger single item is a batch of its own. */
  items: number;
  entries: number;
  bytes: number;
}

interface TenantQueue {
  tenant: string;
  items: Item[];
  bytes: number;
  /** Number of the pipeline that has taken some of its items, or `isolated`, and in how many open batches. */
  takenBy: number;
  batches: number;
  /** Another replica had locked the head: batches are of this tenant only and wait for the lock. */
  lockedElsewhere: boolean;
}

/** Entries a tenant may add per turn. Each tenant of a batch has a fixed cost, so a turn is several small postings. */
const entriesPerTurn = 8;

/** What a command on a transaction or hold counts as: how many entries that has, 2 to 200, is not known before it is read. */
const entriesPerTarget = 50;

/** In place of a pipeline's number: nothing more of the tenant is taken until it is released. */
export const isolated = -1;

/** True if no attempt to post this item was ever sent, as far as is known. */
export function neverSent({ uncertain, commands }: Item): boolean {
  return !uncertain && !commands.some(({ retry }) => retry);
}

/** Whether what an item changes may have to be undone. */
export function isUndoable({ commands, dryRun }: Item): boolean {
  return commands.length > 1 || dryRun;
}

/** All commands of items, in their order. */
export function commandsOf(items: readonly Item[]): ValidatedPosting[] {
  return items.flatMap(({ commands }) => commands);
}

/** Entries of an item; the queue and a batch are limited by them. */
function entriesOf({ commands }: Item): number {
  let entries = 0;
  for (const command of commands) entries += command.target ? entriesPerTarget : Math.max(command.entries.length, 2);
  return entries;
}

/** True if the caller has stopped waiting: its time is over at `now` (`performance.now()`), or it has disconnected. */
export function isAbandoned({ expires, signal }: Item, now = performance.now()): boolean {
  return expires <= now || signal?.aborted === true;
}

/** True if the item is returned rather than left waiting for another replica's lock. An uncertain one has to be resolved here. */
export function failsFast({ failFastOnLock, uncertain }: Item): boolean {
  return failFastOnLock && !uncertain;
}

/** Queues by tenant. */
export class TenantQueues {
  private readonly tenants = new Map<string, TenantQueue>();
  private readonly limits: QueueLimits;
  private items = 0;
  private bytes = 0;

  constructor(limits: QueueLimits) {
    this.limits = limits;
  }

  /** Items waiting. */
  get size(): number {
    return this.items;
  }

  /** Adds an item at the end of its tenant's queue, or settles it at once: beyond a limit, or if it does not wait for a lock. */
  add(item: Item): void {
    const { tenant } = item;
    const queue = this.tenants.get(tenant) ?? { tenant, items: [], bytes: 0, takenBy: isolated, batches: 0, lockedElsewhere: false };
    if (queue.lockedElsewhere && failsFast(item)) item.settle({ lockConflict: true });
    else if (!this.makeSpace(queue)) item.settle({ refusal: new Refusal('overloaded', 'too many postings are waiting') });
    else {
      this.tenants.set(tenant, queue);
      queue.items.push(item);
      this.count(queue, item, 1);
    }
  }

  /**
   * Whether a tenant may add an item. A full queue then rejects the newest of a tenant that has more bytes waiting. What may have been
   * posted is not rejected once it waits.
   */
  private makeSpace(queue: TenantQueue): boolean {
    const { waiting, waitingBytes } = this.limits;
    if (queue.items.length >= waiting / 2 || queue.bytes >= waitingBytes / 2) return false;
    if (this.items < waiting && this.bytes < waitingBytes) return true;
    let largest = queue;
    for (const each of this.tenants.values()) {
      if (each.bytes > largest.bytes && each.items.some(neverSent)) largest = each;
    }
    if (largest === queue) return false;
    const [rejected] = largest.items.splice(largest.items.findLastIndex(neverSent), 1) as [Item];
    this.count(largest, rejected, -1);
    this.forgetIfIdle(largest);
    rejected.settle({ refusal: new Refusal('overloaded', 'too many postings are waiting') });
    return true;
  }

  /**
   * Takes a batch of mixed tenants that `isWanted` for a pipeline, or null if fewer than `atLeast` items are free. It takes at most its share
   * of the tenants among `pipelines`. A tenant stays with the pipeline until all its batches are released. Abandoned items are settled.
   */
  takeMixed(pipeline: number, pipelines: number, atLeast: number, isWanted: (tenant: string) => boolean = () => true): Item[] | null {
    const share = Math.ceil(this.tenants.size / pipelines);
    const free: TenantQueue[] = [];
    let waiting = 0;
    for (const queue of this.tenants.values()) {
      if (free.length >= share) break;
      if (queue.items.length === 0 || queue.lockedElsewhere || !isWanted(queue.tenant)) continue;
      if (queue.batches > 0 && (pipeline === isolated || queue.takenBy !== pipeline)) continue;
      free.push(queue);
      waiting += queue.items.length;
    }
    return waiting >= atLeast ? this.take(free, pipeline) : null;
  }

  /** Takes a batch of one tenant whose head another replica has locked, or null. */
  takeLockedElsewhere(): Item[] | null {
    for (const queue of this.tenants.values()) {
      if (queue.batches > 0 || !queue.lockedElsewhere || queue.items.length === 0) continue;
      const batch = this.take([queue], isolated);
      if (batch) return batch;
    }
    return null;
  }

  /** Puts items of open batches back at the front of their queues, in their order. */
  putBack(items: Item[]): void {
    for (const item of items.toReversed()) {
      const queue = this.queueOf(item.tenant);
      queue.items.unshift(item);
      this.count(queue, item, 1);
    }
  }

  isLockedElsewhere(tenant: string): boolean {
    return this.queueOf(tenant).lockedElsewhere;
  }

  /** Records whether another replica has locked the head of a tenant with an open batch; if so, settles the items that fail fast. */
  setLockedElsewhere(tenant: string, lockedElsewhere: boolean): void {
    const queue = this.queueOf(tenant);
    queue.lockedElsewhere = lockedElsewhere;
    if (!lockedElsewhere) return;
    const returned = queue.items.filter(failsFast);
    queue.items = queue.items.filter((item) => !failsFast(item));
    for (const item of returned) {
      this.count(queue, item, -1);
      item.settle({ lockConflict: true });
    }
  }

  /** Releases the tenants of a batch that has ended; their next turn comes after all others'. */
  release(tenants: Iterable<string>): void {
    for (const tenant of tenants) {
      const queue = this.queueOf(tenant);
      queue.batches--;
      this.moveToEnd(queue);
      this.forgetIfIdle(queue);
    }
  }

  /** Removes everything, for a process that ends. */
  takeAll(): Item[] {
    const all = [...this.tenants.values()].flatMap((queue) => queue.items);
    this.tenants.clear();
    this.items = 0;
    this.bytes = 0;
    return all;
  }

  /** Takes a batch from these queues, or null: everything that waited may have expired. */
  private take(free: TenantQueue[], takenBy: number): Item[] | null {
    const counts = new Map(free.map((queue) => [queue, 0]));
    const batch = this.fill(counts);
    for (const [queue, count] of counts) {
      if (count === 0) {
        this.forgetIfIdle(queue);
        continue;
      }
      queue.takenBy = takenBy;
      queue.batches++;
      // The next batch, taken while this one is open, begins with other tenants.
      this.moveToEnd(queue);
      for (const item of queue.items.splice(0, count)) this.count(queue, item, -1);
    }
    return batch.length > 0 ? batch : null;
  }

  /** Chooses items in turns of {@link entriesPerTurn} and counts how many of each queue. */
  private fill(counts: Map<TenantQueue, number>): Item[] {
    const { limits } = this;
    const batch: Item[] = [];
    const now = performance.now();
    let entries = 0;
    let bytes = 0;
    let turn = [...counts.keys()];
    while (turn.length > 0 && batch.length < limits.items) {
      turn = turn.filter((queue) => {
        let left = entriesPerTurn;
        while (left > 0 && batch.length < limits.items) {
          const count = counts.get(queue) as number;
          const item = this.firstWanted(queue, count, now);
          if (!item) break;
          const more = entriesOf(item);
          const fits = entries + more <= limits.entries && bytes + item.bytes <= limits.bytes;
          if (!fits && batch.length > 0) break;
          counts.set(queue, count + 1);
          batch.push(item);
          entries += more;
          bytes += item.bytes;
          left -= more;
        }
        // No further turn for a queue that is empty, or whose next item does not fit.
        return left <= 0;
      });
    }
    return batch;
  }

  /** The item at a position; abandoned ones there are settled and removed, but for those that may have been posted. */
  private firstWanted(queue: TenantQueue, position: number, now: number): Item | undefined {
    for (;;) {
      const item = queue.items[position];
      if (!item || item.uncertain || !isAbandoned(item, now)) return item;
      queue.items.splice(position, 1);
      this.count(queue, item, -1);
      const outcome = neverSent(item) ? ' and was not begun' : '; a retry with the same key finds out';
      item.settle({ refusal: new Refusal('unavailable', `the posting waited too long${outcome}`) });
    }
  }

  /** The queue of a tenant of which something waits or is in a batch. */
  private queueOf(tenant: string): TenantQueue {
    return this.tenants.get(tenant) as TenantQueue;
  }

  private moveToEnd(queue: TenantQueue): void {
    this.tenants.delete(queue.tenant);
    this.tenants.set(queue.tenant, queue);
  }

  private forgetIfIdle(queue: TenantQueue): void {
    if (queue.items.length === 0 && queue.batches === 0) this.tenants.delete(queue.tenant);
  }

  private count(queue: TenantQueue, item: Item, sign: 1 | -1): void {
    this.items += sign;
    this.bytes += sign * item.bytes;
    queue.bytes += sign * item.bytes;
  }
}
