// Reads reports and exports from a standby, once it has all that the primary had when they were asked for; else from the primary.
import { setTimeout as pause } from 'node:timers/promises';
import { Counter, type Registry } from 'prom-client';
import type { Client, Connections, Pool } from '../../platform/postgres.ts';
import type { Logger } from '../../platform/telemetry.ts';

/** What reads from a standby need. */
export interface ReplicaOptions {
  /** Of the standby. */
  pool: Pool;
  /** Of the primary, to ask where its log ends. */
  primary: Pool;
  logger: Logger;
  metrics: Registry;
  /** How long a read waits for the standby, milliseconds. */
  patienceMs?: number;
  /** How long the standby is left alone after it was away or behind, milliseconds. */
  restMs?: number;
}

/** State of the standby in `/readyz`. */
export type ReplicaState = 'ok' | 'away' | 'behind';

const pollMs = 20;

/** A standby that answers what the primary would. */
export class Replica {
  private readonly options: Required<ReplicaOptions>;
  private readonly connections: Counter;
  private last: ReplicaState = 'ok';
  private restsUntil = 0;

  constructor(options: ReplicaOptions) {
    this.options = { patienceMs: 2_000, restMs: 10_000, ...options };
    this.connections = new Counter({
      name: 'auditor_read_connections_total',
      help: 'Connections for reports and exports by server: replica, or primary where the replica was away or behind',
      labelNames: ['server'],
      registers: [options.metrics],
    });
  }

  /** `ok`, or why the last read went to the primary. */
  state(): ReplicaState {
    return this.last;
  }

  /** Connections to the standby, or those of a pool of the primary. */
  before(pool: Connections): Connections {
    return {
      connect: async () => {
        const client = await this.connect();
        this.connections.inc({ server: client ? 'replica' : 'primary' });
        return client ?? pool.connect();
      },
    };
  }

  /** A connection to the standby that has what is committed now; undefined: the primary is to answer. */
  private async connect(): Promise<Client | undefined> {
    if (performance.now() < this.restsUntil) return undefined;
    const { pool, primary, patienceMs } = this.options;
    const { rows } = await primary.query<{ end: string }>(`select pg_current_wal_lsn()::text as "end"`);
    const until = performance.now() + patienceMs;
    let client: Client | undefined;
    try {
      client = await pool.connect();
      while (!(await hasReplayed(client, rows[0]?.end ?? ''))) {
        if (performance.now() > until) {
          client.release();
          return this.leave('behind', undefined);
        }
        await pause(pollMs);
      }
    } catch (error) {
      client?.release(true);
      return this.leave('away', error);
    }
    this.last = 'ok';
    return client;
  }

  private leave(state: ReplicaState, error: unknown): undefined {
    const { logger, restMs } = this.options;
    if (state !== this.last) logger.warn({ err: error, state }, 'the replica does not answer, the primary does');
    this.last = state;
    this.restsUntil = performance.now() + restMs;
  }
}

async function hasReplayed(client: Client, end: string): Promise<boolean> {
  // Null on a server that was never a standby.
  const { rows } = await client.query<{ is: boolean | null }>({
    name: 'has_replayed',
    text: 'select pg_is_in_recovery() and pg_last_wal_replay_lsn() >= $1::pg_lsn as "is"',
    values: [end],
  });
  return rows[0]?.is === true;
}
