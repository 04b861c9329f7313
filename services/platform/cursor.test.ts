import fc from 'fast-check';
import { decodeCursor, encodeCursor } from './cursor.ts';

test('a cursor decodes to its position, only in its own list and only in one spelling', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 20 }), (bytes) => {
      const cursor = encodeCursor('accounts', Buffer.from(bytes));
      expect(decodeCursor('accounts', cursor)).toEqual(Buffer.from(bytes));
      expect(decodeCursor('api keys', cursor)).toBeNull();
      for (const other of [`${cursor}=`, ` ${cursor}`, `${cursor}A`, cursor.slice(1)]) expect(decodeCursor('accounts', other)).toBeNull();
    }),
  );
});

test('cursors of earlier versions stay valid', () => {
  expect(encodeCursor('accounts', Buffer.from('7'))).toBe('9QJQctABNw');
});
