import { newId } from '../services/platform/ids.ts';
import { hasWordInsteadOfId, pageOf, pathDelivery, pathId, periodOf } from './pages.ts';
import { ApiError } from './errors.ts';

function problemOf(call: () => unknown): ApiError {
  try {
    call();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

test('a page has its limit and the cursor of the next page, if there is one', () => {
  expect(pageOf(20, 'abc')).toEqual({ limit: 20, next_cursor: 'abc', has_more: true });
  expect(pageOf(20, '')).toEqual({ limit: 20, next_cursor: null, has_more: false });
});

test('the id of a path is one of its kind', () => {
  const [transaction, key] = [newId('txn'), newId('key')];
  expect(pathId('transaction_id', { transaction_id: transaction, key_id: key })).toBe(transaction);
  expect(pathId('key_id', { transaction_id: transaction, key_id: key })).toBe(key);
  for (const [params, value] of [
    [{ transaction_id: key }, key],
    [{ transaction_id: 'x' }, 'x'],
    [{}, ''],
  ] as const) {
    const message = `transaction_id must be a valid identifier, not ${JSON.stringify(value)}`;
    expect(problemOf(() => pathId('transaction_id', params))).toMatchObject({
      code: 'validation_failed',
      details: { field: 'transaction_id', tag: 'id', value },
      errors: [{ field: 'transaction_id', tag: 'id', value, message }],
    });
  }
});

test('a malformed delivery id has the specified error', () => {
  const id = newId('wh_delivery');
  expect(pathDelivery({ delivery_id: id })).toBe(id);
  for (const params of [{ delivery_id: newId('evt') }, { delivery_id: 'x' }, {}]) {
    expect(problemOf(() => pathDelivery(params))).toMatchObject({ code: 'invalid_delivery_id', message: 'Invalid delivery ID' });
  }
});

test('a word, or an id of another kind, differs from a malformed id', () => {
  const [transaction, key, delivery] = [newId('txn'), newId('key'), newId('wh_delivery')];
  for (const params of [
    {},
    { slug: 'x', tenant_id: 'x', account_code: 'x' },
    { transaction_id: transaction },
    { key_id: key, tenant_id: 'x' },
    { transaction_id: 'txn_typo' },
    { delivery_id: 'wh_delivery_' },
  ]) {
    expect([params, hasWordInsteadOfId(params)]).toEqual([params, false]);
  }
  for (const params of [
    { transaction_id: 'batch' },
    { transaction_id: key },
    { key_id: transaction, tenant_id: 'x' },
    { delivery_id: 'x' },
  ]) {
    expect([params, hasWordInsteadOfId(params)]).toEqual([params, true]);
  }
  expect(hasWordInsteadOfId({ delivery_id: delivery })).toBe(false);
});

test('a day begins at midnight in UTC, and not before 1970', () => {
  expect(periodOf({ start_date: '1970-01-02', end_date: '2026-11-21' })).toEqual({ startMs: 86_400_000n, endMs: 1_795_219_200_000n });
  expect(periodOf({ start_date: '1969-12-31' })).toEqual({ startMs: 0n, endMs: undefined });
});
