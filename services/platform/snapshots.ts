// How long a snapshot has been open in a service's database, as a figure. PostgreSQL keeps, for whoever reads in one, every version of a row that has
// been changed since: heads and balances change with each posting, and are looked for among all of them.
import type { Registry } from 'prom-client';
import { openGauges } from './gauges.ts';
import { withClient, type Pool } from './postgres.ts';

/** Adds the figure of a service to its metrics. It is in transactions: since when another role's session lasts a service may not see. */
export function registerSnapshots(service: 'ledger' | 'notifier', pool: Pool, metrics: Registry): void {
  const gauge = openGauges(metrics, () =>
    withClient(pool, async (client) => {
      const { rows } = await client.query<{ age: number }>({
        name: 'oldest_snapshot',
        // A standby's has no database, and stands in its slot where it has one. The asker is not left out: as old as the oldest transaction is his own
        // snapshot, which tells also of one that has written and holds no snapshot of its own now.
        text: `select greatest((select max(age(backend_xmin)) from pg_stat_activity where datname = current_database() or datname is null),
          (select max(age(xmin)) from pg_replication_slots)) as age`,
      });
      return rows[0]?.age ?? NaN;
    }),
  );
  gauge(
    `${service}_oldest_snapshot_transactions`,
    'Transactions that have begun since the oldest snapshot that is open in the database',
    (age) => age,
  );
}
