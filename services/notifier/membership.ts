// One consumer's time in the group: what it reads, and to where that was noted. Each has this of its own: one that was left behind, and comes back,
// must change nothing of its successor's.
import { setTimeout as pause } from 'node:timers/promises';
import { fromBinary } from '@bufbuild/protobuf';
import type { Consumer, EachBatchPayload, Kafka, KafkaMessage, OffsetsByTopicPartition } from 'kafkajs';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Logger } from '../platform/telemetry.ts';
import { gathered, NotNoted, type Part } from './gathering.ts';
import { Misplaced, type Offsets, type Reading } from './offsets.ts';
import type { ReaderMetrics } from './reader-metrics.ts';
import { readTopic, type Topic } from './topic.ts';

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
 * throws {@link Misplaced}, what it lacks is read again.
 */
export type Handler = (events: Event[], unreadable: Unreadable[], reading: Reading) => Promise<void>;

/** Messages of one partition handed to the handler at a time. */
const chunk = 200;

/** Of the requests of Kafka's protocol, the one for messages. */
const fetchKey = 1;

/** Partitions whose messages are in hand at a time. */
const sideBySide = 100;

/** What is read, and to where it was. */
export interface ReadOptions {
  kafka: Kafka;
  topic: string;
  offsets: Offsets;
  logger: Logger;
}

/** What a membership needs. */
export interface MembershipOptions extends ReadOptions {
  consumer: Consumer;
  group: string;
  /** Another consumer is to go on. */
  giveUp: (reason: string) => void;
  handler: Handler;
  figures: ReaderMetrics;
  /** Whoever reads the topic stops. */
  closed: AbortSignal;
}

/** A consumer of the group, from when it is built to when it is given up. */
export class Membership {
  private readonly options: MembershipOptions;
  /** Partitions that are this replica's; undefined before it has joined the group. */
  private assigned: Set<number> | undefined;
  /** By partition, to where it was noted before and since it is this replica's: the topic may have no message there. */
  private readonly noted = new Map<number, bigint>();
  private readonly together = gathered((parts) => this.handOver(parts));
  private isEnded = false;
  /** How often it has joined the group: anew with each member that comes or goes. */
  private joins = 0;
  private inHandler = 0;
  /** `performance.now()` of Kafka's last answer and of the last batch that was noted, or of when there was nothing to note. */
  private heard = -Infinity;
  private progressed = performance.now();

  constructor(options: MembershipOptions) {
    this.options = options;
    const { consumer, topic } = options;
    const heard = () => (this.heard = performance.now());
    /** It has asked for messages, and of the answer nothing was told yet; and its fetches are answered. Since it joined, as it may in the middle of one. */
    let hasAsked = false;
    let reads = false;
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      this.noted.clear();
      this.joins += 1;
      hasAsked = reads = false;
      this.assigned = new Set(payload.memberAssignment[topic] ?? []);
      this.progressed = performance.now();
    });
    // Who may not read the topic can be in the group all the same; and of a fetch that failed kafkajs says nothing else where it asks for no place, as one
    // of its partitions has no leader, say.
    consumer.on(consumer.events.REQUEST, ({ payload: { apiKey } }) => void (hasAsked ||= apiKey === fetchKey));
    consumer.on(consumer.events.FETCH, () => {
      if (hasAsked || this.assigned?.size === 0) {
        heard();
        reads = true;
      }
      hasAsked = false;
    });
    // Nothing is fetched while the handler has messages in hand, which may be for long.
    consumer.on(consumer.events.HEARTBEAT, () => {
      if (reads) heard();
    });
    // Of a fetch with nothing but marks of transactions, and what these took back, `batch` hears nothing and kafkajs commits nothing.
    consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload: { partition, batchSize, firstOffset, lastOffset } }) => {
      if (batchSize > 0) return;
      this.passOver({ partition, first: BigInt(firstOffset), next: String(BigInt(lastOffset) + 1n) });
    });
  }

  /** Reads from the group's offsets on, until it is ended. */
  async run(): Promise<void> {
    const { consumer, topic } = this.options;
    await consumer.subscribe({ topic, fromBeginning: true });
    const eachBatch = (payload: EachBatchPayload) => this.batch(payload);
    await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, partitionsConsumedConcurrently: sideBySide, eachBatch });
  }

  /** Nothing is noted of it from now on but what the handler has. */
  end(): void {
    this.isEnded = true;
  }

  /** Whether it reads, and Kafka was heard of: an idle fetch answers at least twice a second. */
  isHeard(): boolean {
    return performance.now() - this.heard < 15_000;
  }

  /** Whether a partition is this replica's; before it is known, any. */
  has(partition: number): boolean {
    return this.assigned?.has(partition) ?? true;
  }

  /** Milliseconds without progress; 0 while the handler has messages in hand, which is not Kafka's fault. */
  quietMs(): number {
    return this.inHandler > 0 ? 0 : performance.now() - this.progressed;
  }

  /** There was nothing to note `ms` ago. */
  hadNothing(ms: number): void {
    this.progressed = Math.max(this.progressed, performance.now() - ms);
  }

  /**
   * Compares what the database has noted with what it must have: what the group has behind it, and `before`. Where it lacks something, also where nothing
   * comes next, or knows a longer topic, which had this one's name, it is corrected and the topic read again: the group is set back, and the consumer given
   * up, as what it has in hand, or is on its way to it, is not next. `read`: the topic, where it was just read. Throws what Kafka or the database answers.
   */
  async compare(read?: Topic, before: ReadonlyMap<number, bigint> = new Map()): Promise<void> {
    const { kafka, group, topic } = this.options;
    const { ends, committed } = read ?? (await readTopic(kafka, group, topic));
    // Before the database is asked: what is noted meanwhile it need not know.
    const known = new Map(committed);
    for (const [partition, noted] of [...this.noted, ...before]) known.set(partition, later(noted, known.get(partition)));
    const stored = await this.options.offsets.read();
    const misplaced = [...ends].flatMap(([partition, { high }]): [number, bigint][] => {
      const next = stored.get(partition) ?? 0n;
      return this.has(partition) && (next < (known.get(partition) ?? 0n) || next > high) ? [[partition, next]] : [];
    });
    if (misplaced.length > 0) await this.correct(new Map(misplaced), known);
  }

  private async correct(stored: ReadonlyMap<number, bigint>, known: ReadonlyMap<number, bigint>): Promise<void> {
    const { kafka, group, topic, consumer, figures, offsets, giveUp } = this.options;
    // Anew: of an end that was read before the database was asked, it may be ahead.
    const { ends } = await readTopic(kafka, group, topic);
    const back = new Map<number, bigint>();
    for (const [partition, next] of stored) {
      const end = ends.get(partition);
      if (!end || !this.isWanted()) continue;
      const isOther = next > end.high;
      const place = isOther ? end.low : later(next, end.low);
      if (place !== next) await offsets.correct(partition, next, place);
      if (!isOther) figures.countLost(partition, next, end.low);
      if (place < (known.get(partition) ?? 0n)) back.set(partition, place);
    }
    // Before it is a member it can't set the group back, and reads what it then finds.
    if (back.size === 0 || !this.assigned || !this.isWanted()) return;
    await consumer.commitOffsets([...back].map(([partition, place]) => ({ topic, partition, offset: String(place) })));
    if (!this.isWanted()) return;
    for (const [partition, place] of back) figures.countRewind(partition, place);
    this.end();
    giveUp('read again');
  }

  private async batch(payload: EachBatchPayload): Promise<void> {
    const { partition, messages } = payload.batch;
    const isOurs = this.untilJoined(partition);
    const wanted = () => isOurs() && payload.isRunning();
    for (let begin = 0; begin < messages.length; begin += chunk) {
      const part = messages.slice(begin, begin + chunk);
      const last = part.at(-1) as KafkaMessage;
      // Behind the last message may stand the mark of a transaction, as a mirror writes them, which would look like one that waits.
      const through = begin + chunk >= messages.length ? payload.batch.lastOffset() : last.offset;
      const first = BigInt(begin === 0 ? (payload.batch.firstOffset() as string) : (part[0] as KafkaMessage).offset);
      const next = String(BigInt(through) + 1n);
      this.begin(partition, first);
      const commit = (offsets: OffsetsByTopicPartition) => payload.commitOffsetsIfNecessary(offsets);
      const heartbeat = () => payload.heartbeat();
      if (!(await this.note({ partition, messages: part, first, next, commit, heartbeat, wanted, alone: false }))) return;
      payload.resolveOffset(last.offset);
      this.progressed = performance.now();
      await payload.heartbeat();
    }
  }

  // Read from where the group was. What comes behind marks may be noted before them.
  private begin(partition: number, first: bigint): void {
    if (!this.noted.has(partition)) this.noted.set(partition, first);
  }

  /**
   * Whether what was read is still to be noted. What waits over a new assignment is read again: to where its partition was noted is forgotten by then,
   * so that it would be taken for what comes next, be the database restored meanwhile to before what came behind it.
   */
  private untilJoined(partition: number): () => boolean {
    const { joins } = this;
    return () => this.isWanted() && this.joins === joins && this.has(partition);
  }

  // What can't be noted is when something comes behind it, or when somebody reads there again.
  private passOver(marks: Pick<Part, 'partition' | 'first' | 'next'>): void {
    const { consumer, logger } = this.options;
    const commit = ({ topics }: OffsetsByTopicPartition) =>
      consumer.commitOffsets(topics.flatMap(({ topic, partitions }) => partitions.map((each) => ({ topic, ...each }))));
    const heartbeat = () => Promise.resolve();
    this.begin(marks.partition, marks.first);
    const wanted = this.untilJoined(marks.partition);
    this.note({ ...marks, messages: [], commit, heartbeat, wanted, alone: false }).catch((error: unknown) =>
      logger.debug({ err: error, partition: marks.partition }, 'marks of transactions were not passed over'),
    );
  }

  /** Notes a part until that succeeds; false where this replica has no business with it any more. */
  private async note(part: Part): Promise<boolean> {
    for (let delayMs = 100; part.wanted(); delayMs = Math.min(delayMs * 2, 5_000)) {
      try {
        await this.together(part);
        return true;
      } catch (error) {
        if (!(error instanceof NotNoted)) throw error;
        part.alone = true;
        await pause(delayMs, undefined, { signal: this.options.closed }).catch(() => undefined);
      } finally {
        this.progressed = performance.now();
      }
      // A rebalance takes the partition away: thrown from here, kafkajs joins again.
      await part.heartbeat();
    }
    return false;
  }

  /** Hands messages to the handler, and commits behind them. Throws {@link NotNoted} where the handler throws, and what Kafka answers to the commit. */
  private async handOver(parts: Part[]): Promise<void> {
    const { topic, handler, logger } = this.options;
    const { joins } = this;
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
    // It may take longer than the group waits for a sign of life. Not so the commit: whoever hangs there is to be found out. Nor does what was
    // left behind keep its partitions from others.
    const beat = setInterval(() => {
      if (!this.isWanted()) return;
      for (const { heartbeat } of parts) void heartbeat().catch(() => undefined);
    }, 2_000);
    this.inHandler += 1;
    try {
      // It comes again where a commit has failed; or the topic was made anew, and what the database knows of the old one is corrected first.
      if (parts.some(({ partition, first }) => first < (this.noted.get(partition) ?? first))) await this.compare();
      if (!this.isWanted()) throw new NotNoted();
      await handler(events, unreadable, reading);
    } catch (error) {
      if (error instanceof NotNoted) throw error;
      const partitions = parts.map(({ partition }) => partition);
      logger.warn({ err: error as Error, partitions, messages: events.length + unreadable.length }, 'events could not be noted');
      if (error instanceof Misplaced && this.isWanted()) {
        const before = new Map(reading.parts.map(({ partition, from }) => [partition, from]));
        await this.compare(undefined, before).catch((reason: unknown) => logger.warn({ err: reason }, 'the topic could not be read again'));
      }
      throw new NotNoted();
    } finally {
      clearInterval(beat);
      this.inHandler -= 1;
      this.progressed = performance.now();
    }
    // It is read again from where the group is.
    if (this.joins !== joins) return;
    const offsets = reading.parts.map(({ partition, next }) => {
      // Marks that had to be tried again may be behind what came after them.
      const place = later(next, this.noted.get(partition));
      this.noted.set(partition, place);
      return { partition, offset: String(place) };
    });
    await parts[0]?.commit({ topics: [{ topic, partitions: offsets }] });
  }

  private isWanted(): boolean {
    return !this.isEnded && !this.options.closed.aborted;
  }
}

function later(offset: bigint, another: bigint | undefined): bigint {
  return another !== undefined && another > offset ? another : offset;
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
