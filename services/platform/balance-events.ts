// The `balance.updated` events of a posting: derived from its `transaction.posted` whenever they are told, so that they need no rows.
import { create } from '@bufbuild/protobuf';
import { BalanceUpdatedSchema, EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { sha256 } from './digest.ts';
import { toId, toUuid, uuidText } from './ids.ts';

/** How many events are derived from this one: one for each balance that a posting changed. */
export function balanceEventCount({ data }: Event): number {
  return data.case === 'transactionPosted' ? data.value.balances.length : 0;
}

/** Those of an event of the log, in order of first appearance; the one in place `n` has part `n + 1`. */
export function balanceEventsOf(event: Event): Event[] {
  if (event.data.case !== 'transactionPosted') return [];
  const { balances, transactionId } = event.data.value;
  const uuid = toUuid('evt', event.id) ?? '';
  return balances.map((balance, place) =>
    create(EventSchema, {
      id: toId('evt', derivedId(uuid, place + 1)),
      tenantId: event.tenantId,
      sequence: event.sequence,
      type: 'balance.updated',
      createdMs: event.createdMs,
      actor: event.actor,
      requestId: event.requestId,
      traceparent: event.traceparent,
      part: place + 1,
      data: { case: 'balanceUpdated', value: create(BalanceUpdatedSchema, { balance, transactionId }) },
    }),
  );
}

/** An event of the log and those that are derived from it. */
export function withBalanceEvents(event: Event): Event[] {
  return [event, ...balanceEventsOf(event)];
}

/**
 * The id of an event that is derived from another: the same whoever derives it and however often. A UUID of version 7 (RFC 9562): the
 * time of the other one, and what is random elsewhere is from the SHA-256 of both.
 */
export function derivedId(uuid: string, part: number): string {
  const bytes = sha256(`${uuid} ${part}`).subarray(0, 16);
  Buffer.from(uuid.replaceAll('-', '').slice(0, 12), 'hex').copy(bytes);
  bytes[6] = 0x70 | ((bytes[6] as number) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] as number) & 0x3f);
  return uuidText(bytes);
}
