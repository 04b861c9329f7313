// Metrics of waiting work, measured at each scrape.
import type { Registry } from 'prom-client';
import { openGauges } from '../platform/gauges.ts';
import { inTransaction, type Pool } from '../platform/postgres.ts';

interface Backlog {
  /** Since the longest waiting tenant was due or was last looked at. */
  seconds: number;
  /** Tenants with an attempt that is due. */
  tenants: number;
  /** At most {@link maxCounted}. */
  deadLetters: number;
}

// Each replica counts at each scrape, so counting ends here.
const maxCounted = 10_000;

async function measure(pool: Pool): Promise<Backlog> {
  return inTransaction(pool, [], async (client) => {
    await client.query(`select set_config('app.job', 'find work', true)`);
    const { rows } = await client.query<Omit<Backlog, 'deadLetters'>>(
      `select coalesce(extract(epoch from now() - min(next_at)), 0)::float8 as seconds, count(*)::int as tenants from due where next_at <= now()`,
    );
    await client.query(`select set_config('app.job', 'dead letters', true)`);
    const counted = await client.query<{ count: number }>(
      `select count(*)::int as count from (select from dead_letters limit ${maxCounted}) as counted`,
    );
    return { seconds: 0, tenants: 0, ...rows[0], deadLetters: counted.rows[0]?.count ?? 0 };
  });
}

/** Registers the metrics. */
export function registerBacklog(pool: Pool, metrics: Registry): void {
  const gauge = openGauges(metrics, () => measure(pool));
  gauge('notifier_due_seconds', 'Time since the longest waiting tenant was due, or was last looked at', ({ seconds }) => seconds);
  gauge('notifier_due_tenants', 'Tenants with an attempt that is due', ({ tenants }) => tenants);
  gauge('notifier_dead_letters', `Dead letters, counted up to ${maxCounted}: alert on any`, ({ deadLetters }) => deadLetters);
}
