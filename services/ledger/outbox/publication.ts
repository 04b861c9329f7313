// How a round's events are handed over where some of them are refused.
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toUuid } from '../../platform/ids.ts';
import { splitInHalf } from '../../platform/postgres-errors.ts';
import { balanceEventsOf } from '../../platform/balance-events.ts';
import type { Claimed } from './relay-claims.ts';
import { EventRejected, EventsDeferred, type DeadLetter, type EventSink } from './event-sink.ts';

/** What became of a round's claims. */
export interface Publication {
  /** Of claims that are not postponed. */
  refused: DeadLetter[];
  /** Not taken now, and why. */
  postponed: Map<Claimed, EventsDeferred>;
}

/** Publishes the claims' events; one tenant's trouble is told apart from the others by halving. Throws where nobody takes anything. */
export async function publishClaims(
  exit: EventSink,
  claims: Claimed[],
  publication: Publication = { refused: [], postponed: new Map() },
): Promise<Publication> {
  if (claims.length === 0) return publication;
  const events = claims.flatMap((each) => each.events);
  try {
    await exit.publish(events);
  } catch (error) {
    if (!(error instanceof EventRejected || error instanceof EventsDeferred)) throw error;
    if (error instanceof EventsDeferred && error.tenants) {
      const { tenants } = error;
      for (const each of claims) if (each.events.some(({ tenantId }) => tenants.has(tenantId))) publication.postponed.set(each, error);
      return publication;
    }
    const [only, ...others] = claims as [Claimed, ...Claimed[]];
    if (others.length > 0) {
      for (const half of splitInHalf(claims)) await publishClaims(exit, half, publication);
      return publication;
    }
    try {
      if (error instanceof EventsDeferred) throw error;
      // Of a tenant that is postponed everything comes again, and what is refused is refused again.
      publication.refused.push(...(await sift(exit, only.events, error.message)));
    } catch (again) {
      if (!(again instanceof EventsDeferred)) throw again;
      publication.postponed.set(only, again);
    }
  }
  return publication;
}

/** Events among which one is refused: in their order, each alone if need be. Answers those that are. */
async function sift(exit: EventSink, events: Event[], reason: string): Promise<DeadLetter[]> {
  const [first] = events as [Event];
  const refused = events.length === 1 ? [letterOf(first, reason)] : [];
  // What a posting that is refused would have stood for comes without it.
  const parts = events.length > 1 ? splitInHalf(events) : exit.derives ? [balanceEventsOf(first)] : [];
  for (const part of parts) {
    if (part.length === 0) continue;
    try {
      await exit.publish(part);
    } catch (error) {
      if (!(error instanceof EventRejected)) throw error;
      refused.push(...(await sift(exit, part, error.message)));
    }
  }
  return refused;
}

function letterOf(event: Event, reason: string): DeadLetter {
  const tenant = toUuid('tenant', event.tenantId) ?? '';
  return { tenant, sequence: event.sequence, part: event.part, eventId: toUuid('evt', event.id) ?? '', type: event.type, reason };
}
