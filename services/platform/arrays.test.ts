// The bytes of arrays, in the form in which PostgreSQL reads and sends them; postgres-arrays.test.ts asks it what it reads.
import { bigintArray, bytesArray, doubleArray, plainArray, textArray, uuidArray } from './arrays.ts';

/** Whole numbers of four bytes, and text or hexadecimal digits as they are. */
const bytesOf = (...parts: (number | string | Buffer)[]): string =>
  Buffer.concat(
    parts.map((part) => {
      if (typeof part === 'string') return Buffer.from(part);
      if (typeof part !== 'number') return part;
      const four = Buffer.alloc(4);
      four.writeInt32BE(part);
      return four;
    }),
  ).toString('hex');

const hex = (digits: string) => Buffer.from(digits, 'hex');

/** Of one dimension, from 1 on; with the type's number in PostgreSQL's catalogue. */
const head = (type: number, length: number, hasNulls = false) => [1, hasNulls ? 1 : 0, type, length, 1];

test('text is written with the length of its bytes, nothing as a length of -1', () => {
  const written = (...values: (string | null)[]) => textArray(values).toString('hex');
  expect(written()).toBe(bytesOf(...head(25, 0)));
  expect(written('')).toBe(bytesOf(...head(25, 1), 0));
  expect(written(null)).toBe(bytesOf(...head(25, 1, true), -1));
  expect(written('ab', '', 'c')).toBe(bytesOf(...head(25, 3), 2, 'ab', 0, 1, 'c'));
  expect(written(null, 'ab', null)).toBe(bytesOf(...head(25, 3, true), -1, 2, 'ab', -1));
  expect(written('€', null, 'größer', 'x')).toBe(bytesOf(...head(25, 4, true), 3, '€', -1, 8, 'größer', 1, 'x'));
  const long = 'x'.repeat(0x010203);
  expect(textArray([long]).subarray(20, 25).toString('hex')).toBe(bytesOf(0x010203, 'x'));
});

test('UUIDs are written as their sixteen bytes', () => {
  const uuid = '01890a5d-ac96-774b-bcce-b302099a8057';
  const bytes = hex('01890a5dac96774bbcceb302099a8057');
  expect(uuidArray([]).toString('hex')).toBe(bytesOf(...head(2950, 0)));
  expect(uuidArray([uuid, uuid]).toString('hex')).toBe(bytesOf(...head(2950, 2), 16, bytes, 16, bytes));
  expect(uuidArray([null, uuid, null]).toString('hex')).toBe(bytesOf(...head(2950, 3, true), -1, 16, bytes, -1));
});

test('whole numbers and fractions are written as eight bytes, the largest first', () => {
  expect(bigintArray([]).toString('hex')).toBe(bytesOf(...head(20, 0)));
  expect(bigintArray([0x0102030405060708n, -2n]).toString('hex')).toBe(
    bytesOf(...head(20, 2), 8, hex('0102030405060708'), 8, hex('fffffffffffffffe')),
  );
  expect(doubleArray([]).toString('hex')).toBe(bytesOf(...head(701, 0)));
  expect(doubleArray([0.5, -1]).toString('hex')).toBe(bytesOf(...head(701, 2), 8, hex('3fe0000000000000'), 8, hex('bff0000000000000')));
});

test('bytes are written as they are', () => {
  expect(bytesArray([]).toString('hex')).toBe(bytesOf(...head(17, 0)));
  expect(bytesArray([hex('00ff'), Buffer.alloc(0)]).toString('hex')).toBe(bytesOf(...head(17, 2), 2, hex('00ff'), 0));
  expect(bytesArray([null, hex('01'), null]).toString('hex')).toBe(bytesOf(...head(17, 3, true), -1, 1, hex('01'), -1));
});

test('what needs no quotes is written as text', () => {
  expect(plainArray([])).toBe('{}');
  expect(plainArray([1n, -2, null, 'word', true])).toBe('{1,-2,NULL,word,true}');
});
