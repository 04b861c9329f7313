// Tables held: whoever needs one waits for as long as a test holds it.
import { setTimeout as pause } from 'node:timers/promises';
import { withClient } from '../deploy/local/databases.ts';
import { until } from './waiting.ts';
import type { FreshDatabase } from './cluster.ts';

/** Locks that somebody waits for in this database: others that were copied from the same template have tables of the same numbers. */
export const waits = 'not granted and database = (select oid from pg_database where datname = current_database())';

/**
 * Holds a table, begins so many reads of it, again where one ends before that, and works while at least `waiting` of them have a connection and wait; then
 * lets them go on, and ends with them, however they end.
 */
export async function whileLocked(
  { adminUrl }: FreshDatabase,
  table: string,
  { reads, read, waiting }: { reads: number; read: () => Promise<unknown>; waiting: number },
  work: () => Promise<unknown>,
): Promise<void> {
  await withClient(adminUrl, async (admin) => {
    await admin.query(`begin; lock table ${table} in access exclusive mode`);
    let isHeld = false;
    const reader = async () => {
      // On a slow machine one may have waited too long for its connection.
      for (; ; await pause(20)) {
        await read().catch(() => undefined);
        if (isHeld) return;
      }
    };
    const ended = Promise.all(Array.from({ length: reads }, reader));
    try {
      // Not from pg_stat_activity, which stays as a transaction has seen it first.
      const ask = () => admin.query(`select from pg_locks where ${waits} and relation = '${table}'::regclass`);
      await until(ask, ({ rowCount }) => (rowCount ?? 0) >= waiting);
      isHeld = true;
      await work();
    } finally {
      isHeld = true;
      await admin.query('rollback');
      await ended;
    }
  });
}

/**
 * Works while the table of heads is being changed, as by `create index`: heads can be locked, and not moved. Lets the work go on as soon as some of it
 * has waited for longer than a lane's call does, which is a millisecond; answers what came of it.
 */
export async function whileHeadsLocked<Result>(adminUrl: string, work: () => Promise<Result>): Promise<Result> {
  return withClient(adminUrl, async (admin) => {
    await admin.query('begin; lock table heads in share mode');
    let ended = false;
    const outcome = work().finally(() => (ended = true));
    // Awaited below, and it may end before.
    outcome.catch(() => undefined);
    const waiting = `select from pg_locks where ${waits} and relation = 'heads'::regclass and clock_timestamp() > waitstart + interval '20 ms'`;
    await until(
      () => admin.query(waiting),
      ({ rowCount }) => ended || (rowCount ?? 0) > 0,
    );
    await admin.query('rollback');
    return outcome;
  });
}
