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

interface KeyState {
  name: string;
  running: number;
  waiting: Waiter[];
}

/** A semaphore that is fair over keys. */
export class FairSemaphore {
  private readonly options: FairSemaphoreOptions & { max: number; maxWaiting: number; maxWaitingPerKey: number };
  private readonly keys = new Map<string, KeyState>();
  /** Keys that wait and are below their limit, the next one first. Empty while a slot is free. */
  private readonly turns = new Set<KeyState>();
  private running = 0;
  private waiting = 0;

  constructor({ max = Infinity, maxWaiting = 4_000, maxWaitingPerKey = maxWaiting / 2, ...rest }: FairSemaphoreOptions) {
    this.options = { max, maxWaiting, maxWaitingPerKey, ...rest };
  }

  /** How many wait. */
  get size(): number {
    return this.waiting;
  }

  /** Runs work in the key's turn; returns or throws what it does. Throws as {@link acquire}. */
  async run<Result>(name: string, signal: AbortSignal | undefined, work: () => Promise<Result>): Promise<Result> {
    await this.acquire(name, signal);
    try {
      return await work();
    } finally {
      this.release(name);
    }
  }

  /** Takes a slot, to be released once. Throws {@link Overloaded}, or the reason of `signal` when that aborts first; then there is none to release. */
  async acquire(name: string, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const key = this.keys.get(name) ?? { name, running: 0, waiting: [] };
    const isFree = this.running < this.options.max && key.running < this.options.maxPerKey;
    if (!isFree) this.admit(key);
    this.keys.set(name, key);
    if (isFree) this.start(key);
    else await this.wait(key, signal);
  }

  /** Releases a slot of a key. */
  release(name: string): void {
    const key = this.keys.get(name);
    if (!key || key.running === 0) throw new Error('released more often than acquired');
    key.running--;
    this.running--;
    this.update(key);
    for (const next of this.turns) {
      if (this.running >= this.options.max) return;
      // It joins the end of the queue again if it waits for more.
      this.turns.delete(next);
      this.start(next);
      next.waiting[0]?.start();
    }
  }

  private start(key: KeyState): void {
    key.running++;
    this.running++;
  }

  private wait(key: KeyState, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        key.waiting.splice(key.waiting.indexOf(waiter), 1);
        this.waiting--;
        this.update(key);
      };
      const waiter = {
        start: () => (settle(), resolve()),
        fail: (error: Error) => (settle(), reject(error)),
      };
      const abort = () => waiter.fail(signal?.reason as Error);
      const { timeoutMs } = this.options;
      const timer = timeoutMs === undefined ? undefined : setTimeout(() => waiter.fail(new Overloaded('waited too long')), timeoutMs);
      signal?.addEventListener('abort', abort, { once: true });
      key.waiting.push(waiter);
      this.waiting++;
      this.update(key);
    });
  }

  /** Throws where a key or all wait at their limit. Beyond the limit of all, the newest of the key with most gives way to a key with fewer. */
  private admit(key: KeyState): void {
    const { maxWaiting, maxWaitingPerKey } = this.options;
    if (key.waiting.length >= maxWaitingPerKey) throw new Overloaded('too many calls are waiting');
    if (this.waiting < maxWaiting) return;
    const largest = [...this.keys.values()].reduce((most, each) => (each.waiting.length > most.waiting.length ? each : most), key);
    if (largest.waiting.length <= key.waiting.length + 1) throw new Overloaded('too many calls are waiting');
    largest.waiting.at(-1)?.fail(new Overloaded('too many calls are waiting'));
  }

  private update(key: KeyState): void {
    if (key.waiting.length > 0 && key.running < this.options.maxPerKey) this.turns.add(key);
    else this.turns.delete(key);
    if (key.waiting.length === 0 && key.running === 0) this.keys.delete(key.name);
  }
}
