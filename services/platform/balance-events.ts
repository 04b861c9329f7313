// Derives the `balance.updated` events of a posting from its `transaction.posted`, so that they need no rows.
import { create } from '@bufbuild/protobuf';
import { BalanceUpdatedSchema, EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { sha256 } from './digest.ts';
import { toId, toUuid, uuidText } from './ids.ts';

/** How many events are derived from an event: one per balance that a posting changed. */
export function balanceEventCount({ data }: Event): number {
  return data.case === 'transactionPosted' ? data.value.balances.length : 0;
}

/** The events derived from an event of the log, in order of first appearance; that at index `n` has part `n + 1`. */
export function balanceEventsOf(event: Event): Event[] {
  if (event.data.case !== 'transactionPosted') return [];
  const { balances, transactionId } = event.data.value;
  const uuid = toUuid('evt', event.id) ?? '';
  return balances.map((balance, index) =>
    create(EventSchema, {
      id: toId('evt', derivedId(uuid, index + 1)),
      tenantId: event.tenantId,
      sequence: event.sequence,
      type: 'balance.updated',
      createdMs: event.createdMs,
      actor: event.actor,
      requestId: event.requestId,
      traceparent: event.traceparent,
      part: index + 1,
      data: { case: 'balanceUpdated', value: create(BalanceUpdatedSchema, { balance, transactionId }) },
    }),
  );
}

/** An event of the log, followed by those derived from it. */
export function withBalanceEvents(event: Event): Event[] {
  return [event, ...balanceEventsOf(event)];
}

/** The id of a derived event, always the same: a UUIDv7 (RFC 9562) with the time of the original and, for its random bits, the SHA-256 of both. */
export function derivedId(uuid: string, part: number): string {
  const bytes = sha256(`${uuid} ${part}`).subarray(0, 16);
  Buffer.from(uuid.replaceAll('-', '').slice(0, 12), 'hex').copy(bytes);
  bytes[6] = 0x70 | ((bytes[6] as number) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] as number) & 0x3f);
  return uuidText(bytes);
}
