// `npm run proof -- idle`: the CPU time of a cluster that has tenants, a webhook and postings, and gets no requests.
import { setTimeout as pause } from 'node:timers/promises';
import { kafkaProblem } from '../../deploy/local/broker.ts';
import type { BenchCluster } from '../bench/cluster.ts';
import { load } from '../bench/load.ts';
import { BenchReceiver } from '../bench/receiver.ts';
import { table } from '../bench/report.ts';
import { makeTenants, subscribe } from '../bench/tenants.ts';
import { between, Usage, usageIsKnown } from '../bench/usage.ts';
import { judge, publishedWithin, seriesOf, withBenchCluster } from './load-state.ts';
import type { Task } from './task.ts';

/** Largest share of a core for one of our processes. */
const limits = { gRPC: 0.03, Kafka: 0.06 };
const settleSeconds = 20;

/** Runs a proof: events over gRPC for half of the time, over Kafka for the other half, where there is one. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  if (!usageIsKnown) return judge(['not measured: this system has no /proc'], say);
  const noKafka = kafkaProblem();
  if (noKafka !== null) say(`not measured over Kafka: ${noKafka}`);
  const transports = noKafka === null ? (['gRPC', 'Kafka'] as const) : (['gRPC'] as const);
  const wrong: string[] = [];
  for (const transport of transports) {
    say(`events over ${transport}`);
    const seconds = (minutes * 60) / transports.length;
    const shares = await withBenchCluster({ kafka: transport === 'Kafka' }, (cluster) => idle(cluster, seed, seconds));
    const rows = Object.entries(shares).map(([name, share]) => [name, `${(100 * share).toFixed(2)} %`]);
    say(table(['process', 'of a core'], rows));
    for (const name of ['gateway', 'identity', 'ledger', 'notifier']) {
      if (!((shares[name] ?? NaN) < limits[transport]))
        wrong.push(`${name}, events over ${transport}: ${(100 * (shares[name] ?? NaN)).toFixed(2)} %`);
    }
  }
  return judge(wrong, say);
}

/** Posts for some seconds, waits until the cluster has settled, and measures; resolves to each process's share of a core. */
async function idle(cluster: BenchCluster, seed: number, seconds: number): Promise<Record<string, number>> {
  const receiver = await BenchReceiver.open();
  const usage = new Usage(cluster);
  try {
    const [group] = await makeTenants(cluster, [{ name: 'idle', tenants: 10, accounts: 10 }]);
    await subscribe(cluster, group!.tenants.slice(0, 1), receiver);
    const window = { kind: 'posting', group: group!, hot: false, connections: 16, seconds: 3, series: seriesOf('i', seed)() } as const;
    const { requests, failures } = await load(cluster.url, window);
    if (failures > 0) throw new Error(`${failures} of ${requests} postings failed`);
    if ((await publishedWithin(cluster, 30)) === null) throw new Error('events are unpublished after 30 s');
    await pause(settleSeconds * 1000);
    const [before, started] = [usage.cpu(), performance.now()];
    await pause(seconds * 1000);
    const microseconds = (performance.now() - started) * 1000;
    const used = Object.entries(between(before, usage.cpu())).filter(([name]) => name !== 'load');
    return Object.fromEntries(used.map(([name, time]) => [name, time / microseconds]));
  } finally {
    usage.end();
    await receiver.close();
  }
}
