import { create } from '@bufbuild/protobuf';
import { plainAsset } from '../../test/default-account.ts';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { newId } from '../platform/ids.ts';
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
    sequence: 7,
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
    available: '11.00',
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
    available: '11.00',
    version: 4,
    transaction_id: transactionId,
    sequence: 7,
  });
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
