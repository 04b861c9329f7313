// What waits, as figures: measured when they are asked for.
import { Gauge, type Registry } from 'prom-client';
import { inTransaction, type Pool } from '../platform/postgres.ts';

interface Backlog {
  /** Since the longest waiting tenant's next attempt was due. */
  seconds: number;
  /** Tenants with an attempt that is due. */
  tenants: number;
  letters: number;
}

async function measure(pool: Pool): Promise<Backlog> {
  return inTransaction(pool, [], async (client) => {
    await client.query(`select set_config('app.job', 'find work', true)`);
    const { rows } = await client.query<Omit<Backlog, 'letters'>>(
      `select coalesce(extract(epoch from now() - min(next_at)), 0)::float8 as seconds, count(*)::int as tenants from due where next_at <= now()`,
    );
    await client.query(`select set_config('app.job', 'dead letters', true)`);
    const letters = await client.query<{ letters: number }>('select count(*)::int as letters from dead_letters');
    return { seconds: 0, tenants: 0, letters: 0, ...rows[0], ...letters.rows[0] };
  });
}

/** Adds gauges of the backlog to the figures. Where the database is away, they keep what they said last. */
export function registerBacklog(pool: Pool, metrics: Registry): void {
  let measured: Promise<Backlog | null> | undefined;
  // All that are asked for together are measured together.
  const now = () =>
    (measured ??= measure(pool)
      .catch(() => null)
      .finally(() => (measured = undefined)));
  const gauge = (name: string, help: string, figure: keyof Backlog) =>
    new Gauge({
      name,
      help,
      registers: [metrics],
      async collect() {
        const backlog = await now();
        if (backlog) this.set(backlog[figure]);
      },
    });
  gauge('notifier_due_seconds', 'How long the longest waiting tenant has had an attempt that is due', 'seconds');
  gauge('notifier_due_tenants', 'Tenants with an attempt that is due', 'tenants');
  gauge('notifier_dead_letters', 'Dead letters that wait for an operator', 'letters');
}
