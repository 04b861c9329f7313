import { startCheckedCluster } from '../test/contract.ts';
import { deposit, newWallet, type Customer } from '../test/customer.ts';
import type { Answer, Cluster } from '../test/cluster.ts';
import { until } from '../test/polling.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: Cluster;
let customer: Customer;
beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newWallet(cluster);
});
afterAll(() => cluster.stop());

const call = (method: string, path: string, body?: unknown): Promise<Answer> =>
  cluster.rest(method, customer.at(path), { key: customer.key, ...(body !== undefined && { body }) });
const post = async (more: Record<string, unknown>): Promise<string> =>
  (await customer.post('transactions/double-entry', deposit('10.00', more))).body.data.transaction.transaction_id;
const find = async (query: string): Promise<string[]> =>
  (await customer.get(`transactions?${query}`)).transactions.map(({ transaction_id: id }: { transaction_id: string }) => id);
const refusalOf = async (answer: Promise<Answer>) => {
  const { status, body } = await answer;
  return [status, body.code, body.details?.field, body.details?.tag, body.details?.value];
};

test('transactions are found by metadata at once, by words soon, and by a filter with a name', async () => {
  const old = await post({ metadata: { order: 'A-1', paid: true } });
  expect(await refusalOf(call('GET', 'transactions?metadata.order=A-1'))).toEqual([
    400,
    'validation_failed',
    'metadata.order',
    'oneof',
    'order',
  ]);
  await call('PATCH', 'books', { indexed_metadata: ['order', 'paid'] });
  await until(
    async () => (await customer.get('books')).books.indexes,
    (indexes: { status: string }[]) => indexes.every(({ status }) => status === 'ready'),
  );
  const first = await post({ metadata: { order: 'A-2', paid: false }, description: 'Überweisung', reference: 'INV-7' });
  expect(await find('metadata.order=A-2')).toEqual([first]);
  expect(await find('metadata.order=A-1&metadata.order=A-2')).toEqual([first, old]);
  expect(await find('metadata.order=A-*&metadata.paid=true')).toEqual([old]);
  expect(await find('metadata.order=')).toEqual([]);
  const posted = Date.now();
  expect(
    await until(
      () => find('q=uberweisung+inv*'),
      (found) => found.length > 0,
    ),
  ).toEqual([first]);
  expect(Date.now() - posted).toBeLessThan(30_000);

  const kept = { name: 'mine', query: 'metadata.order=A-*&kind=double' };
  expect((await call('PUT', 'filters/mine', { query: 'kind=single' })).status).toBe(200);
  expect((await call('PUT', 'filters/mine', { query: kept.query })).body.data).toEqual({ filter: kept });
  await call('PUT', 'filters/a', { query: 'q=none' });
  expect((await customer.get('filters')).filters).toEqual([{ name: 'a', query: 'q=none' }, kept]);
  expect(await find('filter=mine')).toEqual([first, old]);
  expect(await find('filter=mine&metadata.order=A-1')).toEqual([old]);
  expect(await find('filter=mine&kind=single')).toEqual([]);
  expect((await call('DELETE', 'filters/a')).body.data).toEqual({ name: 'a', deleted: true });
  expect(await refusalOf(call('DELETE', 'filters/a'))).toEqual([404, 'filter_not_found', undefined, undefined, undefined]);
  expect(await refusalOf(call('GET', 'transactions?filter=a'))).toEqual([404, 'filter_not_found', undefined, undefined, undefined]);
});

test.each([
  ['GET', 'transactions?metadata.a=1&metadata.b=1&metadata.c=1&metadata.d=1&metadata.e=1', 'metadata', 'max', '5'],
  ['GET', 'transactions?q=', 'q', 'required', ''],
  ['GET', 'transactions?q=-', 'q', 'required', '-'],
  ['GET', `transactions?q=${'x'.repeat(256)}`, 'q', 'max', 'x'.repeat(256)],
  ['GET', 'transactions?metadata.=1', 'metadata.', 'oneof', ''],
  ['GET', 'transactions?metadata=1', 'metadata', 'unknown', '1'],
  ['GET', 'transactions?filter=a/b', 'filter', 'name', 'a/b'],
  ['GET', 'statistics/volume?currency=USD&from=2030-01-01', 'to', 'required', ''],
  ['GET', 'statistics/volume?currency=USD&from=2030-01-32&to=2030-01-31', 'from', 'datetime', '2030-01-32'],
  ['GET', 'statistics/volume?currency=USD&from=2030-02-01&to=2030-01-31', 'from', 'oneof', '2030-02-01'],
  ['GET', 'statistics/volume?currency=XXX&from=2030-01-01&to=2030-01-31', 'currency', 'oneof', 'XXX'],
  ['GET', 'statistics/volume?currency=USD&from=2030-01-01&to=2030-01-31&interval=year', 'interval', 'oneof', 'year'],
  ['GET', 'statistics/volume?currency=USD&from=2030-01-01&to=2032-12-31', 'from', 'max', '2030-01-01'],
  ['PUT', 'filters/x', 'query', 'required', ''],
  ['PUT', 'filters/x%20y', 'name', 'name', 'x y', 'kind=double'],
  ['PUT', 'filters/x', 'query.currency', 'oneof', 'BTC', 'currency=BTC'],
  ['PUT', 'filters/x', 'query.filter', 'unknown', 'y', 'filter=y'],
  ['PUT', 'filters/x', 'query.cursor', 'unknown', 'y', 'kind=double&cursor=y'],
])('%s %s is refused', async (...[method, path, field, tag, value, query]: string[]) => {
  const body = method === 'PUT' ? { ...(query !== undefined && { query }) } : undefined;
  expect(await refusalOf(call(method ?? '', path ?? '', body))).toEqual([400, 'validation_failed', field, tag, value]);
});

test('a tenant has at most 100 filters', async () => {
  const { filters } = await customer.get('filters');
  for (let count = Number(filters.length); count < 100; count += 1) await call('PUT', `filters/f${count}`, { query: 'kind=double' });
  expect(await refusalOf(call('PUT', 'filters/more', { query: 'kind=double' }))).toEqual([422, 'too_many', 'filters', 'too_many', '100']);
  expect((await call('PUT', 'filters/f99', { query: 'kind=single' })).status).toBe(200);
});

test('volumes are counted and summed by when transactions count, for days, weeks and months', async () => {
  const own = await newWallet(cluster);
  await cluster.rest('PATCH', own.at('books'), { key: own.key, body: { timezone: 'Africa/Lagos' } });
  const at = async (effective_at: string, amount: string) => own.post('transactions/double-entry', deposit(amount, { effective_at }));
  // 23:30 UTC is the next day in Lagos.
  await at('2026-03-01T23:30:00Z', '1.00');
  await at('2026-03-01', '2.00');
  const answer = await at('2026-03-31T22:59:59.999Z', '4.50');
  expect(answer.status).toBe(201);
  const points = async (query: string) => (await own.get(`statistics/volume?currency=USD&${query}`)).points;
  const wanted = [
    { date: '2026-03-01', count: 1, debits: '2.00' },
    { date: '2026-03-02', count: 1, debits: '1.00' },
    { date: '2026-03-03', count: 0, debits: '0.00' },
  ];
  await until(
    () => points('from=2026-03-31&to=2026-03-31'),
    ([{ count }]) => count === 1,
  );
  expect(await points('from=2026-03-01&to=2026-03-03')).toEqual(wanted);
  expect(await points('from=2026-02-27&to=2026-03-03&interval=week')).toEqual([
    { date: '2026-02-27', count: 1, debits: '2.00' },
    { date: '2026-03-02', count: 1, debits: '1.00' },
  ]);
  expect(await points('from=2026-03-02&to=2026-04-01&interval=month')).toEqual([
    { date: '2026-03-02', count: 2, debits: '5.50' },
    { date: '2026-04-01', count: 0, debits: '0.00' },
  ]);
  expect(await own.get('statistics/volume?currency=NGN&from=2026-03-01&to=2026-03-01')).toEqual({
    points: [{ date: '2026-03-01', count: 0, debits: '0.00' }],
  });
});

test('transactions are found by the day on which they count, in the time zone of the books', async () => {
  const lagos = await newWallet(cluster);
  const own = (method: string, path: string, body?: unknown) =>
    cluster.rest(method, lagos.at(path), { key: lagos.key, ...(body !== undefined && { body }) });
  await own('PATCH', 'books', { timezone: 'Africa/Lagos' });
  const posted = await lagos.post('transactions/double-entry', deposit('10.00', { effective_at: '2026-01-31T22:59:59.999Z' }));
  await lagos.post('transactions/double-entry', deposit('10.00', { effective_at: '2026-02-01' }));
  await own('PUT', 'filters/january', { query: 'effective_from=2026-01-01&effective_to=2026-01-31' });
  for (const query of ['effective_from=2026-01-31&effective_to=2026-01-31', 'filter=january']) {
    const { transactions } = await lagos.get(`transactions?${query}`);
    expect(transactions.map(({ transaction_id: id }: { transaction_id: string }) => id)).toEqual([
      posted.body.data.transaction.transaction_id,
    ]);
  }
  expect(await refusalOf(own('GET', 'transactions?effective_from=2026-02-30'))).toEqual([
    ...[400, 'validation_failed', 'effective_from', 'datetime', '2026-02-30'],
  ]);
  expect((await refusalOf(own('GET', 'transactions?effective_from=2026-02-02&effective_to=2026-02-01'))).slice(0, 4)).toEqual([
    ...[400, 'validation_failed', 'effective_from', 'oneof'],
  ]);
});
