// Windows of load on two clusters in turns, so that a machine that is slow for a while is slow for both.
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Books } from '../bench/books.ts';
import type { Cluster } from '../bench/cluster.ts';
import { load, type Loaded } from '../bench/load.ts';
import { Usage, between } from '../bench/usage.ts';
import { kinds, noSamples, sides, type Kind, type Sample, type Samples, type Side } from './marks.ts';

/** A cluster, and the tenant in it that the windows post to and read. */
export interface Measured {
  cluster: Cluster;
  books: Books;
}

/** What the windows gave. */
export interface Turns {
  samples: Samples;
  /** Every window that posted, those before the measured ones too. */
  posted: Record<Side, Loaded[]>;
}

/** How long it is measured. */
export interface Lengths {
  /** Seconds of each window before the measured ones; 0: there is none. */
  warmUp: number;
  rounds: number;
  /** Of one window. */
  seconds: number;
}

/** Seconds after which a window without one answer is no longer taken again. */
const longestWindow = 30;

/**
 * Takes so many rounds of all windows, each of so many seconds, first in the one cluster, then in the other. A window
 * in which nothing was answered is taken again, twice as long.
 */
export async function takeTurns(
  clusters: Record<Side, Measured>,
  { warmUp, rounds, seconds, say }: Lengths & { say: (line: string) => void },
): Promise<Turns> {
  const turns: Turns = { samples: noSamples(), posted: { empty: [], full: [] } };
  const window = async (side: Side, kind: Kind, length: number): Promise<Loaded> => {
    const loaded = await take(clusters[side], kind, length);
    if (kind === 'posting') turns.posted[side].push(loaded);
    if (loaded.requests > 0) return loaded;
    // A machine that stood still all the while; percentiles of nothing are 0 and would count as reached.
    if (length >= longestWindow) throw new Error(`${kind}, ${side}: nothing was answered in ${length} s`);
    return window(side, kind, 2 * length);
  };
  // Compiles the hot paths, opens connections, and brings what is asked for into memory, in both clusters alike.
  if (warmUp > 0) for (const side of sides) for (const kind of kinds) await window(side, kind, warmUp);
  const usage = Object.fromEntries(sides.map((side) => [side, usageOf(clusters[side].cluster)])) as Record<Side, Usage>;
  for (let round = 0; round < rounds; round++) {
    for (const kind of kinds) {
      for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
        const before = usage[side].cpu();
        const loaded = await window(side, kind, seconds);
        const sample: Sample = { ...loaded, cpu: cpuOf(between(before, usage[side].cpu())) / loaded.requests };
        turns.samples[kind][side].push(sample);
        say(`  ${kind}, ${side}: ${Math.round(loaded.perSecond)}/s, p50 ${loaded.p50.toFixed(2)} ms, p99 ${loaded.p99.toFixed(2)} ms`);
      }
    }
  }
  for (const side of sides) usage[side].end();
  return turns;
}

async function take({ cluster, books }: Measured, kind: Kind, seconds: number): Promise<Loaded> {
  // A cluster that was kept has had windows before: the keys of this one are of its own.
  const series = randomBytes(3).toString('hex');
  const connections = kind === 'posting' ? 64 : 8;
  const loaded = await load(cluster.url, { kind, books, hot: kind === 'history', connections, seconds, series });
  // What was cut off at the end of a window is finished outside of the next one.
  await pause(300);
  return loaded;
}

function usageOf(cluster: Cluster): Usage {
  return new Usage(cluster.processes, cluster.postmaster);
}

/** Of the cluster alone: both are loaded by the same tool. */
function cpuOf({ load: _, ...cluster }: Record<string, number>): number {
  return Object.values(cluster).reduce((sum, each) => sum + each, 0);
}
