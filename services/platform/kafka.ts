// The Kafka client and the topic of the events. Loads kafkajs, so it is imported only where Kafka is configured.
import kafkajs, { Kafka, logLevel, type Admin, type LogEntry } from 'kafkajs';
import './kafkajs-patches.ts';
import type { KafkaSettings } from './kafka-settings.ts';
import type { Logger } from './telemetry.ts';

// Node does not see it as a named export.
const { ConfigResourceTypes } = kafkajs;

/** Maximum age of topic metadata, milliseconds: a partition that is added gets a reader within this time. kafkajs's default is five minutes. */
export const metadataMaxAgeMs = 10_000;

/** A client that logs through ours. It retries little, because the relay and the consumer repeat by themselves. */
export function openKafka(settings: KafkaSettings, clientId: string, logger: Logger): Kafka {
  return new Kafka({
    clientId,
    brokers: () => rotated(settings.brokers),
    ssl: settings.ssl,
    ...(settings.sasl && { sasl: settings.sasl }),
    connectionTimeout: 3_000,
    authenticationTimeout: 5_000,
    requestTimeout: 10_000,
    retry: { retries: 3, initialRetryTime: 100, maxRetryTime: 2_000 },
    logLevel: logLevel.WARN,
    logCreator: () => (entry) => passOn(logger, entry),
  });
}

// kafkajs starts with the first broker of the list, and stays with one that accepts connections but does not answer.
function rotated(brokers: string[]): string[] {
  const start = Math.floor(Math.random() * brokers.length);
  return [...brokers.slice(start), ...brokers.slice(0, start)];
}

// What kafkajs logs as an error is mostly one of its own retries. An error that stays is thrown.
function passOn(logger: Logger, { namespace, level, log }: LogEntry): void {
  const { message, timestamp: _timestamp, logger: _name, ...fields } = log;
  const line = { ...fields, kafkajs: namespace };
  if (level <= logLevel.ERROR) logger.warn(line, message);
  else logger.debug(line, message);
}

/** Runs requests of an admin client on a connection of its own. Throws what the brokers answer. */
export async function withAdmin<Result>(kafka: Kafka, work: (admin: Admin) => Promise<Result>): Promise<Result> {
  const admin = kafka.admin();
  try {
    await admin.connect();
    return await work(admin);
  } finally {
    await admin.disconnect().catch(() => undefined);
  }
}

/**
 * Creates the topic if it is absent; an existing one stays as it is. Throws if Kafka refuses it, or if the existing one would lose events
 * (compacted) or could not be consumed (compressed by the broker).
 */
export async function ensureTopic(kafka: Kafka, settings: KafkaSettings): Promise<void> {
  const { topic, partitions, replication, maxMessageBytes } = settings;
  await withAdmin(kafka, async (admin) => {
    if ((await admin.listTopics()).includes(topic)) return checkTopic(admin, topic);
    const configEntries = Object.entries({
      'max.message.bytes': String(maxMessageBytes),
      // The brokers' time, because a wrong clock of ours could put a message beyond its retention at once.
      'message.timestamp.type': 'LogAppendTime',
      'cleanup.policy': 'delete',
      'compression.type': 'producer',
      // acks=-1 waits for the replicas in sync, which may be the leader only.
      ...(replication !== undefined && { 'min.insync.replicas': String(Math.min(replication, Math.max(2, replication - 1))) }),
    }).map(([name, value]) => ({ name, value }));
    const created = { topic, numPartitions: partitions, replicationFactor: replication ?? -1, configEntries };
    try {
      await admin.createTopics({ topics: [created], waitForLeaders: true });
    } catch (error) {
      // kafkajs's own message does not contain Kafka's answer. A busy broker may not know yet what the controller has created.
      const { errors = [error] } = error as { errors?: unknown[] };
      if (errors.every((each) => /^(TOPIC_ALREADY_EXISTS|UNKNOWN_TOPIC_OR_PARTITION)$/.test(String((each as { type?: unknown }).type))))
        return;
      const why = errors.map((each) => (each as Error).message).join('; ');
      throw new Error(`the topic ${topic} can't be created: ${why}`, { cause: error });
    }
  });
}

async function checkTopic(admin: Admin, topic: string): Promise<void> {
  const configNames = ['cleanup.policy', 'compression.type'];
  const query = { resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames }], includeSynonyms: false };
  // Reading settings needs a right that sending does not.
  const answer = await admin.describeConfigs(query).catch(() => undefined);
  for (const { configName, configValue } of answer?.resources[0]?.configEntries ?? []) {
    if (configName === 'cleanup.policy' && configValue.includes('compact')) {
      throw new Error(
        `the topic ${topic} has cleanup.policy=${configValue}, which deletes all but a tenant's last event: set it to delete`,
      );
    }
    if (configName === 'compression.type' && !/^(producer|uncompressed|gzip)$/.test(configValue)) {
      throw new Error(`the topic ${topic} has compression.type=${configValue}, which the notifier can't read: set it to producer`);
    }
  }
}
