// Events in from Kafka. The offset of a message is committed after the handler has noted it durably, so that none is lost; what is read twice
// the handler knows by its own mark.
import { setTimeout as pause } from 'node:timers/promises';
import type { Registry } from 'prom-client';
import { metadataMaxAgeMs } from '../platform/kafka.ts';
import { readAllCompressions } from './codecs.ts';
import { Membership, type Handler, type ReadOptions } from './membership.ts';
import { ReaderMetrics } from './reader-metrics.ts';
import { readTopic } from './topic.ts';

/** What a subscription needs. */
export interface SubscribeOptions extends ReadOptions {
  /** The consumer group, with the topic's name behind it: replicas of one name share the topic's partitions. */
  group: string;
  /** No progress for so long while messages wait: the consumer is built anew. */
  watchdogSeconds?: number;
  metrics: Registry;
}

/** A running subscription. */
export interface Subscription {
  /** `ok`, or what is wrong. */
  state(): string;
  /** Finishes the batch in hand, then leaves the group; after five seconds it no longer waits for a database or a Kafka that is slow. */
  close(): Promise<void>;
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
  private readonly figures: ReaderMetrics;
  private readonly running: Promise<void>;
  private membership: Membership | undefined;
  /** Ends the consumer in use; set while one is. */
  private giveUp: ((reason: string) => void) | undefined;
  private readonly closed = new AbortController();

  constructor(options: SubscribeOptions, handler: Handler) {
    this.options = options;
    this.handler = handler;
    // Members of one group that read different topics would get each other's partitions.
    this.group = `${options.group}.${options.topic}`;
    this.watchdogMs = (options.watchdogSeconds ?? 30) * 1000;
    this.figures = new ReaderMetrics(options.metrics, options.logger);
    this.running = this.run();
  }

  state(): string {
    return this.membership?.isHeard() ? 'ok' : 'away';
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
      this.figures.countRebuild(reason);
      await pause(1_000, undefined, { signal: this.closed.signal }).catch(() => undefined);
    }
    clearInterval(watchdog);
  }

  /** Runs a consumer to its end and answers why it ended. */
  private async consume(): Promise<string> {
    const { handler, group, figures, closed, options } = this;
    const consumer = options.kafka.consumer({
      groupId: group,
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
    const { promise: ended, resolve: giveUp } = Promise.withResolvers<string>();
    const membership = new Membership({ ...options, consumer, group, giveUp, handler, figures, closed: closed.signal });
    this.giveUp = giveUp;
    consumer.on(consumer.events.CRASH, ({ payload }) => giveUp(`crashed: ${payload.error.message}`));
    this.membership = membership;
    try {
      await consumer.connect();
      // Before kafkajs, which forgets the committed offset where its message is no longer there.
      await this.measure(membership).catch(() => figures.setLag(undefined));
      await membership.run();
      return await ended;
    } catch (error) {
      return `failed: ${(error as Error).message}`;
    } finally {
      this.giveUp = undefined;
      this.membership = undefined;
      membership.end();
      // One that hangs is left behind; the group forgets it after its session.
      await Promise.race([consumer.disconnect().catch(() => undefined), new Promise((done) => setTimeout(done, 15_000).unref())]);
    }
  }

  // kafkajs is known to stop fetching without a word. Messages that wait for a handler which is itself waiting are not its fault.
  private async watch(): Promise<void> {
    const { membership, figures } = this;
    if (this.isClosed()) return;
    // One that can't be built is there for moments only.
    if (!membership) {
      figures.setLag(undefined);
      return;
    }
    const { logger } = this.options;
    try {
      const lag = await this.measure(membership);
      const quietMs = membership.quietMs();
      if (lag === 0n) membership.hadNothing(this.watchdogMs / 3);
      else if (quietMs >= this.watchdogMs && this.membership === membership) {
        logger.error({ lag: Number(lag), quiet_seconds: Math.round(quietMs / 1000) }, 'the consumer stands still');
        this.giveUp?.('stood still');
      }
    } catch (error) {
      figures.setLag(undefined);
      logger.debug({ err: error as Error }, 'the lag could not be read');
    }
  }

  /** The messages that wait on the partitions of this replica; tells of those that the topic has removed before they were noted. */
  private async measure(membership: Membership): Promise<bigint> {
    const { kafka, topic, logger } = this.options;
    const read = await readTopic(kafka, this.group, topic);
    let lag = 0n;
    for (const [partition, { low, high }] of read.ends) {
      if (!membership.has(partition)) continue;
      const noted = read.committed.get(partition) ?? -1n;
      const rest = high - (noted < low ? low : noted);
      if (rest > 0n) lag += rest;
      this.figures.countLost(partition, noted, low);
    }
    this.figures.setLag(lag);
    const untold = (error: unknown) => logger.debug({ err: error }, 'offsets could not be compared');
    await membership.compare(read).catch(untold);
    return lag;
  }

  private isClosed(): boolean {
    return this.closed.signal.aborted;
  }
}
