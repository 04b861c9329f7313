// Partial reversals through REST: parts never exceed the transaction, and the last one completes it.
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import { deposit, id, line, newWallet, type Customer } from '../test/customer.ts';
import { refusal, type Fields } from '../test/holder.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: CheckedCluster;
let customer: Customer;
const [wallet, settlement] = ['CUSTOMER-WALLETS-USD', 'SETTLEMENT-USD'];

beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newWallet(cluster);
  await customer.post('transactions/double-entry', deposit('1000.00'));
});

let count = 0;
const newKey = () => `part-${(count += 1)}`;
const post = async (body: Fields = deposit('10.00')): Promise<string> =>
  (await customer.post('transactions/double-entry', body)).body.data.transaction.transaction_id as string;
const reverse = (of: string, body: Fields = {}, query = '') => customer.post(`transactions/${of}/reverse${query}`, body);
const read = async (of: string): Promise<Fields> => (await customer.get(`transactions/${of}`)).transaction as Fields;
const back = (amount: string) => [line(settlement, 'credit', amount), line(wallet, 'debit', amount)];

test('parts add up, the transaction shows what is left, and the last part completes it', async () => {
  const of = await post();
  const first = await reverse(of, { idempotency_key: newKey(), amount: '3.00', description: 'A part', reference: 'R', metadata: { n: 1 } });
  expect([first.status, first.body.data.transaction]).toMatchObject([
    201,
    {
      transaction_id: id('txn'),
      kind: 'reversal',
      amount: '3.00',
      reverses: of,
      description: 'A part',
      reference: 'R',
      metadata: { n: 1 },
    },
  ]);
  expect(await read(of)).toMatchObject({ reversed_by: null, unreversed: ['7.00', '7.00'] });
  const second = await reverse(of, { entries: back('2.50') });
  expect(second.body.data.transaction.entries.map((each: Fields) => [each['account_code'], each['side'], each['amount']])).toEqual([
    [settlement, 'credit', '2.50'],
    [wallet, 'debit', '2.50'],
  ]);
  expect((await read(of))['unreversed']).toEqual(['4.50', '4.50']);
  const last = await reverse(of);
  expect([last.status, last.body.data.transaction.amount]).toEqual([201, '4.50']);
  expect(await read(of)).toMatchObject({ reversed_by: last.body.data.transaction.transaction_id, unreversed: null });
  const parts = [last, second, first].map(({ body }) => body.data.transaction.transaction_id);
  const listed = async (query: string) =>
    (await customer.get(`transactions?${query}`)).transactions.map((each: Fields) => each['transaction_id']);
  expect(await listed(`reverses=${of}`)).toEqual(parts);
  expect(await listed(`reverses=${of}&reference=R`)).toEqual(parts.slice(2));
  expect(await listed(`reverses=${parts[0]}`)).toEqual([]);
  for (const transaction of [of, ...parts]) {
    const answer = await reverse(transaction, { amount: '0.01' });
    expect([answer.status, answer.body.code]).toEqual([409, 'already_reversed']);
  }
});

test('more than is left is refused, and changes nothing', async () => {
  const of = await post();
  await reverse(of, { amount: '9.00' });
  const before = await read(of);
  const tag = 'reversal_exceeded';
  expect(refusal(await reverse(of, { amount: '1.01' }))).toEqual([422, tag, { field: 'amount', tag, value: '1.01' }]);
  expect(refusal(await reverse(of, { entries: back('2') }))).toEqual([422, tag, { field: 'entries[0].amount', tag, value: '2' }]);
  expect(await read(of)).toEqual(before);
});

test('an amount is for two entries; entries name mirrors of the transaction’s', async () => {
  const entries = [line(settlement, 'debit', '10.00'), line(wallet, 'credit', '6.00'), line('MERCHANT', 'credit', '4.00')];
  await customer.post('accounts', { account_code: 'MERCHANT', name: 'M', type: 'liability' });
  const of = await post({ entries });
  const tag = 'entries_mismatch';
  expect(refusal(await reverse(of, { amount: '1.00' }))).toEqual([422, tag, { field: 'amount', tag, value: '1.00' }]);
  const asPosted = [line(settlement, 'debit', '1.00'), line(wallet, 'credit', '1.00')];
  const field = 'entries[0].account_code';
  expect(refusal(await reverse(of, { entries: asPosted }))).toEqual([422, tag, { field, tag, value: settlement }]);
  const odd = [line(settlement, 'credit', '1.00'), line('MERCHANT', 'debit', '2.00')];
  expect((await reverse(of, { entries: odd })).body.code).toBe('unbalanced');
  const part = [line(settlement, 'credit', '4.00'), line('MERCHANT', 'debit', '4.00')];
  expect((await reverse(of, { entries: part })).status).toBe(201);
  expect((await read(of))['unreversed']).toEqual(['6.00', '6.00', '0.00']);
});

test('parts at once never exceed it', async () => {
  const of = await post();
  const answers = await Promise.all(Array.from({ length: 40 }, () => reverse(of, { amount: '0.60' })));
  const statuses = answers.map(({ status, body }) => `${status} ${body.code ?? ''}`);
  expect(statuses.filter((each) => each === '201 ')).toHaveLength(16);
  expect(statuses.filter((each) => each === '422 reversal_exceeded')).toHaveLength(24);
  expect(await read(of)).toMatchObject({ reversed_by: null, unreversed: ['0.40', '0.40'] });
});

test('a part with its key again is answered with what it did', async () => {
  const of = await post();
  const body = { idempotency_key: newKey(), amount: '4.00' };
  const posted = await reverse(of, body);
  const again = await reverse(of, { ...body, amount: '4' });
  expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
  expect(again.body).toEqual(posted.body);
  expect((await reverse(of, { ...body, amount: '5.00' })).body.code).toBe('idempotency_key_reused');
  expect((await read(of))['unreversed']).toEqual(['6.00', '6.00']);
});

test('a dry run, conditions and the end of validity are as for postings', async () => {
  const of = await post();
  const before = await read(of);
  const tried = await reverse(of, { amount: '4.00' }, '?dry_run=true');
  expect([tried.status, tried.body.dry_run, tried.body.data.transaction]).toMatchObject([
    200,
    true,
    { transaction_id: null, amount: '4.00' },
  ]);
  expect((await reverse(of, { amount: '14.00' }, '?dry_run=true')).body.code).toBe('reversal_exceeded');
  const required = [{ account_code: wallet, currency: 'USD', version: 0 }];
  expect(refusal(await reverse(of, { require: required }))).toMatchObject([422, 'condition_failed', { field: 'require[0].version' }]);
  expect((await reverse(of, { valid_until: '2020-01-01T00:00:00Z' })).body.code).toBe('too_late');
  expect(await read(of)).toEqual(before);
});

test.each<[Fields, string, string]>([
  [{ amount: '1.00', entries: back('1.00') }, 'amount', 'same'],
  [{ amount: '0' }, 'amount', 'gt'],
  [{ amount: '1.234' }, 'amount', 'decimal'],
  [{ entries: back('1.00').slice(1) }, 'entries', 'min'],
  [{ entries: [{ ...back('1.00')[0], note: 'x' }, back('1.00')[1]] }, 'entries[0].note', 'unknown'],
  [{ final: true }, 'final', 'unknown'],
])('%j is refused at %s as %s', async (body, field, tag) => {
  const answer = await reverse(await post(), body);
  expect([answer.status, answer.body.details.field, answer.body.details.tag]).toEqual([400, field, tag]);
});
