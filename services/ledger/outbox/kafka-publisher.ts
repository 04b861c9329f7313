// Publishes events to Kafka: one idempotent producer, one send at a time, and a new producer after a failed send.
import { Partitioners, type Kafka, type Message, type PartitionMetadata } from 'kafkajs';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { ensureTopic, metadataMaxAgeMs, openKafka, withAdmin } from '../../platform/kafka.ts';
import type { KafkaSettings } from '../../platform/kafka-settings.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { encodedEvent } from '../encoding.ts';
import { EventRejected, EventsDeferred, type EventSink } from './event-sink.ts';

/** Bytes of one send. */
const maxSendBytes = 512 * 1024;
/** About the size of a message's key, headers and framing, bytes. */
const overheadBytes = 300;
/** A send that fails later than this, milliseconds, is the broker's failure, not a partition's. */
const quickFailureMs = 4_000;
/** How long the tenants of a failing partition wait before the next try, milliseconds. */
const partitionBackOffMs = 5_000;
const rejections = ['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE', 'INVALID_RECORD'];

/** A send of a connected producer failed. */
class SendFailed extends Error {}

interface Producer {
  send(messages: Message[]): Promise<void>;
  disconnect(): Promise<unknown>;
}

/** Opens the publisher; connects with the first event or probe, and creates the topic where it is missing. */
export function kafkaPublisher(settings: KafkaSettings, logger: Logger): EventSink {
  const kafka = openKafka(settings, 'ledger', logger);
  // Chooses the partition as Java's producer does.
  const choose = Partitioners.DefaultPartitioner();
  let partitions: PartitionMetadata[] = [];
  /** The partition of an event; -1 before the first send. */
  const partitionOf = ({ tenantId }: Event): number =>
    partitions.length === 0
      ? -1
      : choose({ topic: settings.topic, partitionMetadata: partitions, message: { key: tenantId, value: null } });
  /** Failing partitions, with the time of `performance.now()` until which nothing is sent to them. */
  const failing = new Map<number, number>();
  let producer: Promise<Producer> | undefined;
  let queue = Promise.resolve();

  const connect = (): Promise<Producer> => {
    producer ??= openProducer(kafka, settings, choose, (known) => (partitions = known)).catch((error: unknown) => {
      producer = undefined;
      throw error;
    });
    return producer;
  };

  const sendAll = async (events: Event[]): Promise<void> => {
    for (const messages of chunks(events, Math.min(maxSendBytes, settings.maxMessageBytes))) {
      const current = await connect();
      try {
        await current.send(messages);
      } catch (error) {
        // kafkajs reuses the sequence numbers of a failed send: the broker would drop the next messages as duplicates without an error.
        producer = undefined;
        void current.disconnect();
        const rejection = rejectionOf(error);
        throw rejection === null ? new SendFailed((error as Error).message, { cause: error }) : new EventRejected(rejection);
      }
    }
  };
  /** Sends all events; if that fails, each partition's alone, because one without a leader fails the whole send. Returns those not taken. */
  const sendByPartition = async (events: Event[]): Promise<Event[]> => {
    const startedAt = performance.now();
    try {
      await sendAll(events);
      return [];
    } catch (error) {
      if (!(error instanceof SendFailed) || performance.now() - startedAt > quickFailureMs) throw error;
      const parts = Map.groupBy(events, partitionOf);
      const failed = new Map<number, Event[]>();
      for (const [partition, part] of parts) {
        try {
          await sendAll(part);
          failing.delete(partition);
        } catch (partError) {
          if (!(partError instanceof SendFailed)) throw partError;
          failed.set(partition, part);
        }
      }
      // If all fail, the cluster is at fault, unless one of them failed before.
      if (failed.size === parts.size && !failed.keys().some((partition) => failing.has(partition))) throw error;
      for (const partition of failed.keys()) failing.set(partition, performance.now() + partitionBackOffMs);
      return [...failed.values()].flat();
    }
  };
  const publish = async (events: Event[]): Promise<void> => {
    const isWaiting = (event: Event) => failing.size > 0 && (failing.get(partitionOf(event)) ?? 0) > performance.now();
    const { waiting = [], ready = [] } = Object.groupBy(events, (event) => (isWaiting(event) ? 'waiting' : 'ready'));
    const deferred = [...waiting, ...(await sendByPartition(ready))];
    if (deferred.length > 0) throw new EventsDeferred('a partition takes no events', new Set(deferred.map(({ tenantId }) => tenantId)));
  };

  return {
    name: 'kafka',
    publish: (events) => {
      const done = queue.then(() => publish(events));
      queue = done.catch(() => undefined);
      return done;
    },
    probe: async () => {
      // Creates the topic for its readers before the first event.
      if (!producer) await connect();
      else await withAdmin(kafka, (admin) => admin.describeCluster());
    },
    close: async () => {
      await queue;
      await producer?.then((open) => open.disconnect()).catch(() => undefined);
    },
  };
}

/** Connects a producer. `onPartitions` gets the topic's partitions with each message. */
async function openProducer(
  kafka: Kafka,
  settings: KafkaSettings,
  choose: ReturnType<typeof Partitioners.DefaultPartitioner>,
  onPartitions: (partitions: PartitionMetadata[]) => void,
): Promise<Producer> {
  await ensureTopic(kafka, settings);
  let unsent = 0;
  const client = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    metadataMaxAge: metadataMaxAgeMs,
    // The least that kafkajs allows for an idempotent producer.
    retry: { retries: 1 },
    createPartitioner: () => (args) => {
      // A retry must fail. If a partition moved to a broker that took its own part before, kafkajs sends nothing and reports success.
      if (unsent-- <= 0) throw new Error('a broker has not taken its part of a send');
      onPartitions(args.partitionMetadata);
      return choose(args);
    },
  });
  const disconnect = () => client.disconnect().catch(() => undefined);
  // Without this, a producer that the broker refuses keeps its connection.
  await client.connect().catch((error: unknown) => {
    void disconnect();
    throw error;
  });
  const send = async (messages: Message[]): Promise<void> => {
    unsent = messages.length;
    await client.send({ topic: settings.topic, acks: -1, timeout: 8_000, messages });
  };
  return { send, disconnect };
}

function* chunks(events: Event[], maxBytes: number): Iterable<Message[]> {
  let messages: Message[] = [];
  let bytes = 0;
  for (const event of events) {
    const value = encodedEvent(event);
    const size = value.length + overheadBytes;
    if (messages.length > 0 && bytes + size > maxBytes) {
      yield messages;
      [messages, bytes] = [[], 0];
    }
    bytes += size;
    const { id, type, traceparent } = event;
    const headers = { 'event-id': id, 'event-type': type, 'content-type': 'application/x-protobuf', traceparent };
    // Without the event's own time: retention would remove an old event at once.
    messages.push({ key: event.tenantId, value, headers });
  }
  if (messages.length > 0) yield messages;
}

/** Why Kafka will never take these messages; null where it may. */
function rejectionOf(error: unknown): string | null {
  for (let each = error; each instanceof Error; each = each.cause) {
    const { type } = each as { type?: unknown };
    if (rejections.includes(String(type))) return `${String(type)}: ${each.message}`;
  }
  return null;
}
