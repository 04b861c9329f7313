import { create } from '@bufbuild/protobuf';
import { plainAsset } from '../../test/default-account.ts';
import { EventSchema, HoldRecordSchema, OriginSchema, UnreversedSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { newId } from '../platform/ids.ts';
import { holdRecord } from '../platform/payment-records.ts';
import { newTenant, postingEvent } from '../../test/notifier.ts';
import { eventBody, testBody } from './envelope.ts';

const { tenantId } = newTenant();
const read = (event: Event) => JSON.parse(eventBody(event)) as { data: Record<string, unknown> } & Record<string, unknown>;
const base = { id: newId('evt'), tenantId, sequence: 7n, createdMs: 1_700_000_000_999n };
const record = {
  id: newId('acc'),
  accountCode: 'CASH',
  name: 'Cash',
  type: 'asset',
  normalBalance: 'debit',
  isGroup: false,
  allowNegative: true,
  status: 'active',
  system: false,
  metadata: '{"n":1}',
  version: 3n,
  createdMs: 1_700_000_000_000n,
  updatedMs: 1_700_000_000_001n,
};

test('a posting is told with its lines, its place and its metadata as it was sent', () => {
  const event = postingEvent(tenantId, 7n, { createdMs: 1_700_000_000_999n });
  const body = eventBody(event);
  expect(body).toContain('"metadata":{"order":12345678901234567890,"b":1,"a":2}');
  const { data, ...envelope } = read(event);
  expect(envelope).toEqual({ id: event.id, type: 'transaction.posted', created: 1_700_000_000, tenant_id: tenantId, livemode: true });
  expect(data).toMatchObject({
    transaction_id: expect.stringMatching(/^txn_/),
    idempotency_key: 'key-7',
    description: 'Ünïcode ✓',
    reference: 'INV-1',
    currency: 'NGN',
    amount: '10.00',
    lines: [
      { account_code: 'CASH', amount: '10.00', side: 'debit', currency: 'NGN' },
      { account_code: 'SALES', amount: '10.00', side: 'credit', currency: 'NGN' },
    ],
    reverses: null,
    origin: null,
    unreversed: null,
    sequence: 7,
  });
});

test('a posting is told with what it came from, and a reversal with what it leaves', () => {
  const event = postingEvent(tenantId, 7n);
  if (event.data.case !== 'transactionPosted') throw new Error('a posting');
  const holdId = newId('hold');
  event.data.value.origin = create(OriginSchema, { holdId, override: { reason: 'Charge-back', broken: ['account_blocked'] } });
  event.data.value.unreversed = create(UnreversedSchema, { amounts: ['4.00', '4.00'] });
  const recorded = new Date(Number(event.createdMs)).toISOString();
  expect(read(event).data).toMatchObject({ effective_at: recorded, requested_effective_at: null });
  event.data.value.effectiveMs = 0n;
  event.data.value.requestedEffectiveMs = 1n;
  expect(read(event).data).toMatchObject({
    ...{ effective_at: '1970-01-01T00:00:00.000Z', requested_effective_at: '1970-01-01T00:00:00.001Z' },
    origin: {
      ...{ hold_id: holdId, template: null, schedule_id: null, occurrence: null, exchange: null },
      override: { reason: 'Charge-back', broken: ['account_blocked'] },
    },
    unreversed: ['4.00', '4.00'],
  });
});

test('a posting in several currencies has none of its own, and what was not sent is null or empty', () => {
  const event = postingEvent(tenantId, 8n);
  if (event.data.case !== 'transactionPosted') throw new Error('a posting');
  event.data.value.entries[1]!.currency = 'USD';
  event.data.value.description = '';
  event.data.value.metadata = '';
  delete event.data.value.reference;
  expect(read(event).data).toMatchObject({ currency: null, amount: null, description: '', reference: null, metadata: {} });
});

test('a changed balance is told as before and after', () => {
  const balance = {
    accountId: newId('acc'),
    accountCode: 'CASH',
    currency: 'NGN',
    previousBalance: '1.00',
    balance: '11.00',
    debits: '12.00',
    credits: '1.00',
    pendingDebits: '0.00',
    pendingCredits: '2.00',
    available: '9.00',
    version: 4n,
  };
  const transactionId = newId('txn');
  const data = { case: 'balanceUpdated' as const, value: { balance, transactionId } };
  expect(read(create(EventSchema, { ...base, type: 'balance.updated', part: 1, data })).data).toEqual({
    account_id: balance.accountId,
    account_code: 'CASH',
    currency: 'NGN',
    balance: '11.00',
    previous_balance: '1.00',
    debits: '12.00',
    credits: '1.00',
    pending_debits: '0.00',
    pending_credits: '2.00',
    available: '9.00',
    version: 4,
    transaction_id: transactionId,
    hold_id: null,
    sequence: 7,
  });
  const holdId = newId('hold');
  const ofHold = { case: 'balanceUpdated' as const, value: { balance, transactionId: '', holdId } };
  expect(read(create(EventSchema, { ...base, type: 'balance.updated', part: 1, data: ofHold })).data).toMatchObject({
    transaction_id: null,
    hold_id: holdId,
  });
});

const hold = {
  ...{ holdId: newId('hold'), status: 'voided', idempotencyKey: 'order-42', metadata: '{"order":12345678901234567890}' },
  ...{ createdMs: 1_700_000_000_000n, endedMs: 1_700_000_000_001n, sequence: 3n },
};

test('a hold is told as REST shows it: a capture with its transaction, a void with its description, metadata as it was sent', () => {
  const shown = { ...holdRecord(create(HoldRecordSchema, hold)), metadata: { order: 12345678901234567890 } };
  const [transactionId, value] = [newId('txn'), { hold, description: 'Cancelled' }];
  for (const [type, data, more] of [
    ['hold.created', { case: 'holdCreated', value: { hold } }, {}],
    ['hold.captured', { case: 'holdCaptured', value: { hold, transactionId } }, { transaction_id: transactionId }],
    ['hold.voided', { case: 'holdEnded', value }, { void_description: 'Cancelled' }],
    ['hold.expired', { case: 'holdEnded', value: { hold } }, {}],
  ] as const) {
    const event = create(EventSchema, { ...base, type, data });
    expect(eventBody(event)).toContain('"metadata":{"order":12345678901234567890}');
    expect(read(event)).toMatchObject({ type, livemode: true });
    expect(read(event).data).toEqual({ ...shown, ...more });
  }
});

test('a changed rule is told with its record as it was stored, a deleted one with null', () => {
  const value = { kind: 'limit', id: newId('limit'), version: 2n, record: '{"max_amount":"10.00","max_count":12345678901234567890}' };
  const event = create(EventSchema, { ...base, type: 'definition.changed', data: { case: 'definitionChanged', value } });
  expect(eventBody(event)).toContain(`"record":${value.record}`);
  const { record: _, ...deleted } = value;
  expect(read(event).data).toMatchObject({ kind: 'limit', id: value.id, version: 2, record: { max_amount: '10.00' } });
  const gone = create(EventSchema, { ...base, type: 'definition.changed', data: { case: 'definitionChanged', value: deleted } });
  expect(read(gone).data).toEqual({ kind: 'limit', id: value.id, version: 2, record: null });
});

test('settings of books and periods are sent with all that they say', () => {
  const record = '{"timezone":"Africa/Lagos","future_days":366}';
  const updated = create(EventSchema, { ...base, type: 'books.updated', data: { case: 'booksUpdated', value: { record } } });
  expect(read(updated).data).toEqual({ books: { timezone: 'Africa/Lagos', future_days: 366 }, sequence: 7 });
  const id = newId('period');
  const said = { id, final: true, yearEnd: true, closingTransactions: ['txn_1'], reason: 'Audit' };
  const closed = create(EventSchema, {
    ...base,
    type: 'period.closed',
    data: { case: 'periodClosed', value: { ...said, through: '2025-12-31' } },
  });
  const data = { id, through: '2025-12-31', final: true, year_end: true, closing_transactions: ['txn_1'], reason: 'Audit', sequence: 7 };
  expect(read(closed).data).toEqual(data);
  const reopened = create(EventSchema, { ...base, type: 'period.reopened', data: { case: 'periodReopened', value: said } });
  expect(read(reopened).data).toEqual({ ...data, through: null });
});

test('an account is told as its record, and a change by the names of what changed', () => {
  const account = {
    id: record.id,
    account_code: 'CASH',
    name: 'Cash',
    ...plainAsset,
    ...{ limits: [], blocked: [] },
    version: 3,
    created_at: '2023-11-14T22:13:20.000Z',
    updated_at: '2023-11-14T22:13:20.001Z',
    metadata: { n: 1 },
    sequence: 7,
  };
  const created = { case: 'accountCreated' as const, value: { account: record } };
  expect(read(create(EventSchema, { ...base, type: 'account.created', data: created })).data).toEqual(account);
  const updated = { case: 'accountUpdated' as const, value: { account: record, changes: ['name', 'status'] } };
  expect(read(create(EventSchema, { ...base, type: 'account.updated', data: updated })).data).toEqual({
    ...account,
    changes: ['name', 'status'],
  });
});

test('an event that does not hold what its type says makes no body', () => {
  expect(() => eventBody(create(EventSchema, { ...base, type: 'transaction.posted' }))).toThrow('"transaction.posted" that holds nothing');
  expect(() => eventBody(postingEvent(tenantId, 1n, { type: 'account.created' }))).toThrow('that holds transactionPosted');
  const balance = { ...record, currency: 'NGN' };
  for (const [type, data] of [
    ['balance.updated', { case: 'balanceUpdated', value: { balance } }],
    ['account.created', { case: 'accountCreated', value: { account: record } }],
    ['account.updated', { case: 'accountUpdated', value: { account: record } }],
    ['hold.created', { case: 'holdCreated', value: { hold } }],
    ['hold.captured', { case: 'holdCaptured', value: { hold } }],
    ['hold.voided', { case: 'holdEnded', value: { hold } }],
  ] as const) {
    expect(() => eventBody(create(EventSchema, { ...base, type, data }))).not.toThrow();
    const empty = { ...data, value: {} } as typeof data;
    for (const wrong of [
      { type: 'test.webhook', data },
      { type, data: empty },
    ]) {
      expect(() => eventBody(create(EventSchema, { ...base, ...wrong }))).toThrow(`type "${wrong.type}" that holds ${data.case}`);
    }
  }
});

test('a number that readers of JSON would round makes no body, the largest that they hold does', () => {
  const most = BigInt(Number.MAX_SAFE_INTEGER);
  expect(read(postingEvent(tenantId, most)).data['sequence']).toBe(Number.MAX_SAFE_INTEGER);
  expect(() => eventBody(postingEvent(tenantId, most + 1n))).toThrow('9007199254740992 is more than');
});

test.each(['{', '[1]', 'null', '"text"', '{}{}', '},"livemode":true,"x":{'])('metadata that is %s makes no body', (metadata) => {
  const event = postingEvent(tenantId, 1n);
  if (event.data.case === 'transactionPosted') event.data.value.metadata = metadata;
  expect(() => eventBody(event)).toThrow(/JSON|metadata that is not an object/);
});

test('a test says that it is one', () => {
  const id = newId('evt');
  expect(JSON.parse(testBody({ id, type: 'balance.updated', createdMs: 1_700_000_000_001n, tenantId }))).toEqual({
    id,
    type: 'balance.updated',
    created: 1_700_000_000,
    data: { message: 'This is a test of balance.updated: nothing has happened.' },
    tenant_id: tenantId,
    livemode: false,
  });
});
