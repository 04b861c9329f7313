import { startCheckedCluster } from '../test/contract.ts';
import { id, newWallet, time, type Customer } from '../test/customer.ts';
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
