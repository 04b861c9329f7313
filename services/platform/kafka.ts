// What every process knows about Kafka: its client, and the topic as it must be. The client is kafkajs, which nobody but this file, the
// ledger's `kafka.ts` and the notifier's `codecs.ts` loads, so that it can be replaced; others know its types. Loaded only where there is a Kafka:
// it is 143 modules.
import { setTimeout as pause } from 'node:timers/promises';
import { Kafka, logLevel, type Admin, type KafkaConfig, type LogEntry } from 'kafkajs';
// @ts-expect-error -- an inner file, without types
import ConsumerGroup from 'kafkajs/src/consumer/consumerGroup.js';
// @ts-expect-error -- an inner file, without types
import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
// @ts-expect-error -- an inner file, without types
import metadataRequest from 'kafkajs/src/protocol/requests/metadata/index.js';
import type { KafkaSettings } from './kafka-settings.ts';
import type { Logger } from './telemetry.ts';

interface Queue {
  pending: unknown[];
  throttledUntil: number;
  scheduleCheckPendingRequests: () => void;
}

// kafkajs 2.2.4 looks for requests that a throttle holds back, on every connection, every millisecond, for ever: it reckons the time to wait
// as a negative one when there is no throttle (and Node warns of it). Here it looks where there is something to look for.
const queue = (RequestQueue as { prototype: Queue }).prototype;
const schedule = Object.getOwnPropertyDescriptor(queue, 'scheduleCheckPendingRequests')?.value as (this: Queue) => void;
queue.scheduleCheckPendingRequests = function (this: Queue) {
  if (this.pending.length > 0 || this.throttledUntil > Date.now()) schedule.call(this);
};

interface Metadata {
  topicMetadata: { partitionMetadata: { partitionErrorCode: number; leader: number }[] }[];
}

interface MetadataRequest {
  versions: string[];
  protocol: (of: { version: string }) => (asked: { topics: string[] }) => { response: { parse: (metadata: Metadata) => unknown } };
}

// kafkajs takes nothing of an answer in which one partition has no leader. So one of ours kept all tenants waiting, and one of any other topic, too, as
// an admin and a producer ask for all topics before they know one. Here only who wants that partition fails, or who asks for one topic of which none
// has a leader, as while it is being made.
const { versions, protocol } = metadataRequest as MetadataRequest;
for (const version of versions) {
  const { response } = protocol({ version })({ topics: [] });
  const { parse } = response;
  response.parse = (metadata) => {
    const { topicMetadata: topics } = metadata;
    const partitions = topics.flatMap(({ partitionMetadata }) => partitionMetadata);
    if (topics.length > 1 || partitions.some(({ leader }) => leader >= 0)) for (const each of partitions) each.partitionErrorCode = 0;
    return parse(metadata);
  };
}

interface Group {
  recoverFromFetch: (error: Error) => Promise<void>;
}

// Where a partition without a leader is to be read from its beginning kafkajs asks for metadata, and tries again, without a pause: 1,500 to 5,000
// requests a second of each reader.
const group = (ConsumerGroup as { prototype: Group }).prototype;
const recover = Object.getOwnPropertyDescriptor(group, 'recoverFromFetch')?.value as (this: Group, error: Error) => Promise<void>;
group.recoverFromFetch = async function (this: Group, error) {
  await recover.call(this, error);
  if (error.name === 'KafkaJSBrokerNotFound') await pause(500);
};

/**
 * Age of what a producer or consumer knows of the topic, at most, milliseconds. kafkajs asks every five minutes unless told otherwise: so long
 * nobody would read a partition that an operator has added.
 */
export const metadataMaxAgeMs = 10_000;

/** A client whose own log lines go to ours. Its retries are few: who uses it repeats by himself, and knows then what he repeats. */
export function openKafka(settings: KafkaSettings, clientId: string, logger: Logger): Kafka {
  const config: KafkaConfig = {
    clientId,
    brokers: () => rotated(settings.brokers),
    ssl: settings.ssl,
    connectionTimeout: 3_000,
    authenticationTimeout: 5_000,
    requestTimeout: 10_000,
    retry: { retries: 3, initialRetryTime: 100, maxRetryTime: 2_000 },
    logLevel: logLevel.WARN,
    logCreator: () => (entry) => passOn(logger, entry),
  };
  if (settings.sasl) config.sasl = settings.sasl;
  return new Kafka(config);
}

// kafkajs begins each client with the first of a list, and goes to the next from one that refuses the connection, but not from one that takes it and
// says nothing: from anywhere, the next client begins at another one.
function rotated(brokers: string[]): string[] {
  const begin = Math.floor(Math.random() * brokers.length);
  return [...brokers.slice(begin), ...brokers.slice(0, begin)];
}

// What kafkajs calls an error is mostly a retry that it makes by itself; what fails for good is thrown, and logged by who catches it.
function passOn(logger: Logger, { namespace, level, log }: LogEntry): void {
  const { message, timestamp: _timestamp, logger: _name, ...fields } = log;
  const line = { ...fields, kafkajs: namespace };
  if (level <= logLevel.ERROR) logger.warn(line, message);
  else logger.debug(line, message);
}

/** Asks the brokers on a connection of its own. Throws what they answer. */
export async function withAdmin<Result>(kafka: Kafka, ask: (admin: Admin) => Promise<Result>): Promise<Result> {
  const admin = kafka.admin();
  try {
    await admin.connect();
    return await ask(admin);
  } finally {
    await admin.disconnect().catch(() => undefined);
  }
}

/** Makes the topic where it is missing, or not to be seen for want of a right; one that is there stays as it is. Throws what Kafka answers, in its words. */
export async function ensureTopic(kafka: Kafka, settings: KafkaSettings): Promise<void> {
  await withAdmin(kafka, async (admin) => {
    if ((await admin.listTopics()).includes(settings.topic)) return;
    const { replication } = settings;
    const configEntries = [
      { name: 'max.message.bytes', value: String(settings.maxMessageBytes) },
      // The brokers' time: a sender's that is an hour ahead is refused, and one that is far behind is past its retention at once.
      { name: 'message.timestamp.type', value: 'LogAppendTime' },
      // Whatever the brokers' default is: compaction keeps the last event of a tenant alone, and what a broker compresses costs it and the reader time.
      { name: 'cleanup.policy', value: 'delete' },
      { name: 'compression.type', value: 'producer' },
      // acks -1 waits for the copies in sync, which may be the leader alone unless the topic asks for more: two of two, rather than an event lost
      // with a disk.
      ...(replication === undefined
        ? []
        : [{ name: 'min.insync.replicas', value: String(Math.min(replication, Math.max(2, replication - 1))) }]),
    ];
    const topic = { topic: settings.topic, numPartitions: settings.partitions, replicationFactor: replication ?? -1, configEntries };
    await admin.createTopics({ topics: [topic], waitForLeaders: true }).catch((error: unknown) => {
      // A busy broker has not heard yet of what the controller has made, which the library takes for a refusal; whoever sends or reads asks again.
      if (isAll('TOPIC_ALREADY_EXISTS', error) || isAll('UNKNOWN_TOPIC_OR_PARTITION', error)) return;
      // The library's own text says nothing: what Kafka answers stands below.
      const { errors } = error as { errors?: Error[] };
      if (!errors) throw error;
      const why = errors.map(({ message }) => message).join('; ');
      throw new Error(`the topic ${settings.topic} is not to be seen and can't be made: ${why}`, { cause: error });
    });
  });
}

// By name: Node does not see the classes of kafkajs's errors as exports.
function isAll(type: string, error: unknown): boolean {
  const { errors = [error] } = error as { errors?: unknown[] };
  return errors.every((each) => (each as { type?: unknown }).type === type);
}
