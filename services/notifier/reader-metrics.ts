// What Kafka's reader tells of itself.
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Logger } from '../platform/telemetry.ts';

/** The figures of one reader, over all its consumers. */
export class ReaderMetrics {
  private readonly logger: Logger;
  private readonly rebuilds: Counter;
  private readonly lag: Gauge;
  private readonly lost: Counter;
  private readonly rewinds: Counter;
  /** By partition, to where what is lost was told. */
  private readonly told = new Map<number, bigint>();

  constructor(registry: Registry, logger: Logger) {
    const registers = [registry];
    this.logger = logger;
    this.rebuilds = new Counter({
      name: 'notifier_consumer_rebuilds_total',
      help: 'Kafka consumers built anew because they had crashed, stood still while messages waited, or are to read again',
      labelNames: ['reason'],
      registers,
    });
    this.lag = new Gauge({ name: 'notifier_consumer_lag', help: 'Messages on the partitions of this replica not yet noted', registers });
    // Nobody is to read from it that nothing waits before it is known.
    this.setLag(undefined);
    const help = 'Messages that the topic had removed before they were noted, counted by each replica that finds them: alert on any';
    this.lost = new Counter({ name: 'notifier_consumer_lost_total', help, registers });
    this.rewinds = new Counter({
      name: 'notifier_consumer_rewinds_total',
      help: 'Partitions read again, as the database had not noted what must have been: it was restored, a standby took over, or the topic was made anew',
      registers,
    });
  }

  /** Undefined: what can't be measured is not what it was. */
  setLag(messages: bigint | undefined): void {
    this.lag.set(messages === undefined ? NaN : Number(messages));
  }

  /** A consumer ended by itself; counted by what stands before the first colon. */
  countRebuild(reason: string): void {
    this.rebuilds.inc({ reason: reason.split(':')[0] ?? '' });
    this.logger.warn({ reason }, 'the consumer is built anew');
  }

  /** A partition is read again, from this offset. */
  countRewind(partition: number, from: bigint): void {
    this.rewinds.inc();
    this.logger.warn(
      { partition, from: Number(from) },
      'the database lacks what was noted, or knows another topic: the topic is read again',
    );
  }

  /** Where the topic begins behind what was noted, that is lost; what is told again counts once. */
  countLost(partition: number, noted: bigint, low: bigint): void {
    let told = this.told.get(partition) ?? 0n;
    // Of another topic, which had this one's name.
    if (told > low) told = 0n;
    const lost = low - (noted < told ? told : noted);
    // Of a partition of which nothing was noted it is not known.
    if (noted <= 0n || lost <= 0n) return;
    this.told.set(partition, low);
    this.lost.inc(Number(lost));
    this.logger.error({ partition, lost: Number(lost), noted: Number(noted) }, 'the topic has removed messages that were not noted');
  }
}
