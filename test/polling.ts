// Polls until a cluster answers as expected, reads its metrics, and calls with a long deadline.
import { setTimeout as pause } from 'node:timers/promises';
import type { Transport } from '@connectrpc/connect';
import type { Cluster } from './cluster.ts';

/** Repeats `ask` until its result is as wanted. Throws after 45 s. */
export async function until<Result>(ask: () => Promise<Result>, wanted: (result: Result) => boolean): Promise<Result> {
  for (const end = Date.now() + 45_000; ; await pause(20)) {
    const result = await ask();
    if (wanted(result)) return result;
    if (Date.now() > end) throw new Error(`not within 45 s: ${JSON.stringify(result).slice(0, 300)}`);
  }
}

/** The sum of a metric of one process over all label sets, or over those that contain `label`. */
export async function metricOf(cluster: Cluster, name: 'gateway' | 'identity', figure: string, label = ''): Promise<number> {
  const text = await (await fetch(`${cluster.opsUrl(name)}/metrics`)).text();
  const lines = text
    .split('\n')
    .filter((each) => each.startsWith(figure) && !/^\w/.test(each.slice(figure.length)) && each.includes(label));
  return lines.reduce((sum, each) => sum + Number(each.slice(each.lastIndexOf(' ') + 1)), 0);
}

/** The caller with a default deadline of 50 s instead of 10 s, which a commit on a busy disk can take. */
export function withLongDeadline(caller: Transport): Transport {
  return {
    ...caller,
    unary: (method, signal, timeoutMs, ...rest) => caller.unary(method, signal, timeoutMs ?? 50_000, ...rest),
  };
}
