// Settings of Kafka and its topic, read from the environment.
// Not in kafka.ts, because a process without Kafka must not load the client.
import type { SASLOptions } from 'kafkajs';
import { BadSetting, type Settings } from './settings.ts';

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
  /** Largest record batch of a topic that is yet to be made, and of what the ledger sends at a time to any, bytes. */
  maxMessageBytes: number;
}

/** Reads the settings; null where events do not travel over Kafka. Throws {@link BadSetting}. */
export function kafkaSettings(settings: Settings): KafkaSettings | null {
  if (settings.optional('KAFKA_BROKERS') === undefined) return null;
  const topic = settings.text('KAFKA_TOPIC', 'ledger.v1.Event');
  if (!/^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$/.test(topic)) {
    throw new BadSetting('KAFKA_TOPIC', 'must be a name of letters, digits, ".", "_" and "-", and neither "." nor ".."');
  }
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
  if (settings.optional('KAFKA_SASL_MECHANISM') === undefined) {
    for (const half of ['KAFKA_SASL_USERNAME', 'KAFKA_SASL_PASSWORD'])
      if (settings.optional(half) !== undefined) throw new BadSetting('KAFKA_SASL_MECHANISM', `is not set, and ${half} is`);
    return undefined;
  }
  const mechanism = settings.oneOf('KAFKA_SASL_MECHANISM', ['plain', 'scram-sha-256', 'scram-sha-512'], 'plain');
  return { mechanism, username: settings.text('KAFKA_SASL_USERNAME'), password: settings.text('KAFKA_SASL_PASSWORD') };
}
