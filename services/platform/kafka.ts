// What every process knows about Kafka: how it is reached, and the topic as it must be. The client is kafkajs, which nobody but this file,
// each service's own `kafka.ts` and the notifier's `codecs.ts` sees, so that it can be replaced.
import { Kafka, logLevel, type KafkaConfig, type LogEntry, type SASLOptions } from 'kafkajs';
// @ts-expect-error -- an inner file, without types
import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
import { BadSetting, type Settings } from './settings.ts';
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

/** How Kafka is reached, and the topic of the events. */
export interface KafkaSettings {
  brokers: string[];
  ssl: boolean;
  sasl: SASLOptions | undefined;
  topic: string;
  /** Of a topic that is yet to be made. */
  partitions: number;
  /** Copies of a topic that is yet to be made; undefined: the brokers' default. */
  replication: number | undefined;
  /** Largest record batch of a topic that is yet to be made, bytes. */
  maxMessageBytes: number;
}

/** Reads the settings; null where events do not travel over Kafka. Throws {@link BadSetting}. */
export function kafkaSettings(settings: Settings): KafkaSettings | null {
  if (settings.optional('KAFKA_BROKERS') === undefined) return null;
  const topic = settings.text('KAFKA_TOPIC', 'ledger.v1.Event');
  if (!/^[A-Za-z0-9._-]{1,249}$/.test(topic)) throw new BadSetting('KAFKA_TOPIC', 'must be a name of letters, digits, ".", "_" and "-"');
  return {
    brokers: settings.addresses('KAFKA_BROKERS'),
    ssl: settings.oneOf('KAFKA_SSL', ['true', 'false'], 'false') === 'true',
    sasl: saslSettings(settings),
    topic,
    partitions: settings.integer('KAFKA_PARTITIONS', { min: 1, max: 10_000, fallback: 12 }),
    replication:
      settings.optional('KAFKA_REPLICATION') === undefined ? undefined : settings.integer('KAFKA_REPLICATION', { min: 1, max: 100 }),
    // The largest legal posting (200 entries, 16 KiB of metadata) is some 100 KiB.
    maxMessageBytes: settings.integer('KAFKA_MAX_MESSAGE_BYTES', { min: 1024, max: 1 << 30, fallback: 1 << 20 }),
  };
}

function saslSettings(settings: Settings): SASLOptions | undefined {
  if (settings.optional('KAFKA_SASL_MECHANISM') === undefined) return undefined;
  const mechanism = settings.oneOf('KAFKA_SASL_MECHANISM', ['plain', 'scram-sha-256', 'scram-sha-512'], 'plain');
  return { mechanism, username: settings.text('KAFKA_SASL_USERNAME'), password: settings.text('KAFKA_SASL_PASSWORD') };
}

/**
 * Age of what a producer or consumer knows of the topic, at most, milliseconds. kafkajs asks every five minutes unless told otherwise: so long
 * nobody would read a partition that an operator has added.
 */
export const metadataMaxAgeMs = 10_000;

/** A client whose own log lines go to ours. Its retries are few: who uses it repeats by himself, and knows then what he repeats. */
export function openKafka(settings: KafkaSettings, clientId: string, logger: Logger): Kafka {
  const config: KafkaConfig = {
    clientId,
    brokers: settings.brokers,
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

// What kafkajs calls an error is mostly a retry that it makes by itself; what fails for good is thrown, and logged by who catches it.
function passOn(logger: Logger, { namespace, level, log }: LogEntry): void {
  const { message, timestamp: _timestamp, logger: _name, ...fields } = log;
  const line = { ...fields, kafkajs: namespace };
  if (level <= logLevel.ERROR) logger.warn(line, message);
  else logger.debug(line, message);
}

/** Makes the topic where it is missing; one that is there stays as it is. Throws what Kafka answers. */
export async function ensureTopic(kafka: Kafka, settings: KafkaSettings): Promise<void> {
  const admin = kafka.admin();
  await admin.connect();
  try {
    if ((await admin.listTopics()).includes(settings.topic)) return;
    const { replication } = settings;
    const configEntries = [
      { name: 'max.message.bytes', value: String(settings.maxMessageBytes) },
      // The brokers' time: a sender's that is an hour ahead is refused, and one that is far behind is past its retention at once.
      { name: 'message.timestamp.type', value: 'LogAppendTime' },
      // Whatever the brokers' default is: compaction keeps the last event of a tenant alone, and what a broker compresses costs it and the reader time.
      { name: 'cleanup.policy', value: 'delete' },
      { name: 'compression.type', value: 'producer' },
      // acks -1 waits for the copies in sync, which may be the leader alone unless the topic asks for more.
      ...(replication === undefined ? [] : [{ name: 'min.insync.replicas', value: String(Math.max(1, replication - 1)) }]),
    ];
    const topic = { topic: settings.topic, numPartitions: settings.partitions, replicationFactor: replication ?? -1, configEntries };
    await admin.createTopics({ topics: [topic], waitForLeaders: true }).catch((error: unknown) => {
      if (!wasMadeMeanwhile(error)) throw error;
    });
  } finally {
    await admin.disconnect();
  }
}

// By name: Node does not see the classes of kafkajs's errors as exports.
function wasMadeMeanwhile(error: unknown): boolean {
  const { errors = [error] } = error as { errors?: unknown[] };
  return errors.every((each) => (each as { type?: unknown }).type === 'TOPIC_ALREADY_EXISTS');
}
