// An example of each webhook's body, as the OpenAPI document shows it.
import type { webhookEvents } from './fields.ts';

type EventType = (typeof webhookEvents)[number];

const ofMoment = '01jd1zq5v8e6n9w2k4m7p3r5t8';
const account = { account_id: `acc_${ofMoment}`, account_code: 'CUSTOMER-WALLETS-NGN' };
const fees = { account_id: `acc_${ofMoment}`, account_code: 'FEES-TRANSACTION' };
const createdAt = '2030-01-31T12:00:00.000Z';

const lines = [
  { ...account, amount: '40.00', side: 'debit', currency: 'NGN' },
  { ...fees, amount: '40.00', side: 'credit', currency: 'NGN' },
];

const transaction = {
  ...{ transaction_id: `txn_${ofMoment}`, kind: 'double', idempotency_key: 'fee-7', description: 'Monthly fee', reference: null },
  ...{ currency: 'NGN', amount: '40.00', lines, reverses: null, origin: null, unreversed: null, metadata: {}, sequence: 31 },
  ...{ effective_at: createdAt, requested_effective_at: null, personal: [], redacted: [] },
};

const balance = {
  ...{ ...account, currency: 'NGN', balance: '460.00', previous_balance: '500.00', debits: '40.00', credits: '500.00' },
  ...{ pending_debits: '0.00', pending_credits: '0.00', available: '460.00', version: 2 },
  ...{ transaction_id: transaction.transaction_id, hold_id: null, sequence: 31 },
};

const petty = {
  ...{ id: `acc_${ofMoment}`, account_code: 'PETTY-CASH', name: 'Petty cash', type: 'asset', normal_balance: 'debit' },
  ...{ currency: null, parent_code: null, is_group: false, description: null, allow_negative: true, status: 'active', system: false },
  ...{ limits: [], blocked: [], metadata: {}, version: 1, created_at: createdAt, updated_at: createdAt, sequence: 32 },
};

/** A hold's entries, of which some is captured and some remains. */
const holdEntries = (captured: string, remaining: string) => lines.map(({ amount, ...line }) => ({ ...line, amount, captured, remaining }));

/** A hold as an example. */
export const exampleHold = {
  ...{ hold_id: `hold_${ofMoment}`, status: 'pending', idempotency_key: 'order-42', description: 'Card payment', reference: null },
  ...{ currency: 'NGN', amount: '40.00', entries: holdEntries('0.00', '40.00'), metadata: {} },
  ...{ expires_at: '2030-02-07T12:00:00.000Z', captures: 0, created_at: createdAt, ended_at: null, sequence: 33, origin: null },
};
const ended = { entries: holdEntries('0.00', '0.00'), ended_at: '2030-02-01T09:30:00.000Z' };

const limit = {
  ...{ id: `limit_${ofMoment}`, account_code: account.account_code, applies: 'account', currency: 'NGN', side: 'debit' },
  ...{ max_amount: '1000.00', max_count: null, window: { rolling_seconds: 86_400 }, name: null, status: 'active' },
};

const settings = {
  ...{ timezone: 'Africa/Lagos', fiscal_year_end: '12-31', retained_earnings_code: 'RETAINED-EARNINGS', late_entries: 'refuse' },
  ...{ future_days: 366, cash_accounts: ['OPERATING-CASH'], indexed_metadata: [] },
};

const period = {
  ...{ id: `period_${ofMoment}`, through: '2029-12-31', final: false, year_end: true },
  ...{ closing_transactions: [`txn_${ofMoment}`], reason: 'Year end', sequence: 35 },
};

const data: Record<EventType, object> = {
  'transaction.posted': transaction,
  'balance.updated': balance,
  'account.created': petty,
  'account.updated': { ...petty, name: 'Coins', version: 2, changes: ['name'] },
  'hold.created': exampleHold,
  'hold.captured': {
    ...{ ...exampleHold, ...ended, entries: holdEntries('40.00', '0.00'), status: 'captured', captures: 1 },
    transaction_id: transaction.transaction_id,
  },
  'hold.voided': { ...exampleHold, ...ended, status: 'voided', void_description: 'The order was cancelled' },
  'hold.expired': { ...exampleHold, ...ended, ended_at: exampleHold.expires_at, status: 'expired' },
  'definition.changed': { kind: 'limit', id: limit.id, version: 1, record: limit },
  'books.updated': { sequence: 34, books: settings },
  'period.closed': period,
  'period.reopened': {
    ...period,
    id: `period_${ofMoment.replace('v', 'w')}`,
    through: null,
    year_end: false,
    closing_transactions: [],
    reason: 'Audit',
    sequence: 36,
  },
  'subject.erased': { subject_id: `subj_${ofMoment}`, reason: 'The customer asked for it', sequence: 37 },
  'transaction.redacted': {
    ...{
      transaction_id: transaction.transaction_id,
      redacted_event_id: 'evt_01jd1zq5v8e6n9w2k4m7p3r5t8',
      redacted_sequence: 31,
      fields: ['description'],
      reason: 'A name slipped in',
    },
    ...{ payload_hash: '5a'.repeat(32), redacted_hash: 'b3'.repeat(32), sequence: 38 },
  },
  'log.imported': { tenant_id: `tenant_${ofMoment}`, size: 30, root: 'c4'.repeat(32), checkpoint: null, sequence: 1 },
  'books.unfrozen': {
    frozen: { at: createdAt, reason: 'event 7 does not have the hash of its content and of the event before it', sequence: 38 },
    ...{ reason: 'The row was restored', rewound: false, sequence: 39 },
  },
  'test.webhook': { message: 'This is a test of test.webhook: nothing has happened.' },
};

/** The bodies by event type. */
export const exampleBodies = Object.fromEntries(
  Object.entries(data).map(([type, each]) => [
    type,
    {
      ...{ id: `evt_${ofMoment}`, type, created: 1_896_091_200, data: each },
      ...{ tenant_id: `tenant_${ofMoment}`, livemode: type !== 'test.webhook' },
    },
  ]),
) as Record<EventType, object>;
