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

/** State of the standby in `/readyz`; `diverged`: it follows another server, or the primary of before a restore. */
export type ReplicaState = 'ok' | 'away' | 'behind' | 'diverged';

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
    const { rows } = await primary.query<LogEnd>(
      `select pg_current_wal_lsn()::text as "end", left(pg_walfile_name(pg_current_wal_lsn()), 8) as timeline, system_identifier::text as system
        from pg_control_system()`,
    );
    const until = performance.now() + patienceMs;
    let client: Client | undefined;
    try {
      client = await pool.connect();
      for (;;) {
        const state = await stateAt(client, rows[0] as LogEnd);
        if (state === 'ok') break;
        if (state === 'diverged' || performance.now() > until) {
          client.release();
          return this.leave(state, undefined);
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

/** Where the primary's log ends, and of which server and timeline it is. */
interface LogEnd {
  end: string;
  timeline: string;
  system: string;
}

// Positions of different servers or timelines can't be compared: a standby left over from before a restore is ahead, and shows what is gone.
async function stateAt(client: Client, { end, timeline, system }: LogEnd): Promise<'ok' | 'behind' | 'diverged'> {
  // Null on a server that was never a standby. The timeline is that of the last checkpoint, so after a failover it follows late.
  const { rows } = await client.query<{ same: boolean; replayed: boolean | null }>({
    name: 'has_replayed',
    text: `select system_identifier::text = $2 and lpad(upper(to_hex(timeline_id)), 8, '0') = $3 as same,
        pg_is_in_recovery() and pg_last_wal_replay_lsn() >= $1::pg_lsn as replayed
      from pg_control_system(), pg_control_checkpoint()`,
    values: [end, system, timeline],
  });
  if (rows[0]?.same !== true) return 'diverged';
  return rows[0].replayed === true ? 'ok' : 'behind';
}
