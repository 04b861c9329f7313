import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { PostTransactionsRequestSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { messageInTurns, messageOf, piecesOf, undecodable } from './decoding.ts';

const decoding = { maxMessageBytes: 1 << 20, refused: (why: string) => new ConnectError(why, Code.InvalidArgument) };
const type = PostTransactionsRequestSchema;

const posting = (bytes: number, place: number) => ({
  tenantId: `tenant-${place}`,
  description: 'ä'.repeat(bytes / 2),
  entries: [{ amount: '1.00' }],
});
const sizes = [10, 20_000, 300, 16_000, 100, 9_000, 40_000, 0, 5_000, 12_000];
const known = toBinary(type, create(type, { postings: sizes.map(posting), handBackHeld: true }));
// Fields of later versions, one of them of some length, and a field that is there twice: the last is what counts.
const large = Buffer.concat([[0xf8, 0x3f, 7], known, [0xf2, 0x3f, 3, 1, 2, 3], known, [0x10, 0]].map((part) => Buffer.from(part)));

function inTurns(bytes: Uint8Array, signal = new AbortController().signal) {
  return messageInTurns(type, bytes, decoding, signal);
}

test('a large message is read in turns as it is at once, with what is not known of it', async () => {
  expect(known.length).toBeGreaterThan(100_000);
  const read = await inTurns(large);
  expect(read).toEqual(fromBinary(type, large));
  expect(read.postings).toHaveLength(2 * sizes.length);
  expect(toBinary(type, read)).toEqual(toBinary(type, fromBinary(type, large)));
  expect(await inTurns(known.subarray(0, 0))).toEqual(create(type));
});

test('its pieces are of 16 KiB or a field more, the last one of what is left', () => {
  const field = (length: number) => Buffer.concat([Buffer.from([0x0a, (length & 127) | 128, length >> 7]), Buffer.alloc(length)]);
  const lengths = (...fields: number[]) =>
    [...piecesOf(Buffer.concat(fields.map((bytes) => field(bytes - 3))))].map(({ length }) => length);
  expect(lengths(8_192, 8_192, 8_192, 8_191, 200, 16_000, 16_384, 300)).toEqual([16_384, 16_583, 32_384, 300]);
  expect(lengths(300)).toEqual([300]);
  expect(Buffer.concat([...piecesOf(large)])).toEqual(large);
});

test('one that is cut off anywhere but between its fields, or holds what is no field, is refused', async () => {
  const ends = new Set([...Array(40).keys()].map((part) => large.length - 1 - part * 4_999));
  for (const end of [...ends].filter((each) => each > 0)) {
    const bytes = large.subarray(0, end);
    let expected: unknown;
    try {
      expected = messageOf(type, bytes, decoding);
    } catch (error) {
      expected = (error as ConnectError).rawMessage;
    }
    const read = await inTurns(bytes).catch((error: ConnectError) => error.rawMessage);
    expect(read).toEqual(expected);
  }
  for (const bad of [[0x04], [0x07], [0x0c], [0x0a, 0xff]]) {
    await expect(inTurns(Buffer.concat([large, Buffer.from(bad)]))).rejects.toThrow(undecodable);
  }
});

test('one with too many others in it is refused before any is made', async () => {
  const many = Buffer.alloc(80_000, Buffer.from([0x0a, 0]));
  await expect(inTurns(many)).rejects.toThrow('the message holds more than 6553 others');
  expect(() => messageOf(type, many, decoding)).toThrow('the message holds more than 6553 others');
});

test('one whose caller has left is read no further', async () => {
  const client = new AbortController();
  const read = inTurns(large, client.signal);
  client.abort(new Error('left'));
  await expect(read).rejects.toThrow('left');
});
