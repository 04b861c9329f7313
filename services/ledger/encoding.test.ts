import { create, toBinary, type DescMessage, type MessageInitShape } from '@bufbuild/protobuf';
import { EventSchema, TransactionPostedSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { PostTransactionsResponseSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { IngestRequestSchema } from '../../proto/gen/notifier/v1/notifier_pb.js';
import { encodedEvent, encodedIngest, encodedPosted, encodedResponse } from './encoding.ts';

type PostedInit = MessageInitShape<typeof TransactionPostedSchema>;
type EventInit = MessageInitShape<typeof EventSchema>;
type ResponseInit = MessageInitShape<typeof PostTransactionsResponseSchema>;

/** Lengths around the limits of each code path, and multi-byte text. */
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

/** A message with every field set, recursively, to the given text and number. */
function full(type: DescMessage, text: string, number: bigint): Record<string, unknown> {
  const inside = (of: DescMessage) => ({ $typeName: of.typeName, ...full(of, text, number) });
  return Object.fromEntries(
    type.fields
      .filter(({ oneof }) => !oneof)
      .map((field): [string, unknown] => {
        if (field.fieldKind === 'map') return [field.localName, { [text]: text, other: text }];
        // Of 32 bits there are fewer.
        const value = { bigint: number, number: Number(number % 2n ** 31n), boolean: number > 0n, string: text, bytes: Buffer.from(text) };
        const kinds = { 3: 'bigint', 5: 'number', 8: 'boolean', 9: 'string', 12: 'bytes' } as const;
        const one = () => (field.message ? inside(field.message) : value[kinds[field.scalar as keyof typeof kinds]]);
        return [field.localName, field.fieldKind === 'list' ? [one(), one()] : one()];
      }),
  );
}

function samePosted(init: PostedInit): void {
  const event = create(TransactionPostedSchema, init);
  expect(encodedPosted(event).toString('hex')).toBe(Buffer.from(toBinary(TransactionPostedSchema, event)).toString('hex'));
}

function sameResponse(init: ResponseInit): void {
  const response = create(PostTransactionsResponseSchema, init);
  expect(encodedResponse(response).toString('hex')).toBe(Buffer.from(toBinary(PostTransactionsResponseSchema, response)).toString('hex'));
}

const results = PostTransactionsResponseSchema.field.results.message!;
const [transaction, refusal] = ['transaction', 'refusal'].map(
  (name) => results.fields.find(({ localName }) => localName === name)!.message!,
);

/** Events of each kind, with all of their fields. */
function everyEvent(text: string, number: bigint): EventInit[] {
  const kinds = EventSchema.oneofs[0]!.fields.map((field) => ({ case: field.localName, value: full(field.message!, text, number) }));
  return [...kinds, { case: undefined }].map((data) => ({ ...full(EventSchema, text, number), data }) as EventInit);
}

function sameEvent(init: EventInit): void {
  const event = create(EventSchema, init);
  expect(encodedEvent(event).toString('hex')).toBe(Buffer.from(toBinary(EventSchema, event)).toString('hex'));
}

test('an event of each kind is encoded as by the library, alone and with others', () => {
  const all = [...texts.map((text) => [text, 7n] as const), ...numbers.map((number) => ['a', number] as const)].flatMap(([text, number]) =>
    everyEvent(text, number),
  );
  expect(all.length).toBe((EventSchema.oneofs[0]!.fields.length + 1) * (texts.length + numbers.length));
  for (const init of all) sameEvent(init);
  for (const init of [{}, { data: { case: 'balanceUpdated', value: {} } }, { data: { case: 'accountCreated', value: {} } }] as EventInit[])
    sameEvent(init);
  for (const deriveUpdates of [false, true]) {
    const request = create(IngestRequestSchema, { events: [...all, {}], deriveUpdates });
    expect(encodedIngest(request).equals(toBinary(IngestRequestSchema, request))).toBe(true);
  }
  expect(encodedIngest(create(IngestRequestSchema))).toEqual(Buffer.alloc(0));
});

test('unknown fields of newer versions are kept, at every level', () => {
  const added = [{ no: 99, wireType: 2, data: Buffer.from('03616263', 'hex') }];
  const event = (kind: NonNullable<Event['data']['case']>) =>
    create(
      EventSchema,
      everyEvent('a', 7n).find(({ data }) => (data as { case: string }).case === kind),
    );
  interface Place {
    $unknown?: unknown;
  }
  const places: [Event, (of: Event) => Place][] = [
    [event('transactionPosted'), (of) => of],
    [event('transactionPosted'), (of) => of.data.value as Place],
    [event('transactionPosted'), (of) => (of.data.value as { entries: Place[] }).entries[1]!],
    [event('transactionPosted'), (of) => (of.data.value as { balances: Place[] }).balances[1]!],
    [event('balanceUpdated'), (of) => of.data.value as Place],
    [event('balanceUpdated'), (of) => (of.data.value as { balance: Place }).balance],
    [event('accountCreated'), (of) => (of.data.value as { account: Place }).account],
    [event('transactionPosted'), (of) => (of.data.value as { hold: { entries: Place[] } }).hold.entries[1]!],
    [event('transactionPosted'), (of) => (of.data.value as { unreversed: Place }).unreversed],
    [event('holdCreated'), (of) => (of.data.value as { hold: Place }).hold],
    [event('holdCaptured'), (of) => of.data.value as Place],
  ];
  for (const [made, place] of places) {
    const without = encodedEvent(made);
    place(made).$unknown = added;
    expect(encodedEvent(made).toString('hex')).toBe(Buffer.from(toBinary(EventSchema, made)).toString('hex'));
    expect(encodedEvent(made).length).toBeGreaterThan(without.length);
  }
});

test('a posting’s event is encoded as by the library, with all fields and with none', () => {
  for (const text of texts) samePosted(full(TransactionPostedSchema, text, 7n));
  for (const number of numbers) samePosted(full(TransactionPostedSchema, 'a', number));
  samePosted({});
  // What is given back to a velocity limit.
  samePosted({ uses: { uses: [{ limitId: 'limit_1', stepMs: -1n, amount: '-1.00', count: -1 }] } });
});

test('an answer is encoded as by the library, in order', () => {
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

test('a message larger than the buffer is encoded whole and leaves no trace in the next', () => {
  const small = { description: 'small' };
  const entries = Array.from({ length: 2_000 }, (_, place) => ({ accountId: 'acc_'.repeat(place % 90), amount: `${place}.00` }));
  for (const init of [small, { description: 'ä'.repeat(300_000) }, small, { metadata: 'm'.repeat(2_000_000), entries }, small])
    samePosted(init);
  const event = create(TransactionPostedSchema, small);
  const first = encodedPosted(event);
  encodedPosted(create(TransactionPostedSchema, { description: 'other' }));
  expect(first).toEqual(encodedPosted(event));
});

test.each([-1n, 2n ** 53n])('an event with the invalid number %s is encoded as by the library, and so are those next to it', (number) => {
  const [posted] = everyEvent('a', 7n);
  const balances = [{ version: 1n }, { version: number }];
  const odd = [
    { ...posted, createdMs: number },
    { ...posted, data: { case: 'transactionPosted', value: { balances } } },
  ] as EventInit[];
  for (const init of odd) sameEvent(init);
  const request = create(IngestRequestSchema, { events: [posted!, ...odd, posted!] });
  expect(encodedIngest(request).equals(toBinary(IngestRequestSchema, request))).toBe(true);
});

test.each([-1n, 2n ** 53n])('the number %s is refused for a new posting', (version) => {
  const event = create(TransactionPostedSchema, { balances: [{ version }] });
  expect(() => encodedPosted(event)).toThrow(`${version} is no count`);
});
