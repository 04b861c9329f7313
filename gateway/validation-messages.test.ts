import { readJson } from './json.ts';
import { fieldMessage, echo } from './validation-messages.ts';

const read = (text: string) => readJson(Buffer.from(text), { 'content-type': 'application/json' });

describe('a wrong value is repeated', () => {
  test('as it was sent', () => {
    const list = Array.from({ length: 201 }, () => ({ account_code: 'CASH', amount: '1.00', side: 'debit', currency: 'USD' }));
    for (const value of [
      'text',
      '',
      7,
      true,
      null,
      [1, 'a', { b: null }],
      { a: [], b: {} },
      'x'.repeat(100_000),
      list,
      { a: 'x'.repeat(20_000) },
    ]) {
      expect(echo(value)).toEqual(value);
    }
  });

  test('as an empty text where there was none', () => {
    expect(echo(undefined)).toBe('');
  });

  test('with its numbers as they were sent, also those that a double cannot represent', () => {
    const text = '{"a":[12345678901234567890,{"b":-1e999,"c":1.5}],"d":null}';
    expect(JSON.stringify(echo(read(text)))).toBe(text);
    expect(JSON.stringify(echo((read('[1e999]') as unknown[])[0]))).toBe('1e999');
  });

  test('whole with ten thousand parts or a hundred levels, and not at all beyond that', () => {
    const wide = Array(10_000).fill(0);
    expect([echo(wide), echo([...wide, 0])]).toEqual([wide, '…']);
    const deep = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`) as unknown;
    expect([echo(deep(100)), echo(deep(500_000))]).toEqual([deep(100), '…']);
  });
});

describe('the message of a field error', () => {
  test.each<[string, Record<string, unknown>, string]>([
    ['type', { type: 'string' }, 'must be a string'],
    ['type', { type: ['string', 'null'] }, 'must be a string'],
    ['type', { type: ['integer', 'boolean'] }, 'must be a whole number or true or false'],
    ['type', { type: 'array' }, 'must be an array'],
    ['type', { type: 'object' }, 'must be an object'],
    ['type', { type: 'number' }, 'must be number'],
    ['oneof', { enum: ['debit', 'credit'] }, 'must be one of debit, credit'],
    ['oneof', { enum: ['NGN', null] }, 'must be one of NGN'],
    ['min', { minLength: 8 }, 'must have at least 8 characters'],
    ['max', { maxLength: 1 }, 'must have at most 1 character'],
    ['min', { minItems: 1 }, 'must have at least 1 item'],
    ['max', { maxItems: 200 }, 'must have at most 200 items'],
    ['min', { minimum: 1 }, 'must be at least 1'],
    ['max', { maximum: 100 }, 'must be at most 100'],
    ['max', { 'x-metadata': 16_384 }, 'must be at most 16 KiB as JSON and at most 10 deep'],
    ['datetime', { format: 'date-time' }, 'must be a time like 2030-01-31T12:00:00Z'],
    ['datetime', { format: 'date' }, 'must be a date like 2030-01-31'],
    ['gt', { 'x-future': true }, 'must be in the future'],
    ['gt', {}, 'must be greater than zero'],
    ['email', {}, 'must be an email address'],
    ['slug', {}, 'must be 3 to 63 lower-case letters and digits with single hyphens between'],
    ['code', {}, 'must be 1 to 64 letters, digits and ._:- and begin with a letter or digit'],
    ['decimal', {}, 'must be a decimal string with at most 13 digits before and 2 after the point'],
    ['url', {}, 'must be an address like https://example.com/hooks'],
    ['id', {}, 'must be a valid identifier'],
    ['printable', {}, 'must consist of printable characters without a blank at either end'],
    ['printable', { 'x-secret': true }, 'must consist of printable characters'],
    ['unicode', {}, 'must not contain NUL or half of a surrogate pair'],
    ['number', {}, 'holds a number that a double cannot represent: send it as a string'],
    ['same', {}, 'must be the same in the body and in one Idempotency-Key header'],
    ['immutable', {}, 'cannot be changed'],
    ['required', {}, 'is required'],
    ['unknown', {}, 'is unknown: check its spelling, or leave it out'],
    ['unheard-of', {}, 'fails unheard-of'],
  ])('%s of %j: %s', (tag, schema, predicate) => {
    expect(fieldMessage('entries[0].amount', tag, schema)).toBe(`entries[0].amount ${predicate}`);
  });

  test.each<[string, unknown, string]>([
    ['gt', '0.00', ', not "0.00"'],
    ['oneof', 'left', ', not "left"'],
    ['max', 500, ', not 500'],
    ['max', Array(201), ', not 201'],
    ['min', '👩'.repeat(7), ', not 7'],
    ['type', 100, ', not a number'],
    ['type', read('[1e999]'), ', not an array'],
    ['type', (read('[1e999]') as unknown[])[0], ', not a number'],
    ['type', {}, ', not an object'],
    ['type', true, ', not true or false'],
    ['code', 'x'.repeat(61), ''],
    ['max', 1.7e308, ''],
    ['unknown', 'x', ''],
    ['max', { a: 1 }, ''],
  ])('%s of %j ends with what was sent: %s', (tag, sent, end) => {
    expect(fieldMessage('amount', tag, { enum: [] }, sent)).toBe(fieldMessage('amount', tag, { enum: [] }) + end);
  });
});
