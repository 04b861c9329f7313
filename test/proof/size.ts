// `npm run proof -- size`: disk, WAL and memory that postings and deliveries take, for the page on scaling.
import { setTimeout as pause } from 'node:timers/promises';
import { callPostings } from '../bench/calls.ts';
import type { BenchCluster } from '../bench/cluster.ts';
import { BenchReceiver } from '../bench/receiver.ts';
import { describeMachine, table } from '../bench/report.ts';
import { makeTenants, subscribe, type TenantGroup } from '../bench/tenants.ts';
import { Usage } from '../bench/usage.ts';
import type { Service } from '../../deploy/local/plan.ts';
import { judge, publishedWithin, seriesOf, withBenchCluster } from './load-state.ts';
import type { Task } from './task.ts';

const secondsPerWindow = 5;

/** Posts for the given minutes, at most a tenth of them with a webhook, and prints figures per posting and delivery. */
export function prove({ seed, minutes, say }: Task): Promise<boolean> {
  return withBenchCluster({ kafka: false }, async (cluster) => {
    const series = seriesOf('s', seed);
    const receiver = await BenchReceiver.open();
    const usage = new Usage(cluster);
    const [plain, subscribed] = (await makeTenants(cluster, [
      { name: 'plain', tenants: 20, accounts: 100 },
      { name: 'subscribed', tenants: 1, accounts: 100 },
    ])) as [TenantGroup, TenantGroup];
    try {
      const rows: string[][] = [];
      // Indexes of words and volumes are filled by the auditor afterwards.
      const ledger = await growth(cluster, 'ledger', () => post(cluster, plain, series, minutes * 60 * 0.9));
      for (const { name, bytes } of ledger.tables) rows.push([`ledger: ${name}`, (bytes / ledger.count).toFixed(0)]);
      rows.push(['ledger: all', (ledger.bytes / ledger.count).toFixed(0)], ['ledger: WAL', (ledger.wal / ledger.count).toFixed(0)]);
      await subscribe(cluster, subscribed.tenants, receiver);
      const notifier = await growth(cluster, 'notifier', async () => {
        const posted = await post(cluster, subscribed, series, minutes * 60 * 0.1);
        await publishedWithin(cluster, 120);
        for (const until = performance.now() + 120_000; (await pending(cluster)) > 0 && performance.now() < until;) await pause(250);
        return posted;
      });
      rows.push(['notifier: a delivery', (notifier.bytes / notifier.count).toFixed(0)]);
      say(await describeMachine(cluster));
      say(
        `${ledger.count.toLocaleString('en')} postings of two entries in 20 tenants, ${notifier.count.toLocaleString('en')} with a delivery`,
      );
      say(table(['', 'bytes per posting'], rows));
      say(
        table(
          ['memory at most', 'MiB'],
          Object.entries(usage.memory()).map(([name, mib]) => [name, mib.toFixed(0)]),
        ),
      );
      return judge(ledger.count > 0 && notifier.count > 0 ? [] : ['nothing was posted'], say);
    } finally {
      usage.end();
      await receiver.close();
    }
  });
}

async function post(cluster: BenchCluster, group: TenantGroup, series: () => string, seconds: number): Promise<number> {
  let posted = 0;
  for (let left = seconds; left > 0; left -= secondsPerWindow) {
    const { requests, failures } = await callPostings(cluster, { group, series: series(), seconds: Math.min(left, secondsPerWindow) });
    posted += requests - failures;
  }
  return posted;
}

interface Growth {
  count: number;
  bytes: number;
  wal: number;
  /** The largest. */
  tables: { name: string; bytes: number }[];
}

/** How much a database and the server's WAL grow while `work` is done. */
async function growth(cluster: BenchCluster, service: Service, work: () => Promise<number>): Promise<Growth> {
  const sizes = async () => {
    const rows = await cluster.query<{ name: string; bytes: number }>(
      service,
      `select relname as name, pg_total_relation_size(oid)::float8 as bytes from pg_class
       where relkind = 'r' and relnamespace = 'public'::regnamespace`,
    );
    const [wal] = await cluster.query<{ bytes: number }>(service, `select (pg_current_wal_lsn() - '0/0')::float8 as bytes`);
    return { tables: new Map(rows.map(({ name, bytes }) => [name, bytes])), wal: wal?.bytes ?? 0 };
  };
  const before = await sizes();
  const count = await work();
  const after = await sizes();
  const tables = [...after.tables].map(([name, bytes]) => ({ name, bytes: bytes - (before.tables.get(name) ?? 0) }));
  return {
    count,
    wal: after.wal - before.wal,
    bytes: tables.reduce((sum, { bytes }) => sum + bytes, 0),
    tables: tables
      .filter(({ bytes }) => bytes > count)
      .sort((a, b) => b.bytes - a.bytes)
      .slice(0, 10),
  };
}

async function pending(cluster: BenchCluster): Promise<number> {
  const [row] = await cluster.query<{ count: number }>(
    'notifier',
    `select count(*)::float8 as count from deliveries where status = 'pending'`,
  );
  return row?.count ?? 0;
}
