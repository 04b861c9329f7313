import { startCheckedCluster } from '../test/contract.ts';
import { id, line, newCustomer, newWallet, time, type Customer } from '../test/customer.ts';
import type { Answer, Cluster } from '../test/cluster.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: Cluster;
let customer: Customer;

beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newWallet(cluster);
});
afterAll(() => cluster.stop());

const daily = { calendar: 'day', time_zone: 'Africa/Lagos' };
const usual = { account_code: 'CUSTOMER-WALLETS-NGN', currency: 'NGN', side: 'debit', max_amount: '500.00', window: daily };

type Body = Record<string, unknown>;
const call = (method: string, path: string, body?: Body, of = customer): Promise<Answer> =>
  cluster.rest(method, of.at(path), { key: of.key, ...(body && { body }) });
const create = (more: Body = {}, of = customer) => of.post('limits', { ...usual, ...more });
const created = async (more: Body = {}, of = customer) => (await create(more, of)).body.data.limit;
const refusalOf = ({ status, body }: Answer) => [status, body.code, body.details];

describe('limits as records', () => {
  test('a limit is created, read, listed, changed and deleted', async () => {
    const answer = await create({ name: 'Daily', max_count: 3 });
    const { limit } = answer.body.data;
    expect([answer.status, limit]).toEqual([
      201,
      {
        ...usual,
        limit_id: id('limit'),
        applies: 'account',
        max_count: 3,
        name: 'Daily',
        status: 'active',
        version: 1,
        created_at: time,
        updated_at: time,
      },
    ]);
    const path = `limits/${limit.limit_id}`;
    expect((await customer.get(path)).limit).toEqual(limit);
    const second = await created({ window: { rolling_seconds: 3600 } });
    const { limits, pagination } = await customer.get('limits');
    expect([limits, pagination]).toEqual([[second, limit], { limit: 50, next_cursor: null, has_more: false }]);

    const changed = await call('PATCH', path, { max_amount: '750', status: 'paused', name: '', max_count: null, version: 1 });
    const after = { ...limit, max_amount: '750.00', status: 'paused', name: null, version: 2, updated_at: time };
    expect([changed.status, changed.body.data.limit]).toEqual([200, after]);
    expect((await call('PATCH', path, {})).body.data.limit).toEqual(changed.body.data.limit);

    expect((await call('DELETE', path)).body.data).toEqual({ id: limit.limit_id, deleted: true });
    for (const method of ['GET', 'PATCH', 'DELETE']) expect((await call(method, path)).body.code).toBe('limit_not_found');
    expect((await customer.get('limits')).limits).toEqual([second]);
  });

  test('another tenant’s limit is not found', async () => {
    const { limit_id } = await created();
    const other = await newWallet(cluster);
    for (const [method, path] of [
      ...['GET', 'PATCH', 'DELETE'].map((each) => [each, `limits/${limit_id}`] as const),
      ['GET', `limits/${limit_id}/usage`] as const,
    ]) {
      expect(refusalOf(await call(method, path, undefined, other))).toEqual([404, 'limit_not_found', undefined]);
    }
    expect((await other.get('limits')).limits).toEqual([]);
  });

  test.each<[Body, number, string, string, string, unknown]>([
    [{ account_code: 'NOBODY' }, 422, 'account_not_found', 'account_code', 'account_not_found', 'NOBODY'],
    [{ account_code: 'CUSTOMER-WALLETS' }, 422, 'account_is_group', 'account_code', 'account_is_group', 'CUSTOMER-WALLETS'],
    [{ applies: 'each' }, 400, 'validation_failed', 'applies', 'oneof', 'each'],
    [{ applies: 'sum' }, 400, 'validation_failed', 'applies', 'oneof', 'sum'],
    [{ applies: 'all' }, 400, 'validation_failed', 'applies', 'oneof', 'all'],
    [{ currency: 'USD' }, 422, 'currency_not_allowed', 'currency', 'currency_not_allowed', 'USD'],
    [{ side: 'left' }, 400, 'validation_failed', 'side', 'oneof', 'left'],
    [{ max_amount: null }, 400, 'validation_failed', 'max_amount', 'required', ''],
    [{ max_amount: '0.00' }, 400, 'validation_failed', 'max_amount', 'gt', '0.00'],
    [{ max_amount: 500 }, 400, 'validation_failed', 'max_amount', 'type', 500],
    [{ max_count: 0 }, 400, 'validation_failed', 'max_count', 'min', 0],
    [{ window: {} }, 400, 'validation_failed', 'window.rolling_seconds', 'required', ''],
    [{ window: { rolling_seconds: 59 } }, 400, 'validation_failed', 'window.rolling_seconds', 'min', 59],
    [{ window: { rolling_seconds: 60, calendar: 'day' } }, 400, 'validation_failed', 'window.calendar', 'same', 'day'],
    [{ window: { calendar: 'day' } }, 400, 'validation_failed', 'window.time_zone', 'required', ''],
    [{ window: { calendar: 'day', time_zone: 'Lagos' } }, 400, 'validation_failed', 'window.time_zone', 'timezone', 'Lagos'],
    [{ window: { calendar: 'day', zone: 'UTC' } }, 400, 'validation_failed', 'window.zone', 'unknown', 'UTC'],
    [{ status: 'off' }, 400, 'validation_failed', 'status', 'oneof', 'off'],
    [{ max_ammount: '5' }, 400, 'validation_failed', 'max_ammount', 'unknown', '5'],
  ])('a limit with %j is refused', async (more, status, code, field, tag, value) => {
    expect(refusalOf(await create(more))).toEqual([status, code, { field, tag, value }]);
  });

  test('what a limit counts is immutable, and a stale version is refused', async () => {
    const path = `limits/${(await created()).limit_id}`;
    for (const field of ['account_code', 'applies', 'currency', 'side', 'window']) {
      const { status, body } = await call('PATCH', path, { [field]: (usual as Body)[field] ?? 'sum' });
      expect([status, body.details.field, body.details.tag]).toEqual([400, field, 'immutable']);
    }
    const details = { field: 'version', tag: 'version_conflict', value: 2 };
    expect(refusalOf(await call('PATCH', path, { status: 'paused', version: 2 }))).toEqual([409, 'version_conflict', details]);
  });

  test('usage of a limit on each account needs one below its group', async () => {
    const { limit_id } = await created({ account_code: 'CUSTOMER-WALLETS', applies: 'each' });
    const usage = (query: string) => call('GET', `limits/${limit_id}/usage${query}`);
    const missing = { field: 'account_code', tag: 'required', value: '' };
    expect(refusalOf(await usage(''))).toEqual([400, 'validation_failed', missing]);
    for (const code of ['SETTLEMENT-NGN', 'CUSTOMER-WALLETS', 'NOBODY']) {
      expect((await usage(`?account_code=${code}`)).body.code).toBe('account_not_found');
    }
    const { status, body } = await usage('?account_code=CUSTOMER-WALLETS-NGN');
    const nothing = { amount: '0.00', count: 0, remaining_amount: '500.00', remaining_count: null };
    const windows = { window_start: time, window_end: time };
    expect([status, body.data.usage]).toEqual([200, { limit_id, account_code: 'CUSTOMER-WALLETS-NGN', ...nothing, ...windows }]);
    expect(body.data.usage.window_start).toMatch(/T23:00:00.000Z$/);
  });
});

describe('limits as postings meet them', () => {
  /** Takes an amount out of a wallet. */
  const out = (amount: string, more: Body = {}, code = 'CUSTOMER-WALLETS-NGN') => ({
    entries: [line('SETTLEMENT-NGN', 'credit', amount, 'NGN'), line(code, 'debit', amount, 'NGN')],
    ...more,
  });
  /** A wallet with money in it. */
  async function fundedWallet(): Promise<Customer> {
    const own = await newWallet(cluster);
    await own.post('transactions', line('CUSTOMER-WALLETS-NGN', 'credit', '10000.00', 'NGN'));
    return own;
  }
  const post = (of: Customer, body: Body) => of.post('transactions/double-entry', body);
  const usageOf = async (of: Customer, limitId: string, query = '') => (await of.get(`limits/${limitId}/usage${query}`)).usage;
  const exceeded = (field: string, tag: string, value: string) => [422, 'limit_exceeded', { field, tag, value }];

  test('a daily limit holds under 100 at once', async () => {
    const own = await fundedWallet();
    const { limit_id } = await created({}, own);
    const answers = await Promise.all(Array.from({ length: 100 }, () => post(own, out('50.00'))));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(10);
    for (const answer of answers.filter(({ status }) => status !== 201)) {
      expect(refusalOf(answer)).toEqual(exceeded('entries[1].account_code', 'max_amount', limit_id));
    }
    expect(await usageOf(own, limit_id)).toMatchObject({ amount: '500.00', count: 10, remaining_amount: '0.00', remaining_count: null });
    expect((await own.get('accounts/code/CUSTOMER-WALLETS-NGN/balance?currency=NGN')).balance.balance).toBe('9500.00');
  });

  test('each route names its own field, and a count is a limit too', async () => {
    const own = await fundedWallet();
    const { limit_id } = await created({ max_amount: null, max_count: 1 }, own);
    const first = await own.post('transactions', line('CUSTOMER-WALLETS-NGN', 'debit', '1.00', 'NGN'));
    expect(first.status).toBe(201);
    const single = await own.post('transactions', line('CUSTOMER-WALLETS-NGN', 'debit', '1.00', 'NGN'));
    expect(refusalOf(single)).toEqual(exceeded('account_code', 'max_count', limit_id));
    const exchange = await own.post('transactions/exchange', {
      debit: { account_code: 'CUSTOMER-WALLETS-NGN', currency: 'NGN', amount: '1500.00' },
      credit: { account_code: 'CUSTOMER-WALLETS-USD', currency: 'USD', amount: '1.00' },
    });
    expect(refusalOf(exchange)).toEqual(exceeded('debit.account_code', 'max_count', limit_id));
    const reversed = await own.post(`transactions/${first.body.data.transaction.transaction_id}/reverse`);
    expect([reversed.status, (await usageOf(own, limit_id)).count]).toEqual([201, 1]);
  });

  test('`sum` adds the accounts of a group, `each` does not', async () => {
    const own = await newCustomer(cluster);
    const accounts = [
      { account_code: 'SETTLEMENT-NGN', name: 'Bank', type: 'asset' },
      { account_code: 'WALLETS', name: 'Wallets', type: 'liability', is_group: true },
      ...['ADA', 'BEN'].map((account_code) => ({ account_code, name: account_code, type: 'liability', parent_code: 'WALLETS' })),
    ];
    await own.post('accounts/batch', { accounts });
    const each = await created({ account_code: 'WALLETS', applies: 'each', max_amount: '100.00' }, own);
    const sum = await created({ account_code: 'WALLETS', applies: 'sum', max_amount: '150.00', window: { rolling_seconds: 60 } }, own);
    expect((await post(own, out('100.00', {}, 'ADA'))).status).toBe(201);
    expect(refusalOf(await post(own, out('0.01', {}, 'ADA')))).toEqual(exceeded('entries[1].account_code', 'max_amount', each.limit_id));
    expect(refusalOf(await post(own, out('50.01', {}, 'BEN')))).toEqual(exceeded('entries[1].account_code', 'max_amount', sum.limit_id));
    expect((await post(own, out('50.00', {}, 'BEN'))).status).toBe(201);
    expect((await usageOf(own, sum.limit_id)).amount).toBe('150.00');
    expect((await usageOf(own, each.limit_id, '?account_code=BEN')).amount).toBe('50.00');
  });

  test('an override needs its scope, stands in the origin and in the log, and is counted', async () => {
    const own = await fundedWallet();
    const { limit_id } = await created({}, own);
    const body = out('700.00', { override_reason: 'Charge-back 4711' });
    const weak = await cluster.apiKey(own.tenant, ['transactions:write']);
    const forbidden = await cluster.rest('POST', own.at('transactions/double-entry'), { key: weak, body });
    expect([forbidden.status, forbidden.body.code]).toEqual([403, 'forbidden']);
    const answer = await post(own, body);
    const override = { reason: 'Charge-back 4711', broken: [limit_id] };
    expect([answer.status, answer.body.data.transaction.origin.override]).toEqual([201, override]);
    expect(await usageOf(own, limit_id)).toMatchObject({ amount: '700.00', remaining_amount: '0.00' });
    const { sequence } = answer.body.data.transaction;
    const { events } = await own.get(`events?after_sequence=${sequence - 2}`);
    const [made, posted] = events;
    expect([made.type, made.data.kind, made.data.id, made.data.record.limit_id]).toEqual([
      'definition.changed',
      'limit',
      limit_id,
      limit_id,
    ]);
    expect([posted.type, posted.data.origin.override]).toEqual(['transaction.posted', override]);
  });

  test('a dry run uses nothing, and a paused limit refuses nothing', async () => {
    const own = await fundedWallet();
    const { limit_id } = await created({}, own);
    const tried = () => own.post('transactions/double-entry?dry_run=true', out('400.00'));
    expect([(await tried()).status, (await tried()).status]).toEqual([200, 200]);
    expect((await usageOf(own, limit_id)).amount).toBe('0.00');
    const beyond = await own.post('transactions/double-entry?dry_run=true', out('500.01'));
    expect(refusalOf(beyond)).toEqual(exceeded('entries[1].account_code', 'max_amount', limit_id));
    await call('PATCH', `limits/${limit_id}`, { status: 'paused' }, own);
    expect((await post(own, out('600.00'))).status).toBe(201);
    expect((await usageOf(own, limit_id)).amount).toBe('600.00');
  });

  test('a hold counts when it is made, its capture does not, and a void gives back', async () => {
    const own = await fundedWallet();
    const { limit_id } = await created({}, own);
    const held = (amount: string) => own.post('holds', out(amount));
    const [first, second] = [(await held('300.00')).body.data.hold, (await held('200.00')).body.data.hold];
    expect(refusalOf(await held('0.01'))).toEqual(exceeded('entries[1].account_code', 'max_amount', limit_id));
    expect((await own.post(`holds/${first.hold_id}/capture`, { amount: '100.00' })).status).toBe(201);
    expect(await usageOf(own, limit_id)).toMatchObject({ amount: '300.00', count: 2 });
    expect((await own.post(`holds/${second.hold_id}/void`)).status).toBe(200);
    expect(await usageOf(own, limit_id)).toMatchObject({ amount: '100.00', count: 1, remaining_amount: '400.00' });
  });

  test('no rolling window exceeds its maximum', async () => {
    const own = await fundedWallet();
    const { limit_id } = await created({ max_amount: '100.00', window: { rolling_seconds: 60 } }, own);
    const amounts = Array.from({ length: 60 }, (_, index) => ((index * 7) % 11) + 1);
    const answers = await Promise.all(amounts.map((amount) => post(own, out(`${amount}.00`))));
    const used = amounts.filter((_, index) => answers[index]?.status === 201).reduce((sum, amount) => sum + amount, 0);
    expect(used).toBeLessThanOrEqual(100);
    expect(used).toBeGreaterThan(89);
    const usage = await usageOf(own, limit_id);
    expect([Number(usage.amount), Date.parse(usage.window_end) - Date.parse(usage.window_start)]).toEqual([used, 61_000]);
  });
});
