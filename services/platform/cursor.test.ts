import fc from 'fast-check';
import { decodeCursor, encodeCursor } from './cursor.ts';

test('a cursor leads back to its place, whatever that is, in its own list alone, and has no second spelling', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 20 }), (bytes) => {
      const cursor = encodeCursor('accounts', Buffer.from(bytes));
      expect(decodeCursor('accounts', cursor)).toEqual(Buffer.from(bytes));
      expect(decodeCursor('api keys', cursor)).toBeNull();
      for (const other of [`${cursor}=`, ` ${cursor}`, `${cursor}A`, cursor.slice(1)]) expect(decodeCursor('accounts', other)).toBeNull();
    }),
  );
});

test('those that were handed out stay good', () => {
  expect(encodeCursor('accounts', Buffer.from('7'))).toBe('9QJQctABNw');
});
