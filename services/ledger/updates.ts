// The `balance.updated` events of a posting: derived from its `transaction.posted` whenever they are told, so that they need no rows.
import { create } from '@bufbuild/protobuf';
import { BalanceUpdatedSchema, EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { sha256 } from '../platform/digest.ts';
import { toId, toUuid, uuidText } from '../platform/ids.ts';

/** An event of the log and, behind a posting's, one `balance.updated` for each balance it changed, in order of first appearance. */
export function withUpdates(event: Event): Event[] {
  if (event.data.case !== 'transactionPosted') return [event];
  const { balances, transactionId } = event.data.value;
  const uuid = toUuid('evt', event.id) ?? '';
  const updates = balances.map((balance, place) =>
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
  return [event, ...updates];
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
