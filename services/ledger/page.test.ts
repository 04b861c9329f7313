import fc from 'fast-check';
import { Refusal } from './accounting.ts';
import { checkedLimit, cursorAt, cutPage, countFitting, positionOf, type List } from './page.ts';

const lists: List[] = ['accounts', 'transactions', 'history'];
const anyList = fc.constantFrom(...lists);
const anyPlace = fc.array(fc.bigInt(0n, 2n ** 63n - 1n), { minLength: 1, maxLength: 2 });

function refusalOf(call: () => unknown): Refusal {
  try {
    call();
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error('it was not refused');
}
const refused = { reason: 'validation_failed', message: 'cursor is not one of this list' };

test.each([
  [0, 50],
  [1, 1],
  [99, 99],
  [100, 100],
])('the limit %i is a page of %i', (limit, size) => {
  expect(checkedLimit(limit)).toBe(size);
});

test.each([
  [-1, 'min'],
  [101, 'max'],
])('the limit %i is refused as %s', (limit, tag) => {
  const refusal = refusalOf(() => checkedLimit(limit));
  expect(refusal).toMatchObject({ reason: 'validation_failed', message: 'limit must be from 1 to 100' });
  expect(refusal.blame).toEqual({ field: 'limit', tag, value: String(limit) });
});

test('a cursor decodes to its position, only for its list and with its count of numbers', () => {
  fc.assert(
    fc.property(anyList, anyList, anyPlace, (list, other, place) => {
      const cursor = cursorAt(list, place);
      expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/);
      expect(positionOf(list, cursor, place.length)).toEqual(place);
      expect(refusalOf(() => positionOf(list, cursor, place.length + 1))).toMatchObject(refused);
      if (other !== list) expect(refusalOf(() => positionOf(other, cursor, place.length))).toMatchObject(refused);
    }),
  );
});

test('no cursor is the first page', () => {
  expect(positionOf('accounts', '', 1)).toBeNull();
});

test('a cursor with one character changed, added or removed is refused', () => {
  fc.assert(
    fc.property(anyPlace, fc.nat(), fc.constantFrom('A', 'z', '0', '-', '=', ' ', '.'), (place, nat, character) => {
      const cursor = cursorAt('history', place);
      const at = nat % cursor.length;
      fc.pre(cursor[at] !== character);
      for (const changed of [
        cursor.slice(0, at) + character + cursor.slice(at + 1),
        cursor.slice(0, at) + character + cursor.slice(at),
        cursor.slice(0, at) + cursor.slice(at + 1),
      ]) {
        if (changed === '') continue;
        const refusal = refusalOf(() => positionOf('history', changed, place.length));
        expect(refusal).toMatchObject(refused);
        expect(refusal.blame).toEqual({ field: 'cursor', tag: 'id', value: changed });
      }
    }),
  );
});

test('another encoding of the same bytes is refused', () => {
  const cursor = cursorAt('accounts', [7n]);
  const padded = Buffer.from(cursor, 'base64url').toString('base64');
  expect(Buffer.from(padded, 'base64url')).toEqual(Buffer.from(cursor, 'base64url'));
  for (const other of [`${cursor}=`, `${cursor} `, `${cursor}.`, ` ${cursor}`]) {
    expect(refusalOf(() => positionOf('accounts', other, 1))).toMatchObject(refused);
  }
});

test.each<[List, bigint]>([
  ['accounts', 2n ** 128n - 1n],
  ['transactions', 2n ** 63n - 1n],
  ['history', 2n ** 63n - 1n],
])('a position of %s is at most %s', (list, largest) => {
  expect(positionOf(list, cursorAt(list, [largest]), 1)).toEqual([largest]);
  expect(refusalOf(() => positionOf(list, cursorAt(list, [largest + 1n]), 1))).toMatchObject(refused);
  expect(refusalOf(() => positionOf(list, cursorAt(list, [1n, largest + 1n]), 2))).toMatchObject(refused);
});

test('an invalid position is refused despite a valid checksum', () => {
  for (const place of [[-1n], [10n ** 39n], [1n, -1n], [-1n, 1n]]) {
    expect(refusalOf(() => positionOf('accounts', cursorAt('accounts', place), place.length))).toMatchObject(refused);
  }
});

test('a cursor that is too long is refused without being decoded, and repeated in part', () => {
  const refusal = refusalOf(() => positionOf('accounts', cursorAt('accounts', Array<bigint>(40).fill(1n)), 40));
  expect(refusal).toMatchObject(refused);
  expect(refusalOf(() => positionOf('accounts', 'A'.repeat(1000), 1)).blame?.value).toBe('A'.repeat(255));
});

test('a page is cut if one more row was read, and the next begins after its last row', () => {
  const rows = [{ at: 5n }, { at: 4n }, { at: 3n }];
  const place = (row: { at: bigint }) => [row.at];
  const { page, nextCursor } = cutPage(rows, 2, 'transactions', place);
  expect(page).toEqual([{ at: 5n }, { at: 4n }]);
  expect(positionOf('transactions', nextCursor, 1)).toEqual([4n]);
  expect(cutPage(rows, 3, 'transactions', place)).toEqual({ page: rows, nextCursor: '' });
  expect(cutPage([], 3, 'transactions', place)).toEqual({ page: [], nextCursor: '' });
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
