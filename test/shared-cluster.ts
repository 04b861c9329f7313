// One running cluster per jest worker, for test files that only use it through its interfaces: tenants keep their tests apart.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clientOf } from './client.ts';
import { startCluster, type Cluster } from './cluster.ts';
import { mailsIn } from './mails.ts';
import { currentRun } from './run.ts';

/** Retries of deliveries do not wait, and a receiver that hangs is given up soon. */
const environment = { notifier: { WEBHOOK_RETRY_DELAYS: '0,0', WEBHOOK_TIMEOUT: '2' } };

type Shared = Pick<Cluster, 'url' | 'addresses' | 'internalToken' | 'databases' | 'mailDirectory'> & { ops: Record<string, string> };

/**
 * The worker's cluster, started by the first file that asks; the run's end stops it. Jest loads modules anew for each file, so its addresses
 * are kept in a file. Killing it or reading its logs throws: start a cluster of your own for that.
 */
export async function sharedCluster(): Promise<Cluster> {
  const file = join(currentRun().directory, `shared-cluster-${process.env['JEST_WORKER_ID'] ?? '1'}.json`);
  if (!existsSync(file)) await start(file);
  const { ops, ...shared } = JSON.parse(readFileSync(file, 'utf8')) as Shared;
  const { status } = await fetch(`${shared.url}/readyz`);
  if (status !== 200) throw new Error(`the shared cluster answers ${status}: an earlier test file has broken it`);
  const refuse = () => {
    throw new Error('this cluster is shared with other test files: start one of your own');
  };
  const withDrop = Object.entries(shared.databases).map(([service, database]) => [service, { ...database, drop: refuse }]);
  return {
    ...shared,
    ...clientOf(shared.url),
    databases: Object.fromEntries(withDrop) as Cluster['databases'],
    mails: (email, count) => mailsIn(shared.mailDirectory, email, count),
    opsUrl: (name) => ops[name] ?? refuse(),
    pid: refuse,
    kill: refuse,
    restart: refuse,
    logs: refuse,
    stop: () => Promise.resolve(),
  };
}

async function start(file: string): Promise<void> {
  const cluster = await startCluster({ environment, outlivesFile: true });
  const { url, addresses, internalToken, databases, mailDirectory } = cluster;
  const ops = Object.fromEntries(['gateway', ...Object.keys(addresses)].map((name) => [name, cluster.opsUrl(name)]));
  writeFileSync(file, JSON.stringify({ url, addresses, internalToken, databases, mailDirectory, ops } satisfies Shared));
}
