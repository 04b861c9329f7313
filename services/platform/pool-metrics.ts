// Gauges of PostgreSQL pools: connections in use, idle and allowed, and calls that wait for one.
import type pg from 'pg';
import { Gauge, type Registry } from 'prom-client';

/** By the name that `pg_stat_activity` shows as `application_name`. */
type Pools = Map<string, pg.Pool>;

const poolsOf = new WeakMap<Registry, Pools>();
const waitingElsewhere = new WeakMap<pg.Pool, (() => number)[]>();

/** Adds a pool to the gauges of its process. */
export function measurePool(metrics: Registry, name: string, pool: pg.Pool): void {
  const known = poolsOf.get(metrics);
  if (!known) {
    const pools: Pools = new Map();
    poolsOf.set(metrics, pools);
    registerGauges(metrics, pools);
  }
  poolsOf.get(metrics)?.set(name, pool);
}

/** Counts calls that wait for a pool's connections before they ask the pool itself. */
export function countWaiting(pool: pg.Pool, count: () => number): void {
  waitingElsewhere.set(pool, [...(waitingElsewhere.get(pool) ?? []), count]);
}

function registerGauges(metrics: Registry, pools: Pools): void {
  const gauge = <Label extends string>(name: string, help: string, labelNames: Label[], set: (gauge: Gauge<Label>) => void) => {
    new Gauge<Label>({
      ...{ name, help, labelNames, registers: [metrics] },
      collect() {
        set(this);
      },
    });
  };
  gauge('postgres_pool_connections', 'Connections of a pool that are in use or idle', ['pool', 'state'], (connections) => {
    for (const [pool, { totalCount, idleCount }] of pools) {
      connections.set({ pool, state: 'used' }, totalCount - idleCount);
      connections.set({ pool, state: 'idle' }, idleCount);
    }
  });
  gauge('postgres_pool_connections_max', 'Connections that a pool may have', ['pool'], (max) => {
    for (const [pool, { options }] of pools) max.set({ pool }, options.max);
  });
  gauge('postgres_pool_waiting', 'Calls that wait for a connection of a pool', ['pool'], (waiting) => {
    for (const [name, pool] of pools) {
      const elsewhere = waitingElsewhere.get(pool) ?? [];
      waiting.set(
        { pool: name },
        elsewhere.reduce((sum, count) => sum + count(), pool.waitingCount),
      );
    }
  });
}
