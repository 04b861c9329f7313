// Passwords as argon2id, off the event loop, a few at a time, fairly over callers: 50 registrations at once must not slow the reads of everybody
// else, and whoever registers or logs in as fast as he can must not keep others from logging in.
import { availableParallelism } from 'node:os';
import { hash, verify, type Options } from '@node-rs/argon2';
import { Counter, type Registry } from 'prom-client';
import { openGauge } from '../platform/gauges.ts';
import { Overloaded, FairSemaphore } from '../platform/fair-semaphore.ts';
import { Refusal } from './refusal.ts';

// OWASP's choice for argon2id (Password Storage Cheat Sheet): 19 MiB, two passes, one lane: 9 ms here. argon2id is the library's default;
// its enum is a const enum, which type stripping can't resolve. The table takes nothing else.
const parameters: Options = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/** What may run and wait. */
export interface PasswordLimits {
  /** Computations at once; each takes a core and 19 MiB. */
  concurrency: number;
  /** Computations that may wait; of more, the newest of whoever has most waiting is refused. */
  queue: number;
}

/** Whom a computation is for. */
export interface Caller {
  /** Whose turn it takes: who has the same address shares his turns. */
  address?: string;
  /** A caller that has gone is not worked for. */
  signal?: AbortSignal;
}

/** One core stays free for everything else. A full queue takes some seconds, and a caller waits no longer. */
const defaultLimits: PasswordLimits = { concurrency: Math.max(1, availableParallelism() - 1), queue: 250 };

/** Hashes and verifies passwords. Both throw the refusal `overloaded` when too many wait already. */
export class Passwords {
  private readonly computed: Counter<'what'>;
  private readonly turns: FairSemaphore;
  private readonly nobodys: Promise<string>;

  constructor(metrics: Registry, limits: PasswordLimits = defaultLimits) {
    const { concurrency, queue } = limits;
    // Many people share an address: alone it may have all the places.
    this.turns = new FairSemaphore({ max: concurrency, maxPerKey: concurrency, maxWaiting: queue, maxWaitingPerKey: queue });
    this.computed = new Counter({
      name: 'identity_passwords_total',
      help: 'Password computations by kind: hash, verify',
      labelNames: ['what'],
      registers: [metrics],
    });
    openGauge(metrics, 'identity_passwords_waiting', 'Password computations that wait for their turn', () => this.turns.size);
    this.nobodys = hash('nobody has this password', parameters);
  }

  /** The argon2id hash of a new password (PHC text). */
  async hash(password: string, caller: Caller = {}): Promise<string> {
    return this.inTurn('hash', () => hash(password, parameters), caller);
  }

  /** Whether the password is the one of the hash; without a hash the same work is done and the answer is no. */
  async verify(stored: string | null, password: string, caller: Caller = {}): Promise<boolean> {
    const against = stored ?? (await this.nobodys);
    const right = await this.inTurn('verify', () => verify(against, password), caller);
    return right && stored !== null;
  }

  private async inTurn<Result>(what: string, work: () => Promise<Result>, { address = '', signal }: Caller): Promise<Result> {
    try {
      return await this.turns.run(address, signal, () => {
        this.computed.inc({ what });
        return work();
      });
    } catch (error) {
      if (!(error instanceof Overloaded)) throw error;
      throw new Refusal('overloaded', 'too many passwords are being checked, try again later', { retryAfter: 2 });
    }
  }
}
