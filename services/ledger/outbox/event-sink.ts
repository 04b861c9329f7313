// Where events go: Kafka or the notifier, behind one {@link Exit}.
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { errorMessage } from '../../platform/lifetime.ts';

/**
 * Hands events to the other side in this order and returns when they are durable there. Throws {@link EventRejected}, {@link EventsDeferred}, or
 * anything else where the other side is away; some may have arrived then.
 */
export type Publish = (events: Event[]) => Promise<void>;

/** Where events go. */
export interface EventSink {
  name: 'kafka' | 'notifier';
  /** Whether a posting that is published stands for its `balance.updated` events, too, so that these are not. */
  derives?: boolean;
  publish: Publish;
  /**
   * Hands over stretches of logs without their events, where nobody listens; answers the tenants (UUIDs) whose events are wanted, of whom
   * nothing was taken. Absent where that can't be asked.
   */
  pass?: (stretches: UnpublishedRange[]) => Promise<Set<string>>;
  /** Throws where the other side can't be reached. */
  probe: () => Promise<void>;
  close: () => Promise<void>;
}

/** One of the events will never be taken, whatever is done with the others. */
export class EventRejected extends Error {}

/** The other side is there, but fails over one of these events; it may take them later, and other tenants' now. */
export class EventsDeferred extends Error {
  /** Ids of the tenants whose events were not taken, while all others' were; undefined where that is not known. */
  readonly tenants: ReadonlySet<string> | undefined;

  constructor(reason: string, tenants?: ReadonlySet<string>) {
    super(reason);
    this.tenants = tenants;
  }
}

/** The other side is away, or said what is not understood: its `cause`. */
export class SinkUnavailable extends Error {}

/** An exit of which whatever else fails comes as {@link SinkUnavailable}, so that it is not taken for a failure of the ledger's own database. */
export function toldApart(exit: EventSink): EventSink {
  const away = (error: unknown): never => {
    if (error instanceof EventRejected || error instanceof EventsDeferred) throw error;
    throw new SinkUnavailable(errorMessage(error), { cause: error });
  };
  const { pass } = exit;
  return {
    ...exit,
    publish: (events) => exit.publish(events).catch(away),
    ...(pass && { pass: (stretches: UnpublishedRange[]) => pass(stretches).catch(away) }),
    probe: () => exit.probe().catch(away),
  };
}

/** An event that was refused, for the dead letters. */
export interface DeadLetter {
  tenant: string;
  sequence: bigint;
  part: number;
  /** UUID. */
  eventId: string;
  type: string;
  reason: string;
}

/** A part of a tenant's log: what lies beyond its mark. */
export interface SequenceRange {
  /** UUID. */
  tenant: string;
  mark: bigint;
  /** The last place in it, the mark itself where nothing lies beyond. */
  through: bigint;
}

/** A stretch to the end of a log. */
export interface UnpublishedRange extends SequenceRange {
  /** When the last event in it was made, milliseconds since the Unix epoch. */
  createdMs: bigint;
}
