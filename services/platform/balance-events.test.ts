import { createHash } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { newId, newUuid, toUuid } from './ids.ts';
import { derivedId, balanceEventCount, balanceEventsOf, withBalanceEvents } from './balance-events.ts';

const balance = (accountCode: string) => ({ accountId: newId('acc'), accountCode, currency: 'NGN', balance: '1.00', version: 1n });

function posting(codes: string[]): Event {
  return create(EventSchema, {
    id: newId('evt'),
    tenantId: newId('tenant'),
    sequence: 7n,
    type: 'transaction.posted',
    createdMs: 1_700_000_000_000n,
    actor: 'till',
    requestId: 'request',
    traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    data: { case: 'transactionPosted', value: { transactionId: newId('txn'), balances: codes.map(balance) } },
  });
}

test('a posting is followed by an event for each balance that it changed, in order, with the data of the posting', () => {
  const event = posting(['CASH', 'SALES']);
  if (event.data.case !== 'transactionPosted') throw new Error('a posting');
  const { balances, transactionId } = event.data.value;
  const [first, ...updates] = withBalanceEvents(event);
  expect(first).toBe(event);
  const { tenantId, sequence, createdMs, actor, requestId, traceparent } = event;
  expect(updates).toEqual(
    balances.map((each, place) =>
      create(EventSchema, {
        ...{ tenantId, sequence, createdMs, actor, requestId, traceparent },
        id: updates[place]!.id,
        type: 'balance.updated',
        part: place + 1,
        data: { case: 'balanceUpdated', value: { balance: each, transactionId } },
      }),
    ),
  );
  expect(new Set(withBalanceEvents(event).map(({ id }) => id)).size).toBe(3);
});

test('a derived event’s id depends only on the posting’s id and the index', () => {
  const event = posting(['CASH', 'SALES']);
  const uuid = toUuid('evt', event.id)!;
  const ids = withBalanceEvents(event).map(({ id }) => toUuid('evt', id));
  expect(ids).toEqual([uuid, derivedId(uuid, 1), derivedId(uuid, 2)]);
  expect(withBalanceEvents(event)).toEqual(withBalanceEvents(event));
});

test('a derived UUID is of version 7 in the variant of RFC 9562, with the time of the original and bits of the SHA-256 of both', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 400 }), (part) => {
      const uuid = newUuid();
      const derived = derivedId(uuid, part);
      expect(derived).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(derived.slice(0, 13)).toBe(uuid.slice(0, 13));
      const sum = createHash('sha256').update(`${uuid} ${part}`).digest('hex');
      const hex = derived.replaceAll('-', '');
      expect([hex.slice(13, 16), hex.slice(17)]).toEqual([sum.slice(13, 16), sum.slice(17, 32)]);
      expect(Number.parseInt(hex[16]!, 16) & 3).toBe(Number.parseInt(sum[16]!, 16) & 3);
    }),
  );
});

test('the count is that of the derived events: one per balance of a posting, none of any other event', () => {
  for (const codes of [[], ['CASH'], ['CASH', 'SALES']]) {
    expect(balanceEventCount(posting(codes))).toBe(codes.length);
    expect(balanceEventsOf(posting(codes))).toHaveLength(codes.length);
  }
  const [, update] = withBalanceEvents(posting(['CASH'])) as [Event, Event];
  for (const other of [update, create(EventSchema, { type: 'account.created', data: { case: 'accountCreated', value: {} } })]) {
    expect(balanceEventCount(other)).toBe(0);
    expect(balanceEventsOf(other)).toEqual([]);
    expect(withBalanceEvents(other)).toEqual([other]);
  }
});
