import { ConnectError } from '@connectrpc/connect';
import { enveloped } from './envelope.ts';
import { Messages } from './messages.ts';

const texts = ['', 'a', 'longer than an envelope', '', 'x'.repeat(1000)];
const bytes = Buffer.concat(texts.map((text) => enveloped(Buffer.from(text))));

test.each([1, 2, 3, 4, 5, 6, 7, 100, 1010, bytes.length])('messages are the same in pieces of %i bytes', (size) => {
  const taken: string[] = [];
  const messages = new Messages(1000, (message) => taken.push(message.toString()));
  let count = 0;
  for (let at = 0; at < bytes.length; at += size) count += messages.add(bytes.subarray(at, at + size));
  expect(taken).toEqual(texts);
  expect([count, messages.unfinished]).toEqual([texts.length, 0]);
});

test('what has not ended is counted, and let go of', () => {
  const taken: string[] = [];
  const messages = new Messages(1000, (message) => taken.push(message.toString()));
  const half = enveloped(Buffer.from('half'));
  expect(messages.add(Buffer.concat([half, half.subarray(0, 7)]))).toBe(1);
  expect(messages.unfinished).toBe(7);
  messages.forget();
  expect([messages.unfinished, messages.add(half)]).toEqual([0, 1]);
  expect(taken).toEqual(['half', 'half']);
});

test('one that is whole in its piece is not copied', () => {
  let taken: Buffer | undefined;
  const messages = new Messages(1000, (message) => (taken = message));
  const piece = enveloped(Buffer.from('whole'));
  messages.add(piece);
  expect(taken?.buffer).toBe(piece.buffer);
});

test.each([
  ['too large', Buffer.from([0, 0, 0, 3, 0xe9]), 'a message of 1001 bytes is larger than 1000'],
  ['compressed', Buffer.from([1, 0, 0, 0, 1]), 'the message is compressed, and no grpc-encoding says how'],
])('one that is %s is refused by its envelope', (_, envelope, message) => {
  const messages = new Messages(1000, () => undefined);
  expect(messages.add(envelope.subarray(0, 4))).toBe(0);
  expect(() => messages.add(envelope.subarray(4))).toThrow(ConnectError);
  expect(() => new Messages(1000, () => undefined).add(envelope)).toThrow(message);
});
