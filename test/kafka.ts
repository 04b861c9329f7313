// The Kafka of a test run: that of `KAFKA_BROKERS`, or a real broker that the first test starts.
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fromBinary } from '@bufbuild/protobuf';
import type { Admin, EachMessagePayload, Kafka } from 'kafkajs';
import { pino } from 'pino';
import { javaFlags, kafkaJars, kafkaProblem, startBroker } from '../deploy/local/broker.ts';
import { Children, type ChildOptions } from '../deploy/local/children.ts';
import { withClient } from '../deploy/local/databases.ts';
import { EventSchema, type Event } from '../proto/gen/ledger/v1/events_pb.js';
import { openKafka } from '../services/platform/kafka.ts';
import type { KafkaSettings } from '../services/platform/kafka-settings.ts';
import { testPort } from './cluster.ts';
import { currentRun } from './run.ts';

/** `describe` for tests that need Kafka: skipped with one line where there is none; with `CI=true` a failure. */
export function describeWithKafka(name: string, tests: () => void): void {
  const problem = process.env['KAFKA_BROKERS'] === undefined ? kafkaProblem() : null;
  if (problem === null) describe(name, tests);
  else if (process.env['CI'] === 'true') {
    describe(name, () => {
      test('needs Kafka', () => {
        throw new Error(problem);
      });
    });
  } else {
    tell(`tests that need Kafka are skipped: ${problem}`);
    describe.skip(name, tests);
  }
}

/** `test` for what needs Kafka's own programs; without them, as {@link describeWithKafka}. */
export function testWithJava(name: string, body: () => Promise<void>, timeoutMs = 180_000): void {
  const problem = kafkaProblem();
  if (problem === null) test(name, body, timeoutMs);
  else if (process.env['CI'] === 'true') {
    test(name, () => {
      throw new Error(problem);
    });
  } else {
    tell(`tests that need Kafka's own programs are skipped: ${problem}`);
    test.skip(name, body);
  }
}

/** Once a run. */
function tell(line: string): void {
  try {
    writeFileSync(join(currentRun().directory, 'kafka-reported'), line, { flag: 'wx' });
    process.stderr.write(`${line}\n`);
  } catch {
    // Another file has reported it.
  }
}

/** For `KAFKA_BROKERS`. */
export async function kafkaBrokers(): Promise<string> {
  const given = process.env['KAFKA_BROKERS'];
  if (given !== undefined) return given;
  const { adminUrl, directory, prefix } = currentRun();
  const file = join(directory, 'kafka.address');
  return withClient(adminUrl, async (client) => {
    // Two workers may need it at once. The lock ends with the connection.
    await client.query('select pg_advisory_lock(hashtext($1))', [`${prefix}kafka`]);
    try {
      return readFileSync(file, 'utf8');
    } catch {
      const { address } = await ownKafka(join(directory, 'kafka'));
      writeFileSync(file, address);
      return address;
    }
  });
}

/** A broker under the test's control. */
export interface OwnKafka {
  address: string;
  pid(): number;
  stop(): Promise<void>;
  /** SIGKILL is waited for. */
  signal(signal: NodeJS.Signals): Promise<void>;
  start(): Promise<void>;
}

/** A broker for one test; it ends with the run. `front` opens a proxy to its port and resolves to the port that clients use. */
export async function ownKafka(
  directory = join(currentRun().directory, `kafka-${randomBytes(4).toString('hex')}`),
  front?: (port: number) => Promise<number>,
): Promise<OwnKafka> {
  mkdirSync(directory, { recursive: true });
  const children = new Children(join(directory, 'logs'), join(directory, 'processes.json'));
  const port = await testPort();
  const advertisedPort = (await front?.(port)) ?? port;
  const options = { directory: join(directory, 'broker'), port, controllerPort: await testPort(), advertisedPort, children };
  const launch = async () => {
    const broker = await startBroker({ ...options, say: (line) => process.stderr.write(`${line}\n`) });
    // The run's end stops it, after the worker.
    broker.child.unref();
    return broker;
  };
  let { address, child } = await launch();
  return {
    address,
    pid: () => child.pid,
    stop: async () => {
      await child.end();
    },
    signal: async (signal) => {
      child.signal(signal);
      if (signal === 'SIGKILL') await child.ended;
    },
    start: async () => {
      ({ address, child } = await launch());
    },
  };
}

/** A new topic. */
export function newTopic(): string {
  return `test.${randomBytes(6).toString('hex')}`;
}

/** A message on a topic. */
export interface TopicMessage {
  event: Event;
  key: string;
  headers: Record<string, string>;
  partition: number;
}

/** All messages of a topic, each partition in order. */
export async function messagesOf(brokers: string, topic: string): Promise<TopicMessage[]> {
  const ends = await withAdmin(brokers, (admin) => admin.fetchTopicOffsets(topic));
  const messages: TopicMessage[] = [];
  const full = ends.filter(({ low, high }) => BigInt(high) > BigInt(low));
  const left = new Map(full.map(({ partition, high }) => [partition, BigInt(high) - 1n]));
  if (left.size === 0) return [];
  const consumer = testClient(brokers).consumer({ groupId: `reader-${randomBytes(4).toString('hex')}`, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise<void>((done, fail) => {
    // kafkajs recovers from most crashes by itself.
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || fail(payload.error));
    const eachMessage = async ({ partition, message }: EachMessagePayload) => {
      const headers = Object.fromEntries(Object.entries(message.headers ?? {}).map(([name, value]) => [name, String(value)]));
      messages.push({ event: fromBinary(EventSchema, message.value!), key: String(message.key), headers, partition });
      if (BigInt(message.offset) >= (left.get(partition) ?? -1n)) left.delete(partition);
      if (left.size === 0) done();
    };
    consumer.run({ autoCommit: false, eachMessage }).catch(fail);
  });
  await consumer.disconnect();
  return messages;
}

/** How many messages of a topic a group has not committed. */
export function uncommitted(brokers: string, topic: string, groupId: string): Promise<bigint> {
  return withAdmin(brokers, async (admin) => {
    const ends = await admin.fetchTopicOffsets(topic);
    const [committed] = await admin.fetchOffsets({ groupId, topics: [topic] });
    const offsets = new Map(committed?.partitions.map(({ partition, offset }) => [partition, BigInt(offset)]));
    return ends.reduce((sum, { partition, high }) => {
      const offset = offsets.get(partition) ?? 0n;
      return sum + BigInt(high) - (offset < 0n ? 0n : offset);
    }, 0n);
  });
}

/** Calls Kafka's admin; retries retriable errors, as during a leader election. */
export async function withAdmin<Answer>(brokers: string, ask: (admin: Admin) => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const admin = testClient(brokers).admin();
    try {
      await admin.connect();
      return await ask(admin);
    } catch (error) {
      if ((error as { retriable?: unknown }).retriable !== true) throw error;
    } finally {
      await admin.disconnect();
    }
    await pause(20);
  }
}

/** A client of the test's own. */
export function testClient(brokers: string, clientId = 'test'): Kafka {
  return openKafka(settingsOf(brokers, ''), clientId, pino({ level: 'silent' }));
}

/** As a service would read them. */
export function settingsOf(brokers: string, topic: string, more: Partial<KafkaSettings> = {}): KafkaSettings {
  const topics = { topic, partitions: 4, replication: undefined, maxMessageBytes: 1 << 20 };
  return { brokers: brokers.split(','), ssl: false, sasl: undefined, ...topics, ...more };
}

/** Kafka's own console consumer, from the topic's beginning; ends after so many messages, or when none comes for 45 s. */
export function consoleConsumer(address: string, topic: string, count: number): ChildOptions {
  const formatting = ['key', 'headers', 'partition', 'offset'].flatMap((each) => ['--property', `print.${each}=true`]);
  return {
    name: 'console-consumer',
    command: 'java',
    args: [
      ...javaFlags(
        kafkaJars(() => undefined),
        '256m',
      ),
      'org.apache.kafka.tools.consumer.ConsoleConsumer',
      ...['--bootstrap-server', address, '--topic', topic, '--from-beginning', '--timeout-ms', '45000', '--max-messages', String(count)],
      ...formatting,
    ],
  };
}
