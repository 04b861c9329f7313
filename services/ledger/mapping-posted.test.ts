import { createHash } from 'node:crypto';
import { create, toBinary, type MessageInitShape } from '@bufbuild/protobuf';
import { TransactionPostedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import type { PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { credit, debit, double, posted, reversed, tenantId } from '../../test/posting-requests.ts';
import { newId } from '../platform/ids.ts';
import { nothing, type Account, type Balance, type Books } from './accounting.ts';
import { post } from './posting-rules.ts';
import { postedEventOf, decodePosted, transactionOf, type ValidatedPosting } from './mapping.ts';

describe('the fingerprint of a request', () => {
  const same = { ...double, description: 'd', reference: 'r', metadata: '{"a":1,"b":2}' };
  const of = (init: MessageInitShape<typeof PostingSchema>) => posted(init).fingerprint.toString('hex');

  test('is a version and a SHA-256 of fixed content, so that it never changes between releases', () => {
    const canonical = [
      'double',
      'd',
      'r',
      [
        ['CASH', '1050', 'debit', 'NGN'],
        ['SALES', '1050', 'credit', 'NGN'],
      ],
      '{"a":1,"b":2}',
      null,
    ];
    expect(of(same)).toBe(`01${createHash('sha256').update(JSON.stringify(canonical)).digest('hex')}`);
    const bare = JSON.stringify(['single', '', null, [['CASH', '1050', 'debit', 'NGN']], '{}', null]);
    for (const metadata of ['', '{}', ' { } ']) {
      expect(of({ tenantId, entries: [debit], metadata })).toBe(`01${createHash('sha256').update(bare).digest('hex')}`);
    }
    const transactionId = newId('txn');
    const reversal = JSON.stringify(['reversal', '', null, [], '{}', transactionId]);
    expect(reversed({ tenantId, transactionId }).fingerprint.toString('hex')).toBe(
      `01${createHash('sha256').update(reversal).digest('hex')}`,
    );
  });

  test('does not depend on actor, time, key and formatting', () => {
    for (const other of [
      { idempotencyKey: 'k', actor: 'a', requestId: 'q', transactionId: newId('txn'), retry: true, timeoutMs: 1 },
      { metadata: ' {"b":2, "\\u0061":1.0}' },
      { entries: [{ ...debit, amount: '10.5' }, credit] },
    ]) {
      expect(of({ ...same, ...other })).toBe(of(same));
    }
  });

  test('differs for any other request', () => {
    const { reference: _, ...unreferred } = same;
    const others = [
      unreferred,
      { ...same, reference: '' },
      { ...same, description: 'e' },
      { ...same, metadata: '{"a":1,"b":3}' },
      { ...same, metadata: '{"a":[1,2]}' },
      { ...same, metadata: '{"a":[2,1]}' },
      { ...same, metadata: '{"a":[1,23]}' },
      { ...same, metadata: '{"a":[12,3]}' },
      { ...same, metadata: '{"a":[1]}' },
      { ...same, metadata: '{"a":{"0":1}}' },
      { ...same, metadata: '{"a":{"b":1,"c":[{"d":null}]}}' },
      { ...same, entries: [credit, debit] },
      { ...same, entries: [{ ...debit, amount: '10.51' }, credit] },
      { ...same, entries: [{ ...debit, accountCode: 'BANK' }, credit] },
      { ...same, entries: [{ ...debit, side: 'credit' }, credit] },
      { ...same, entries: [{ ...debit, currency: 'USD' }, credit] },
      { ...same, entries: [debit] },
      same,
    ];
    expect(new Set(others.map(of)).size).toBe(others.length);
  });
});

describe('a posted transaction', () => {
  const account = (code: string, normalBalance: 'debit' | 'credit'): Account => ({
    id: `acc_${code}`,
    code,
    normalBalance,
    currency: null,
    isGroup: false,
    allowNegative: true,
    closed: false,
    system: false,
    rules: null,
  });
  const accounts: Record<string, Account> = { CASH: account('CASH', 'debit'), SALES: account('SALES', 'credit') };
  const before: Balance = { debits: 10_000n, credits: 2_500n, pendingDebits: 7n, pendingCredits: 9n, version: 4n };
  const books: Books = {
    account: (code) => accounts[code],
    balance: ({ code }) => (code === 'CASH' ? before : { ...nothing, pendingDebits: 1n }),
    suspense: () => account('SUSPENSE', 'credit'),
  };
  const eventFor = (order: ValidatedPosting) => postedEventOf(order, post(order, books));

  test('is one event with its entries and each balance after it', () => {
    const order = posted({ ...double, description: 'd', reference: 'r', metadata: '{"m":1}', idempotencyKey: 'k' });
    const balances = {
      CASH: {
        previousBalance: '75.00',
        balance: '85.50',
        debits: '110.50',
        credits: '25.00',
        pendingDebits: '0.07',
        pendingCredits: '0.09',
        available: '85.41',
        version: 5n,
      },
      SALES: {
        previousBalance: '0.00',
        balance: '10.50',
        debits: '0.00',
        credits: '10.50',
        pendingDebits: '0.01',
        pendingCredits: '0.00',
        available: '10.49',
        version: 1n,
      },
    };
    const line = { amount: '10.50', currency: 'NGN', counter: false };
    expect(eventFor(order)).toEqual(
      create(TransactionPostedSchema, {
        transactionId: order.transactionId,
        kind: 'double',
        idempotencyKey: 'k',
        fingerprint: order.fingerprint,
        description: 'd',
        reference: 'r',
        metadata: '{"m":1}',
        entries: [
          { ...line, accountId: 'acc_CASH', accountCode: 'CASH', side: 'debit', balanceAfter: '85.50' },
          { ...line, accountId: 'acc_SALES', accountCode: 'SALES', side: 'credit', balanceAfter: '10.50' },
        ],
        balances: [
          { accountId: 'acc_CASH', accountCode: 'CASH', currency: 'NGN', ...balances.CASH },
          { accountId: 'acc_SALES', accountCode: 'SALES', currency: 'NGN', ...balances.SALES },
        ],
      }),
    );
  });

  test('has `reverses` and `reference` only if given', () => {
    const transactionId = newId('txn');
    const reversal = { ...reversed({ tenantId, transactionId }), entries: posted(double).entries };
    expect(eventFor(reversal)).toMatchObject({ kind: 'reversal', reverses: transactionId });
    expect(Object.keys(eventFor(posted(double)))).not.toEqual(expect.arrayContaining(['reverses']));
    expect(Object.keys(eventFor(posted(double)))).not.toEqual(expect.arrayContaining(['reference']));
  });

  test('is decoded from the log as it was stored', () => {
    const event = create(TransactionPostedSchema, eventFor(posted(double)));
    expect(decodePosted(toBinary(TransactionPostedSchema, event))).toEqual(event);
  });

  const place = { tenantId, sequence: 7n, createdMs: 1_700_000_000_000 };

  test('has its position, and currency and amount if all entries have one currency', () => {
    const order = posted({ ...double, reference: 'r', description: 'd', metadata: '{"m":1}', idempotencyKey: 'k' });
    const transaction = transactionOf(eventFor(order), { ...place, reversedBy: 'txn_2' });
    expect(transaction).toMatchObject({
      tenantId,
      transactionId: order.transactionId,
      kind: 'double',
      status: 'posted',
      idempotencyKey: 'k',
      description: 'd',
      reference: 'r',
      metadata: '{"m":1}',
      createdMs: 1_700_000_000_000n,
      sequence: 7n,
      currency: 'NGN',
      amount: '10.50',
      reversedBy: 'txn_2',
    });
    expect(transaction.entries.map(({ accountCode }) => accountCode)).toEqual(['CASH', 'SALES']);
    expect(transaction.reverses).toBeUndefined();
    const reversal = { ...reversed({ tenantId, transactionId: order.transactionId }), entries: order.entries };
    const mirrored = transactionOf(eventFor(reversal), place);
    expect([mirrored.reverses, mirrored.reversedBy, mirrored.reference]).toEqual([order.transactionId, undefined, undefined]);
  });

  test('in several currencies has no currency and amount', () => {
    const dollars = [debit, credit].map((entry) => ({ ...entry, currency: 'USD' }));
    const several = transactionOf(eventFor(posted({ tenantId, entries: [debit, credit, ...dollars] })), place);
    expect([several.currency, several.amount]).toEqual([undefined, undefined]);
    const twice = transactionOf(eventFor(posted({ tenantId, entries: [debit, debit, credit, credit] })), place);
    expect([twice.currency, twice.amount]).toEqual(['NGN', '21.00']);
  });
});
