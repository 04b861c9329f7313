// `npm run proof -- soak`: half of the highest rate for as long as it is told; nothing may grow, nothing fail, nothing be left behind.
import { setTimeout as pause } from 'node:timers/promises';
import { toUuid } from '../../services/platform/ids.ts';
import { makeBooks, type Books } from '../bench/books.ts';
import { checkBooks } from '../bench/check.ts';
import type { Cluster } from '../bench/cluster.ts';
import { load, type Loaded } from '../bench/load.ts';
import { Door } from '../bench/receiver.ts';
import { postSteadily } from '../bench/steady.ts';
import { Usage, usageIsKnown } from '../bench/usage.ts';
import { complaints, report, type Reading, type Soaked } from './growth.ts';
import { drained, inCluster, lagOf, seriesOf, subscribe } from './premises.ts';
import type { Task } from './task.ts';

// Not a whole second: as often the ledger passes over what nobody listens to, and the lag would always be seen in the same state.
const sampleMs = 1_300;
// However long it runs; what is kept of each reading is a few figures.
const mostReadings = 20_000;

/** Runs a proof. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  if (!usageIsKnown) {
    say('not measured: this system does not tell what a process holds (no /proc)');
    return false;
  }
  const soaked = await inCluster('gRPC', say, (cluster) => soak(cluster, { seed, seconds: minutes * 60, highestSeconds: 10, say }));
  for (const line of report(soaked)) say(line);
  return complaints(soaked).length === 0;
}

/** How a soak is run. */
export interface SoakOptions {
  seed: number;
  seconds: number;
  /** So long the highest rate is measured before, and as long nothing is before that, so that everything is compiled. */
  highestSeconds: number;
  say: (line: string) => void;
}

/** Measures the highest rate, posts at half of it for so many seconds, and waits until everything has arrived. */
export async function soak(cluster: Cluster, { seed, seconds, highestSeconds, say }: SoakOptions): Promise<Soaked> {
  const door = await Door.open();
  const usage = new Usage(cluster.processes, cluster.postmaster);
  try {
    const [books] = await makeBooks(cluster, [{ name: 'soak', tenants: 10, accounts: 100 }]);
    // What was posted before there was a webhook is not delivered; the ledger has told it by then.
    if ((await drained(cluster, 60)) === null) throw new Error('the relay has not caught up before the webhook was made');
    const before = await transactionsOf(cluster);
    const heard = books!.tenants[0]!;
    const tenant = toUuid('tenant', heard.id)!;
    const unheard = await transactionsOf(cluster, tenant);
    await subscribe(cluster, heard, door);
    const newSeries = seriesOf('s', seed);
    const windows = [
      await fastest(cluster, books!, highestSeconds, newSeries()),
      await fastest(cluster, books!, highestSeconds, newSeries()),
    ];
    const highest = windows[1]!;
    const perSecond = Math.max(1, Math.round(highest.perSecond / 2));
    say(`highest rate ${Math.round(highest.perSecond)}/s, goes on at ${perSecond}/s`);
    // A backlog of the windows before would make the first quarters look bad, and the last ones good.
    if ((await drained(cluster, 60)) === null) throw new Error('the relay has not caught up after the highest rate');
    const posting = postSteadily(cluster.url, { books: books!, perSecond, seconds, connections: 128, series: newSeries() });
    const readings = await sample(cluster, usage, door, posting, Math.max(sampleMs, (seconds * 1000) / mostReadings));
    const posted = await posting;
    const drainedAfter = await drained(cluster, 60);
    const expected = (await transactionsOf(cluster, tenant)) - unheard;
    const delivered = await deliveredOf(cluster, tenant, expected);
    const { right, lines } = await checkBooks(cluster, before, [...windows, posted]);
    return { highest, perSecond, posted, readings, drainedAfter, expected, delivered, refused: door.refused, booksRight: right, lines };
  } finally {
    usage.end();
    await door.close();
  }
}

function fastest(cluster: Cluster, books: Books, seconds: number, series: string): Promise<Loaded> {
  return load(cluster.url, { kind: 'posting', books, hot: false, connections: 64, seconds, series });
}

/** Reads memory and lag every so often until the load has ended. */
async function sample(cluster: Cluster, usage: Usage, door: Door, until: Promise<unknown>, everyMs: number): Promise<Reading[]> {
  const ending = new AbortController();
  // What it rejects with is told to who waits for it.
  void until.catch(() => undefined).finally(() => ending.abort());
  const readings: Reading[] = [];
  while (!ending.signal.aborted) {
    readings.push({ memory: usage.resident(), lag: await lagOf(cluster) });
    // The database knows what was delivered; this would grow for as long as it runs.
    door.times.clear();
    await pause(everyMs, undefined, { signal: ending.signal }).catch(() => undefined);
  }
  return readings;
}

/** Transactions in the ledger, of one tenant (UUID) where it is named. */
async function transactionsOf(cluster: Cluster, tenant?: string): Promise<number> {
  const which = tenant === undefined ? '' : ` where tenant_id = '${tenant}'`;
  const rows = await cluster.query<{ count: string }>(
    cluster.known.databases.ledger.name,
    `select count(*)::text as count from transactions${which}`,
  );
  return Number(rows[0]?.count);
}

/** Deliveries of a tenant that have arrived, once there are as many as expected, or a minute has gone by. */
async function deliveredOf(cluster: Cluster, tenant: string, expected: number): Promise<number> {
  const text = `select count(*)::text as count from deliveries where tenant_id = '${tenant}' and status = 'delivered'`;
  for (const until = performance.now() + 60_000; ; await pause(500)) {
    const rows = await cluster.query<{ count: string }>(cluster.known.databases.notifier.name, text);
    const delivered = Number(rows[0]?.count);
    if (delivered >= expected || performance.now() > until) return delivered;
  }
}
