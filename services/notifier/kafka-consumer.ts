// Consumes the ledger's events from Kafka. The offsets in the notifier's database decide; those in Kafka only report progress.
import { setTimeout as pause } from 'node:timers/promises';
import { fromBinary } from '@bufbuild/protobuf';
import type { Batch, Consumer, EachBatchPayload, Kafka, KafkaMessage } from 'kafkajs';
import { Counter, Gauge, type Registry } from 'prom-client';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { metadataMaxAgeMs, withAdmin } from '../platform/kafka.ts';
import { errorMessage } from '../platform/lifetime.ts';
import { inTransaction, type Pool } from '../platform/postgres.ts';
import type { Logger } from '../platform/telemetry.ts';
import type { DeadLetter } from './dead-letters.ts';
import { moveOffsets, OffsetMismatch, readOffsets, type OffsetMove } from './kafka-offsets.ts';

/** Messages of one transaction. */
const chunkSize = 200;
/** Transactions at a time: the consumer's connections. */
const partitionsInParallel = 3;
const heartbeatMs = 2_000;
const maxBackOffMs = 5_000;

/**
 * Consumes events and moves stored offsets in one transaction. May get events that were consumed before. Called again with the same after it
 * threw, and from the stored offset on after `OffsetMismatch`.
 */
export type Ingest = (events: Event[], more: { deadLetters: DeadLetter[]; moves: OffsetMove[] }) => Promise<void>;

/** What a consumer needs. */
export interface KafkaConsumerOptions {
  kafka: Kafka;
  topic: string;
  /** Prefix of the consumer group. Replicas with the same one share the partitions. */
  group: string;
  pool: Pool;
  logger: Logger;
  metrics: Registry;
  ingest: Ingest;
  /** The consumer is rebuilt after this long without progress while messages wait. */
  watchdogSeconds?: number;
}

/** A consumer of the topic, rebuilt whenever it crashes or stalls. */
export class KafkaConsumer {
  private readonly metrics: ConsumerMetrics;
  private readonly running: Promise<void>;
  private readonly closed = new AbortController();
  private session: Session | undefined;

  /** Starts it; returns at once, whether Kafka can be reached or not. */
  constructor(options: KafkaConsumerOptions) {
    this.metrics = openMetrics(options.metrics);
    this.running = this.run(options);
  }

  /** `ok`, or `away` while no heartbeat is answered. */
  state(): string {
    return this.session?.isAlive() ? 'ok' : 'away';
  }

  /** Finishes the transactions under way and leaves the group; waits five seconds at most. */
  async close(): Promise<void> {
    this.closed.abort();
    this.session?.end('closed');
    await Promise.race([this.running, pause(5_000, undefined, { ref: false })]);
  }

  private async run(options: KafkaConsumerOptions): Promise<void> {
    const isClosed = () => this.closed.signal.aborted;
    while (!isClosed()) {
      this.session = new Session(options, this.metrics);
      const reason = await this.session.run();
      this.metrics.lag.set(NaN);
      if (isClosed()) return;
      this.metrics.rebuilds.inc({ reason: reason.split(':')[0] ?? '' });
      options.logger.warn({ reason }, 'Kafka consumer is rebuilt');
      await pause(1_000, undefined, { signal: this.closed.signal }).catch(() => undefined);
    }
  }
}

type ConsumerMetrics = ReturnType<typeof openMetrics>;

function openMetrics(registry: Registry) {
  const registers = [registry];
  const counter = (name: string, help: string) => new Counter({ name, help, registers });
  const lag = new Gauge({ name: 'notifier_consumer_lag', help: 'Messages on the partitions of this replica not yet consumed', registers });
  lag.set(NaN);
  return {
    lag,
    rebuilds: new Counter({
      name: 'notifier_consumer_rebuilds_total',
      help: 'Kafka consumers rebuilt because they failed, crashed or stalled',
      labelNames: ['reason'],
      registers,
    }),
    lost: counter('notifier_consumer_lost_total', 'Messages that the topic had deleted before they were consumed: alert on any'),
    rewinds: counter('notifier_consumer_rewinds_total', 'Partitions read again because the database had gone back: it was restored'),
  };
}

/** Where a partition is consumed: the stored offset, and the offset of the next fetch, which may have skipped transaction markers. */
interface Position {
  stored: bigint;
  next: bigint;
}

/** One kafkajs consumer from connect to disconnect. It has a state of its own, because a stalled one may come back after its successor. */
class Session {
  private readonly options: KafkaConsumerOptions;
  private readonly metrics: ConsumerMetrics;
  private readonly consumer: Consumer;
  private readonly ended = Promise.withResolvers<string>();
  /** Partitions of this replica; undefined before it joins the group. */
  private assigned: number[] | undefined;
  private positions = new Map<number, Position>();
  /** Failed attempts in a row, by partition. */
  private readonly failures = new Map<number, number>();
  private isOver = false;
  private busy = 0;
  private heartbeatAt = -Infinity;
  private progressAt = performance.now();

  constructor(options: KafkaConsumerOptions, metrics: ConsumerMetrics) {
    this.options = options;
    this.metrics = metrics;
    this.consumer = options.kafka.consumer({
      // Members of one group that read different topics would get each other's partitions.
      groupId: `${options.group}.${options.topic}`,
      sessionTimeout: 10_000,
      heartbeatInterval: heartbeatMs,
      rebalanceTimeout: 20_000,
      maxWaitTimeInMs: 500,
      metadataMaxAge: metadataMaxAgeMs,
      allowAutoTopicCreation: false,
      // A crashed consumer is rebuilt here, because kafkajs restarts only after some errors.
      retry: { retries: 5, restartOnFailure: () => Promise.resolve(false) },
    });
  }

  /** True while heartbeats are answered, which kafkajs sends only while it fetches or a batch is processed. */
  isAlive(): boolean {
    return performance.now() - this.heartbeatAt < 15_000;
  }

  end(reason: string): void {
    this.isOver = true;
    this.ended.resolve(reason);
  }

  /** Consumes until it fails or is ended; answers why. */
  async run(): Promise<string> {
    const { consumer } = this;
    const watchdogMs = (this.options.watchdogSeconds ?? 30) * 1000;
    const { CRASH, GROUP_JOIN, HEARTBEAT, END_BATCH_PROCESS } = consumer.events;
    consumer.on(CRASH, ({ payload }) => this.end(`crashed: ${payload.error.message}`));
    consumer.on(HEARTBEAT, () => void (this.heartbeatAt = performance.now()));
    consumer.on(GROUP_JOIN, ({ payload }) => this.joined(payload.memberAssignment[this.options.topic] ?? []));
    // A fetch of nothing but transaction markers never reaches eachBatch.
    consumer.on(END_BATCH_PROCESS, ({ payload: { partition, batchSize, lastOffset } }) => {
      const position = this.positions.get(partition);
      if (batchSize === 0 && position) position.next = BigInt(lastOffset) + 1n;
    });
    const watching = setInterval(() => void this.watch(watchdogMs), Math.min(10_000, watchdogMs / 3));
    this.start().catch((error: unknown) => this.end(`failed: ${errorMessage(error)}`));
    const reason = await this.ended.promise;
    clearInterval(watching);
    // A disconnect that hangs is abandoned; the group forgets the member after its session.
    await Promise.race([consumer.disconnect().catch(() => undefined), pause(15_000, undefined, { ref: false })]);
    return reason;
  }

  private async start(): Promise<void> {
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [this.options.topic], fromBeginning: true });
    await this.consumer.run({
      // What is resolved is committed to Kafka after each batch, for its tools.
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: partitionsInParallel,
      eachBatch: (payload) => this.consume(payload),
    });
  }

  private joined(partitions: number[]): void {
    this.assigned = partitions;
    this.positions = new Map();
    this.progressAt = performance.now();
    this.align(partitions).catch((error: unknown) => this.options.logger.debug({ err: error }, 'offsets could not be read'));
  }

  /**
   * Reads the stored offsets of partitions and seeks to them. An offset that the topic does not have becomes its first one: the messages were
   * deleted, or the topic was created anew. Answers the number of messages that wait on all assigned partitions.
   */
  private async align(partitions: number[]): Promise<bigint> {
    const { kafka, topic, pool, logger } = this.options;
    const { positions, assigned = [] } = this;
    const known = new Map(positions);
    // Before the topic's ends: another replica may still consume, so an older end could be lower.
    const stored = partitions.length > 0 ? await readOffsets(pool, topic, partitions) : new Map<number, bigint>();
    const offsets = await withAdmin(kafka, (admin) => admin.fetchTopicOffsets(topic));
    const ends = new Map(offsets.map(({ partition, low, high }) => [partition, { low: BigInt(low), high: BigInt(high) }]));
    for (const [partition, from] of stored) {
      const end = ends.get(partition);
      const before = known.get(partition);
      if (!end) continue;
      const next = from < end.low || from > end.high ? end.low : from;
      if (next !== from) await inTransaction(pool, [], (client) => moveOffsets(client, [{ topic, partition, from, to: next }]));
      if (from > 0n && from < end.low) {
        this.metrics.lost.inc(Number(end.low - from));
        logger.error({ partition, messages: Number(end.low - from) }, 'messages were deleted before they were consumed');
      }
      if (before && next < before.stored) {
        this.metrics.rewinds.inc();
        logger.warn({ partition, offset: Number(next) }, 'the database has gone back: the partition is read again');
      }
      if (this.positions !== positions || this.isOver || positions.get(partition) !== before) continue;
      positions.set(partition, { stored: next, next });
      this.consumer.seek({ topic, partition, offset: String(next) });
    }
    return assigned.reduce((sum, partition) => {
      const { low = 0n, high = 0n } = ends.get(partition) ?? {};
      const next = positions.get(partition)?.next ?? 0n;
      return sum + high - (next < low ? low : next);
    }, 0n);
  }

  private async consume(payload: EachBatchPayload): Promise<void> {
    const { topic, logger, ingest } = this.options;
    const { batch } = payload;
    const { partition, messages } = batch;
    const { positions } = this;
    const isCurrent = () => payload.isRunning() && !payload.isStale() && !this.isOver && this.positions === positions;
    const beat = setInterval(() => void payload.heartbeat().catch(() => undefined), heartbeatMs);
    this.busy++;
    try {
      const position = positions.get(partition);
      // Not where the database says: what was fetched is dropped, and fetched again after the seek.
      if (isCurrent() && position?.next !== fetchedOffset(batch)) await this.align([partition]);
      for (let begin = 0; begin < messages.length && position && isCurrent(); begin += chunkSize) {
        const some = messages.slice(begin, begin + chunkSize);
        const last = (some.at(-1) as KafkaMessage).offset;
        const to = BigInt(begin + chunkSize < messages.length ? last : batch.lastOffset()) + 1n;
        const { events, deadLetters } = decodeAll(some, `${topic}/${partition}`);
        await ingest(events, { deadLetters, moves: [{ topic, partition, from: position.stored, to }] });
        position.stored = position.next = to;
        this.failures.delete(partition);
        if (this.positions !== positions) return;
        payload.resolveOffset(last);
      }
    } catch (error) {
      logger.warn({ err: error, partition }, 'events could not be consumed');
      const position = positions.get(partition);
      // No fetch begins there, so the next batch seeks to the stored offset.
      if (error instanceof OffsetMismatch && position) position.next = -1n;
      const failures = (this.failures.get(partition) ?? 0) + 1;
      this.failures.set(partition, failures);
      // Paused, not retried here: kafkajs fetches no partition of a broker while one of its batches is processed.
      setTimeout(payload.pause(), Math.min(maxBackOffMs, 50 * 2 ** failures)).unref();
    } finally {
      clearInterval(beat);
      this.busy--;
      this.progressAt = performance.now();
    }
  }

  /** kafkajs is known to stop fetching without an error. */
  private async watch(watchdogMs: number): Promise<void> {
    const { metrics, options } = this;
    try {
      if (!this.assigned) return;
      const lag = await this.align(this.assigned.filter((partition) => !this.positions.has(partition)));
      metrics.lag.set(Number(lag));
      const idleMs = performance.now() - this.progressAt;
      if (lag === 0n) this.progressAt = performance.now();
      else if (this.busy === 0 && idleMs >= watchdogMs) this.end(`stalled: ${lag} messages wait for ${Math.round(idleMs / 1000)} s`);
    } catch (error) {
      metrics.lag.set(NaN);
      options.logger.debug({ err: error }, 'the lag could not be measured');
    }
  }
}

/** Where the fetch began: kafkajs's `firstOffset()` is that of the first message, which may be later. */
function fetchedOffset(batch: Batch): bigint {
  return BigInt((batch as Batch & { fetchedOffset: string }).fetchedOffset);
}

/** The events of messages, and those that are none; `source`: topic and partition. */
function decodeAll(messages: KafkaMessage[], source: string): { events: Event[]; deadLetters: DeadLetter[] } {
  const events: Event[] = [];
  const deadLetters: DeadLetter[] = [];
  for (const { key, value, offset } of messages) {
    try {
      events.push(decode(value));
    } catch (error) {
      deadLetters.push({ source: `${source}/${offset}`, key, value: value ?? Buffer.alloc(0), reason: errorMessage(error) });
    }
  }
  return { events, deadLetters };
}

function decode(value: Buffer | null): Event {
  if (value === null) throw new Error('the message has no value');
  let event: Event;
  try {
    event = fromBinary(EventSchema, value);
  } catch (error) {
    throw new Error(`the value is not a ledger.v1.Event: ${errorMessage(error)}`, { cause: error });
  }
  if (event.id === '' || event.tenantId === '' || event.sequence < 1n) throw new Error('the event has no id, tenant or sequence');
  return event;
}
