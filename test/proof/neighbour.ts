// `npm run proof -- neighbour`: latency of a tenant that posts ten times a second, alone and next to one that posts as fast as it can.
import { setTimeout as pause } from 'node:timers/promises';
import type { BenchCluster } from '../bench/cluster.ts';
import { median } from '../bench/figures.ts';
import { load, type Loaded } from '../bench/load.ts';
import { table } from '../bench/report.ts';
import { postSteadily } from '../bench/steady.ts';
import { makeTenants } from '../bench/tenants.ts';
import { judge, seriesOf, withBenchCluster } from './load-state.ts';
import type { Task } from './task.ts';

interface Round {
  alone: Loaded;
  /** The slow tenant while the busy one posts. */
  together: Loaded;
  busy: Loaded;
}

/** Largest ratio of the slow tenant's p99 together to that alone. */
const limit = 3;
const perSecond = 10;
const connections = 64;
const rounds = 3;

/** Runs a proof. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  const seconds = (minutes * 60) / (2 * rounds);
  const taken = await withBenchCluster({ kafka: false }, (cluster) => measure(cluster, seed, seconds));
  const row = (title: string, name: keyof Round) => {
    const middle = (key: 'perSecond' | 'p50' | 'p99') => median(taken.map((round) => round[name][key]));
    return [title, Math.round(middle('perSecond')).toLocaleString('en'), middle('p50').toFixed(1), middle('p99').toFixed(1)];
  };
  say(
    table(
      ['', 'postings/s', 'p50 ms', 'p99 ms'],
      [
        row('slow tenant alone', 'alone'),
        row('slow tenant next to the busy one', 'together'),
        row(`busy tenant, ${connections} connections`, 'busy'),
      ],
    ),
  );
  const ratio = median(taken.map(({ together }) => together.p99)) / median(taken.map(({ alone }) => alone.p99));
  say(`p99 together / alone: ${ratio.toFixed(2)} (limit ${limit})`);
  const failures = taken.flatMap((round) => Object.values(round) as Loaded[]).reduce((sum, each) => sum + each.failures, 0);
  return judge(
    [...(failures > 0 ? [`${failures} requests failed`] : []), ...(ratio <= limit ? [] : [`the ratio is ${ratio.toFixed(2)}`])],
    say,
  );
}

async function measure(cluster: BenchCluster, seed: number, seconds: number): Promise<Round[]> {
  const [slow, busy] = await makeTenants(cluster, [
    { name: 'slow', tenants: 1, accounts: 100 },
    { name: 'busy', tenants: 1, accounts: 100 },
  ]);
  const newSeries = seriesOf('n', seed);
  const alone = async (length: number) => {
    await pause(500);
    return postSteadily(cluster.url, { group: slow!, perSecond, seconds: length, connections: 16, series: newSeries() });
  };
  const together = async (length: number) => {
    const window = { kind: 'posting', group: busy!, hot: false, connections, series: newSeries() } as const;
    // From before to after the slow tenant's window.
    const loading = load(cluster.url, { ...window, seconds: Math.ceil(length) + 2 });
    await pause(500);
    const [steady, loaded] = await Promise.all([alone(length), loading]);
    return { together: steady, busy: loaded };
  };
  await together(Math.min(5, seconds));
  const taken: Round[] = [];
  for (let round = 0; round < rounds; round++) {
    // Alternating order, as the machine's speed may drift.
    const before = round % 2 === 1 ? await together(seconds) : undefined;
    taken.push({ alone: await alone(seconds), ...(before ?? (await together(seconds))) });
  }
  return taken;
}
