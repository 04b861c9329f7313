// Runs Apache Kafka on this machine: one JVM as broker and controller (KRaft), with jars that Maven fetches once.
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { openKafka } from '../../services/platform/kafka.ts';
import { StartFailure } from '../../services/platform/lifetime.ts';
import { describeEnding, type Child, type Children } from './children.ts';

const version = '4.1.1';

/** Why Kafka can't run on this machine, or null. */
export function kafkaProblem(): string | null {
  const java = spawnSync('java', ['-version'], { encoding: 'utf8' });
  if (Number(/version "([0-9]+)/.exec(java.status === null ? '' : java.stderr)?.[1] ?? 0) < 17) return 'Java 17 is missing';
  const hasMaven = existsSync(jarDirectory()) || spawnSync('sh', ['-c', 'command -v mvn']).status === 0;
  return hasMaven ? null : 'Maven is missing';
}

function jarDirectory(): string {
  return join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'ledger', `kafka-${version}-logging`);
}

const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>kafka</artifactId><version>${version}</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>${version}</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.24.3</version></dependency>
</dependencies></project>
`;

/** The directory of Kafka's jars with its console clients; Maven fetches them the first time. Throws {@link StartFailure}. */
export function kafkaJars(say: (line: string) => void): string {
  const directory = jarDirectory();
  if (existsSync(directory)) return directory;
  say(`fetching Apache Kafka ${version} through Maven (the first time takes half a minute)`);
  mkdirSync(dirname(directory), { recursive: true });
  const draft = mkdtempSync(`${directory}.`);
  try {
    writeFileSync(join(draft, 'pom.xml'), pom);
    const goal = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies';
    const options = ['-q', '-B', goal, '-DincludeScope=runtime', '-DoutputDirectory=jars'];
    const maven = spawnSync('mvn', options, { cwd: draft, encoding: 'utf8' });
    if (maven.status !== 0) throw new StartFailure(`Maven could not fetch Kafka: ${(maven.stdout + maven.stderr).slice(0, 1000)}`);
    // Another process may have been faster.
    if (!existsSync(directory)) renameSync(join(draft, 'jars'), directory);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  return directory;
}

/** Options of {@link startBroker}. */
export interface BrokerOptions {
  /** For data and configuration; created if missing, kept between starts. */
  directory: string;
  port: number;
  controllerPort: number;
  /** The port that clients are sent to; `port` unless a proxy is in front. */
  advertisedPort?: number;
  children: Children;
  say: (line: string) => void;
}

/** A running broker. */
export interface Broker {
  /** For `KAFKA_BROKERS`. */
  address: string;
  child: Child;
}

/** Starts Kafka and resolves when it answers. Throws {@link StartFailure}. */
export async function startBroker(options: BrokerOptions): Promise<Broker> {
  const { directory, port, controllerPort, advertisedPort = port, children, say } = options;
  const jars = kafkaJars(say);
  // Java needs it for directories with names beyond ASCII.
  const env = { ...process.env, LC_ALL: 'C.UTF-8' };
  mkdirSync(directory, { recursive: true });
  const file = join(directory, 'server.properties');
  writeFileSync(file, properties(join(directory, 'data'), port, controllerPort, advertisedPort));
  const meta = join(directory, 'data', 'meta.properties');
  if (!existsSync(meta)) {
    const id = randomBytes(16).toString('base64url').slice(0, 22);
    // As one word, because an id may begin with a dash.
    const command = ['format', `--cluster-id=${id}`, `--config=${file}`];
    const format = spawnSync('java', [...javaFlags(jars, '64m'), 'kafka.tools.StorageTool', ...command], { encoding: 'utf8', env });
    if (format.status !== 0) throw new StartFailure(`Kafka's data directory could not be created: ${format.stdout}${format.stderr}`);
  }
  const child = children.start({
    name: 'kafka',
    command: 'java',
    args: [...javaFlags(jars, '512m'), '-Dkafka.logs.dir=' + directory, 'kafka.Kafka', file],
    env,
    graceSeconds: 15,
  });
  const address = `127.0.0.1:${advertisedPort}`;
  await waitUntilReady(address, child, /^cluster\.id=(.*)$/m.exec(readFileSync(meta, 'utf8'))?.[1]);
  return { address, child };
}

/** Flags of a JVM with those jars. The serial collector and the first compiler need half the time to start and a third of the memory. */
export function javaFlags(jars: string, heap: string): string[] {
  return [`-Xmx${heap}`, '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-XX:-UsePerfData', '-cp', join(jars, '*')];
}

function properties(data: string, port: number, controllerPort: number, advertisedPort: number): string {
  return `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${controllerPort}
listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}
advertised.listeners=PLAINTEXT://127.0.0.1:${advertisedPort}
controller.listener.names=CONTROLLER
log.dirs=${data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# A group starts at once instead of waiting 3 s for more members.
group.initial.rebalance.delay.ms=0
`;
}

/** Compares the cluster's id: another Kafka may answer on the port until this one has noticed. */
async function waitUntilReady(address: string, child: Child, clusterId: string | undefined): Promise<void> {
  const topic = { topic: '', partitions: 1, replication: undefined, maxMessageBytes: 0 };
  const kafka = openKafka({ brokers: [address], ssl: false, sasl: undefined, ...topic }, 'start', pino({ level: 'silent' }));
  for (const until = Date.now() + 45_000; child.running(); await pause(100)) {
    if (Date.now() > until) throw new StartFailure(`Kafka does not answer: ${child.lastMessage()}`);
    const admin = kafka.admin({ retry: { retries: 0 } });
    try {
      await admin.connect();
      const cluster = await admin.describeCluster();
      if (cluster.clusterId === clusterId && cluster.brokers.length > 0) return;
    } catch {
      // Not started yet.
    } finally {
      await admin.disconnect().catch(() => undefined);
    }
  }
  throw new StartFailure(`Kafka ended at its start ${describeEnding(child, await child.ended)}`);
}
