// Asking patiently: again until a cluster answers as it should, and for longer than it is asked in earnest; and reading its figures.
import { setTimeout as pause } from 'node:timers/promises';
import type { Transport } from '@connectrpc/connect';
import type { Cluster } from './cluster.ts';

/** Asks again until the answer is as wanted, for 45 s. */
export async function until<Result>(ask: () => Promise<Result>, wanted: (result: Result) => boolean): Promise<Result> {
  for (const end = Date.now() + 45_000; ; await pause(20)) {
    const result = await ask();
    if (wanted(result)) return result;
    if (Date.now() > end) throw new Error(`not within 45 s: ${JSON.stringify(result).slice(0, 300)}`);
  }
}

/** The sum of a figure of a process over all its labels, or those that hold `label`. */
export async function metricOf(cluster: Cluster, name: 'gateway' | 'identity', figure: string, label = ''): Promise<number> {
  const text = await (await fetch(`${cluster.opsUrl(name)}/metrics`)).text();
  const lines = text.split('\n').filter((each) => each.startsWith(figure) && each.includes(label));
  return lines.reduce((sum, each) => sum + Number(each.slice(each.lastIndexOf(' ') + 1)), 0);
}

/** The caller, which waits 50 s for an answer unless told otherwise instead of ten: a busy disk alone may take those for a commit. */
export function retrying(caller: Transport): Transport {
  return {
    ...caller,
    unary: (method, signal, timeoutMs, ...rest) => caller.unary(method, signal, timeoutMs ?? 50_000, ...rest),
  };
}
