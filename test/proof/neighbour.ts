// `npm run proof -- neighbour`: what a tenant who posts ten times a second feels of one who posts as fast as it goes.
import { setTimeout as pause } from 'node:timers/promises';
import { makeBooks, type Books } from '../bench/books.ts';
import { median } from '../bench/figures.ts';
import type { Cluster } from '../bench/cluster.ts';
import { load, loadTool, type Loaded } from '../bench/load.ts';
import { table } from '../bench/report.ts';
import { postSteadily } from '../bench/steady.ts';
import { inCluster, seriesOf } from './premises.ts';
import type { Task } from './task.ts';

/** One round: the slow tenant alone and beside the busy one, who is in the last. */
export interface Round {
  alone: Loaded;
  beside: Loaded;
  busy: Loaded;
}

/** The p99 beside the busy one, of that alone, at most. */
const mark = 3;

const perSecond = 10;
const connections = 64;
const rounds = 3;

/** Runs a proof. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  const seconds = (minutes * 60) / (2 * rounds);
  const taken = await inCluster('gRPC', say, (cluster) => neighbours(cluster, { seed, seconds, say }));
  for (const line of report(taken)) say(line);
  return complaints(taken).length === 0;
}

/** Measures the slow tenant alone and beside the busy one in turns, so many seconds a window. */
export async function neighbours(
  cluster: Cluster,
  { seed, seconds, say }: { seed: number; seconds: number; say: (line: string) => void },
): Promise<Round[]> {
  const [slow, busy] = await makeBooks(cluster, [
    { name: 'slow', tenants: 1, accounts: 100 },
    { name: 'busy', tenants: 1, accounts: 100 },
  ]);
  const street = new Street(cluster, slow!, busy!, seriesOf('n', seed));
  // Compiles the hot paths, of the one under the load of the other.
  await street.beside(Math.min(5, seconds));
  const taken: Round[] = [];
  for (let round = 0; round < rounds; round++) {
    // There and back: the machine may get slower meanwhile.
    const before = round % 2 === 1 ? await street.beside(seconds) : undefined;
    const alone = await street.alone(seconds);
    taken.push({ alone, ...(before ?? (await street.beside(seconds))) });
    say(described(taken.at(-1)!, round));
  }
  return taken;
}

/** Two tenants of one cluster. */
class Street {
  private readonly cluster: Cluster;
  private readonly slow: Books;
  private readonly busy: Books;
  private readonly newSeries: () => string;

  constructor(cluster: Cluster, slow: Books, busy: Books, newSeries: () => string) {
    this.cluster = cluster;
    this.slow = slow;
    this.busy = busy;
    this.newSeries = newSeries;
  }

  async alone(seconds: number): Promise<Loaded> {
    // What the busy one had on its way is finished.
    await pause(500);
    return postSteadily(this.cluster.url, { books: this.slow, perSecond, seconds, connections: 16, series: this.newSeries() });
  }

  async beside(seconds: number): Promise<Pick<Round, 'beside' | 'busy'>> {
    const window = { kind: 'posting', books: this.busy, hot: false, connections, series: this.newSeries() } as const;
    // Before, during and after.
    const loading = load(this.cluster.url, { ...window, seconds: Math.ceil(seconds) + 2 });
    await pause(500);
    const [beside, busy] = await Promise.all([this.alone(seconds), loading]);
    return { beside, busy };
  }
}

function described({ alone, beside, busy }: Round, round: number): string {
  const rate = Math.round(busy.perSecond).toLocaleString('en');
  return `round ${round + 1}: p99 alone ${alone.p99.toFixed(1)} ms, beside ${beside.p99.toFixed(1)} ms, the busy one at ${rate}/s`;
}

/** The p99 beside the busy one, of that alone, each the median of its windows. */
export function ratio(taken: Round[]): number {
  return median(taken.map(({ beside }) => beside.p99)) / median(taken.map(({ alone }) => alone.p99));
}

/** Everything that makes the proof fail. */
export function complaints(taken: Round[]): string[] {
  const failed = taken.flatMap((round) => Object.entries(round) as [string, Loaded][]).filter(([, { failures }]) => failures > 0);
  const figure = ratio(taken);
  return [
    ...failed.map(([name, { failures, requests }]) => `${name}: ${failures} of ${requests} requests failed`),
    ...(figure <= mark ? [] : [`the slow tenant’s p99 is ${figure.toFixed(2)} × that alone`]),
  ];
}

/** The table, and what is wrong. */
export function report(taken: Round[]): string[] {
  const middle = (name: keyof Round, key: 'p50' | 'p99' | 'perSecond') => median(taken.map((round) => round[name][key]));
  const row = (title: string, name: keyof Round) => [
    title,
    Math.round(middle(name, 'perSecond')).toLocaleString('en'),
    middle(name, 'p50').toFixed(1),
    middle(name, 'p99').toFixed(1),
    `${taken.reduce((sum, round) => sum + round[name].requests, 0)}`,
  ];
  const wrong = complaints(taken);
  return [
    '',
    table(
      ['', 'postings/s', 'p50 ms', 'p99 ms', 'requests'],
      [
        row('slow tenant alone', 'alone'),
        row('slow tenant beside the busy one', 'beside'),
        row(`busy tenant, ${connections} connections`, 'busy'),
      ],
    ),
    '',
    `p99 beside of alone: ${ratio(taken).toFixed(2)} × (limit ${mark}); medians of ${taken.length} windows, load by ${loadTool}`,
    ...(wrong.length === 0 ? ['everything held'] : wrong.map((line) => `WRONG: ${line}`)),
  ];
}
