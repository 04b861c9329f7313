// Events out to Kafka: an idempotent producer, one send at a time.
import { Partitioners, type ICustomPartitioner, type Kafka, type Message } from 'kafkajs';
import type { Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { ensureTopic, metadataMaxAgeMs, openKafka } from '../platform/kafka.ts';
import type { KafkaSettings } from '../platform/kafka-settings.ts';
import type { Logger } from '../platform/telemetry.ts';
import { encodedEvent } from './encoding.ts';
import { EventRefused, type Exit } from './exit.ts';

/** Bytes of one send; a broker counts those of one partition against the topic's largest batch. */
const mostBytes = 512 * 1024;
/** About what key, headers and framing of one message take, bytes. */
const overhead = 300;
/** Tenants whose partition is known without hashing their id again. */
const knownTenants = 10_000;

/** Opens the way to Kafka; nothing is connected before the first event. */
export function kafkaExit(settings: KafkaSettings, logger: Logger): Exit {
  const kafka = openKafka(settings, 'ledger', logger);
  let producer: Promise<Sender> | undefined;
  let turn = Promise.resolve();

  const open = async (): Promise<Sender> => {
    await ensureTopic(kafka, settings);
    return connected(kafka, settings.topic);
  };
  // kafkajs takes back the sequence numbers of a send that failed, of every partition in it, also where the broker has stored the messages or
  // only one partition was at fault. The next messages would get the same numbers, and the broker would drop them as repetitions without a
  // word. So a producer is used for one send at a time, and never again after one that failed.
  const send = async (messages: Message[]): Promise<void> => {
    producer ??= open();
    const used = producer;
    try {
      await (await used).send(messages);
    } catch (error) {
      producer = undefined;
      void used.then((failed) => failed.disconnect()).catch(() => undefined);
      const reason = refusalOf(error);
      throw reason === null ? error : new EventRefused(reason);
    }
  };
  const publish = async (events: Event[]): Promise<void> => {
    for (const messages of pieces(events, Math.min(mostBytes, settings.maxMessageBytes))) await send(messages);
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

/** A producer that sends to one topic, and tries once. */
interface Sender {
  send(messages: Message[]): Promise<void>;
  disconnect(): Promise<void>;
}

async function connected(kafka: Kafka, topic: string): Promise<Sender> {
  let left = 0;
  const producer = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    metadataMaxAge: metadataMaxAgeMs,
    // The relay repeats by itself; kafkajs has at least one of its own with `idempotent`, which is ended below.
    retry: { retries: 1 },
    createPartitioner: () => {
      const partitionOf = byTenant();
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

/** The library's, as Java's has it, asked once for each tenant: the hash alone was a tenth of the CPU that sending an event takes. */
const byTenant: ICustomPartitioner = () => {
  const partitionOf = Partitioners.DefaultPartitioner();
  const known = new Map<string, number>();
  let partitions = 0;
  return (asked) => {
    const tenant = String(asked.message.key);
    if (asked.partitionMetadata.length !== partitions || known.size >= knownTenants) known.clear();
    partitions = asked.partitionMetadata.length;
    const partition = known.get(tenant) ?? partitionOf(asked);
    known.set(tenant, partition);
    return partition;
  };
};

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
