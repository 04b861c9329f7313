import { create } from '@bufbuild/protobuf';
import { HoldRecordSchema, OriginSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { newId } from './ids.ts';
import { holdRecord, originRecord } from './payment-records.ts';

const exchange = {
  rate: { base: 'USD', quote: 'NGN', value: '1500' },
  rounding: 'half_even',
  convertedDebit: '10.00',
  convertedCredit: '15000.00',
  spread: '0.00',
  residue: '0.000000000000',
};

test('an origin has all fields, null where unset; nothing has none', () => {
  const holdId = newId('hold');
  const none = { hold_id: null, template: null, schedule_id: null, occurrence: null, exchange: null, override: null };
  expect(originRecord(undefined)).toBeNull();
  expect(originRecord(create(OriginSchema, { holdId }))).toEqual({ ...none, hold_id: holdId });
  expect(originRecord(create(OriginSchema, { override: { reason: 'asked by phone', broken: ['account_blocked'] } }))).toEqual({
    ...none,
    override: { reason: 'asked by phone', broken: ['account_blocked'] },
  });
  expect(originRecord(create(OriginSchema, { exchange }))).toEqual({
    ...none,
    exchange: {
      rate: exchange.rate,
      reference_rate: null,
      rounding: 'half_even',
      converted_debit: '10.00',
      converted_credit: '15000.00',
      spread: '0.00',
      residue: '0.000000000000',
    },
  });
  expect(() => originRecord(create(OriginSchema, { exchange: { ...exchange, rate: undefined } }))).toThrow('an exchange without its rate');
});

const entry = (accountCode: string, side: string, currency: string) => ({
  ...{ accountId: `acc_${accountCode}`, accountCode, side, currency },
  ...{ amount: '10.00', captured: '3.00', remaining: '7.00' },
});
const hold = {
  holdId: newId('hold'),
  status: 'pending',
  idempotencyKey: 'order-42',
  description: 'Ünïcode ✓',
  entries: [entry('CASH', 'debit', 'NGN'), entry('SALES', 'credit', 'NGN')],
  captures: 1,
  createdMs: 1_700_000_000_001n,
  sequence: 7n,
};

test('a hold has its entries with what was captured and what remains; the amount is the sum of its debits', () => {
  const lines = hold.entries.map(({ accountId, accountCode, ...rest }) => ({ account_id: accountId, account_code: accountCode, ...rest }));
  const record = {
    ...{ hold_id: hold.holdId, status: 'pending', idempotency_key: 'order-42', description: 'Ünïcode ✓', reference: null },
    ...{ currency: 'NGN', amount: '10.00', entries: lines, expires_at: null, captures: 1 },
    ...{ created_at: '2023-11-14T22:13:20.001Z', ended_at: null, sequence: 7, origin: null },
  };
  expect(holdRecord(create(HoldRecordSchema, hold))).toEqual(record);
  const times = { expiresMs: 1_700_000_000_002n, endedMs: 1_700_000_000_003n };
  expect(holdRecord(create(HoldRecordSchema, { ...hold, ...times, reference: 'INV-1', origin: {} }))).toMatchObject({
    ...{ reference: 'INV-1', expires_at: '2023-11-14T22:13:20.002Z', ended_at: '2023-11-14T22:13:20.003Z' },
    origin: { hold_id: null, exchange: null },
  });
});

test('a hold in several currencies has none of its own, and one that was only tried has no id, key and place', () => {
  const several = [...hold.entries, entry('CASH', 'debit', 'USD'), entry('SALES', 'credit', 'USD')];
  expect(holdRecord(create(HoldRecordSchema, { ...hold, entries: several }))).toMatchObject({ currency: null, amount: null });
  const tried = create(HoldRecordSchema, { ...hold, holdId: '', idempotencyKey: '', sequence: 0n });
  expect(holdRecord(tried)).toMatchObject({ hold_id: null, idempotency_key: null, sequence: null });
});
