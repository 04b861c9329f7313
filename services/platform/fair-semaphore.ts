// Limits concurrent work in all and per key, for example a tenant; keys that wait take turns.

/** How much may run and wait. */
export interface FairSemaphoreOptions {
  /** Running in all; unlimited unless given. */
  max?: number | undefined;
  /** Running per key. */
  maxPerKey: number;
  /** Waiting in all; 4,000 unless given. */
  maxWaiting?: number | undefined;
  /** Waiting per key; half of all unless given. */
  maxWaitingPerKey?: number | undefined;
  /** Milliseconds to wait at most; unlimited unless given. */
  timeoutMs?: number | undefined;
}

/** Thrown when too many calls wait or one has waited too long; its work was not started. */
export class Overloaded extends Error {}

interface Waiter {
  start: () => void;
  fail: (error: Error) => void;
}

/** A semaphore that is fair over keys. */
export class FairSemaphore {
  private readonly options: FairSemaphoreOptions & { max: number; maxWaiting: number; maxWaitingPerKey: number };
  private readonly running = new Map<string, number>();
  /** Calls that wait, by key; the key whose turn is next first. */
  private readonly queues = new Map<string, Waiter[]>();
  private total = 0;
  private waiting = 0;

  constructor({ max = Infinity, maxWaiting = 4_000, maxWaitingPerKey = maxWaiting / 2, ...rest }: FairSemaphoreOptions) {
    this.options = { max, maxWaiting, maxWaitingPerKey, ...rest };
  }

  /** How many wait. */
  get size(): number {
    return this.waiting;
  }

  /** Runs work in the key's turn; returns or throws what it does. Throws as {@link acquire}. */
  async run<Result>(key: string, signal: AbortSignal | undefined, work: () => Promise<Result>): Promise<Result> {
    await this.acquire(key, signal);
    try {
      return await work();
    } finally {
      this.release(key);
    }
  }

  /** Takes a slot, to be released once. Throws {@link Overloaded}, or the reason of `signal` when that aborts first; then there is none to release. */
  async acquire(key: string, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (this.isFree(key)) this.count(key, 1);
    else await this.wait(key, signal);
  }

  /** Releases a slot of a key. */
  release(key: string): void {
    // A key at its limit has had its turn.
    if (this.running.get(key) === this.options.maxPerKey) this.moveToEnd(key);
    this.count(key, -1);
    for (const [next, [first]] of this.queues) {
      if (this.total >= this.options.max) return;
      if (this.isFree(next)) first?.start();
    }
  }

  private isFree(key: string): boolean {
    return this.total < this.options.max && (this.running.get(key) ?? 0) < this.options.maxPerKey;
  }

  private moveToEnd(key: string): void {
    const queue = this.queues.get(key);
    if (queue && this.queues.delete(key)) this.queues.set(key, queue);
  }

  private count(key: string, change: 1 | -1): void {
    this.total += change;
    const running = (this.running.get(key) ?? 0) + change;
    if (running > 0) this.running.set(key, running);
    else this.running.delete(key);
  }

  private wait(key: string, signal: AbortSignal | undefined): Promise<void> {
    this.admit(key);
    return new Promise((resolve, reject) => {
      const queue = this.queues.get(key) ?? [];
      const leave = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        queue.splice(queue.indexOf(waiter), 1);
        this.waiting--;
        if (queue.length === 0) this.queues.delete(key);
      };
      const start = () => {
        leave();
        this.count(key, 1);
        this.moveToEnd(key);
        resolve();
      };
      const waiter = { start, fail: (error: Error) => (leave(), reject(error)) };
      const abort = () => waiter.fail(signal?.reason as Error);
      const { timeoutMs } = this.options;
      const timer = timeoutMs === undefined ? undefined : setTimeout(() => waiter.fail(new Overloaded('waited too long')), timeoutMs);
      signal?.addEventListener('abort', abort, { once: true });
      queue.push(waiter);
      this.queues.set(key, queue);
      this.waiting++;
    });
  }

  /** Throws where a key or all wait at their limit. Beyond the limit of all, the newest of the key with most gives way to a key with fewer. */
  private admit(key: string): void {
    const { maxWaiting, maxWaitingPerKey } = this.options;
    const own = this.queues.get(key)?.length ?? 0;
    const isFull = this.waiting >= maxWaiting;
    const largest = isFull ? [...this.queues.values()].reduce((most, each) => (each.length > most.length ? each : most), []) : [];
    if (own >= maxWaitingPerKey || (isFull && largest.length <= own + 1)) throw new Overloaded('too many calls are waiting');
    largest.at(-1)?.fail(new Overloaded('too many calls are waiting'));
  }
}
