// Makes deliveries of events: for each event that an enabled webhook subscribes to, one row with the body that is signed and sent.
import type { Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { bigintArray, textArray, uuidArray } from '../platform/arrays.ts';
import { uuidAt } from '../platform/ids.ts';
import type { Client } from '../platform/postgres.ts';
import { traceparentOf } from '../platform/trace.ts';
import { eventBody } from './envelope.ts';
import { keepEarlierDueTime } from './leases.ts';

/** An event whose ids are valid. */
export interface IdentifiedEvent {
  event: Event;
  /** UUIDs. */
  tenant: string;
  eventId: string;
}

/** What of a tenant's webhook decides which events are delivered. */
export interface EnabledWebhook {
  tenant_id: string;
  events: string[];
  since_ms: bigint;
}

export interface NewDelivery {
  /** UUIDs. */
  tenant: string;
  id: string;
  eventId: string;
  eventType: string;
  body: string;
  traceparent: string | null;
  /** When its webhook was made, milliseconds since the Unix epoch. */
  sinceMs: bigint;
}

const insert = {
  name: 'insert_deliveries',
  // The clock is read row by row, so that the order of times is that of the rows. No time is before its webhook's, even if the clock was set back.
  text: `with fresh as materialized (
      select n.*, clock_timestamp() as at
      from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::int8[])
        as n (tenant_id, id, event_id, event_type, body, traceparent, since_ms)
      where not exists (select from payloads p where p.tenant_id = n.tenant_id and p.event_id = n.event_id)
    ), bodies as (
      insert into payloads (tenant_id, event_id, body, traceparent) select tenant_id, event_id, body, traceparent from fresh
    ), made as (
      insert into deliveries (tenant_id, id, event_id, event_type, test, status, attempts, by_hand, created_at, run_at)
      select tenant_id, id, event_id, event_type, false, 'pending', 1, false, greatest(at, to_timestamp(since_ms / 1000.0)), at from fresh
    ), noted as (
      -- Sorted, so that no two transactions wait for each other.
      insert into due (tenant_id, next_at) select t, now() from unnest($8::uuid[]) as t order by t ${keepEarlierDueTime}
    ) select count(*)::int as made from fresh`,
};

const selectWebhooks = {
  name: 'enabled_webhooks',
  text: `select tenant_id, events, floor(extract(epoch from created_at) * 1000)::int8 as since_ms from webhooks
    where tenant_id = any ($1::uuid[]) and enabled`,
};

/** The enabled webhooks of tenants (UUIDs), by tenant. */
export async function enabledWebhooks(client: Client, tenants: string[]): Promise<Map<string, EnabledWebhook>> {
  const { rows } = await client.query<EnabledWebhook>({ ...selectWebhooks, values: [uuidArray(tenants)] });
  return new Map(rows.map((row) => [row.tenant_id, row]));
}

/** The deliveries of events to webhooks; calls `reject` for an event that no body can be made of. */
export function deliveriesOf(
  events: IdentifiedEvent[],
  webhooks: Map<string, EnabledWebhook>,
  reject: (event: Event, why: Error) => void,
): NewDelivery[] {
  const nowMs = Date.now();
  return events.flatMap(({ event, tenant, eventId }): NewDelivery[] => {
    const webhook = webhooks.get(tenant);
    // Events from before the webhook was created are not delivered.
    if (!webhook?.events.includes(event.type) || event.createdMs < webhook.since_ms) return [];
    const more = { tenant, id: uuidAt(nowMs), eventId, eventType: event.type, sinceMs: webhook.since_ms };
    try {
      return [{ ...more, body: eventBody(event), traceparent: traceparentOf(event.traceparent) }];
    } catch (error) {
      reject(event, error as Error);
      return [];
    }
  });
}

/** Inserts deliveries and wakes their tenants' lines in `due`; answers how many are new. An event that has a delivery is skipped. */
export async function insertDeliveries(client: Client, deliveries: NewDelivery[]): Promise<number> {
  if (deliveries.length === 0) return 0;
  const values = [
    uuidArray(deliveries.map(({ tenant }) => tenant)),
    uuidArray(deliveries.map(({ id }) => id)),
    uuidArray(deliveries.map(({ eventId }) => eventId)),
    textArray(deliveries.map(({ eventType }) => eventType)),
    textArray(deliveries.map(({ body }) => body)),
    textArray(deliveries.map(({ traceparent }) => traceparent)),
    bigintArray(deliveries.map(({ sinceMs }) => sinceMs)),
    uuidArray([...new Set(deliveries.map(({ tenant }) => tenant))]),
  ];
  const { rows } = await client.query<{ made: number }>({ ...insert, values });
  return rows[0]?.made ?? 0;
}
