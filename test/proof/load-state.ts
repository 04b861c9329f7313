// What proofs under load share: a cluster for one measurement, how far the relay is behind, and names of load windows.
import { setTimeout as pause } from 'node:timers/promises';
import { startBenchCluster, type BenchCluster } from '../bench/cluster.ts';
import { endLoad } from '../bench/load.ts';

/** Starts a cluster, does the work and stops it. */
export async function withBenchCluster<Result>(
  options: { kafka: boolean },
  work: (cluster: BenchCluster) => Promise<Result>,
): Promise<Result> {
  // A signal skips `finally`.
  process.once('exit', endLoad);
  const cluster = await startBenchCluster(options);
  try {
    return await work(cluster);
  } finally {
    endLoad();
    process.off('exit', endLoad);
    await cluster.stop();
  }
}

/** Events that are not published yet. */
export async function unpublished(cluster: BenchCluster): Promise<number> {
  const [row] = await cluster.query<{ count: string }>(
    'ledger',
    'select coalesce(sum(h.sequence - coalesce(m.sequence, 0)), 0)::text as count from heads h left join relay_marks m using (tenant_id)',
  );
  return Number(row?.count);
}

/** Seconds until everything is published; null where that takes longer than `maxSeconds`. */
export async function publishedWithin(cluster: BenchCluster, maxSeconds: number): Promise<number | null> {
  const started = performance.now();
  const seconds = () => (performance.now() - started) / 1000;
  while (seconds() < maxSeconds) {
    if ((await unpublished(cluster)) === 0) return seconds();
    await pause(250);
  }
  return null;
}

/** Names of six characters for load windows, all different. */
export function seriesOf(letter: string, seed: number): () => string {
  let count = 0;
  const digits = (value: number, length: number) => (value % 36 ** length).toString(36).padStart(length, '0');
  return () => `${letter}${digits(seed, 3)}${digits(++count, 2)}`;
}

/** Prints what is wrong, or that nothing is; returns whether nothing is. */
export function judge(wrong: string[], say: (line: string) => void): boolean {
  for (const line of wrong) say(`WRONG: ${line}`);
  if (wrong.length === 0) say('everything held');
  return wrong.length === 0;
}
