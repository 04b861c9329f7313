// The cluster that benchmarks load: that of the tests on the run's PostgreSQL server, with its processes' ids.
import { readFileSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { withClient } from '../../deploy/local/databases.ts';
import type { Service } from '../../deploy/local/plan.ts';
import { startCluster, type Cluster } from '../cluster.ts';
import { newTopic, ownKafka } from '../kafka.ts';
import { currentRun } from '../run.ts';

/** A cluster whose resource use can be measured. */
export interface BenchCluster extends Cluster {
  /** Process ids of the services, the gateway and Kafka, by name. */
  pids: Record<string, number>;
  /** Process id of PostgreSQL's first process. */
  postmaster: number;
  /** True where the data lies in memory, so that figures say nothing about a disk. */
  inMemory: boolean;
  /** Runs a query as superuser in a service's database. */
  query<Row>(service: Service, text: string): Promise<Row[]>;
  /** Warnings that the processes have logged, each once with its count. */
  warnings(): string[];
}

const tmpfs = 0x01021994;
/** Of 4 MB. */
const logSegments = 512;
let isWarm = false;

/** Starts a cluster; `kafka`: events travel over a Kafka of its own. The run must have begun. */
export async function startBenchCluster({ kafka = false } = {}): Promise<BenchCluster> {
  const { adminUrl, directory } = currentRun();
  const data = join(directory, 'server', 'postgres');
  if (!isWarm) await writeLogSegments(adminUrl);
  isWarm = true;
  const broker = kafka ? await ownKafka() : null;
  const events = broker ? { KAFKA_BROKERS: broker.address, KAFKA_TOPIC: newTopic() } : {};
  const cluster = await startCluster({ environment: { ledger: events, notifier: events } });
  const names = ['gateway', ...Object.keys(cluster.addresses)];
  const pids = Object.fromEntries(names.map((name) => [name, cluster.pid(name)]));
  return {
    ...cluster,
    pids: broker ? { ...pids, kafka: broker.pid() } : pids,
    postmaster: Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]),
    inMemory: statfsSync(data).type === tmpfs,
    query: async <Row>(service: Service, text: string) =>
      withClient(cluster.databases[service].adminUrl, async (client) => (await client.query(text)).rows as Row[]),
    warnings: () =>
      warningsIn(
        names.flatMap((name) =>
          cluster
            .logs(name)
            .split('\n')
            .map((line): [string, string] => [name, line]),
        ),
      ),
    stop: async () => {
      await cluster.stop();
      await broker?.stop();
    },
  };
}

/** A server in use recycles log segments; on a new one every commit would wait for new files. */
async function writeLogSegments(adminUrl: string): Promise<void> {
  await withClient(adminUrl, async (client) => {
    const use = `perform pg_logical_emit_message(false, '', ''), pg_switch_wal()`;
    await client.query(`do $$ begin for file in 1..${logSegments} loop ${use}; end loop; end $$`);
    await client.query('checkpoint');
  });
}

function warningsIn(lines: [process: string, line: string][]): string[] {
  const counts = new Map<string, number>();
  for (const [name, line] of lines) {
    if (!(Number(/^\{"level":(\d+)/.exec(line)?.[1]) >= 40)) continue;
    const { msg, err } = JSON.parse(line) as { msg: string; err?: { message: string } };
    const warning = `${name}: ${[msg, err?.message].filter(Boolean).join(', ')}`;
    counts.set(warning, (counts.get(warning) ?? 0) + 1);
  }
  return [...counts].map(([warning, count]) => `${warning}, ${count} times`);
}
