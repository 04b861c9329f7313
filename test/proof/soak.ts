// `npm run proof -- soak`: half of the highest rate for the whole time; memory and relay lag must not grow, and nothing may fail or be lost.
import { setTimeout as pause } from 'node:timers/promises';
import { toUuid } from '../../services/platform/ids.ts';
import { checkLedger } from '../bench/check.ts';
import type { BenchCluster } from '../bench/cluster.ts';
import { median } from '../bench/figures.ts';
import { load } from '../bench/load.ts';
import { BenchReceiver } from '../bench/receiver.ts';
import { table } from '../bench/report.ts';
import { postSteadily } from '../bench/steady.ts';
import { makeTenants, subscribe } from '../bench/tenants.ts';
import { Usage, usageIsKnown } from '../bench/usage.ts';
import { judge, publishedWithin, seriesOf, unpublished, withBenchCluster } from './load-state.ts';
import type { Task } from './task.ts';

/** Memory (MiB by process) and unpublished events at one moment. */
interface Reading {
  memory: Record<string, number>;
  lag: number;
}

/** Not a whole second, so that readings do not coincide with the relay's own period. */
const sampleMs = 1_300;
/** Largest memory in the last quarter relative to the second; in the first, caches fill and code is compiled. */
const maxGrowth = 1.1;
const warmUpSeconds = 10;

/** Runs a proof. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  if (!usageIsKnown) return judge(['not measured: this system has no /proc'], say);
  return judge(await withBenchCluster({ kafka: false }, (cluster) => soak(cluster, { seed, seconds: minutes * 60, say })), say);
}

/** Resolves to what is wrong. */
async function soak(cluster: BenchCluster, { seed, seconds, say }: { seed: number; seconds: number; say: Task['say'] }): Promise<string[]> {
  const receiver = await BenchReceiver.open();
  const usage = new Usage(cluster);
  try {
    const [group] = await makeTenants(cluster, [{ name: 'soak', tenants: 10, accounts: 100 }]);
    const subscriber = group!.tenants[0]!;
    // Earlier postings must not be delivered.
    if ((await publishedWithin(cluster, 60)) === null) return ['events are unpublished before the webhook exists'];
    const [before, beforeOfSubscriber] = [await postings(cluster), await postings(cluster, subscriber.id)];
    await subscribe(cluster, [subscriber], receiver);
    const newSeries = seriesOf('s', seed);
    const fastest = () =>
      load(cluster.url, { kind: 'posting', group: group!, hot: false, connections: 64, seconds: warmUpSeconds, series: newSeries() });
    const [warmUp, highest] = [await fastest(), await fastest()];
    const perSecond = Math.max(1, Math.round(highest.perSecond / 2));
    say(`highest rate ${Math.round(highest.perSecond)}/s, continuing at ${perSecond}/s`);
    if ((await publishedWithin(cluster, 60)) === null) return ['events are unpublished after the highest rate'];
    const posting = postSteadily(cluster.url, { group: group!, perSecond, seconds, connections: 128, series: newSeries() });
    const readings = await sample(cluster, usage, receiver, posting);
    const posted = await posting;
    const publishedAfter = await publishedWithin(cluster, 60);
    const expected = (await postings(cluster, subscriber.id)) - beforeOfSubscriber;
    const delivered = await deliveries(cluster, subscriber.id, expected);
    const { right, lines } = await checkLedger(cluster, before, [warmUp, highest, posted]);
    say(
      `${posted.requests} postings: p50 ${posted.p50.toFixed(1)} ms, p99 ${posted.p99.toFixed(1)} ms; ${delivered} of ${expected} deliveries`,
    );
    for (const line of lines) say(line);
    return [
      ...growth(readings, perSecond, say),
      ...(publishedAfter === null ? ['events are unpublished a minute after the last posting'] : []),
      ...(posted.failures > 0 ? [`${posted.failures} of ${posted.requests} requests failed`] : []),
      ...(delivered === expected ? [] : [`${delivered} of ${expected} deliveries have arrived`]),
      ...(receiver.wrong > 0 ? [`${receiver.wrong} deliveries had a wrong signature`] : []),
      ...(right ? [] : ['the ledger is not right']),
    ];
  } finally {
    usage.end();
    await receiver.close();
  }
}

/** Reads memory and lag until the load has ended. */
async function sample(cluster: BenchCluster, usage: Usage, receiver: BenchReceiver, until: Promise<unknown>): Promise<Reading[]> {
  const ending = new AbortController();
  void until.catch(() => undefined).finally(() => ending.abort());
  const readings: Reading[] = [];
  while (!ending.signal.aborted) {
    readings.push({ memory: usage.resident(), lag: await unpublished(cluster) });
    // The times of all deliveries would grow without end.
    receiver.times.clear();
    await pause(sampleMs, undefined, { signal: ending.signal }).catch(() => undefined);
  }
  return readings;
}

/** Prints the median of each quarter; returns what grew. */
function growth(readings: Reading[], perSecond: number, say: Task['say']): string[] {
  if (readings.length < 8) return [`${readings.length} readings are too few to see growth`];
  const quarters = (figure: (reading: Reading) => number) => {
    const edge = (quarter: number) => Math.floor((readings.length * quarter) / 4);
    return [0, 1, 2, 3].map((quarter) => median(readings.slice(edge(quarter), edge(quarter + 1)).map(figure)));
  };
  const names = [...new Set(readings.flatMap(({ memory }) => Object.keys(memory)))];
  const lines = names.map((name) => ({ name: `${name}, MiB`, values: quarters(({ memory }) => memory[name] ?? 0), limit: maxGrowth }));
  const lag = quarters((reading) => reading.lag);
  say(
    table(
      ['medians of each quarter', '1st', '2nd', '3rd', '4th'],
      [...lines, { name: 'unpublished events', values: lag }].map(({ name, values }) => [name, ...values.map((each) => each.toFixed(0))]),
    ),
  );
  const grown = lines.filter(({ values: [, second = 0, , last = 0], limit }) => last > limit * second);
  return [
    ...grown.map(({ name, values }) => `${name} grew from ${values[1]?.toFixed(0)} to ${values[3]?.toFixed(0)}`),
    // Events of tenants without a webhook are collected for a second.
    ...((lag[3] ?? 0) > (lag[1] ?? 0) + perSecond ? [`the relay's lag grew from ${lag[1]} to ${lag[3]} events`] : []),
  ];
}

async function postings(cluster: BenchCluster, tenantId?: string): Promise<number> {
  const where = tenantId === undefined ? '' : ` where tenant_id = '${toUuid('tenant', tenantId)}'`;
  const [row] = await cluster.query<{ count: string }>('ledger', `select count(*)::text as count from transactions${where}`);
  return Number(row?.count);
}

/** Finished deliveries of a tenant, once there are as many as expected, or after a minute. */
async function deliveries(cluster: BenchCluster, tenantId: string, expected: number): Promise<number> {
  const text = `select count(*)::text as count from deliveries where tenant_id = '${toUuid('tenant', tenantId)}' and status = 'delivered'`;
  for (const until = performance.now() + 60_000; ; await pause(500)) {
    const delivered = Number((await cluster.query<{ count: string }>('notifier', text))[0]?.count);
    if (delivered >= expected || performance.now() > until) return delivered;
  }
}
