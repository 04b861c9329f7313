// Where events go: Kafka or the notifier, behind one {@link EventSink}.
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';

/** Where events go. */
export interface EventSink {
  name: 'kafka' | 'notifier';
  /** Whether the sink derives `balance.updated` and `hold.captured` from their row of the log, so that they are not sent. */
  derivesEvents?: boolean;
  /**
   * Publishes events in this order and returns when they are durable. Throws {@link EventRejected}, {@link EventsDeferred}, or anything else where
   * the sink is unavailable; some events may have arrived then. A second call publishes again under the same ids.
   */
  publish: (events: Event[]) => Promise<void>;
  /**
   * Skips ranges of logs of tenants without a webhook. Returns the tenants (UUIDs) that have one after all: nothing of theirs was skipped. Absent
   * where the sink takes all events.
   */
  skip?: (ranges: UnpublishedRange[]) => Promise<Set<string>>;
  /** Throws where the sink can't be reached. */
  probe: () => Promise<void>;
  close: () => Promise<void>;
}

/** One of the events will never be accepted: it becomes a dead letter. */
export class EventRejected extends Error {}

/** The sink is up but can't take some of these events now. */
export class EventsDeferred extends Error {
  /** Ids of the tenants whose events were not accepted, while all others' were; undefined where that is not known. */
  readonly tenants: ReadonlySet<string> | undefined;

  constructor(reason: string, tenants?: ReadonlySet<string>) {
    super(reason);
    this.tenants = tenants;
  }
}

/** A part of a tenant's log, from its published offset to the end of the log. */
export interface UnpublishedRange {
  /** UUID. */
  tenant: string;
  /** The published offset: the sequence of the last published event. */
  published: bigint;
  /** The last sequence of the range; equal to `published` where it is empty. */
  through: bigint;
  /** When the last event of it was created, milliseconds since the Unix epoch. */
  createdMs: bigint;
}
