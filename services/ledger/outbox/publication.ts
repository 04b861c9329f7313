// Publishes the events of a batch; finds the events that the sink rejects, and the tenants that it defers.
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { derivedEventsOf } from '../../platform/derived-events.ts';
import { splitInHalf } from '../../platform/postgres-errors.ts';
import { EventRejected, EventsDeferred, type EventSink } from './event-sink.ts';

/** What became of a batch's events. */
export interface Publication {
  /** Events that the sink took. */
  published: number;
  rejected: RejectedEvent[];
  /** Why some tenants' events were not taken. */
  deferral?: EventsDeferred;
}

/** An event that becomes a dead letter. */
export interface RejectedEvent {
  event: Event;
  reason: string;
}

/**
 * Publishes events in their order. Those of one tenant are published without the rejected ones. Throws EventRejected where events of several tenants
 * were rejected, EventsDeferred where it is not known whose events were not taken, and what else the sink throws.
 */
export async function publishEvents({ publish, derivesEvents }: EventSink, events: Event[]): Promise<Publication> {
  const rejected: RejectedEvent[] = [];
  const isOneTenant = events.every(({ tenantId }) => tenantId === events[0]?.tenantId);
  /** Returns how many events the sink took. */
  const publishPart = async (part: Event[]): Promise<number> => {
    const [event] = part;
    if (!event) return 0;
    try {
      await publish(part);
      return part.length;
    } catch (error) {
      if (!(error instanceof EventRejected && isOneTenant)) throw error;
      if (part.length === 1) rejected.push({ event, reason: error.message });
      // The sink can't derive events from one that it rejected.
      const rest = part.length > 1 ? splitInHalf(part) : derivesEvents ? derivedEventsOf(event).map((each) => [each]) : [];
      let published = 0;
      for (const smaller of rest) published += await publishPart(smaller);
      return published;
    }
  };
  try {
    return { published: await publishPart(events), rejected };
  } catch (error) {
    if (!(error instanceof EventsDeferred && error.tenants)) throw error;
    const { tenants } = error;
    return { published: events.filter(({ tenantId }) => !tenants.has(tenantId)).length, rejected: [], deferral: error };
  }
}
