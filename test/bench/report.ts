// What a benchmark prints: the machine, tables in Markdown, and whether the figures that the README promises were reached.
import { availableParallelism, cpus, release, type as systemType } from 'node:os';
import { withClient } from '../../deploy/local/databases.ts';
import { currentRun } from '../run.ts';
import { callers } from './calls.ts';
import type { BenchCluster } from './cluster.ts';
import { median } from './figures.ts';
import { loadTool, type Loaded } from './load.ts';
import { usageIsKnown, type MemoryPeaks } from './usage.ts';

/** One measured window; `cpu`: microseconds per request, by process. */
export interface Sample extends Loaded {
  cpu: Record<string, number>;
}

/** All windows by name, one sample per round. */
export type Samples = Map<string, Sample[]>;

/** Versions, machine and the settings that decide about durability. */
export async function describeMachine(cluster: BenchCluster): Promise<string> {
  const names = ['server_version', 'fsync', 'full_page_writes', 'synchronous_commit', 'shared_buffers', 'max_wal_size'];
  const { rows } = await withClient(currentRun().adminUrl, (client) =>
    client.query<{ value: string }>(
      `select current_setting(name) as value from unnest($1::text[]) with ordinality as n (name, i) order by i`,
      [names],
    ),
  );
  const [version, ...values] = rows.map(({ value }) => value);
  const settings = names.slice(1).map((name, index) => `${name} ${values[index]}`);
  return [
    `Node ${process.version}, PostgreSQL ${version}, load by ${loadTool}; ` +
      `${availableParallelism()} cores (${cpus()[0]?.model.trim() ?? '?'}) for all of it, ${systemType()} ${release()}.`,
    `Durability: ${settings.join(', ')}${cluster.inMemory ? '; THE DATA LIES IN MEMORY, where fsync costs nothing' : ''}.`,
  ].join('\n');
}

const scenarios: Record<string, string> = {
  uniform: 'REST, 1,000 accounts of one tenant',
  hot: 'REST, one account in every posting',
  hundred: 'REST, 100 tenants',
  'calls one': 'gRPC `PostTransactions` of 50, one tenant',
  'calls hundred': 'gRPC `PostTransactions` of 50, 100 tenants',
  reads: 'REST, balance reads',
  baseline: 'Baseline: SQL batches of 200',
  'bare commit': 'Bare insert + commit',
};

/** The table, peak memory, and the promises with what was reached. */
export function report(samples: Samples, memory: MemoryPeaks): string {
  const peaks = Object.entries(memory).map(([name, peak]) => `${name} ${Math.round(peak)} MiB`);
  const memoryLine =
    peaks.length > 0 ? `Peak resident memory: ${peaks.join(', ')}.` : 'Memory and CPU time are unknown on this system (no /proc).';
  const promises = promisesOf(samples, memory).map(([claim, figure, reached]) => `| ${reached ? '✓' : '✗'} | ${claim} | ${figure} |`);
  return [windows(samples), memoryLine, ['| | Must reach | Reached |', '|---|---|---|', ...promises].join('\n')].join('\n\n');
}

function windows(samples: Samples): string {
  const processes = usageIsKnown ? [...new Set([...samples.values()].flat().flatMap(({ cpu }) => Object.keys(cpu)))] : [];
  const header = ['', 'connections', 'per second', 'of the baseline', 'p50 ms', 'p99 ms', ...processes.map((name) => `${name} µs`)];
  const lines = Object.entries(scenarios).flatMap(([scenario, title]) => {
    const own = [...samples].filter(([name]) => name === scenario || new RegExp(`^${scenario} \\d+$`).test(name));
    const sorted = own.sort(([one], [other]) => connectionsOf(one) - connectionsOf(other));
    return sorted.map(([name, taken], index) => {
      const compared = !/^(baseline|bare|reads)/.test(name) && samples.has('baseline 1');
      const latency = scenario === 'baseline' ? ['', ''] : [milliseconds(taken, 'p50'), milliseconds(taken, 'p99')];
      const cpu = processes.map((each) =>
        taken[0]?.cpu[each] === undefined ? '' : median(taken.map((one) => one.cpu[each] ?? 0)).toFixed(0),
      );
      const share = compared ? percent(median(shares(samples, name))) : '';
      return [index === 0 ? title : '', String(connectionsOf(name)), rate(taken), share, ...latency, ...cpu];
    });
  });
  return `${table(header, lines)}\n\nµs: CPU time per posting or read, by process.`;
}

/** The number at the end of a window's name. */
function connectionsOf(name: string): number {
  return Number(/\d+$/.exec(name)?.[0] ?? (name.startsWith('calls') ? callers : name === 'reads' ? 8 : 1));
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
  atLeast('REST of the baseline, 64 connections', shares(samples, 'uniform 64'), 0.17);
  atLeast('REST of the baseline, 256 connections', shares(samples, 'uniform 256'), 0.25);
  for (const connections of [64, 256]) {
    const uniform = `uniform ${connections}`;
    atLeast(`Hot account of uniform, ${connections} connections`, ratios(samples, `hot ${connections}`, uniform, 'perSecond'), 0.9);
    atLeast(`100 tenants of uniform, ${connections} connections`, ratios(samples, `hundred ${connections}`, uniform, 'perSecond'), 0.9);
  }
  atLeast('`PostTransactions` of 50 of the baseline, one tenant', shares(samples, 'calls one'), 0.4);
  atLeast('`PostTransactions` of 50 of the baseline, 100 tenants', shares(samples, 'calls hundred'), 0.45);
  atMost('One connection: p50 of the bare commit’s', ratios(samples, 'uniform 1', 'bare commit', 'p50'), 4);
  atMost('One connection: p99 of its p50', samples.get('uniform 1')?.map(({ p50, p99 }) => p99 / p50) ?? [], 8);
  for (const [name, peak] of Object.entries(memory)) {
    if (name !== 'postgres in all') promises.push([`Resident: ${name} < 350 MiB`, `${Math.round(peak)} MiB`, peak < 350]);
  }
  const failures = [...samples.values()].flat().reduce((sum, { failures: failed }) => sum + failed, 0);
  promises.push(['No request fails', `${failures} failed`, failures === 0]);
  return promises;
}

/** Each round's share of the baseline's best in the same round. */
function shares(samples: Samples, name: string): number[] {
  return (samples.get(name) ?? []).flatMap(({ perSecond }, round) => {
    const best = Math.max(...[1, 2, 4].map((each) => samples.get(`baseline ${each}`)?.[round]?.perSecond ?? 0));
    return best > 0 ? [perSecond / best] : [];
  });
}

function ratios(samples: Samples, name: string, other: string, key: 'perSecond' | 'p50'): number[] {
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
