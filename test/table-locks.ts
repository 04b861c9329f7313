// Locks tables while a test's work runs.
import { setTimeout as pause } from 'node:timers/promises';
import { withClient } from '../deploy/local/databases.ts';
import { until } from './polling.ts';
import type { FreshDatabase } from './cluster.ts';

/** SQL condition on pg_locks: waiting, in this database. Databases copied from one template share table numbers. */
export const waitingLocks = 'not granted and database = (select oid from pg_database where datname = current_database())';

/** Locks a table, starts so many reads (restarting those that time out) and works while at least `waiting` of them wait. */
export async function whileLocked(
  { adminUrl }: FreshDatabase,
  table: string,
  { reads, read, waiting }: { reads: number; read: () => Promise<unknown>; waiting: number },
  work: () => Promise<unknown>,
): Promise<void> {
  await withClient(adminUrl, async (admin) => {
    await admin.query(`begin; lock table ${table} in access exclusive mode`);
    let isReached = false;
    const reader = async () => {
      // On a slow machine a read may time out before it gets a connection.
      for (; ; await pause(20)) {
        await read().catch(() => undefined);
        if (isReached) return;
      }
    };
    const ended = Promise.all(Array.from({ length: reads }, reader));
    try {
      // pg_stat_activity would not change within this transaction.
      const ask = () => admin.query(`select from pg_locks where ${waitingLocks} and relation = '${table}'::regclass`);
      await until(ask, ({ rowCount }) => (rowCount ?? 0) >= waiting);
      isReached = true;
      await work();
    } finally {
      isReached = true;
      await admin.query('rollback');
      await ended;
    }
  });
}

/** Works while log heads can be locked but not updated, as during `create index`. Unlocks once a statement has waited 20 ms. */
export async function whileLogHeadsLocked<Result>(adminUrl: string, work: () => Promise<Result>): Promise<Result> {
  return withClient(adminUrl, async (admin) => {
    await admin.query('begin; lock table heads in share mode');
    let ended = false;
    const outcome = work().finally(() => (ended = true));
    // Awaited below; it may reject earlier.
    outcome.catch(() => undefined);
    const waiting = `select from pg_locks where ${waitingLocks} and relation = 'heads'::regclass and clock_timestamp() > waitstart + interval '20 ms'`;
    await until(
      () => admin.query(waiting),
      ({ rowCount }) => ended || (rowCount ?? 0) > 0,
    );
    await admin.query('rollback');
    return outcome;
  });
}
