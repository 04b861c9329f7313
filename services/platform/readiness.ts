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
  private readonly commit: () => Promise<boolean>;
  private askedAt = -Infinity;
  private isAsking = false;
  /** Since when none has come to an end, by `performance.now()`; null: the last one has. */
  private waitingSince: number | null = null;

  /** `commit`: one that waits for the disk and for the standbys; false where none was tried, as an earlier one waits still. */
  constructor(commit: () => Promise<boolean>) {
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
      if (await this.commit()) this.waitingSince = null;
    } catch (error) {
      // What PostgreSQL refuses (a right that is missing) it has not kept waiting, nor has it what broke sooner than waiting would be told.
      const isRefused = typeof (error as { severity?: unknown }).severity === 'string';
      if (isRefused || performance.now() - now < patienceMs) this.waitingSince = null;
    } finally {
      this.isAsking = false;
    }
  }
}

// A message to nobody in its log: the smallest commit that waits as others do. One at a time, of all processes of the role: a session whose client
// has given it up waits on at the server, which has not noticed, until there is a standby again (one more every quarter of a minute, of each
// process, had taken all of `max_connections`).
const emit = `select pg_logical_emit_message(true, 'readiness', '')`;
const whoWaits = {
  text: `select pid from pg_stat_activity where usename = current_user and datname = current_database() and state = 'active' and query = $1
      and query_start < clock_timestamp() - $2 * interval '1 ms' limit 1`,
  values: [emit, patienceMs],
};

/** Asks a database whether it does its work; `away` where it has not said so within 2 s. Takes two of the pool's connections at most. */
export function databaseState(pool: Pool): () => Promise<DatabaseState> {
  const commits = new Commits(async () => {
    const { rowCount } = await pool.query(whoWaits);
    if (rowCount === 0) await pool.query(emit);
    return rowCount === 0;
  });
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
