// Publishes the events of a batch; finds the events that the sink rejects, and the tenants that it defers.
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { balanceEventsOf } from '../../platform/balance-events.ts';
import { toUuid } from '../../platform/ids.ts';
import { splitInHalf } from '../../platform/postgres-errors.ts';
import { EventRejected, EventsDeferred, type DeadLetter, type EventSink } from './event-sink.ts';

/** What became of a batch's events. */
export interface Publication {
  /** Events that the sink took. */
  published: number;
  rejected: DeadLetter[];
  /** Why some tenants' events were not taken. */
  deferral?: EventsDeferred;
}

/**
 * Publishes events in their order. Those of one tenant are published without the rejected ones. Throws EventRejected where events of several tenants
 * were rejected, EventsDeferred where it is not known whose events were not taken, and what else the sink throws.
 */
export async function publishEvents(sink: Pick<EventSink, 'publish' | 'derivesBalances'>, events: Event[]): Promise<Publication> {
  const publication: Publication = { published: 0, rejected: [] };
  const isOneTenant = events.every(({ tenantId }) => tenantId === events[0]?.tenantId);
  const publish = async (part: Event[]): Promise<void> => {
    if (part.length === 0) return;
    try {
      await sink.publish(part);
      publication.published += part.length;
    } catch (error) {
      if (!(error instanceof EventRejected && isOneTenant)) throw error;
      const [event] = part as [Event];
      if (part.length > 1) for (const half of splitInHalf(part)) await publish(half);
      else {
        publication.rejected.push(deadLetterOf(event, error.message));
        // The sink can't derive balance events from a posting that it rejected.
        if (sink.derivesBalances) for (const each of balanceEventsOf(event)) await publish([each]);
      }
    }
  };
  try {
    await publish(events);
  } catch (error) {
    if (!(error instanceof EventsDeferred && error.tenants)) throw error;
    const { tenants } = error;
    publication.published = events.filter(({ tenantId }) => !tenants.has(tenantId)).length;
    publication.deferral = error;
  }
  return publication;
}

function deadLetterOf({ tenantId, sequence, part, id, type }: Event, reason: string): DeadLetter {
  return { tenant: toUuid('tenant', tenantId) ?? '', sequence, part, eventId: toUuid('evt', id) ?? '', type, reason };
}
