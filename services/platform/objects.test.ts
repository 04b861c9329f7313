import { StructSchema } from '@bufbuild/protobuf/wkt';
import { PostTransactionsRequestSchema as Batch } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { makesMoreThan } from './objects.ts';

/** So many bytes of a record, again and again. */
const repeated = (record: number[], bytes: number) => Buffer.alloc(bytes - (bytes % record.length), Buffer.from(record));

/** A posting (field 1 of a batch) that holds these bytes. */
function posting(bytes: Uint8Array): Buffer {
  const length = [0, 7, 14, 21].map((shift) => ((bytes.length >> shift) & 127) | (shift < 21 ? 128 : 0));
  return Buffer.concat([Buffer.from([0x0a, ...length]), bytes]);
}

// Each as many as `bytes` have room for.
const shapes: [string, (bytes: number) => Buffer][] = [
  ['empty postings', (bytes) => repeated([0x0a, 0], bytes)],
  ['empty entries of one posting', (bytes) => posting(repeated([0x32, 0], bytes))],
  ['unknown numbers', (bytes) => repeated([0x78, 0], bytes)],
  ['unknown fixed numbers', (bytes) => repeated([0x7d, 0, 0, 0, 0], bytes)],
  ['unknown fixed numbers of 8 bytes', (bytes) => repeated([0x79, 0, 0, 0, 0, 0, 0, 0, 0], bytes)],
  ['unknown texts', (bytes) => repeated([0x7a, 1, 97], bytes)],
  ['unknown groups', (bytes) => repeated([0x7b, 0x7c], bytes)],
  ['unknown fields of one posting', (bytes) => posting(repeated([0x78, 0], bytes))],
  ['the same field', (bytes) => repeated([0x10, 1], bytes)],
];

test.each<[string, number, Uint8Array]>([
  ['postings', 7, repeated([0x0a, 0], 14)],
  ['a posting and its entries', 7, posting(repeated([0x32, 0], 12))],
  ['entries with what they hold', 5, posting(repeated([0x32, 3, 0x12, 1, 49], 20))],
  ['a posting without its texts', 1, posting(repeated([0x22, 1, 97], 9))],
  ['the two tags of groups', 4, repeated([0x7b, 0x7c], 4)],
  ['fields that are not known', 4, Buffer.from([0x78, 0, 0x7a, 1, 97, 0x7d, 0, 0, 0, 0, 0x79, 0, 0, 0, 0, 0, 0, 0, 0])],
  ['a number of ten bytes that is not known', 1, Buffer.from([0x78, ...Array<number>(9).fill(255), 1])],
])('counts %s exactly', (_, count, bytes) => {
  expect([makesMoreThan(count, Batch, bytes), makesMoreThan(count - 1, Batch, bytes)]).toEqual([false, true]);
});

test('of known fields 16 are allowed for each object', () => {
  const bools = (count: number) => repeated([0x10, 1], 2 * count);
  expect([makesMoreThan(3, Batch, bools(48)), makesMoreThan(3, Batch, bools(49))]).toEqual([false, true]);
});

test.each(shapes)('%s are too many, of which one after the other may be refused', (_, make) => {
  expect(makesMoreThan(1000, Batch, make(100_000))).toBe(true);
});

test('entries of maps are fields', () => {
  const entry = [0x0a, 4, 0x0a, 0, 0x12, 0];
  expect([makesMoreThan(1, StructSchema, repeated(entry, 6 * 16)), makesMoreThan(1, StructSchema, repeated(entry, 6 * 17))]).toEqual([
    false,
    true,
  ]);
});

test('what comes after too many is not looked at', () => {
  expect(makesMoreThan(1, Batch, Buffer.from([0x0a, 0, 0x0a, 0, 0xff]))).toBe(true);
  expect(makesMoreThan(1, Batch, Buffer.concat([repeated([0x10, 1], 34), Buffer.from([0xff])]))).toBe(true);
});

test('bytes that are no message throw, or are left to decoding', () => {
  expect(() => makesMoreThan(0, Batch, Buffer.from([0x0a, 0xff]))).toThrow();
  expect(makesMoreThan(1, Batch, Buffer.from([0x12, 100, 0]))).toBe(false);
});
