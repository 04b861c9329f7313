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

  test('with its numbers as they were sent, also those that a double can’t hold', () => {
    const text = '{"a":[12345678901234567890,{"b":-1e999,"c":1.5}],"d":null}';
    expect(JSON.stringify(echo(read(text)))).toBe(text);
    expect(JSON.stringify(echo((read('[1e999]') as unknown[])[0]))).toBe('1e999');
  });

  test('whole where it has ten thousand parts, and as the beginning of its JSON where it has one more', () => {
    const most = Array.from({ length: 3_333 }, (_, place) => [place, { a: 'ü' }]).slice(0, 2_499);
    const filled = [...most, 1, 2, 3];
    expect(echo(filled)).toEqual(filled);
    const more = [...filled, 4];
    expect(echo(more)).toBe(`${JSON.stringify(more).slice(0, 1000)}…`);
  });

  test('whole where it is a hundred deep, and as the beginning of its JSON where it is deeper', () => {
    const deep = (levels: number) => JSON.parse(`${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`) as unknown;
    expect(echo(deep(100))).toEqual(deep(100));
    expect(echo(deep(102))).toBe(`${JSON.stringify(deep(102)).slice(0, 1000)}…`);
  });

  test('with no half of a character where its JSON is cut', () => {
    const wide = ['x'.repeat(997), '👩', ...Array.from({ length: 10_000 }, () => 1)];
    expect(echo(wide)).toBe(`["${'x'.repeat(997)}"…`);
    expect(echo(['x'.repeat(994), '👩', ...wide])).toBe(`["${'x'.repeat(994)}","\ufffd…`);
  });

  test('without walking a million items or a million levels', () => {
    const wide = Array.from({ length: 1_000_000 }, () => ['x'.repeat(10)]);
    const guard = {
      get large(): never {
        throw new Error('it was walked');
      },
    };
    expect(echo([...wide.slice(0, 20_000), guard])).toMatch(/^\[\["xxxxxxxxxx"\],/);
    expect(echo(wide)).toHaveLength(1001);
    expect(echo(JSON.parse(`${'['.repeat(500_000)}${']'.repeat(500_000)}`))).toBe(`${'['.repeat(1000)}…`);
  });
});

describe('what is wrong is said in a sentence', () => {
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
    ['max', { 'x-metadata': true }, 'must be at most 16 KiB as JSON and at most 10 deep'],
    ['datetime', { format: 'date-time' }, 'must be a time like 2030-01-31T12:00:00Z'],
    ['datetime', { format: 'date' }, 'must be a date like 2030-01-31'],
    ['gt', { 'x-future': true }, 'must be in the future'],
    ['gt', {}, 'must be greater than zero'],
    ['email', {}, 'must be an email address'],
    ['slug', {}, 'must be 3 to 63 lower-case letters and digits with single hyphens between'],
    ['code', {}, 'must be 1 to 64 letters, digits and ._:- and begin with a letter or digit'],
    ['decimal', {}, 'must be a decimal text with up to 13 digits before and 2 after the point'],
    ['url', {}, 'must be an address like https://example.com/hooks'],
    ['id', {}, 'is not a valid identifier'],
    ['unicode', {}, 'must not hold NUL or half of a surrogate pair'],
    ['number', {}, 'holds a number that would come back as another one: send it as text'],
    ['same', {}, 'differs between the body and the Idempotency-Key header, or is in two of those'],
    ['immutable', {}, 'cannot be changed'],
    ['required', {}, 'is required'],
    ['unheard-of', {}, 'fails unheard-of'],
  ])('%s of %j: %s', (tag, schema, predicate) => {
    expect(fieldMessage('entries[0].amount', tag, schema)).toBe(`entries[0].amount ${predicate}`);
  });
});
