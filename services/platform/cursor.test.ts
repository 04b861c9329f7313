import fc from 'fast-check';
import { cutPage, decodeCursor, encodeCursor, sequencePosition, uuidPosition, type CursorScope } from './cursor.ts';

const scope: CursorScope = ['transactions', 'tenant', { reference: 'a', startMs: 7n }];
const patterns = { uuid: uuidPosition, sequence: sequencePosition };
const anyPosition = fc.oneof(
  fc.uuid().map((uuid) => ['uuid', uuid] as const),
  fc.bigInt(0n, 10n ** 18n - 1n).map((sequence) => ['sequence', String(sequence)] as const),
);

test('a cursor decodes to its position, but not with one character changed, added or removed', () => {
  fc.assert(
    fc.property(anyPosition, fc.nat(), fc.constantFrom('A', 'z', '0', '-', '=', ' ', '.'), ([kind, position], nat, character) => {
      const cursor = encodeCursor(scope, position);
      expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/);
      expect(decodeCursor(scope, cursor, patterns[kind])).toBe(position);
      const at = nat % cursor.length;
      fc.pre(cursor[at] !== character);
      const [before, after] = [cursor.slice(0, at), cursor.slice(at)];
      for (const changed of [before + character + after.slice(1), before + character + after, before + after.slice(1)])
        expect(decodeCursor(scope, changed, patterns[kind])).toBeNull();
    }),
  );
});

test.each<[string, CursorScope]>([
  ['another list', ['accounts', 'tenant', { reference: 'a', startMs: 7n }]],
  ['another owner', ['transactions', 'other', { reference: 'a', startMs: 7n }]],
  ['another filter', ['transactions', 'tenant', { reference: 'b', startMs: 7n }]],
  ['another time', ['transactions', 'tenant', { reference: 'a', startMs: 8n }]],
  ['fewer filters', ['transactions', 'tenant', { reference: 'a', startMs: undefined }]],
  ['no filters', ['transactions', 'tenant']],
])('a cursor is none of %s', (_, other) => {
  expect(decodeCursor(other, encodeCursor(scope, '7'), sequencePosition)).toBeNull();
});

test.each(['', '-1', '7 8', '1e3', '9'.repeat(19), 'x'])('the position %j is refused despite a valid checksum', (position) => {
  expect(decodeCursor(scope, encodeCursor(scope, position), sequencePosition)).toBeNull();
});

test('a page is cut if one more row was read, and the next begins after its last row', () => {
  const page = (rows: number[], limit: number) => cutPage(rows, limit, scope, String);
  expect(page([5, 4, 3], 2)).toEqual({ rows: [5, 4], nextCursor: encodeCursor(scope, '4') });
  expect(page([5, 4, 3], 3)).toEqual({ rows: [5, 4, 3], nextCursor: '' });
  expect(page([], 3)).toEqual({ rows: [], nextCursor: '' });
});
