// What waits, as figures: measured when they are asked for.
import type { Registry } from 'prom-client';
import { openGauges } from '../platform/gauges.ts';
import { inTransaction, type Pool } from '../platform/postgres.ts';

interface Backlog {
  /** Since an attempt of the tenant who waits longest was due, or he was looked at last: where many wait, they take turns. */
  seconds: number;
  /** Tenants with an attempt that is due. */
  tenants: number;
  /** Dead letters, {@link mostLetters} at most. */
  letters: number;
}

// What is more than this is a flood, however many. Each replica counts at each scrape: 300,000 took half a second.
const mostLetters = 10_000;

async function measure(pool: Pool): Promise<Backlog> {
  return inTransaction(pool, [], async (client) => {
    await client.query(`select set_config('app.job', 'find work', true)`);
    const { rows } = await client.query<Omit<Backlog, 'letters'>>(
      `select coalesce(extract(epoch from now() - min(next_at)), 0)::float8 as seconds, count(*)::int as tenants from due where next_at <= now()`,
    );
    await client.query(`select set_config('app.job', 'dead letters', true)`);
    const letters = await client.query<{ letters: number }>(
      `select count(*)::int as letters from (select from dead_letters limit ${mostLetters}) as counted`,
    );
    return { seconds: 0, tenants: 0, letters: 0, ...rows[0], ...letters.rows[0] };
  });
}

/** Adds gauges of the backlog to the figures. */
export function registerBacklog(pool: Pool, metrics: Registry): void {
  const gauge = openGauges(metrics, () => measure(pool));
  gauge(
    'notifier_due_seconds',
    'How long the tenant who waits longest has had an attempt that is due, or, where many take turns, has not been looked at',
    ({ seconds }) => seconds,
  );
  gauge('notifier_due_tenants', 'Tenants with an attempt that is due', ({ tenants }) => tenants);
  gauge(
    'notifier_dead_letters',
    `Dead letters that wait for an operator, counted up to ${mostLetters}: alert on any`,
    ({ letters }) => letters,
  );
}
