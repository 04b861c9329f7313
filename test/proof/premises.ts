// A whole cluster with nothing around it, for proofs that measure it: state to begin with, a webhook, and how far the relay is behind.
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '@connectrpc/connect';
import { NotifierService } from '../../proto/gen/notifier/v1/notifier_pb.js';
import { callerOf, type Tenant } from '../bench/books.ts';
import { Cluster } from '../bench/cluster.ts';
import { endLoad } from '../bench/load.ts';
import { secret, type Door } from '../bench/receiver.ts';

/** How events travel. */
export type Way = 'gRPC' | 'Kafka';

/** Starts a cluster, does the work in it and leaves nothing behind. */
export async function inCluster<Result>(
  way: Way,
  say: (line: string) => void,
  work: (cluster: Cluster) => Promise<Result>,
): Promise<Result> {
  const cluster = new Cluster({ parent: undefined, ledgers: 1, profiling: undefined, say });
  // A signal ends this process without its finally.
  process.once('exit', endLoad);
  try {
    await cluster.openServer();
    if (way === 'Kafka') await cluster.openKafka();
    await cluster.openProcesses();
    return await work(cluster);
  } finally {
    endLoad();
    process.off('exit', endLoad);
    await cluster.end();
  }
}

/** Has the tenant's postings delivered from now on. */
export async function subscribe(cluster: Cluster, { id }: Tenant, door: Door): Promise<void> {
  const caller = callerOf(cluster, 'notifier');
  try {
    const webhook = { tenantId: id, url: `${door.url}/hook`, secret, events: ['transaction.posted'] };
    await createClient(NotifierService, caller).configureWebhook(webhook);
  } finally {
    caller.close();
  }
}

/** Events of the logs that are not published, as the ledger itself says. */
export async function lagOf(cluster: Cluster): Promise<number> {
  const text = await (await fetch(`${cluster.opsUrl('ledger')}/metrics`)).text();
  const value = /^ledger_relay_lag_events(?:\{[^}]*\})? (\S+)$/m.exec(text)?.[1];
  if (value === undefined) throw new Error('the ledger does not say how far its relay is behind');
  return Number(value);
}

/** Seconds until everything is published; null where it is not after so many seconds. */
export async function drained(cluster: Cluster, atMostSeconds: number): Promise<number | null> {
  const started = performance.now();
  const seconds = () => (performance.now() - started) / 1000;
  while (seconds() < atMostSeconds) {
    if ((await lagOf(cluster)) === 0) return seconds();
    await pause(250);
  }
  return null;
}

/** Names of six characters for windows of load, each another; the same seed has the same, and with wrk the same accounts and amounts. */
export function seriesOf(letter: string, seed: number): () => string {
  let count = 0;
  const digits = (value: number, length: number) => (value % 36 ** length).toString(36).padStart(length, '0');
  return () => `${letter}${digits(seed, 3)}${digits(++count, 2)}`;
}
