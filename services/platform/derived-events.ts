// Derives `balance.updated` and `hold.captured` from the events of the log that they follow, so that they need no rows.
import { create } from '@bufbuild/protobuf';
import {
  BalanceUpdatedSchema,
  EventSchema,
  HoldCapturedSchema,
  type ChangedBalance,
  type Event,
} from '../../proto/gen/ledger/v1/events_pb.js';
import { sha256 } from './digest.ts';
import { toId, toUuid, uuidText } from './ids.ts';

/** How many events are derived from an event: one per balance that it changed, and one for a capture. */
export function derivedEventCount({ data }: Event): number {
  switch (data.case) {
    case 'transactionPosted':
      return data.value.balances.length + (data.value.hold ? 1 : 0);
    case 'holdCreated':
    case 'holdEnded':
      return data.value.balances.length;
    default:
      return 0;
  }
}

/** The events derived from an event of the log, balances in their order in it; that at index `n` has part `n + 1`. */
export function derivedEventsOf(event: Event): Event[] {
  const uuid = toUuid('evt', event.id) ?? '';
  return derivedDataOf(event).map((data, index) =>
    create(EventSchema, {
      id: toId('evt', derivedId(uuid, index + 1)),
      tenantId: event.tenantId,
      sequence: event.sequence,
      type: data.case === 'holdCaptured' ? 'hold.captured' : 'balance.updated',
      createdMs: event.createdMs,
      actor: event.actor,
      requestId: event.requestId,
      traceparent: event.traceparent,
      part: index + 1,
      data,
    }),
  );
}

type DerivedData = Extract<Event['data'], { case: 'balanceUpdated' | 'holdCaptured' }>;

function derivedDataOf({ data }: Event): DerivedData[] {
  if (data.case === 'transactionPosted') {
    const { balances, transactionId, hold } = data.value;
    const updates = balancesUpdated(balances, transactionId, hold?.holdId);
    if (hold) updates.push({ case: 'holdCaptured', value: create(HoldCapturedSchema, { hold, transactionId }) });
    return updates;
  }
  if (data.case === 'holdCreated' || data.case === 'holdEnded') return balancesUpdated(data.value.balances, '', data.value.hold?.holdId);
  return [];
}

function balancesUpdated(balances: ChangedBalance[], transactionId: string, holdId: string | undefined): DerivedData[] {
  const of = { transactionId, ...(holdId !== undefined && { holdId }) };
  return balances.map((balance) => ({ case: 'balanceUpdated', value: create(BalanceUpdatedSchema, { balance, ...of }) }));
}

/** An event of the log, followed by those derived from it. */
export function withDerivedEvents(event: Event): Event[] {
  return [event, ...derivedEventsOf(event)];
}

/** The id of a derived event, always the same: a UUIDv7 (RFC 9562) with the time of the original and, for its random bits, the SHA-256 of both. */
export function derivedId(uuid: string, part: number): string {
  const bytes = sha256(`${uuid} ${part}`).subarray(0, 16);
  Buffer.from(uuid.replaceAll('-', '').slice(0, 12), 'hex').copy(bytes);
  bytes[6] = 0x70 | ((bytes[6] as number) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] as number) & 0x3f);
  return uuidText(bytes);
}
