// Events in from Kafka. The offset of a message is committed after the handler has noted it durably, so that none is lost; what is read twice
// the handler knows by its own mark.
import { setTimeout as pause } from 'node:timers/promises';
import { fromBinary } from '@bufbuild/protobuf';
import type { Consumer, EachBatchPayload, Kafka, KafkaMessage, OffsetsByTopicPartition } from 'kafkajs';
import { Counter, Gauge, type Registry } from 'prom-client';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { metadataMaxAgeMs } from '../platform/kafka.ts';
import type { Logger } from '../platform/telemetry.ts';
import { readAllCompressions } from './codecs.ts';
import { GoneBack, type Reading } from './offsets.ts';

/** A message that holds no event, as it stands on the topic. */
export interface Unreadable {
  topic: string;
  partition: number;
  offset: string;
  key: Buffer | null;
  value: Buffer | null;
  reason: string;
}

/**
 * Takes messages durably: events in this order, which is that of each partition, so that each tenant's are in the tenant's order but for what
 * was redriven; and what can't be decoded, with its reason. Called again with the same after it threw, and may see what it has seen before. Where it
 * throws {@link GoneBack}, what it lacks is read again.
 */
export type Handler = (events: Event[], unreadable: Unreadable[], reading: Reading) => Promise<void>;

/** What a subscription needs. */
export interface SubscribeOptions {
  kafka: Kafka;
  topic: string;
  /** The consumer group, with the topic's name behind it: replicas of one name share the topic's partitions. */
  group: string;
  /** To where each partition was noted durably; of one that is missing nothing was. */
  offsets: () => Promise<ReadonlyMap<number, bigint>>;
  /** No progress for so long while messages wait: the consumer is built anew. */
  watchdogSeconds?: number;
  logger: Logger;
  metrics: Registry;
}

/** A running subscription. */
export interface Subscription {
  /** `ok`, or what is wrong. */
  state(): string;
  /** Finishes the batch in hand, then leaves the group; after five seconds it no longer waits for a database or a Kafka that is slow. */
  close(): Promise<void>;
}

/** Messages of one partition handed to the handler at a time, and of all together. */
const chunk = 200;
const mostTogether = 400;

/** Partitions whose messages are in hand at a time. */
const sideBySide = 100;

/** Messages of a partition, one after the other, that are to be noted. */
interface Part {
  partition: number;
  /** None, where there is nothing but marks of transactions. */
  messages: KafkaMessage[];
  /** Where it begins. */
  first: bigint;
  /** Where the partition is read on. */
  next: string;
  /** Has the partition read on elsewhere. */
  seek: (offset: bigint) => void;
  /** Commits offsets of any partitions; as each batch's does, also while the consumer ends. */
  commit: (offsets: OffsetsByTopicPartition) => Promise<void>;
  heartbeat: () => Promise<void>;
  /** Whether this replica still has business with them. */
  wanted: () => boolean;
  /** They failed with others, or alone, and hold up no others from now on. */
  alone: boolean;
}

/** Reads the topic until it is closed; returns at once, whether Kafka can be reached or not. */
export function subscribe(options: SubscribeOptions, handler: Handler): Subscription {
  readAllCompressions();
  return new Reader(options, handler);
}

class Reader implements Subscription {
  private readonly options: SubscribeOptions;
  private readonly handler: Handler;
  private readonly group: string;
  private readonly watchdogMs: number;
  private readonly rebuilds: Counter;
  private readonly lag: Gauge;
  private readonly lost: Counter;
  private readonly rewinds: Counter;
  /** By partition, to where what is lost was told. */
  private readonly told = new Map<number, bigint>();
  /** By partition, to where it was noted since it is this replica's: the topic may have no message there. */
  private readonly noted = new Map<number, bigint>();
  private readonly running: Promise<void>;
  private consumer: Consumer | undefined;
  /** Ends the consumer in use; set while one is. */
  private giveUp: ((reason: string) => void) | undefined;
  private readonly closed = new AbortController();
  /** Partitions that are this replica's; undefined before it has joined the group. */
  private assigned: Set<number> | undefined;
  private inHandler = 0;
  /** `performance.now()` of Kafka's last answer and of the last batch that was noted, or of when there was nothing to note. */
  private heard = -Infinity;
  private progressed = performance.now();

  constructor(options: SubscribeOptions, handler: Handler) {
    this.options = options;
    this.handler = handler;
    // Members of one group that read different topics would get each other's partitions.
    this.group = `${options.group}.${options.topic}`;
    this.watchdogMs = (options.watchdogSeconds ?? 30) * 1000;
    const registers = [options.metrics];
    this.rebuilds = new Counter({
      name: 'notifier_consumer_rebuilds_total',
      help: 'Kafka consumers built anew because they had crashed, or stood still while messages waited',
      labelNames: ['reason'],
      registers,
    });
    this.lag = new Gauge({ name: 'notifier_consumer_lag', help: 'Messages on the partitions of this replica not yet noted', registers });
    // Nobody is to read from it that nothing waits before it is known.
    this.lag.set(NaN);
    const help = 'Messages that the topic had removed before they were noted, counted by each replica that finds them: alert on any';
    this.lost = new Counter({ name: 'notifier_consumer_lost_total', help, registers });
    this.rewinds = new Counter({
      name: 'notifier_consumer_rewinds_total',
      help: 'Partitions read again, as the database had gone back behind what Kafka knows as noted: it was restored, or a standby took over',
      registers,
    });
    this.running = this.run();
  }

  state(): string {
    // An idle fetch answers at least twice a second.
    return this.assigned && performance.now() - this.heard < 15_000 ? 'ok' : 'away';
  }

  async close(): Promise<void> {
    this.closed.abort();
    this.giveUp?.('closed');
    // What is left behind is read again by others, once the group has forgotten this member.
    await Promise.race([this.running, pause(5_000, undefined, { ref: false })]);
  }

  /** One consumer after the other, until this is closed. */
  private async run(): Promise<void> {
    const watchdog = setInterval(() => void this.watch(), Math.min(10_000, this.watchdogMs / 3));
    watchdog.unref();
    while (!this.isClosed()) {
      const reason = await this.consume();
      if (this.isClosed()) break;
      this.rebuilds.inc({ reason: reason.split(':')[0] ?? '' });
      this.options.logger.warn({ reason }, 'the consumer is built anew');
      await this.pause(1_000);
    }
    clearInterval(watchdog);
  }

  /** Runs a consumer to its end and answers why it ended. */
  private async consume(): Promise<string> {
    const { kafka, topic } = this.options;
    const consumer = kafka.consumer({
      groupId: this.group,
      // The partitions of a replica that was killed wait so long for another one.
      sessionTimeout: 10_000,
      heartbeatInterval: 2_000,
      rebalanceTimeout: 20_000,
      maxWaitTimeInMs: 500,
      metadataMaxAge: metadataMaxAgeMs,
      allowAutoTopicCreation: false,
      // A crashed consumer is not restarted by kafkajs but built anew here.
      retry: { retries: 5, restartOnFailure: () => Promise.resolve(false) },
    });
    this.assigned = undefined;
    this.progressed = performance.now();
    // One that was left behind is still heard of, which says nothing about its successor.
    const heard = () => {
      if (this.consumer === consumer) this.heard = performance.now();
    };
    const noted = gathered((parts) => this.handOver(parts));
    const ended = new Promise<string>((resolve) => {
      this.giveUp = resolve;
      consumer.on(consumer.events.CRASH, ({ payload }) => resolve(`crashed: ${payload.error.message}`));
      consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
        if (this.consumer !== consumer) return;
        this.noted.clear();
        this.assigned = new Set(payload.memberAssignment[topic] ?? []);
        this.heard = this.progressed = performance.now();
      });
      consumer.on(consumer.events.FETCH, heard);
      // Nothing is fetched while the handler has messages in hand, which may be for long.
      consumer.on(consumer.events.HEARTBEAT, heard);
      // Of a fetch with nothing but marks of transactions, and what these took back, `batch` hears nothing and kafkajs commits nothing.
      consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload: { partition, batchSize, firstOffset, lastOffset } }) => {
        // None, where all of it lies before what was asked for, as a compressed batch may.
        const first = (firstOffset as string | null) ?? lastOffset;
        if (batchSize === 0) this.passOver(consumer, { partition, first: BigInt(first), next: String(BigInt(lastOffset) + 1n) }, noted);
      });
    });
    this.consumer = consumer;
    try {
      await consumer.connect();
      // Before kafkajs, which forgets the committed offset where its message is no longer there.
      await this.measure().catch(() => this.lag.set(NaN));
      await consumer.subscribe({ topic, fromBeginning: true });
      const eachBatch = (payload: EachBatchPayload) => this.batch(consumer, payload, noted);
      await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, partitionsConsumedConcurrently: sideBySide, eachBatch });
      return await ended;
    } catch (error) {
      return `failed: ${(error as Error).message}`;
    } finally {
      this.giveUp = undefined;
      this.assigned = undefined;
      this.consumer = undefined;
      // One that hangs is left behind; the group forgets it after its session.
      await Promise.race([consumer.disconnect().catch(() => undefined), new Promise((done) => setTimeout(done, 15_000).unref())]);
    }
  }

  private async batch(consumer: Consumer, payload: EachBatchPayload, noted: (part: Part) => Promise<void>): Promise<void> {
    const { partition, messages } = payload.batch;
    for (let begin = 0; begin < messages.length; begin += chunk) {
      const part = messages.slice(begin, begin + chunk);
      const last = part.at(-1) as KafkaMessage;
      // Behind the last message may stand the mark of a transaction, as a mirror writes them, which would look like one that waits.
      const through = begin + chunk >= messages.length ? payload.batch.lastOffset() : last.offset;
      // Before the first message may stand what a transaction has taken back.
      const first = BigInt((begin === 0 ? payload.batch.firstOffset() : null) ?? (part[0] as KafkaMessage).offset);
      const next = String(BigInt(through) + 1n);
      const wanted = () => this.consumer === consumer && !this.isClosed() && payload.isRunning() && !payload.isStale();
      const commit = (offsets: OffsetsByTopicPartition) => payload.commitOffsetsIfNecessary(offsets);
      const heartbeat = () => payload.heartbeat();
      const seek = (offset: bigint) => consumer.seek({ topic: payload.batch.topic, partition, offset: String(offset) });
      if (!(await this.note({ partition, messages: part, first, next, seek, commit, heartbeat, wanted, alone: false }, noted))) return;
      payload.resolveOffset(last.offset);
      this.progressed = performance.now();
      await payload.heartbeat();
    }
  }

  /** Notes a part until that succeeds; false where this replica has no business with it any more, or reads on elsewhere. */
  private async note(part: Part, noted: (part: Part) => Promise<void>): Promise<boolean> {
    for (let delayMs = 100; part.wanted(); delayMs = Math.min(delayMs * 2, 5_000)) {
      try {
        await noted(part);
        return true;
      } catch (error) {
        if (error instanceof GoneBack) {
          const from = error.to.get(part.partition);
          if (from === undefined) continue;
          part.seek(from);
          return false;
        }
        if (!(error instanceof NotNoted)) throw error;
        part.alone = true;
        await this.pause(delayMs);
      } finally {
        this.progressed = performance.now();
      }
      // A rebalance takes the partition away: thrown from here, kafkajs joins again.
      await part.heartbeat();
    }
    return false;
  }

  /** Hands messages to the handler, and commits behind them. Throws {@link NotNoted} where the handler throws, {@link GoneBack}, and what Kafka answers. */
  private async handOver(parts: Part[]): Promise<void> {
    const { topic } = this.options;
    const events: Event[] = [];
    const unreadable: Unreadable[] = [];
    for (const { partition, messages } of parts) {
      for (const message of messages) {
        const read = decode(message);
        const { key, value, offset } = message;
        if (!('reason' in read)) events.push(read);
        else unreadable.push({ topic, partition, offset, key, value, reason: read.reason });
      }
    }
    const reading = {
      topic,
      parts: parts.map(({ partition, first, next }) => ({ partition, from: this.noted.get(partition) ?? first, next: BigInt(next) })),
    };
    // It may take longer than the group waits for a sign of life. Not so the commit: whoever hangs there is to be found out.
    const beat = setInterval(() => {
      for (const { heartbeat } of parts) void heartbeat().catch(() => undefined);
    }, 2_000);
    this.inHandler += 1;
    try {
      await this.handler(events, unreadable, reading);
    } catch (error) {
      if (error instanceof GoneBack) {
        this.goBack(error);
        throw error;
      }
      const partitions = parts.map(({ partition }) => partition);
      this.options.logger.warn(
        { err: error as Error, partitions, messages: events.length + unreadable.length },
        'events could not be noted',
      );
      throw new NotNoted();
    } finally {
      clearInterval(beat);
      this.inHandler -= 1;
      this.progressed = performance.now();
    }
    for (const { partition, next } of reading.parts) this.noted.set(partition, next);
    await parts[0]?.commit({ topics: [{ topic, partitions: parts.map(({ partition, next }) => ({ partition, offset: next })) }] });
  }

  // What can't be noted is when something comes behind it, or when somebody reads there again.
  private passOver(
    consumer: Consumer,
    { partition, first, next }: Pick<Part, 'partition' | 'first' | 'next'>,
    noted: (part: Part) => Promise<void>,
  ): void {
    const { topic, logger } = this.options;
    const wanted = () => this.consumer === consumer && !this.isClosed();
    const heartbeat = () => Promise.resolve();
    const seek = (offset: bigint) => consumer.seek({ topic, partition, offset: String(offset) });
    const commit = ({ topics }: OffsetsByTopicPartition) =>
      consumer.commitOffsets(topics.flatMap(({ partitions }) => partitions.map((each) => ({ topic, ...each }))));
    this.note({ partition, messages: [], first, next, seek, commit, heartbeat, wanted, alone: false }, noted).catch((error: unknown) =>
      logger.debug({ err: error, partition }, 'marks of transactions were not passed over'),
    );
  }

  // What Kafka's group has behind it and the database lacks, also where nothing comes next.
  private async findLacking(consumer: Consumer, committed: ReadonlyMap<number, bigint>, ends: ReadonlyMap<number, bigint>): Promise<void> {
    const { topic, offsets } = this.options;
    // Before the database is asked: what is noted meanwhile it need not know.
    const known = new Map([...committed].map(([partition, offset]) => [partition, this.noted.get(partition) ?? offset]));
    const stored = await offsets();
    if (this.consumer !== consumer) return;
    const behind = [...known].flatMap(([partition, offset]): [number, bigint][] => {
      if (!this.assigned?.has(partition)) return [];
      const next = stored.get(partition) ?? 0n;
      // Beyond the end it is of another topic, which had this one's name.
      if (offset > 0n && next > (ends.get(partition) ?? next) && !this.noted.has(partition)) return [[partition, 0n]];
      return next < offset ? [[partition, next]] : [];
    });
    if (behind.length === 0) return;
    this.goBack(new GoneBack(new Map(behind)));
    for (const [partition, next] of behind) consumer.seek({ topic, partition, offset: String(next) });
  }

  private goBack({ to }: GoneBack): void {
    for (const [partition, next] of to) {
      this.noted.set(partition, next);
      this.rewinds.inc();
      this.options.logger.warn({ partition, from: Number(next) }, 'the database has gone back: what it lacks is read again');
    }
  }

  // kafkajs is known to stop fetching without a word. Messages that wait for a handler which is itself waiting are not its fault.
  private async watch(): Promise<void> {
    const consumer = this.consumer;
    if (this.isClosed()) return;
    // One that can't be built is there for moments only, and what nobody measures is not what it was.
    if (!consumer) {
      this.lag.set(NaN);
      return;
    }
    try {
      const lag = await this.measure();
      const quietMs = performance.now() - this.progressed;
      if (lag === 0n) this.progressed = Math.max(this.progressed, performance.now() - this.watchdogMs / 3);
      else if (quietMs >= this.watchdogMs && this.consumer === consumer && this.inHandler === 0) {
        this.options.logger.error({ lag: Number(lag), quiet_seconds: Math.round(quietMs / 1000) }, 'the consumer stands still');
        this.giveUp?.('stood still');
      }
    } catch (error) {
      // What can't be measured is not what it was.
      this.lag.set(NaN);
      this.options.logger.debug({ err: error as Error }, 'the lag could not be read');
    }
  }

  /** The messages that wait on the partitions of this replica; tells of those that the topic has removed before they were noted. */
  private async measure(): Promise<bigint> {
    const { kafka, topic, logger } = this.options;
    const admin = kafka.admin();
    try {
      await admin.connect();
      const ends = await admin.fetchTopicOffsets(topic);
      const committed = (await admin.fetchOffsets({ groupId: this.group, topics: [topic] }))[0]?.partitions ?? [];
      const noted = new Map(committed.map(({ partition, offset }) => [partition, BigInt(offset)]));
      let lag = 0n;
      for (const { partition, high, low } of ends) {
        if (this.assigned && !this.assigned.has(partition)) continue;
        const first = BigInt(low);
        const from = noted.get(partition) ?? -1n;
        const rest = BigInt(high) - (from < first ? first : from);
        if (rest > 0n) lag += rest;
        // Of a partition of which nothing was noted it is not known.
        const told = this.told.get(partition) ?? 0n;
        const lost = first - (from < told ? told : from);
        if (from < 0n || lost <= 0n) continue;
        this.told.set(partition, first);
        this.lost.inc(Number(lost));
        logger.error({ partition, lost: Number(lost), noted: Number(from) }, 'the topic has removed messages that were not noted');
      }
      this.lag.set(Number(lag));
      const { consumer } = this;
      if (consumer) {
        await this.findLacking(consumer, noted, new Map(ends.map(({ partition, high }) => [partition, BigInt(high)]))).catch(
          (error: unknown) => logger.debug({ err: error }, 'offsets could not be read'),
        );
      }
      return lag;
    } finally {
      await admin.disconnect().catch(() => undefined);
    }
  }

  private isClosed(): boolean {
    return this.closed.signal.aborted;
  }

  private async pause(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.closed.signal }).catch(() => undefined);
  }
}

/** The handler has thrown, or was not asked. */
class NotNoted extends Error {}

/**
 * Notes parts together that come while others are being noted, or in one turn: of ten tenants on as many partitions, 500 events a second, each
 * partition alone took so many transactions and commits that one event waited 180 ms.
 */
function gathered(note: (parts: Part[]) => Promise<void>): (part: Part) => Promise<void> {
  const waiting: { part: Part; done: PromiseWithResolvers<void> }[] = [];
  let busy = false;
  // What is wanted no more has been taken over by others, or will be.
  const next = () => {
    const taken: typeof waiting = [];
    let count = 0;
    for (let each = waiting[0]; each; each = waiting[0]) {
      const { part, done } = each;
      if (part.wanted()) {
        count += part.messages.length;
        if (taken[0] && (part.alone || taken[0].part.alone || count > mostTogether)) break;
        taken.push(each);
      } else done.reject(new NotNoted());
      waiting.shift();
    }
    return taken;
  };
  const run = async () => {
    for (let taken = next(); taken.length > 0; taken = next()) {
      try {
        await note(taken.map(({ part }) => part));
        for (const { done } of taken) done.resolve();
      } catch (error) {
        for (const { done } of taken) done.reject(error);
      }
    }
    busy = false;
  };
  return (part) => {
    const done = Promise.withResolvers<void>();
    waiting.push({ part, done });
    if (!busy) setImmediate(() => void run());
    busy = true;
    return done.promise;
  };
}

function decode(message: KafkaMessage): Event | { reason: string } {
  if (message.value === null) return { reason: 'the message has no value' };
  let event: Event;
  try {
    event = fromBinary(EventSchema, message.value);
  } catch (error) {
    return { reason: `the value is no ledger.v1.Event: ${(error as Error).message}` };
  }
  if (event.id === '' || event.tenantId === '' || event.sequence < 1n) return { reason: 'the event has no id, tenant or sequence' };
  return event;
}
