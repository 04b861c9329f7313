// Where events go: Kafka or the notifier, behind one {@link Exit}; and how a round's events are handed over where some are refused.
import type { Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { toUuid } from '../platform/ids.ts';
import { updatesOf, withUpdates } from '../platform/updates.ts';
import type { ClaimedRow } from './claims.ts';
import { eventOf } from './events.ts';
import type { DeadLetter } from './letters.ts';
import { genesis } from './log.ts';

/**
 * Hands events to the other side in this order and returns when they are durable there. Throws {@link EventRefused}, {@link NotTaken}, or
 * anything else where the other side is away; some may have arrived then.
 */
export type Publish = (events: Event[]) => Promise<void>;

/** Where events go. */
export interface Exit {
  name: 'kafka' | 'notifier';
  /** Whether a posting that is published stands for its `balance.updated` events, too, so that these are not. */
  derives?: boolean;
  publish: Publish;
  /**
   * Hands over stretches of logs without their events, where nobody listens; answers the tenants (UUIDs) whose events are wanted, of whom
   * nothing was taken. Absent where that can't be asked.
   */
  pass?: (stretches: Rest[]) => Promise<Set<string>>;
  /** Throws where the other side can't be reached. */
  probe: () => Promise<void>;
  close: () => Promise<void>;
}

/** One of the events will never be taken, whatever is done with the others. */
export class EventRefused extends Error {}

/** The other side is there, but fails over one of these events; it may take them later, and other tenants' now. */
export class NotTaken extends Error {}

/** A part of a tenant's log: what lies beyond its mark. */
export interface Stretch {
  /** UUID. */
  tenant: string;
  mark: bigint;
  /** The last place in it, the mark itself where nothing lies beyond. */
  through: bigint;
}

/** A stretch to the end of a log. */
export interface Rest extends Stretch {
  /** When the last event in it was made, milliseconds since the Unix epoch. */
  createdMs: bigint;
}

/** A tenant's mark in hand, and what was read beyond it. */
export interface Claimed extends Stretch {
  /** Events of the log; `events` may have those that are derived, too. */
  read: number;
  /** Their payload. */
  bytes: number;
  events: Event[];
  /** Why the row behind `through` can't be read; absent where it can, or was not asked for. */
  unreadable?: unknown;
}

/** What became of a round's claims. */
export interface Delivery {
  /** Of claims that are not postponed. */
  refused: DeadLetter[];
  /** Not taken now, and why. */
  postponed: Map<Claimed, NotTaken>;
}

/** Publishes the claims' events; one tenant's trouble is told apart from the others by halving. Throws where nobody takes anything. */
export async function deliver(exit: Exit, claims: Claimed[], delivery: Delivery): Promise<void> {
  if (claims.length === 0) return;
  const events = claims.flatMap((each) => each.events);
  try {
    await exit.publish(events);
  } catch (error) {
    if (!(error instanceof EventRefused || error instanceof NotTaken)) throw error;
    const [only, ...others] = claims as [Claimed, ...Claimed[]];
    if (others.length > 0) {
      const half = Math.ceil(claims.length / 2);
      await deliver(exit, claims.slice(0, half), delivery);
      await deliver(exit, claims.slice(half), delivery);
      return;
    }
    try {
      if (error instanceof NotTaken) throw error;
      // Of a tenant that is postponed everything comes again, and what is refused is refused again.
      delivery.refused.push(...(await sift(exit, only.events, error.message)));
    } catch (again) {
      if (!(again instanceof NotTaken)) throw again;
      delivery.postponed.set(only, again);
    }
  }
}

/** Events among which one is refused: in their order, each alone if need be. Answers those that are. */
async function sift(exit: Exit, events: Event[], reason: string): Promise<DeadLetter[]> {
  const [first] = events as [Event];
  const refused = events.length === 1 ? [letterOf(first, reason)] : [];
  const half = Math.ceil(events.length / 2);
  // What a posting that is refused would have stood for comes without it.
  const parts = events.length > 1 ? [events.slice(0, half), events.slice(half)] : exit.derives ? [updatesOf(first)] : [];
  for (const part of parts) {
    if (part.length === 0) continue;
    try {
      await exit.publish(part);
    } catch (error) {
      if (!(error instanceof EventRefused)) throw error;
      refused.push(...(await sift(exit, part, error.message)));
    }
  }
  return refused;
}

/** What was claimed, with every event that must be published, by tenant. `derives`: as the exit does. */
export function claimsOf(rows: ClaimedRow[], derives: boolean): Claimed[] {
  return [...Map.groupBy(rows, (row) => row.tenant_id)].map(([tenant, [...own]]) => {
    const mark = own[0]?.mark ?? 0n;
    const stored = own.filter((row) => row.sequence !== null);
    const beyond = stored.filter((row) => row.sequence > mark);
    // The row of the mark is read with them for its hash.
    const before = stored.length > beyond.length ? stored[0] : undefined;
    const claimed: Claimed = { tenant, mark, through: mark, read: 0, bytes: 0, events: [] };
    for (const [place, row] of beyond.entries()) {
      try {
        const event = eventOf(tenant, row, beyond[place - 1]?.hash ?? before?.hash ?? genesis);
        claimed.events.push(...(derives ? [event] : withUpdates(event)));
      } catch (error) {
        // Thrown, it would keep back the events of all tenants, and not only what lies behind it.
        claimed.unreadable = error;
        break;
      }
      claimed.through = row.sequence;
      claimed.read++;
      claimed.bytes += row.payload.length;
    }
    return claimed;
  });
}

function letterOf(event: Event, reason: string): DeadLetter {
  const tenant = toUuid('tenant', event.tenantId) ?? '';
  return { tenant, sequence: event.sequence, part: event.part, eventId: toUuid('evt', event.id) ?? '', type: event.type, reason };
}
