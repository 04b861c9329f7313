import { encodeCursor, sequencePosition } from '../platform/cursor.ts';
import { checkedLimit, countFitting, positionOf } from './page.ts';

test.each([
  [0, 50],
  [1, 1],
  [99, 99],
  [100, 100],
])('the limit %i is a page of %i', (limit, size) => {
  expect(checkedLimit(limit)).toBe(size);
});

test.each<[string, () => unknown, object]>([
  ['a limit below zero', () => checkedLimit(-1), { field: 'limit', tag: 'min', value: '-1' }],
  ['a limit above 100', () => checkedLimit(101), { field: 'limit', tag: 'max', value: '101' }],
  [
    'a cursor of another tenant',
    () => positionOf(['transactions', 'other'], encodeCursor(['transactions', 'tenant'], '7'), sequencePosition),
    { field: 'cursor', tag: 'cursor', value: encodeCursor(['transactions', 'tenant'], '7') },
  ],
])('%s is refused with its field and value', (_, call, blame) => {
  expect(call).toThrow(expect.objectContaining({ reason: 'validation_failed', blame }));
});

test('no cursor is the first page', () => {
  expect(positionOf(['accounts', 'tenant'], '', sequencePosition)).toBeNull();
});

test('an answer contains rows up to 1 MiB, at least one and at most as many as requested', () => {
  const rows = (...bytes: number[]) => bytes.map((length) => ({ payload: new Uint8Array(length) }));
  const mebibyte = 1024 * 1024;
  expect(countFitting(rows(10, 10, 10), 2)).toBe(2);
  expect(countFitting(rows(10, 10), 5)).toBe(5);
  expect(countFitting(rows(mebibyte - 10, 10, 1), 3)).toBe(2);
  expect(countFitting(rows(mebibyte - 10, 11, 1), 3)).toBe(1);
  expect(countFitting(rows(mebibyte + 1, 1), 2)).toBe(1);
  expect(countFitting(rows(1, 1, mebibyte), 1)).toBe(1);
});
