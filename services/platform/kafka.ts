// What every process knows about Kafka: its client, and the topic as it must be. The client is kafkajs, which nobody but this file,
// `kafkajs.ts`, the ledger's `kafka.ts` and the notifier's `codecs.ts` loads, so that it can be replaced; others know its types. Loaded only where there is a Kafka:
// it is 143 modules.
import dns from 'node:dns';
import { connect, isIP, type LookupFunction } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import kafkajs, { Kafka, logLevel, type Admin, type ISocketFactory, type KafkaConfig, type LogEntry } from 'kafkajs';
import './kafkajs-patches.ts';
import type { KafkaSettings } from './kafka-settings.ts';
import type { Logger } from './telemetry.ts';

// Node does not see it as an export: jest's modules do.
const { ConfigResourceTypes } = kafkajs;

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
    socketFactory,
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
function rotated<Item>(items: readonly Item[]): Item[] {
  const begin = Math.floor(Math.random() * items.length);
  return [...items.slice(begin), ...items.slice(0, begin)];
}

// So does Node with the addresses of a name, which may be those of several brokers.
const lookup: LookupFunction = (name, options, done) => {
  dns.lookup(name, { ...options, all: true }, (error, found) => {
    const addresses = rotated(error ? [] : found);
    const [first] = addresses;
    if (options.all === true) done(error, addresses);
    else done(error, first?.address ?? '', first?.family);
  });
};

// As kafkajs's own, but for the look-up.
const socketFactory: ISocketFactory = ({ host, port, ssl, onConnect }) => {
  const place = { host, port, lookup };
  // By an address no name is told (RFC 6066, section 3).
  const name = isIP(host) === 0 ? { servername: host } : {};
  // Without TLS it is false, whatever the type says.
  const isSecure = Boolean(ssl);
  const socket = isSecure ? connectSecurely({ ...place, ...name, ...ssl }, onConnect) : connect(place, onConnect);
  return socket.setKeepAlive(true, 60_000);
};

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

/**
 * Makes the topic where it is missing, or not to be seen for want of a right; one that is there stays as it is. Throws what Kafka answers, in its
 * words, and where the topic that is there is compacted: what is sent to it would be lost without a word.
 */
export async function ensureTopic(kafka: Kafka, settings: KafkaSettings): Promise<void> {
  await withAdmin(kafka, async (admin) => {
    if ((await admin.listTopics()).includes(settings.topic)) {
      await refuseCompacted(admin, settings.topic);
      return;
    }
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

async function refuseCompacted(admin: Admin, topic: string): Promise<void> {
  const asked = { resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['cleanup.policy'] }], includeSynonyms: false };
  // A right of its own, which who may send need not have: then it is the operator's to know.
  const answer = await admin.describeConfigs(asked).catch(() => undefined);
  const policy = answer?.resources[0]?.configEntries[0]?.configValue;
  if (!policy?.includes('compact')) return;
  throw new Error(`the topic ${topic} has cleanup.policy=${policy}, which removes all but the last event of a tenant: set it to delete`);
}

// By name: Node does not see the classes of kafkajs's errors as exports.
function isAll(type: string, error: unknown): boolean {
  const { errors = [error] } = error as { errors?: unknown[] };
  return errors.every((each) => (each as { type?: unknown }).type === type);
}
