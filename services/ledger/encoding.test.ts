import { create, toBinary, type DescMessage, type MessageInitShape } from '@bufbuild/protobuf';
import { TransactionPostedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { PostTransactionsResponseSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { encodedEvent, encodedResponse, encoders } from './encoding.ts';

type EventInit = MessageInitShape<typeof TransactionPostedSchema>;
type ResponseInit = MessageInitShape<typeof PostTransactionsResponseSchema>;

/** Lengths around where a length or a text is written in another way, and texts that take more bytes than they have characters. */
const texts = [
  '',
  'a',
  'x'.repeat(63),
  'x'.repeat(64),
  'x'.repeat(127),
  'x'.repeat(128),
  'x'.repeat(16_384),
  'é',
  '“支払い” 💸',
  'é'.repeat(63),
  '\u007f\u0080',
];
const numbers = [0n, 1n, 127n, 128n, 16_383n, 16_384n, 1_790_000_000_000n, 2n ** 53n - 1n];

/** A message in which all is set, with others inside down to what has none: its texts are those given, its numbers that given. */
function full(type: DescMessage, text: string, number: bigint): Record<string, unknown> {
  const inside = (of: DescMessage) => ({ $typeName: of.typeName, ...full(of, text, number) });
  return Object.fromEntries(
    type.fields
      .filter(({ oneof }) => !oneof)
      .map((field): [string, unknown] => {
        if (field.fieldKind === 'list') return [field.localName, field.message ? [inside(field.message), inside(field.message)] : [text]];
        if (field.fieldKind === 'message') return [field.localName, inside(field.message)];
        const value = { bigint: number, boolean: number > 0n, string: text, bytes: Buffer.from(text) };
        const kinds = { 3: 'bigint', 8: 'boolean', 9: 'string', 12: 'bytes' } as const;
        return [field.localName, value[kinds[field.scalar as keyof typeof kinds]]];
      }),
  );
}

function sameEvent(init: EventInit): void {
  const event = create(TransactionPostedSchema, init);
  expect(encodedEvent(event).toString('hex')).toBe(Buffer.from(toBinary(TransactionPostedSchema, event)).toString('hex'));
}

function sameResponse(init: ResponseInit): void {
  const response = create(PostTransactionsResponseSchema, init);
  expect(encodedResponse(response).toString('hex')).toBe(Buffer.from(toBinary(PostTransactionsResponseSchema, response)).toString('hex'));
}

const results = PostTransactionsResponseSchema.field.results.message!;
const [transaction, refusal] = ['transaction', 'refusal'].map(
  (name) => results.fields.find(({ localName }) => localName === name)!.message!,
);

test('an event has the bytes that the library makes of it, whatever its texts and numbers are, with all of its fields and with none', () => {
  for (const text of texts) sameEvent(full(TransactionPostedSchema, text, 7n));
  for (const number of numbers) sameEvent(full(TransactionPostedSchema, 'a', number));
  sameEvent({});
});

test('an answer has the bytes that the library makes of it, in the order of what it answers', () => {
  for (const [text, number] of [...texts.map((each) => [each, 7n] as const), ...numbers.map((each) => ['a', each] as const)]) {
    const outcomes = [
      { case: 'transaction', value: full(transaction!, text, number) },
      { case: 'refusal', value: full(refusal!, text, number) },
      { case: undefined },
    ];
    for (const replayed of [false, true]) sameResponse({ results: outcomes.map((outcome) => ({ outcome, replayed })) } as ResponseInit);
    sameResponse({ results: [{ outcome: outcomes[0] }, ...Array(3).fill({ outcome: outcomes[1] })] });
  }
  sameResponse({});
});

test('what is larger than all before is encoded whole, and does not show in what comes after it', () => {
  const small = { description: 'small' };
  const entries = Array.from({ length: 2_000 }, (_, place) => ({ accountId: 'acc_'.repeat(place % 90), amount: `${place}.00` }));
  for (const init of [small, { description: 'ä'.repeat(300_000) }, small, { metadata: 'm'.repeat(2_000_000), entries }, small])
    sameEvent(init);
  const event = create(TransactionPostedSchema, small);
  const first = encodedEvent(event);
  encodedEvent(create(TransactionPostedSchema, { description: 'other' }));
  expect(first).toEqual(encodedEvent(event));
});

test('answers to many postings are those that are not left to the library', () => {
  expect([...encoders.keys()]).toEqual([PostTransactionsResponseSchema]);
  const message = create(PostTransactionsResponseSchema, { results: [{ replayed: true }] });
  expect([...encoders.values()].map((encode) => encode(message))).toEqual([Buffer.from('0a021801', 'hex')]);
});

test.each([-1n, 2n ** 53n])('%s is no count, and nothing is written for it', (version) => {
  const event = create(TransactionPostedSchema, { balances: [{ version }] });
  expect(() => encodedEvent(event)).toThrow(`${version} is no count`);
});
