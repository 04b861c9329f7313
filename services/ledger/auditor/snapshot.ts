// One tenant's rows at one moment, with the end of its log: what reports and exports read.
import { epochMs, sendTogether, setTenants, withClient, type Client, type Connections } from '../../platform/postgres.ts';
import { retryStaleConnection } from '../../platform/postgres-errors.ts';
import { genesisHash } from '../log.ts';

/** The last event of a log when it was read. */
export interface Head {
  /** 0: the log is empty. */
  sequence: bigint;
  hash: Buffer;
  /** When it was recorded, milliseconds since the Unix epoch; null: the log is empty. */
  atMs: number | null;
}

/** A transaction that sees one tenant's rows as they are at its head, whatever is posted meanwhile. */
export interface Snapshot {
  client: Client;
  /** UUID. */
  tenant: string;
  head: Head;
}

/** How long a snapshot may take. */
export interface SnapshotLimits {
  /** Milliseconds of one statement; PostgreSQL then fails it with the code 57014. */
  statementMs: number;
  /** Milliseconds that the transaction may wait for its reader. */
  idleMs?: number;
}

const defaultIdleMs = 60_000;

/** Begins the transaction and reads the head. */
async function begin(client: Client, tenant: string, { statementMs, idleMs = defaultIdleMs }: SnapshotLimits): Promise<Snapshot> {
  const [, , , heads] = await Promise.all(
    sendTogether(client, () => [
      client.query('begin isolation level repeatable read read only'),
      client.query(setTenants([tenant])),
      client.query({
        name: 'snapshot_limits',
        text: `select set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true)`,
        values: [String(statementMs), String(idleMs)],
      }),
      client.query({
        name: 'snapshot_head',
        text: `select sequence, hash, ${epochMs('last_at')} as "atMs" from heads where tenant_id = $1`,
        values: [tenant],
      }),
    ]),
  );
  const [row] = heads.rows as Head[];
  return { client, tenant, head: row !== undefined && row.sequence > 0n ? row : { sequence: 0n, hash: genesisHash, atMs: null } };
}

/** Runs `work` in a read-only transaction of one tenant (UUID). Throws PostgreSQL's error and that of `work`, and closes the connection. */
export function inSnapshot<Result>(
  connections: Connections,
  tenant: string,
  limits: SnapshotLimits,
  work: (snapshot: Snapshot) => Promise<Result>,
): Promise<Result> {
  return retryStaleConnection(() =>
    withClient(connections, async (client) => {
      const result = await work(await begin(client, tenant, limits));
      await client.query('commit');
      return result;
    }),
  );
}

/** Yields what `work` yields in such a transaction, which waits for the reader between two items as long as its limits allow. */
export async function* streamSnapshot<Item>(
  connections: Connections,
  tenant: string,
  limits: SnapshotLimits,
  work: (snapshot: Snapshot) => AsyncIterable<Item>,
): AsyncGenerator<Item> {
  const client = await connections.connect();
  let hasEnded = false;
  try {
    yield* work(await begin(client, tenant, limits));
    await client.query('commit');
    hasEnded = true;
  } finally {
    // After an error, or where the reader has left.
    client.release(!hasEnded);
  }
}
