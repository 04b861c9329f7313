// When postings count, through REST: on every route, in the books' time zone, and what is refused.
import { toMinor } from '../services/platform/money.ts';
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import { deposit, line, newWallet, type Customer } from '../test/customer.ts';
import { refusal, type Fields } from '../test/holder.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: CheckedCluster;
let customer: Customer;
const [wallet, settlement] = ['CUSTOMER-WALLETS-USD', 'SETTLEMENT-USD'];
const double = 'transactions/double-entry';
const [day, dayBegins] = ['2026-01-31', '2026-01-31T00:00:00.000Z'];
const soon = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
const withdrawal = (amount: string, more: Fields = {}) => ({
  entries: [line(wallet, 'debit', amount), line(settlement, 'credit', amount)],
  ...more,
});

beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newWallet(cluster);
  await customer.post(double, deposit('1000.00', { effective_at: '2026-01-01T00:00:00Z' }));
});
afterAll(() => cluster.stop());

/** A wallet whose books have a time zone. */
async function walletIn(timezone: string): Promise<Customer> {
  const made = await newWallet(cluster);
  expect((await cluster.rest('PATCH', made.at('books'), { key: made.key, body: { timezone } })).status).toBe(200);
  return made;
}

/** Posts by every route that takes a time; the transactions by route. */
async function postEverywhere({ post }: Customer, effective_at: string): Promise<Record<string, Fields>> {
  const hold = async () => (await post('holds', withdrawal('5.00'))).body.data.hold.hold_id as string;
  const item = { op: 'double', ...deposit(), effective_at };
  const [inHold, inBatch] = [await hold(), await hold()];
  const exchange = {
    ...{
      debit: { account_code: wallet, currency: 'USD', amount: '1.00' },
      credit: { account_code: 'CUSTOMER-WALLETS-NGN', currency: 'NGN' },
    },
    ...{ rate: { base: 'USD', quote: 'NGN', value: '1500' }, effective_at },
  };
  const answers = {
    single: await post('transactions', { ...line('MARKETING', 'debit'), effective_at }),
    double: await post(double, deposit('10.00', { effective_at })),
    exchange: await post('transactions/exchange', exchange),
    capture: await post(`holds/${inHold}/capture`, { effective_at, amount: '1.00', final: false }),
    tried: await post(`${double}?dry_run=true`, deposit('10.00', { effective_at })),
  };
  const { transaction_id: original } = answers.double.body.data.transaction as Fields;
  const reversed = await post(`transactions/${String(original)}/reverse`, { effective_at, amount: '2.00' });
  const batch = await post('transactions/batch', {
    atomic: true,
    items: [
      { ...item, idempotency_key: `b1-${effective_at}` },
      { op: 'capture', hold_id: inBatch, effective_at, idempotency_key: `b2-${effective_at}` },
      { op: 'reverse', transaction_id: original, effective_at, amount: '1.00', idempotency_key: `b3-${effective_at}` },
    ],
  });
  expect(batch.body).toMatchObject({ data: { posted: 3 } });
  const body = `${JSON.stringify({ ...item, idempotency_key: `i1-${effective_at}` })}\n`;
  const imported = await post('transactions/import?results=all', body, { 'content-type': 'application/x-ndjson' });
  const [first] = String(imported.body).split('\n');
  const byImport = await post('transactions/batch', { items: [{ ...item, idempotency_key: `i1-${effective_at}` }] });
  expect([JSON.parse(first!), byImport.body.data.replayed]).toMatchObject([{ status: 201 }, 1]);
  const named = Object.entries({ ...answers, reversed }).map(([name, each]) => [name, each.body.data.transaction] as const);
  const listed = batch.body.data.results.map((each: any, index: number) => [`batch ${index}`, each.data.transaction] as const);
  return Object.fromEntries([...named, ...listed, ['import', byImport.body.data.results[0].data.transaction]]);
}

test('every route that posts takes a day or a time, and every read shows both times', async () => {
  const posted = await postEverywhere(customer, day);
  for (const [name, transaction] of Object.entries(posted)) {
    expect([name, transaction]).toMatchObject([name, { effective_at: dayBegins, requested_effective_at: null }]);
    expect([name, String(transaction['created_at']) > '2026-02']).toEqual([name, true]);
  }
  const { double: one } = posted as { double: Fields };
  expect((await customer.get(`transactions/${String(one['transaction_id'])}`)).transaction).toMatchObject({ effective_at: dayBegins });
  const { transactions } = await customer.get('transactions?limit=100');
  expect(transactions.filter((each: Fields) => each['effective_at'] === dayBegins)).toHaveLength(9);
  const { events } = await customer.get(`events?after_sequence=${Number(one['sequence']) - 1}&limit=1`);
  expect(events[0].data).toMatchObject({ transaction_id: one['transaction_id'], effective_at: dayBegins, requested_effective_at: null });
  const plain = (await customer.post(double, deposit())).body.data.transaction;
  expect(plain.effective_at).toBe(plain.created_at);
  const exact = (await customer.post(double, deposit('1.00', { effective_at: '2026-01-31T13:00:00.001+01:00' }))).body.data.transaction;
  expect(exact.effective_at).toBe('2026-01-31T12:00:00.001Z');
});

test('a day is one of the books’ time zone, on every route; one that the zone has skipped is refused', async () => {
  const lagos = await walletIn('Africa/Lagos');
  await lagos.post(double, deposit('1000.00', { effective_at: '2025-12-31' }));
  for (const transaction of Object.values(await postEverywhere(lagos, day)))
    expect(transaction['effective_at']).toBe('2026-01-30T23:00:00.000Z');
  const apia = await walletIn('Pacific/Apia');
  const body = deposit('1.00', { effective_at: '2011-12-30' });
  const details = { field: 'effective_at', tag: 'datetime', value: '2011-12-30' };
  expect(refusal(await apia.post(double, body))).toEqual([400, 'validation_failed', details]);
  const item = { op: 'double', idempotency_key: 'skipped', ...body };
  expect((await apia.post('transactions/batch', { items: [item] })).body.data.results[0]).toMatchObject({ status: 400, details });
  const atomic = await apia.post('transactions/batch', { atomic: true, items: [item] });
  expect(refusal(atomic)).toEqual([400, 'validation_failed', { ...details, field: 'items[0].effective_at' }]);
  const imported = await apia.post('transactions/import', `${JSON.stringify(item)}\n`, { 'content-type': 'application/x-ndjson' });
  expect(JSON.parse(String(imported.body).split('\n')[0]!)).toMatchObject({ line: 1, status: 400, details });
});

test('what is no time is refused, and `original` is one of reversals only', async () => {
  const { transaction_id: of } = (await customer.post(double, deposit())).body.data.transaction;
  for (const value of ['x', '2026-02-30', '2026-01-31T12:00:00', '2026-01-31T12:00:00.0001Z', '2026-01', '20260131', 'original']) {
    const details = { field: 'effective_at', tag: 'datetime', value };
    expect(refusal(await customer.post(double, deposit('1.00', { effective_at: value })))).toEqual([400, 'validation_failed', details]);
    if (value === 'original') continue;
    expect(refusal(await customer.post(`transactions/${of}/reverse`, { effective_at: value }))).toEqual([
      400,
      'validation_failed',
      details,
    ]);
  }
  const typed = await customer.post(double, deposit('1.00', { effective_at: 1 }));
  expect(refusal(typed)).toEqual([400, 'validation_failed', { field: 'effective_at', tag: 'type', value: 1 }]);
  const held = await customer.post('holds', withdrawal('1.00', { effective_at: day }));
  expect(refusal(held)).toEqual([400, 'validation_failed', { field: 'effective_at', tag: 'unknown', value: day }]);
});

test('a time before 1970 or too far ahead is refused by name; one ahead credits no account that may not go below zero', async () => {
  for (const value of ['1969-12-31', '9999-12-31T00:00:00Z', soon(367)]) {
    const details = { field: 'effective_at', tag: 'effective_at_out_of_range', value };
    expect(refusal(await customer.post(double, deposit('1.00', { effective_at: value })))).toEqual([422, details.tag, details]);
  }
  expect((await customer.post(double, deposit('1.00', { effective_at: '1970-01-01' }))).status).toBe(201);
  const pool = { account_code: 'POOL', name: 'Pool', type: 'asset', allow_negative: false };
  await customer.post('accounts', pool);
  const into = (more: Fields) => ({ entries: [line(settlement, 'credit'), line('POOL', 'debit')], ...more });
  const details = { field: 'entries[1].account_code', tag: 'future_dated', value: 'POOL' };
  expect(refusal(await customer.post(double, into({ effective_at: soon(1) })))).toEqual([422, details.tag, details]);
  const single = { ...line('POOL', 'debit'), effective_at: soon(1) };
  expect(refusal(await customer.post('transactions', single))).toEqual([422, details.tag, { ...details, field: 'account_code' }]);
  // The clock of a client may be ahead, and what is taken from it is gone at once.
  expect((await customer.post(double, into({ effective_at: soon(1 / 1440) }))).status).toBe(201);
  const out = { entries: [line('POOL', 'credit'), line(settlement, 'debit')], effective_at: soon(30) };
  const taken = await customer.post(double, out);
  expect(taken.status).toBe(201);
  // A reversal may raise it.
  const { transaction_id: of, effective_at } = taken.body.data.transaction;
  const early = await customer.post(`transactions/${of}/reverse`, { effective_at: soon(1) });
  expect(refusal(early)).toMatchObject([422, 'effective_before_original', { field: 'effective_at', tag: 'effective_before_original' }]);
  const back = await customer.post(`transactions/${of}/reverse`, {});
  expect([back.status, back.body.data.transaction.effective_at]).toEqual([201, effective_at]);
});

test('a reversal counts now, with `original` when the original does, which cancels that day', async () => {
  const asOf = async (day: string) =>
    toMinor((await customer.get(`accounts/code/${wallet}/balance?currency=USD&as_of=${day}`)).balance.balance)!;
  const before = await asOf('2026-02-10');
  const { transaction_id: of } = (await customer.post(double, deposit('9.00', { effective_at: '2026-02-10' }))).body.data.transaction;
  const now = (await customer.post(`transactions/${of}/reverse`, { amount: '1.00' })).body.data.transaction;
  expect(now.effective_at).toBe(now.created_at);
  expect((await asOf('2026-02-10')) - before).toBe(900n);
  const then = (await customer.post(`transactions/${of}/reverse`, { effective_at: 'original' })).body.data.transaction;
  expect(then).toMatchObject({ amount: '8.00', effective_at: '2026-02-10T00:00:00.000Z' });
  expect([await asOf('2026-02-09'), (await asOf('2026-02-10')) - before]).toEqual([before, 100n]);
  const plain = (await customer.post(double, deposit('2.00'))).body.data.transaction;
  const same = (await customer.post(`transactions/${plain.transaction_id}/reverse`, { effective_at: 'original' })).body.data.transaction;
  expect(same.effective_at).toBe(plain.created_at);
});

test('the time is a part of the request: another under the same key is refused and named', async () => {
  const post = (idempotency_key: string, more: Fields = {}) => customer.post(double, deposit('3.00', { idempotency_key, ...more }));
  const [dated, plain] = [await post('dated', { effective_at: day }), await post('plain')];
  expect([dated.status, plain.status]).toEqual([201, 201]);
  for (const effective_at of [day, dayBegins, '2026-01-31T01:00:00.0+01:00']) {
    const again = await post('dated', { effective_at });
    expect([again.status, again.body.data.transaction]).toEqual([200, dated.body.data.transaction]);
  }
  expect((await post('plain', { effective_at: null })).status).toBe(200);
  for (const [key, more] of [
    ['dated', {}],
    ['dated', { effective_at: '2026-01-30' }],
    ['plain', { effective_at: day }],
  ] as const) {
    const [status, code, details] = refusal(await post(key, more)) as [number, string, Fields];
    expect([status, code, details['fields']]).toEqual([422, 'idempotency_key_reused', ['effective_at']]);
  }
  const { transaction_id: of } = dated.body.data.transaction;
  const reverse = (more: Fields) => customer.post(`transactions/${of}/reverse`, { idempotency_key: 'back', ...more });
  expect([(await reverse({ effective_at: 'original' })).status, (await reverse({ effective_at: 'original' })).status]).toEqual([201, 200]);
  for (const more of [{}, { effective_at: day }, { effective_at: '2026-02-01' }]) {
    const [status, code, details] = refusal(await reverse(more)) as [number, string, Fields];
    expect([status, code, (details['fields'] as string[]).includes('effective_at')]).toEqual([422, 'idempotency_key_reused', true]);
  }
});
