// Whether a database does a service's work: it answers, takes what is written, and commits it.
import { setTimeout as pause } from 'node:timers/promises';
import { withTimeout } from './health.ts';
import { withClient, type Client, type Pool } from './postgres.ts';
import { isTransient, isServerError } from './postgres-errors.ts';
import type { Logger } from './telemetry.ts';

/** What a database says, for whoever asks for readiness. */
export type DatabaseState = 'ok' | 'away' | 'read-only' | 'not committing';

// So often a commit is tried, milliseconds, while somebody asks for readiness or none comes to an end; and so long it may take before it is told: a disk
// that stands still for two seconds comes back by itself.
const everyMs = 5_000;
const patienceMs = 5_000;
// Whoever asks is answered by what is known then.
const answerMs = 500;

/** Tries whether commits come to an end, which questions do not tell: they are answered also where a synchronous standby is gone. */
export class Commits {
  private readonly commit: () => Promise<boolean>;
  private triedAt = -Infinity;
  private trying: Promise<void> | null = null;
  private again: NodeJS.Timeout | undefined;
  /** Since when none has come to an end, by `performance.now()`; null: the last one has. */
  private waitingSince: number | null = null;

  /** `commit`: one that waits for the disk and for the standbys; false where none could be tried, as another one waits still. */
  constructor(commit: () => Promise<boolean>) {
    this.commit = commit;
  }

  /** Whether none has come to an end for five seconds, as far as is known; has one tried where the last one is not of just now. */
  async areWaiting(): Promise<boolean> {
    const now = performance.now();
    if (this.waitingSince !== null || now - this.triedAt >= everyMs) this.tryAgain();
    if (this.trying) await Promise.race([this.trying, pause(answerMs, undefined, { ref: false })]);
    return this.waitingSince !== null && performance.now() - this.waitingSince > patienceMs;
  }

  private tryAgain(): void {
    this.trying ??= this.try(performance.now());
  }

  private async try(now: number): Promise<void> {
    this.triedAt = now;
    this.waitingSince ??= now;
    try {
      if (await this.commit()) this.waitingSince = null;
    } catch (error) {
      // What PostgreSQL refuses (a right that is missing) it has not kept waiting, and what broke at once says nothing. But one that has no room left, on
      // its disk (53) or in its transaction ids (54), commits nobody's work. (53300 is of the connection alone.)
      if (isTransient(error) && /^5[34](?!300)/.test(String((error as { code?: unknown }).code))) return;
      const isNews = this.waitingSince !== now || performance.now() - now > patienceMs;
      if (isServerError(error) || !isNews) this.waitingSince = null;
    } finally {
      this.trying = null;
      clearTimeout(this.again);
      // However seldom anybody asks: what one that was refused long ago says is not told of now.
      if (this.waitingSince !== null) this.again = setTimeout(() => this.tryAgain(), everyMs).unref();
    }
  }
}

// A message to nobody in its log: the smallest commit that waits as others do. One at a time, of all processes: a session whose client has given it up
// waits on at the server, which has not noticed, until there is a standby again, and holds its lock. (One more every quarter of a minute, of each process,
// had taken all of `max_connections`.)
const emit = `select pg_logical_emit_message(true, 'readiness', '')
  from (select pg_try_advisory_xact_lock(hashtext('readiness')) as is_free) as lock where is_free`;

// Replicas are asked at the same moments, and find each other's for some milliseconds: what says something is one
// that stays, or several that take long.
async function commitOnce(pool: Pool): Promise<boolean> {
  for (const until = performance.now() + patienceMs; performance.now() < until; await pause(200, undefined, { ref: false })) {
    if ((await pool.query(emit)).rowCount === 1) return true;
  }
  return false;
}

class TakesNoWrites extends Error {}

// Thrown, so that the connection is closed: what a database or a role says of its sessions one keeps as long as it lives, and it would say for ever what
// has long been mended.
async function mustTakeWrites(client: Client): Promise<void> {
  const { rows } = await client.query<{ read_only: string }>(`select current_setting('transaction_read_only') as read_only`);
  if (rows[0]?.read_only === 'on') throw new TakesNoWrites();
}

// So often a new connection is tried, milliseconds.
const newEveryMs = 10_000;

/**
 * Tries whether new connections are to be had, and where they lead: where they are refused, for a password or a certificate, those that are open work, and
 * whoever asks on one of them, which is never idle, would say for ever that all is well. (Ending them after a while in their stead took the open ones
 * from a service whose server had no room for more: nothing was answered until there was.) `openPool` knows by them that an address leads to another
 * server than it did.
 */
export class NewConnections {
  private readonly open: () => Pool;
  private readonly timer: NodeJS.Timeout;
  private trying: Promise<void> | undefined;
  private refusal: unknown;

  /** Tries one on a pool that `open` opens, every so many milliseconds. */
  constructor(open: () => Pool, everyMs = newEveryMs) {
    this.open = open;
    this.timer = setInterval(() => this.tryOne(), everyMs).unref();
  }

  /** What the last one was refused with; undefined: it was not, as far as is known. While it is, one is tried for whoever asks. */
  refusedWith(): unknown {
    if (this.refusal !== undefined) this.tryOne();
    return this.refusal;
  }

  /** Tries no more; resolves when the last one is over. */
  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.trying;
  }

  private tryOne(): void {
    this.trying ??= this.try().finally(() => (this.trying = undefined));
  }

  private async try(): Promise<void> {
    const pool = this.open();
    try {
      await withClient(pool, mustTakeWrites);
      this.refusal = undefined;
    } catch (error) {
      // No room for one more says nothing of those that are open, and that the server takes them.
      this.refusal = (error as { code?: unknown }).code === '53300' ? undefined : error;
    } finally {
      await pool.end().catch(() => undefined);
    }
  }
}

/**
 * Asks a database whether it does its work; `away` where it has not said so within 2 s, and half a second more while a commit is tried, and where it
 * takes no new connections. Takes two of the pool's connections at most. The reason is logged once.
 */
export function databaseState(pool: Pool, newOnes: NewConnections, logger: Logger): () => Promise<DatabaseState> {
  const commits = new Commits(() => commitOnce(pool));
  let last: DatabaseState | undefined;
  const ask = async (): Promise<DatabaseState> => {
    try {
      await withTimeout(withClient(pool, mustTakeWrites));
      const refusal = newOnes.refusedWith();
      if (refusal !== undefined) throw refusal as Error;
      return (await commits.areWaiting()) ? 'not committing' : 'ok';
    } catch (error) {
      const state = error instanceof TakesNoWrites ? 'read-only' : 'away';
      if (state !== last) logger.warn({ err: error }, `the database is ${state}`);
      return state;
    }
  };
  return async () => (last = await ask());
}
