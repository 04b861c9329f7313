// Settings of books and periods through REST: records, events, scopes, and what late entries, reopenings and year ends answer.
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import { deposit, id, line, newWallet, time, type Customer } from '../test/customer.ts';
import type { Answer } from '../test/cluster.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: CheckedCluster;
beforeAll(async () => {
  cluster = await startCheckedCluster();
});
afterAll(() => cluster.stop());

type Body = Record<string, unknown>;
const double = 'transactions/double-entry';
const patch = (of: Customer, body: Body) => cluster.rest('PATCH', of.at('books'), { key: of.key, body });
const close = (of: Customer, body: Body) => of.post('periods/close', body);
const problem = ({ status, body }: Answer): unknown[] => [status, body.code, body.details.field, body.details.tag, body.details.value];

const defaults = {
  ...{ timezone: 'UTC', fiscal_year_end: '12-31', retained_earnings_code: 'RETAINED-EARNINGS', late_entries: 'refuse', future_days: 366 },
  ...{ cash_accounts: [], indexed_metadata: [], closed_through: null, final_through: null, status: 'active', frozen: null },
  ...{ indexes: [], version: 0, updated_at: null },
};
/** The auditor may have walked the log by now. */
const steady = ({ verified, ...books }: Body): Body => {
  expect(verified).toEqual(verified === null ? null : { sequence: expect.any(Number), at: time });
  return books;
};

test('books are read and changed field by field, and what is wrong is refused as the other settings stay', async () => {
  const customer = await newWallet(cluster);
  expect(steady((await customer.get('books')).books)).toEqual(defaults);
  const change = { timezone: 'Africa/Lagos', fiscal_year_end: '06-30', cash_accounts: ['SETTLEMENT'], indexed_metadata: ['order_id'] };
  const { status, body } = await patch(customer, { ...change, late_entries: null, version: 0 });
  const changed = { ...defaults, ...change, version: 1, updated_at: time, indexes: [{ key: 'order_id', status: expect.any(String) }] };
  expect([status, steady(body.data.books)]).toEqual([200, changed]);
  expect(steady((await patch(customer, {})).body.data.books)).toEqual(changed);
  const wrong: [Body, number, string, string, string, unknown][] = [
    [{ timezone: 'Lagos' }, 400, 'validation_failed', 'timezone', 'timezone', 'Lagos'],
    [{ fiscal_year_end: '13-01' }, 400, 'validation_failed', 'fiscal_year_end', 'datetime', '13-01'],
    [{ late_entries: 'allow' }, 400, 'validation_failed', 'late_entries', 'oneof', 'allow'],
    [{ future_days: 3661 }, 400, 'validation_failed', 'future_days', 'max', 3661],
    [{ future_days: '1' }, 400, 'validation_failed', 'future_days', 'type', '1'],
    [{ cash_accounts: ['SETTLEMENT', '-'] }, 400, 'validation_failed', 'cash_accounts[1]', 'code', '-'],
    [{ cash_accounts: ['SETTLEMENT', 'SETTLEMENT'] }, 400, 'validation_failed', 'cash_accounts[1]', 'unique', 'SETTLEMENT'],
    [{ indexed_metadata: ['a.b'] }, 400, 'validation_failed', 'indexed_metadata[0]', 'key', 'a.b'],
    [{ closed_through: '2025-01-31' }, 400, 'validation_failed', 'closed_through', 'unknown', '2025-01-31'],
    [{ version: 0, future_days: 1 }, 409, 'version_conflict', 'version', 'version_conflict', 0],
    [{ retained_earnings_code: 'NOBODY' }, 422, 'account_not_found', 'retained_earnings_code', 'account_not_found', 'NOBODY'],
    [{ retained_earnings_code: 'EQUITY' }, 422, 'account_is_group', 'retained_earnings_code', 'account_is_group', 'EQUITY'],
    [{ cash_accounts: ['SUSPENSE-USD'] }, 422, 'account_is_system', 'cash_accounts[0]', 'account_is_system', 'SUSPENSE-USD'],
  ];
  for (const [sent, ...expected] of wrong) expect(problem(await patch(customer, sent))).toEqual(expected);
  expect(steady((await customer.get('books')).books)).toEqual(changed);
});

test('late entries are refused or moved, and show both times', async () => {
  const customer = await newWallet(cluster);
  await patch(customer, { timezone: 'Africa/Lagos' });
  const { status, body } = await close(customer, { through: '2025-06-30' });
  const period = { id: id('period'), action: 'close', through: '2025-06-30', final: false, year_end: false, closing_transactions: [] };
  const { actor, sequence } = body.data.period;
  expect([status, body.data.period]).toEqual([201, { ...period, reason: '', actor, created_at: time, sequence }]);
  expect((await customer.get('books')).books).toMatchObject({ closed_through: '2025-06-30', final_through: null, version: 2 });
  const again = await close(customer, { through: '2025-06-30', reason: 'Again' });
  expect([again.status, again.body.data]).toEqual([200, body.data]);
  expect(problem(await patch(customer, { timezone: 'UTC' }))).toEqual([400, 'validation_failed', 'timezone', 'immutable', 'UTC']);

  const late = deposit('10.00', { effective_at: '2025-06-30' });
  const refused = [422, 'period_closed', 'effective_at', 'period_closed'];
  expect(problem(await customer.post(double, late)).slice(0, 4)).toEqual(refused);
  await patch(customer, { late_entries: 'next_open' });
  const [first, asked] = ['2025-06-30T23:00:00.000Z', '2025-06-29T23:00:00.000Z'];
  const { transaction } = (await customer.post(double, late)).body.data;
  expect(transaction).toMatchObject({ effective_at: first, requested_effective_at: asked });

  const { events } = await customer.get('events?after_sequence=50&limit=100');
  const shown = (events as { type: string; data: object }[]).filter(({ type }) => /^(books|period)/.test(type));
  const { books } = (await customer.get('books')) as { books: Record<string, unknown> };
  const settings = Object.fromEntries(
    Object.keys(defaults)
      .slice(0, 7)
      .map((name) => [name, books[name]]),
  );
  expect(shown.map(({ type, data }) => [type, data])).toEqual([
    ['books.updated', { books: { ...settings, late_entries: 'refuse' }, sequence: Number(sequence) - 1 }],
    ['period.closed', { ...period, action: undefined, reason: '', sequence }],
    ['books.updated', { books: settings, sequence: Number(sequence) + 1 }],
  ]);
});

test('closing and reopening each want their scope, and reopening a reason', async () => {
  const customer = await newWallet(cluster);
  const only = (scope: string) => cluster.apiKey(customer.tenant, [scope]);
  const [closer, reopener] = [await only('periods:close'), await only('periods:reopen')];
  const call = (what: string, key: string, body: Body) => cluster.rest('POST', customer.at(`periods/${what}`), { key, body });
  const [closing, reopening] = [{ through: '2025-01-31' }, { through: null, reason: 'Audit' }];
  expect((await call('close', reopener, closing)).status).toBe(403);
  expect((await call('close', closer, closing)).status).toBe(201);
  expect((await call('reopen', closer, reopening)).status).toBe(403);
  const reopen = (body: Body) => call('reopen', reopener, body);
  expect(problem(await reopen({ through: null }))).toEqual([400, 'validation_failed', 'reason', 'required', '']);
  expect(problem(await reopen({ through: null, reason: '' }))).toEqual([400, 'validation_failed', 'reason', 'required', '']);
  expect(problem(await reopen({ reason: 'Audit' }))).toEqual([400, 'validation_failed', 'through', 'required', '']);
  expect(problem(await reopen({ ...reopening, through: '2025-02-30' }))).toEqual([
    ...[400, 'validation_failed', 'through', 'datetime', '2025-02-30'],
  ]);
  expect(problem(await reopen({ ...reopening, through: '2025-02-01' }))).toEqual([
    ...[422, 'period_closed', 'through', 'period_closed', '2025-02-01'],
  ]);
  const answer = await reopen(reopening);
  const { period } = answer.body.data;
  expect([answer.status, period]).toMatchObject([201, { action: 'reopen', through: null, reason: 'Audit' }]);
  expect(await reopen(reopening)).toMatchObject({ status: 200, body: { data: { period } } });
  expect((await close(customer, { ...closing, final: true })).status).toBe(201);
  expect(problem(await reopen(reopening)).slice(0, 3)).toEqual([422, 'period_final', 'through']);
  const { periods } = await customer.get('periods');
  expect((periods as { action: string; final: boolean }[]).map(({ action, final }) => [action, final])).toEqual([
    ...[['close', true] as const, ['reopen', false] as const, ['close', false] as const],
  ]);
});

test('a day that is not over, or a year end without its account, closes nothing', async () => {
  const customer = await newWallet(cluster);
  const today = new Date().toISOString().slice(0, 10);
  expect(problem(await close(customer, { through: today }))).toEqual([422, 'period_not_over', 'through', 'period_not_over', today]);
  expect(problem(await close(customer, {}))).toEqual([400, 'validation_failed', 'through', 'required', '']);
  expect(problem(await close(customer, { through: '2025-01-31T00:00:00Z' })).slice(0, 4)).toEqual([
    ...[400, 'validation_failed', 'through', 'datetime'],
  ]);
  await close(customer, { through: '2025-01-31' });
  expect(problem(await close(customer, { through: '2025-01-30' }))).toEqual([
    ...[422, 'period_closed', 'through', 'period_closed', '2025-01-30'],
  ]);
  expect((await customer.get('books')).books.closed_through).toBe('2025-01-31');
});

test('a year end, a late entry and the year end again leave all revenue and expense at zero that day', async () => {
  const customer = await newWallet(cluster);
  const fee = (amount: string, effective_at: string) => {
    const entries = [line('CUSTOMER-WALLETS-USD', 'debit', amount), line('FEES-TRANSACTION', 'credit', amount)];
    return customer.post(double, { entries, effective_at });
  };
  await customer.post(double, deposit('1000.00', { effective_at: '2025-01-01' }));
  await fee('3.00', '2025-05-01');
  const year = { through: '2025-12-31', year_end: true };
  const first = (await close(customer, year)).body.data.period;
  expect(first.closing_transactions).toEqual([id('txn')]);
  await customer.post('periods/reopen', { through: '2025-11-30', reason: 'Late' });
  expect((await fee('2.00', '2025-12-30')).status).toBe(201);
  const second = (await close(customer, year)).body.data.period;
  const [closing] = second.closing_transactions as string[];
  const { transaction } = await customer.get(`transactions/${closing}`);
  expect(transaction).toMatchObject({ kind: 'closing', effective_at: '2025-12-31T23:59:59.999Z', amount: '2.00' });
  for (const [code, balance] of [
    ['FEES-TRANSACTION', '0.00'],
    ['RETAINED-EARNINGS', '5.00'],
  ] as const) {
    const read = await customer.get(`accounts/code/${code}/balance?currency=USD&as_of=2025-12-31`);
    expect([code, read.balance.balance]).toEqual([code, balance]);
  }
  const reversal = await customer.post(`transactions/${closing}/reverse`, { idempotency_key: 'undo' });
  expect(problem(reversal).slice(0, 3)).toEqual([422, 'period_closed', 'effective_at']);
});
