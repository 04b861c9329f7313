// Whether a service's database answers and takes writes.
import { withTimeout } from './health.ts';
import { withClient, type Client, type Pool } from './postgres.ts';
import type { Logger } from './telemetry.ts';

/** The state of a database in `/readyz`. */
export type DatabaseState = 'ok' | 'away' | 'read-only';

/** A check of the database with one statement; `away` without an answer within 2 s. Logs each change to a state that is not `ok`. */
export function databaseState(pool: Pool, logger: Logger): () => Promise<DatabaseState> {
  let last: DatabaseState = 'ok';
  return async () => {
    try {
      await withTimeout(withClient(pool, assertWritable));
      last = 'ok';
    } catch (error) {
      const state = error instanceof ReadOnly ? 'read-only' : 'away';
      if (state !== last) logger.warn({ err: error, state }, 'database not ready');
      last = state;
    }
    return last;
  };
}

class ReadOnly extends Error {}

// Throws, so that the connection is closed: a session keeps the default with which it began.
async function assertWritable(client: Client): Promise<void> {
  const { rows } = await client.query<{ isReadOnly: boolean }>(`select current_setting('transaction_read_only')::bool as "isReadOnly"`);
  if (rows[0]?.isReadOnly !== false) throw new ReadOnly('transactions are read-only');
}
