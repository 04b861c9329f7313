// Passwords as argon2id, off the event loop, a few at a time: 50 registrations at once must not slow the reads of everybody else.
import { availableParallelism } from 'node:os';
import { hash, verify, type Options } from '@node-rs/argon2';
import { Counter, Gauge, type Registry } from 'prom-client';
import { Refusal } from './refusal.ts';

// OWASP's choice for argon2id (Password Storage Cheat Sheet): 19 MiB, two passes, one lane: 9 ms here. argon2id is the library's default;
// its enum is a const enum, which type stripping can't resolve. The table takes nothing else.
const parameters: Options = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/** What may run and wait. */
export interface PasswordLimits {
  /** Computations at once; each takes a core and 19 MiB. */
  concurrency: number;
  /** Computations that may wait; more are refused. */
  queue: number;
}

/** One core stays free for everything else. A full queue takes some seconds, and a caller waits no longer. */
const defaultLimits: PasswordLimits = { concurrency: Math.max(1, availableParallelism() - 1), queue: 250 };

/** Hashes and verifies passwords. Both throw the refusal `overloaded` when too many wait already. */
export class Passwords {
  private readonly limits: PasswordLimits;
  private readonly computed: Counter<'what'>;
  private readonly waiting: (() => void)[] = [];
  private running = 0;
  private readonly nobodys: Promise<string>;

  constructor(metrics: Registry, limits: PasswordLimits = defaultLimits) {
    this.limits = limits;
    this.computed = new Counter({
      name: 'identity_passwords_total',
      help: 'Password computations by kind: hash, verify',
      labelNames: ['what'],
      registers: [metrics],
    });
    const { waiting } = this;
    new Gauge({
      name: 'identity_passwords_waiting',
      help: 'Password computations that wait for their turn',
      registers: [metrics],
      collect() {
        this.set(waiting.length);
      },
    });
    this.nobodys = hash('nobody has this password', parameters);
  }

  /** The argon2id hash of a new password (PHC text). `signal`: a caller that has gone is not worked for. */
  async hash(password: string, signal?: AbortSignal): Promise<string> {
    return this.inTurn('hash', () => hash(password, parameters), signal);
  }

  /** Whether the password is the one of the hash; without a hash the same work is done and the answer is no. */
  async verify(stored: string | null, password: string, signal?: AbortSignal): Promise<boolean> {
    const against = stored ?? (await this.nobodys);
    const right = await this.inTurn('verify', () => verify(against, password), signal);
    return right && stored !== null;
  }

  private async inTurn<Result>(what: string, work: () => Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
    if (this.running < this.limits.concurrency) this.running++;
    else {
      if (this.waiting.length >= this.limits.queue) {
        throw new Refusal('overloaded', 'too many passwords are being checked, try again later', { retryAfter: 2 });
      }
      // Whoever ends hands its place over, so nobody who comes meanwhile overtakes.
      await new Promise<void>((turn) => this.waiting.push(turn));
    }
    try {
      signal?.throwIfAborted();
      this.computed.inc({ what });
      return await work();
    } finally {
      const next = this.waiting.shift();
      if (next) next();
      else this.running--;
    }
  }
}
