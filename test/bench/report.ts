// What the benchmark prints: where it ran, tables in Markdown, and whether the figures that this cluster promises were reached.
import { availableParallelism, cpus, release, type as systemType } from 'node:os';
import { median } from './figures.ts';
import type { Cluster } from './cluster.ts';
import { loadTool, type Loaded } from './load.ts';
import type { Options } from './options.ts';
import { registering } from './reads.ts';
import { callers } from './calls.ts';
import { usageIsKnown, type MemoryPeaks } from './usage.ts';

/** One measured window; CPU microseconds per request by process. */
export interface Sample extends Loaded {
  cpu: Record<string, number>;
}

/** All windows by name, one sample a round. */
export type Samples = Map<string, Sample[]>;

/** Versions, machine, the settings that decide about durability, and how it was measured. */
export async function describe(cluster: Cluster, { seconds, rounds, ledgers }: Options): Promise<string> {
  const medians = `Medians of ${rounds} rounds, ${seconds} s a window, the windows taking turns${ledgers > 1 ? `; ${ledgers} ledgers` : ''}.`;
  return `${await describeMachine(cluster, `load by ${loadTool}`)}\n${medians}`;
}

/** Versions, machine and the settings that decide about durability; `load`: where the load comes from. */
export async function describeMachine(cluster: Cluster, load: string): Promise<string> {
  const names = ['server_version', 'fsync', 'full_page_writes', 'synchronous_commit', 'shared_buffers', 'max_wal_size'];
  const list = names.map((name) => `'${name}'`).join(', ');
  const rows = await cluster.query<{ name: string; value: string }>(
    'postgres',
    `select name, current_setting(name) as value from pg_settings where name in (${list})`,
  );
  const values = new Map(rows.map(({ name, value }) => [name, value]));
  const settings = names.slice(1).map((name) => `${name} ${values.get(name) ?? '?'}`);
  return [
    `Node ${process.version}, PostgreSQL ${values.get('server_version') ?? '?'}, ${load}; ` +
      `${availableParallelism()} cores (${cpus()[0]?.model.trim() ?? '?'}) for all of it, ${systemType()} ${release()}.`,
    `Durability, from pg_settings: ${settings.join(', ')}${cluster.inMemory ? '; THE DATA LIES IN MEMORY, where fsync costs nothing' : ''}.`,
  ].join('\n');
}

const scenarios: Record<string, string> = {
  uniform: 'REST, 1,000 accounts of one tenant',
  hot: 'REST, one account in every posting',
  hundred: 'REST, 100 tenants',
  'calls one': 'gRPC `PostTransactions` of 50, one tenant',
  'calls hundred': 'gRPC `PostTransactions` of 50, 100 tenants',
  yardstick: 'Yardstick: SQL batches of 200',
  'bare commit': 'Bare insert + commit',
};

/** The tables, the most memory held, and the promises with what came of them. */
export function report(samples: Samples, memory: MemoryPeaks): string {
  const rows = samples.size > 0 ? [postings(samples), reads(samples)] : [];
  const held = Object.entries(memory).map(([name, peak]) => `${name} ${Math.round(peak)} MiB`);
  const heldLine =
    held.length > 0
      ? `Most memory resident at any time: ${held.join(', ')} (a PostgreSQL process without the shared buffers; in all with them, once).`
      : 'Memory and CPU time are not known on this system (no /proc).';
  const promises = promisesOf(samples, memory).map(([claim, figure, reached]) => `| ${reached ? '✓' : '✗'} | ${claim} | ${figure} |`);
  const judged = promises.length > 0 ? ['| | Must reach | Reached |', '|---|---|---|', ...promises].join('\n') : '';
  return [...rows, heldLine, judged].filter((part) => part !== '').join('\n\n');
}

function postings(samples: Samples): string {
  const known = [...samples.values()].flat();
  const processes = usageIsKnown ? [...new Set(known.flatMap(({ cpu }) => Object.keys(cpu)))] : [];
  const header = [
    '',
    'connections',
    'postings/s',
    'of the yardstick',
    'in CPU time',
    'p50 ms',
    'p99 ms',
    ...processes.map((name) => `${name} µs`),
  ];
  const cpu = (taken: Sample[]) =>
    processes.map((name) => (taken[0]?.cpu[name] === undefined ? '' : median(taken.map((each) => each.cpu[name] ?? 0)).toFixed(0)));
  const least = Math.min(...[1, 2, 4].map((each) => cpuOf(samples.get(`yardstick ${each}`) ?? [])));
  const lines = Object.entries(scenarios).flatMap(([scenario, title]) => {
    const windows = [...samples].filter(([name]) => name === scenario || new RegExp(`^${scenario} \\d+$`).test(name));
    const sorted = windows.sort(([one], [other]) => connectionsOf(one) - connectionsOf(other));
    return sorted.map(([name, taken], place) => {
      const ours = !/^(yardstick|bare)/.test(name);
      const judged = ours && samples.has('yardstick 1');
      const share = judged ? [percent(median(shares(samples, name))), usageIsKnown ? percent(least / cpuOf(taken)) : ''] : ['', ''];
      const latency = scenario === 'yardstick' ? ['', ''] : [milliseconds(taken, 'p50'), milliseconds(taken, 'p99')];
      return [place === 0 ? title : '', `${connectionsOf(name)}`, rate(taken), ...share, ...latency, ...cpu(taken)];
    });
  });
  if (lines.length === 0) return '';
  const note =
    'µs: CPU time of a posting by process. In CPU time: what the yardstick uses for a posting, of what this uses, the load included in ' +
    'both; a machine that is busy with other things changes it less.';
  return `${table(header, lines)}\n\n${note}`;
}

/** CPU microseconds of all processes for one request, the load's included. */
function cpuOf(taken: Sample[]): number {
  return median(taken.map(({ cpu }) => Object.values(cpu).reduce((sum, each) => sum + each, 0)));
}

/** The number at the end of a window's name. */
function connectionsOf(name: string): number {
  return Number(/\d+$/.exec(name)?.[0] ?? (name.startsWith('calls') ? callers : 1));
}

function reads(samples: Samples): string {
  const lines = [
    ['reads idle', 'Balance reads'],
    ['reads busy', `Balance reads while ${registering} users register at a time`],
  ].flatMap(([name = '', title = '']) => {
    const taken = samples.get(name);
    return taken ? [[title, '8', rate(taken), milliseconds(taken, 'p50'), milliseconds(taken, 'p99')]] : [];
  });
  const registered = samples.get('registered');
  if (registered) lines.push(['Users registered meanwhile', `${registering}`, rate(registered), '', '']);
  return lines.length === 0 ? '' : table(['', 'connections', 'per second', 'p50 ms', 'p99 ms'], lines);
}

type Promised = [claim: string, figure: string, reached: boolean];

function promisesOf(samples: Samples, memory: MemoryPeaks): Promised[] {
  const promises: Promised[] = [];
  const atLeast = (claim: string, values: number[], least: number) => {
    if (values.length > 0) promises.push([`${claim} ≥ ${percent(least)}`, percent(median(values)), median(values) >= least]);
  };
  const atMost = (claim: string, values: number[], most: number) => {
    if (values.length > 0) promises.push([`${claim} ≤ ${most} ×`, `${median(values).toFixed(1)} ×`, median(values) <= most]);
  };
  atLeast('REST of the yardstick, 64 connections', shares(samples, 'uniform 64'), 0.17);
  atLeast('REST of the yardstick, 256 connections', shares(samples, 'uniform 256'), 0.25);
  for (const connections of [64, 256]) {
    const uniform = `uniform ${connections}`;
    atLeast(`Hot account of uniform, ${connections} connections`, ratios(samples, `hot ${connections}`, uniform, 'perSecond'), 0.9);
    atLeast(`100 tenants of uniform, ${connections} connections`, ratios(samples, `hundred ${connections}`, uniform, 'perSecond'), 0.9);
  }
  atLeast('`PostTransactions` of 50 of the yardstick, one tenant', shares(samples, 'calls one'), 0.4);
  atLeast('`PostTransactions` of 50 of the yardstick, 100 tenants', shares(samples, 'calls hundred'), 0.45);
  atMost('One connection: p50 of the bare commit’s', ratios(samples, 'uniform 1', 'bare commit', 'p50'), 4);
  atMost('One connection: p99 of its p50', samples.get('uniform 1')?.map(({ p50, p99 }) => p99 / p50) ?? [], 8);
  atMost('Balance reads while users register: p99 of the idle p99', ratios(samples, 'reads busy', 'reads idle', 'p99'), 5);
  for (const [name, peak] of Object.entries(memory)) {
    if (name !== 'postgres in all') promises.push([`Resident: ${name} < 350 MiB`, `${Math.round(peak)} MiB`, peak < 350]);
  }
  const failures = [...samples.values()].flat().reduce((sum, { failures: failed }) => sum + failed, 0);
  if (samples.size > 0) promises.push(['No request fails', `${failures} failed`, failures === 0]);
  return promises;
}

/** Each round's share of the best that the yardstick did in the same round. */
function shares(samples: Samples, name: string): number[] {
  const taken = samples.get(name) ?? [];
  const best = taken.map((_, round) => Math.max(...[1, 2, 4].map((each) => samples.get(`yardstick ${each}`)?.[round]?.perSecond ?? 0)));
  return taken.flatMap(({ perSecond }, round) => ((best[round] ?? 0) > 0 ? [perSecond / (best[round] ?? 0)] : []));
}

function ratios(samples: Samples, name: string, other: string, key: 'perSecond' | 'p50' | 'p99'): number[] {
  const others = samples.get(other) ?? [];
  return (samples.get(name) ?? []).flatMap((sample, round) => {
    const compared = others[round]?.[key] ?? 0;
    return compared > 0 ? [sample[key] / compared] : [];
  });
}

function rate(taken: Sample[]): string {
  return Math.round(median(taken.map(({ perSecond }) => perSecond))).toLocaleString('en');
}

function milliseconds(taken: Sample[], key: 'p50' | 'p99'): string {
  const value = median(taken.map((sample) => sample[key]));
  return value.toFixed(value < 10 ? 2 : 1);
}

function percent(value: number): string {
  return `${(value * 100).toFixed(value < 0.995 ? 1 : 0)} %`;
}

/** A table in Markdown. */
export function table(header: string[], lines: string[][]): string {
  return [header, header.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
