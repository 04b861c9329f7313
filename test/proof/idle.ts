// `npm run proof -- idle`: what a whole cluster costs that has tenants, a webhook and postings, and is asked for nothing.
import { setTimeout as pause } from 'node:timers/promises';
import { kafkaProblem } from '../../deploy/local/broker.ts';
import { makeBooks } from '../bench/books.ts';
import type { Cluster } from '../bench/cluster.ts';
import { load } from '../bench/load.ts';
import { Door } from '../bench/receiver.ts';
import { table } from '../bench/report.ts';
import { between, Usage, usageIsKnown } from '../bench/usage.ts';
import { drained, inCluster, seriesOf, subscribe, type Way } from './premises.ts';
import type { Task } from './task.ts';

/** What a cluster used while it idled. */
export interface Idled {
  way: Way;
  seconds: number;
  /** Of one core, by process, `postgres` with all its children. */
  shares: Record<string, number>;
  /** Postings before it idled. */
  postings: number;
}

/** Of one core that a process of ours may use, at most. */
const marks: Record<Way, number> = { gRPC: 0.03, Kafka: 0.06 };

const ours = ['gateway', 'identity', 'ledger', 'notifier'];
const notOurs = ['postgres', 'kafka'];

/** Runs a proof: events over gRPC for half of the time, over Kafka for the other, where there is one. */
export async function prove(task: Task): Promise<boolean> {
  const { seed, minutes, say } = task;
  if (!usageIsKnown) {
    say('not measured: this system does not tell what a process uses (no /proc)');
    return false;
  }
  const problem = kafkaProblem();
  const ways: Way[] = problem === null ? ['gRPC', 'Kafka'] : ['gRPC'];
  const idled: Idled[] = [];
  for (const way of ways) {
    say(`events over ${way}`);
    const seconds = (minutes * 60) / ways.length;
    idled.push(await inCluster(way, say, (cluster) => idle(cluster, way, { seed, seconds, settleSeconds: 20 })));
  }
  for (const line of report(idled)) say(line);
  if (problem !== null) say(`not measured over Kafka: ${problem}`);
  return complaints(idled).length === 0;
}

/** Gives a cluster something to remember, leaves it alone until it has settled, and measures it for so many seconds. */
export async function idle(
  cluster: Cluster,
  way: Way,
  { seed, seconds, settleSeconds }: { seed: number; seconds: number; settleSeconds: number },
): Promise<Idled> {
  const door = await Door.open();
  const usage = new Usage(cluster.processes, cluster.postmaster);
  try {
    const [books] = await makeBooks(cluster, [{ name: 'idle', tenants: 10, accounts: 10 }]);
    await subscribe(cluster, books!.tenants[0]!, door);
    const window = { kind: 'posting', books: books!, hot: false, connections: 16, seconds: 3, series: seriesOf('i', seed)() } as const;
    const { requests, failures } = await load(cluster.url, window);
    if (failures > 0) throw new Error(`${failures} of ${requests} postings failed before it idled`);
    if ((await drained(cluster, 30)) === null) throw new Error('the relay has not caught up before it idled');
    await pause(settleSeconds * 1000);
    const [before, started] = [usage.cpu(), performance.now()];
    await pause(seconds * 1000);
    const used = Object.entries(between(before, usage.cpu())).filter(([name]) => name !== 'load');
    const microseconds = (performance.now() - started) * 1000;
    return { way, seconds, shares: Object.fromEntries(used.map(([name, time]) => [name, time / microseconds])), postings: requests };
  } finally {
    usage.end();
    await door.close();
  }
}

/** Everything that makes the proof fail. */
export function complaints(idled: Idled[]): string[] {
  return idled.flatMap(({ way, shares }) =>
    // One that is not there has ended meanwhile.
    [...new Set([...ours, ...Object.keys(shares)])]
      .filter((name) => !notOurs.includes(name) && !((shares[name] ?? NaN) < marks[way]))
      .map((name) => `${name}, events over ${way}: ${percent(shares[name] ?? NaN)} of a core`),
  );
}

/** The table, and what is wrong. */
export function report(idled: Idled[]): string[] {
  const names = [...new Set(idled.flatMap(({ shares }) => Object.keys(shares)))];
  const heads = ['% of a core, idle', ...idled.map(({ way, seconds }) => `over ${way}, ${Math.round(seconds)} s`)];
  const cell = (name: string, { way, shares }: Idled) => {
    if (shares[name] === undefined) return '';
    return `${percent(shares[name])}${notOurs.includes(name) ? '' : ` (limit ${percent(marks[way])})`}`;
  };
  const rows = names.map((name) => [name, ...idled.map((each) => cell(name, each))]);
  const postings = idled.map((each) => each.postings.toLocaleString('en')).join(' and ');
  const wrong = complaints(idled);
  return [
    '',
    table(heads, rows),
    '',
    `ten tenants, one with a webhook, and ${postings} postings before`,
    ...(wrong.length === 0 ? ['everything held'] : wrong.map((line) => `WRONG: ${line}`)),
  ];
}

function percent(share: number): string {
  return `${(100 * share).toFixed(2)} %`;
}
