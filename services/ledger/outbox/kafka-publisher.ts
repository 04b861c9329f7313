// Events out to Kafka: an idempotent producer, one send at a time, of all partitions together as long as all are well.
import { Partitioners, type ICustomPartitioner, type Kafka, type Message, type PartitionMetadata } from 'kafkajs';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { ensureTopic, metadataMaxAgeMs, openKafka } from '../../platform/kafka.ts';
import type { KafkaSettings } from '../../platform/kafka-settings.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { encodedEvent } from '../encoding.ts';
import { EventRejected, EventsDeferred, type EventSink } from './event-sink.ts';

/** Bytes of one send; a broker counts those of one partition against the topic's largest batch. */
const mostBytes = 512 * 1024;
/** About what key, headers and framing of one message take, bytes. */
const overhead = 300;
/** Tenants whose partition is known without hashing their id again. */
const knownTenants = 10_000;
/** A failure that takes longer was waited for in vain, milliseconds: what is sent to the others would wait for as long each time. */
const slowMs = 4_000;

/** Opens the way to Kafka; nothing is connected before the first event. */
export function kafkaPublisher(settings: KafkaSettings, logger: Logger): EventSink {
  const kafka = openKafka(settings, 'ledger', logger);
  const partitions = new Partitions();
  /** By partition that fails while others take what is sent: when it is tried again, of `performance.now()`. */
  const troubled = new Map<number, number>();
  let producer: Promise<Sender> | undefined;
  let turn = Promise.resolve();

  const open = async (): Promise<Sender> => {
    await ensureTopic(kafka, settings);
    return connected(kafka, settings.topic, partitions);
  };
  // kafkajs takes back the sequence numbers of a send that failed, of every partition in it, also where the broker has stored the messages or
  // only one partition was at fault. The next messages would get the same numbers, and the broker would drop them as repetitions without a
  // word. So a producer is used for one send at a time, and never again after one that failed.
  const send = async (messages: Message[]): Promise<void> => {
    producer ??= open();
    const used = producer;
    let sender: Sender;
    try {
      sender = await used;
    } catch (error) {
      producer = undefined;
      throw error;
    }
    try {
      await sender.send(messages);
    } catch (error) {
      producer = undefined;
      void sender.disconnect().catch(() => undefined);
      const reason = refusalOf(error);
      throw reason === null ? new SendFailed(error as Error) : new EventRejected(reason);
    }
  };
  const sendAll = async (events: Event[]): Promise<void> => {
    for (const messages of pieces(events, Math.min(mostBytes, settings.maxMessageBytes))) await send(messages);
  };
  /** Answers whether a partition has taken them. Throws where one is refused, or it is not, or not known to be, the partition that is in trouble. */
  const isTaken = async (partition: number, events: Event[]): Promise<boolean> => {
    const began = performance.now();
    const isKnown = troubled.has(partition);
    try {
      await sendAll(events);
      troubled.delete(partition);
      return true;
    } catch (error) {
      const ended = performance.now();
      if (!(error instanceof SendFailed) || (!isKnown && ended - began > slowMs)) throw error;
      troubled.set(partition, ended + Math.max(2_000, 4 * (ended - began)));
      return false;
    }
  };
  // One partition that has no leader, or too few copies, fails all that is sent beside it, however often that is repeated. Told apart by sending to each
  // alone, it keeps only its own tenants waiting.
  const sendApart = async (events: Event[]): Promise<Event[]> => {
    const began = performance.now();
    try {
      await sendAll(events);
      return [];
    } catch (error) {
      const parts = partitions.split(events);
      const isTrouble = error instanceof SendFailed && performance.now() - began <= slowMs;
      if (!isTrouble || parts.size < 2) throw error;
      const untaken: Event[] = [];
      for (const [partition = 0, part] of parts) if (!(await isTaken(partition, part))) untaken.push(...part);
      if (untaken.length < events.length) return untaken;
      // It is none of theirs that is in trouble.
      for (const [partition = 0] of parts) troubled.delete(partition);
      throw error;
    }
  };
  const publish = async (events: Event[]): Promise<void> => {
    const isTroubled = ({ tenantId }: Event) => troubled.has(partitions.of(tenantId) ?? -1);
    const doubtful = troubled.size > 0 ? events.filter(isTroubled) : [];
    const well = doubtful.length > 0 ? events.filter((event) => !isTroubled(event)) : events;
    const untaken = well.length > 0 ? await sendApart(well) : [];
    for (const [partition = 0, part] of partitions.split(doubtful)) {
      const isDue = performance.now() >= (troubled.get(partition) ?? 0);
      if (!isDue || !(await isTaken(partition, part))) untaken.push(...part);
    }
    if (untaken.length === 0) return;
    throw new EventsDeferred('their partition does not take what is sent', new Set(untaken.map(({ tenantId }) => tenantId)));
  };
  return {
    name: 'kafka',
    publish: (events) => {
      const done = turn.then(() => publish(events));
      turn = done.catch(() => undefined);
      return done;
    },
    probe: async () => {
      // The first time, so that the topic is there for who reads it, and not only after the first event.
      if (!producer) {
        producer = open();
        await producer.catch((error: unknown) => {
          producer = undefined;
          throw error;
        });
        return;
      }
      const admin = kafka.admin({ retry: { retries: 0 } });
      try {
        await admin.connect();
        await admin.describeCluster();
      } finally {
        await admin.disconnect().catch(() => undefined);
      }
    },
    close: async () => {
      await turn;
      await producer?.then((open) => open.disconnect()).catch(() => undefined);
    },
  };
}

/** A send that a connected producer has tried in vain. */
class SendFailed extends Error {
  constructor(cause: Error) {
    super(cause.message, { cause });
  }
}

/** A producer that sends to one topic, and tries once. */
interface Sender {
  send(messages: Message[]): Promise<void>;
  disconnect(): Promise<void>;
}

async function connected(kafka: Kafka, topic: string, partitions: Partitions): Promise<Sender> {
  let left = 0;
  const producer = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    metadataMaxAge: metadataMaxAgeMs,
    // The relay repeats by itself; kafkajs has at least one of its own with `idempotent`, which is ended below.
    retry: { retries: 1 },
    createPartitioner: () => {
      const partitionOf = partitions.partitioner();
      return (asked) => {
        // kafkajs remembers by broker who has answered. Where one of several did not, and its partitions have moved to another that has, as they do when
        // a broker is stopped, the second time they are sent to nobody, and the send succeeds: 7 to 14 events of some 20,000 were lost with each broker
        // that was stopped in good order.
        if (left === 0) throw new Error('a broker has not taken its part of what was sent');
        left -= 1;
        return partitionOf(asked);
      };
    },
  });
  try {
    await producer.connect();
  } catch (error) {
    // What it has asked a broker for was refused, or did not come: its connection stands, and it would be tried again over another one each time.
    producer.disconnect().catch(() => undefined);
    throw error;
  }
  return {
    send: async (messages) => {
      left = messages.length;
      await producer.send({ topic, acks: -1, timeout: 8_000, messages });
    },
    disconnect: () => producer.disconnect(),
  };
}

/** Tenants' partitions: the library's, as Java's has it, asked once for each tenant: the hash alone was a tenth of the CPU that sending an event takes. */
class Partitions {
  private readonly known = new Map<string, number>();
  private readonly partitionOf = Partitioners.DefaultPartitioner();
  /** Those that were there when something was last sent. */
  private metadata: PartitionMetadata[] = [];

  readonly partitioner: ICustomPartitioner =
    () =>
    ({ message: { key }, partitionMetadata }) => {
      if (partitionMetadata.length !== this.metadata.length) this.known.clear();
      this.metadata = partitionMetadata;
      return this.of(String(key)) ?? 0;
    };

  /** A tenant's, or undefined where nothing was sent yet. */
  of(tenant: string): number | undefined {
    if (this.metadata.length === 0) return undefined;
    if (this.known.size >= knownTenants) this.known.clear();
    const asked = { topic: '', partitionMetadata: this.metadata, message: { key: tenant, value: null } };
    const partition = this.known.get(tenant) ?? this.partitionOf(asked);
    this.known.set(tenant, partition);
    return partition;
  }

  /** Events by partition, in their order. */
  split(events: Event[]): Map<number | undefined, Event[]> {
    return Map.groupBy(events, ({ tenantId }) => this.of(tenantId));
  }
}

function* pieces(events: Event[], most: number): Iterable<Message[]> {
  let messages: Message[] = [];
  let bytes = 0;
  for (const event of events) {
    const value = encodedEvent(event);
    if (messages.length > 0 && bytes + value.length + overhead > most) {
      yield messages;
      messages = [];
      bytes = 0;
    }
    bytes += value.length + overhead;
    // No time stamp of ours: an old event's would let the topic's retention remove it at once. The client puts this process's time.
    messages.push({
      key: event.tenantId,
      value,
      headers: {
        'event-id': event.id,
        'event-type': event.type,
        'content-type': 'application/x-protobuf',
        traceparent: event.traceparent,
      },
    });
  }
  if (messages.length > 0) yield messages;
}

/** Why Kafka will never take these messages, or null where it may take them later, as it does what a wrong clock has stamped. */
function refusalOf(error: unknown): string | null {
  for (let each = error; each instanceof Error; each = each.cause) {
    const type = (each as { type?: unknown }).type;
    if (['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE', 'INVALID_RECORD'].includes(String(type))) {
      return `${String(type)}: ${each.message}`;
    }
  }
  return null;
}
