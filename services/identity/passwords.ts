// Hashes and verifies passwords with argon2id, off the event loop, a few at a time, fairly by client address.
import { availableParallelism } from 'node:os';
import { hash, verify, type Options } from '@node-rs/argon2';
import { Counter, type Registry } from 'prom-client';
import { openGauge } from '../platform/gauges.ts';
import { Overloaded, FairSemaphore } from '../platform/fair-semaphore.ts';
import { Refusal } from './refusal.ts';

// OWASP's parameters for argon2id (Password Storage Cheat Sheet), the library's default algorithm: its const enum can't be imported by Node.
const parameters: Options = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/** Limits of the computations. */
export interface PasswordLimits {
  /** Computations at once; each takes a core and 19 MiB. */
  concurrency: number;
  /** Computations that may wait; beyond, the newest of the address with most waiting is rejected. */
  queue: number;
}

/** The client of a computation. */
export interface Caller {
  /** The key of fair sharing. */
  address?: string;
  /** Aborts the computation before it begins, when the client disconnects. */
  signal?: AbortSignal;
}

/** One core stays free for everything else. A full queue takes some seconds. */
const defaultLimits: PasswordLimits = { concurrency: Math.max(1, availableParallelism() - 1), queue: 250 };

/** Hashes and verifies passwords. Both throw `overloaded` when too many wait already. */
export class Passwords {
  private readonly computations: Counter<'operation'>;
  private readonly semaphore: FairSemaphore;
  private readonly dummyHash: Promise<string>;

  constructor(metrics: Registry, limits: PasswordLimits = defaultLimits) {
    const { concurrency, queue } = limits;
    // Many users share an address, so a single address may use the whole queue.
    this.semaphore = new FairSemaphore({ max: concurrency, maxPerKey: concurrency, maxWaiting: queue, maxWaitingPerKey: queue });
    this.computations = new Counter({
      name: 'identity_passwords_total',
      help: 'Password computations by operation: hash, verify',
      labelNames: ['operation'],
      registers: [metrics],
    });
    openGauge(metrics, 'identity_passwords_waiting', 'Password computations that wait', () => this.semaphore.size);
    this.dummyHash = hash('the password of unknown users', parameters);
  }

  /** The argon2id hash of a new password (PHC text). */
  async hash(password: string, caller: Caller = {}): Promise<string> {
    return this.limited('hash', () => hash(password, parameters), caller);
  }

  /** Whether the password matches the hash; without a hash (an unknown user) it takes the same time and returns false. */
  async verify(stored: string | null, password: string, caller: Caller = {}): Promise<boolean> {
    const against = stored ?? (await this.dummyHash);
    const isRight = await this.limited('verify', () => verify(against, password), caller);
    return isRight && stored !== null;
  }

  private async limited<Result>(operation: string, work: () => Promise<Result>, { address = '', signal }: Caller): Promise<Result> {
    try {
      return await this.semaphore.run(address, signal, () => {
        this.computations.inc({ operation });
        return work();
      });
    } catch (error) {
      if (!(error instanceof Overloaded)) throw error;
      throw new Refusal('overloaded', 'too many passwords are being checked, try again later', { retryAfter: 2 });
    }
  }
}
