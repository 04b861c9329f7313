// Whether a database does a service's work: it answers, takes what is written, and commits it.
import { soon } from './health.ts';
import type { Pool } from './postgres.ts';

/** What a database says, for whoever asks for readiness. */
export type DatabaseState = 'ok' | 'away' | 'read-only' | 'not committing';

// So often a commit is tried, milliseconds, while somebody asks for readiness; and so long it may take before it is told: a disk that stands still
// for two seconds comes back by itself.
const everyMs = 5_000;
const patienceMs = 5_000;

/** Tries whether commits come to an end, which questions do not tell: they are answered also where a synchronous standby is gone. */
export class Commits {
  private readonly commit: () => Promise<unknown>;
  private askedAt = -Infinity;
  private isAsking = false;
  /** Since when none has come to an end, by `performance.now()`; null: the last one has. */
  private waitingSince: number | null = null;

  /** `commit`: one that waits for the disk and for the standbys. */
  constructor(commit: () => Promise<unknown>) {
    this.commit = commit;
  }

  /** Whether none has come to an end for five seconds, as far as is known; has one tried where the last one is not of just now. */
  areWaiting(): boolean {
    const now = performance.now();
    if (!this.isAsking && (this.waitingSince !== null || now - this.askedAt >= everyMs)) void this.ask(now);
    return this.waitingSince !== null && now - this.waitingSince > patienceMs;
  }

  private async ask(now: number): Promise<void> {
    [this.isAsking, this.askedAt] = [true, now];
    this.waitingSince ??= now;
    try {
      await this.commit();
      this.waitingSince = null;
    } catch (error) {
      // What PostgreSQL refuses (a right that is missing) it has not kept waiting.
      if (typeof (error as { severity?: unknown }).severity === 'string') this.waitingSince = null;
    } finally {
      this.isAsking = false;
    }
  }
}

/** Asks a database whether it does its work; `away` where it has not said so within 2 s. Takes two of the pool's connections at most. */
export function databaseState(pool: Pool): () => Promise<DatabaseState> {
  // A message to nobody in its log: the smallest commit that waits as others do.
  const commits = new Commits(() => pool.query(`select pg_logical_emit_message(true, 'readiness', '')`));
  return async () => {
    try {
      const { rows } = await soon(pool.query<{ read_only: string }>(`select current_setting('transaction_read_only') as read_only`));
      if (rows[0]?.read_only === 'on') return 'read-only';
      return commits.areWaiting() ? 'not committing' : 'ok';
    } catch {
      return 'away';
    }
  };
}
