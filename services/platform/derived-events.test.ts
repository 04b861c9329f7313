import { createHash } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import fc from 'fast-check';
import {
  BalanceUpdatedSchema,
  EventSchema,
  HoldCapturedSchema,
  HoldRecordSchema,
  type ChangedBalance,
  type Event,
  type TransactionPosted,
} from '../../proto/gen/ledger/v1/events_pb.js';
import { newId, newUuid, toUuid } from './ids.ts';
import { derivedId, derivedEventCount, derivedEventsOf, withDerivedEvents } from './derived-events.ts';

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

const hold = { holdId: newId('hold'), status: 'captured', entries: [{ accountCode: 'CASH', captured: '1.00', remaining: '0.00' }] };

/** An event with the same head, of another type. */
const other = (type: string, data: MessageInitShape<typeof EventSchema>['data']): Event =>
  create(EventSchema, { ...posting([]), type, data } as MessageInitShape<typeof EventSchema>);

const capture = () => {
  const event = posting(['CASH', 'SALES']);
  if (event.data.case !== 'transactionPosted') throw new Error('a posting');
  event.data.value.hold = create(HoldRecordSchema, hold);
  return event;
};
const created = other('hold.created', { case: 'holdCreated', value: { hold, balances: ['CASH', 'SALES'].map(balance) } });
const ended = ['hold.voided', 'hold.expired'].map((type) =>
  other(type, { case: 'holdEnded', value: { hold, balances: [balance('CASH')], description: 'x' } }),
);
const defined = other('definition.changed', { case: 'definitionChanged', value: { kind: 'limit', id: newId('limit'), version: 1n } });

/** What the events derived from an event must be, but for their ids. */
function expected(event: Event, data: Event['data'][]): Event[] {
  const { tenantId, sequence, createdMs, actor, requestId, traceparent } = event;
  return derivedEventsOf(event).map(({ id }, index) =>
    create(EventSchema, {
      ...{ tenantId, sequence, createdMs, actor, requestId, traceparent, id },
      type: data[index]?.case === 'holdCaptured' ? 'hold.captured' : 'balance.updated',
      part: index + 1,
      data: data[index],
    } as MessageInitShape<typeof EventSchema>),
  );
}
const updated = (event: Event, of: { transactionId?: string; holdId?: string }): Event['data'][] =>
  (event.data.value as { balances: ChangedBalance[] }).balances.map((each) => ({
    case: 'balanceUpdated',
    value: create(BalanceUpdatedSchema, { balance: each, ...of }),
  }));

test('a posting is followed by an event for each balance that it changed, in order, with the data of the posting', () => {
  const event = posting(['CASH', 'SALES']);
  const { transactionId } = event.data.value as TransactionPosted;
  const [first, ...updates] = withDerivedEvents(event);
  expect(first).toBe(event);
  expect(updates).toHaveLength(2);
  expect(updates).toEqual(expected(event, updated(event, { transactionId })));
  expect(new Set(withDerivedEvents(event).map(({ id }) => id)).size).toBe(3);
});

test('a capture is followed by its balances, which name the hold, and then by the hold as it is afterwards', () => {
  const event = capture();
  const { transactionId, hold: record } = event.data.value as TransactionPosted;
  const captured = create(HoldCapturedSchema, { hold: record!, transactionId });
  const data: Event['data'][] = [...updated(event, { transactionId, holdId: hold.holdId }), { case: 'holdCaptured', value: captured }];
  expect(derivedEventsOf(event)).toHaveLength(3);
  expect(derivedEventsOf(event)).toEqual(expected(event, data));
});

test('a hold that is made, voided or expires is followed by its balances, which name the hold and no transaction', () => {
  for (const event of [created, ...ended]) {
    expect(derivedEventsOf(event).length).toBeGreaterThan(0);
    expect(derivedEventsOf(event)).toEqual(expected(event, updated(event, { transactionId: '', holdId: hold.holdId })));
  }
});

test('a derived event’s id depends only on the posting’s id and the index', () => {
  const event = posting(['CASH', 'SALES']);
  const uuid = toUuid('evt', event.id)!;
  const ids = withDerivedEvents(event).map(({ id }) => toUuid('evt', id));
  expect(ids).toEqual([uuid, derivedId(uuid, 1), derivedId(uuid, 2)]);
  expect(withDerivedEvents(event)).toEqual(withDerivedEvents(event));
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

test('the count is that of the derived events; account, rule and derived events have none', () => {
  for (const event of [posting([]), posting(['CASH']), posting(['CASH', 'SALES']), capture(), created, ...ended]) {
    expect(derivedEventCount(event)).toBe(derivedEventsOf(event).length);
  }
  for (const event of [...derivedEventsOf(capture()), defined, other('account.created', { case: 'accountCreated', value: {} })]) {
    expect(derivedEventCount(event)).toBe(0);
    expect(withDerivedEvents(event)).toEqual([event]);
  }
});
