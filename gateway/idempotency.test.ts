import type { FastifyReply, FastifyRequest } from 'fastify';
import { HeaderConflict, takeKeyHeader } from './idempotency.ts';

/** The body after the header's key was put into it. */
function taken(header: string | undefined, body?: unknown, more: string[] = []): unknown {
  const all = header === undefined ? undefined : [header, ...more];
  const raw = { headersDistinct: { 'idempotency-key': all } };
  const request = { headers: { 'idempotency-key': all?.join(', ') }, raw, body } as unknown as FastifyRequest;
  let done = 0;
  takeKeyHeader(request, {} as FastifyReply, () => (done += 1));
  expect(done).toBe(1);
  return request.body;
}
/** As Node reads the bytes of a header. */
const onTheWire = (text: string) => Buffer.from(text, 'utf8').toString('latin1');

test('without the header the body is as it was', () => {
  expect(taken(undefined)).toBeUndefined();
  expect(taken(undefined, { a: 1 })).toEqual({ a: 1 });
});

test('the header’s key is used if the body has none', () => {
  expect(taken('k')).toEqual({ idempotency_key: 'k' });
  expect(taken('k', null)).toEqual({ idempotency_key: 'k' });
  expect(taken('k', { a: 1 })).toEqual({ a: 1, idempotency_key: 'k' });
  expect(taken('k', { idempotency_key: null })).toEqual({ idempotency_key: 'k' });
});

test('the same key in the body is kept, another one conflicts', () => {
  expect(taken('k', { idempotency_key: 'k' })).toEqual({ idempotency_key: 'k' });
  const { idempotency_key: conflict } = taken('k', { idempotency_key: 'other' }) as { idempotency_key: unknown };
  expect(conflict).toBeInstanceOf(HeaderConflict);
  expect(conflict).toMatchObject({ body: 'other' });
  expect(taken('k', { idempotency_key: '' })).toMatchObject({ idempotency_key: { body: '' } });
});

test.each([
  ['others', 'a', ['b', 'c']],
  ['the same', 'a', ['a']],
  ['empty', '', ['']],
])('several headers that are %s conflict, whatever the body says', (_, header, more) => {
  for (const body of [undefined, {}, { idempotency_key: null }]) {
    const { idempotency_key: conflict } = taken(header, body, more) as { idempotency_key: unknown };
    expect(conflict).toBeInstanceOf(HeaderConflict);
    expect(conflict).toMatchObject({ body: [header, ...more].join(', ') });
  }
  expect(taken(header, { idempotency_key: header }, more)).toMatchObject({ idempotency_key: { body: header } });
});

test('one header that holds a comma is one key', () => {
  expect(taken('a, b')).toEqual({ idempotency_key: 'a, b' });
});

test('a key of the body that is no string is left to validation', () => {
  expect(taken('7', { idempotency_key: 7 })).toEqual({ idempotency_key: 7 });
});

test('a body that is no object is left to validation', () => {
  expect(taken('k', [1])).toEqual([1]);
  expect(taken('k', 'text')).toBe('text');
});

test.each([
  ['bare', 'bare'],
  ['"quoted"', 'quoted'],
  ['""', ''],
  [String.raw`"a \"b\" \\ c"`, String.raw`a "b" \ c`],
  [String.raw`"a\\"`, 'a\\'],
  ['"open', '"open'],
  ['closed"', 'closed"'],
  ['"', '"'],
  ['"two" "words"', '"two" "words"'],
  [String.raw`"a\n"`, String.raw`"a\n"`],
  [String.raw`"a\"`, String.raw`"a\"`],
  ['before "quoted"', 'before "quoted"'],
  ['"quoted" behind', '"quoted" behind'],
])('the header %s is the key %s', (header, key) => {
  expect(taken(header)).toEqual({ idempotency_key: key });
});

test('a UTF-8 key is the same in header and body, and a Latin-1 key is read as such', () => {
  expect(taken(onTheWire('Überweisung-✓'))).toEqual({ idempotency_key: 'Überweisung-✓' });
  expect(taken(onTheWire('"Überweisung-✓"'), { idempotency_key: 'Überweisung-✓' })).toEqual({ idempotency_key: 'Überweisung-✓' });
  expect(taken('\u00dcberweisung')).toEqual({ idempotency_key: 'Überweisung' });
});
