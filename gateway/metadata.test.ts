import { readJson } from './json.ts';
import { metadataFault, metadataText } from './metadata.ts';
import { ApiError } from './errors.ts';

const read = (text: string) => readJson(Buffer.from(text), { 'content-type': 'application/json' }) as object;
const nested = (levels: number) => read(`${'{"a":'.repeat(levels - 1)}{}${'}'.repeat(levels - 1)}`);
const nestedLists = (levels: number) => read(`{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`);
/** Metadata of so many bytes as JSON. */
const weighing = (bytes: number, letter = 'x') => ({ a: letter.repeat((bytes - 8) / Buffer.byteLength(letter)) });

const tooLarge = 'metadata must be at most 16 KiB as JSON and at most 10 deep';

test('no metadata is no text, and an empty object is one', () => {
  expect([metadataText(undefined), metadataText(null), metadataText({})]).toEqual(['', '', '{}']);
});

test('metadata is its JSON, as it was sent', () => {
  expect(metadataText(read('{"b":[1, "ä", null],"a":{"c":true}}'))).toBe('{"b":[1,"ä",null],"a":{"c":true}}');
});

test.each([
  ['ten deep', nested(10)],
  ['ten deep by lists', nestedLists(10)],
  ['of 16 KiB', weighing(16_384)],
  ['of 16 KiB in other letters', weighing(16_384, 'ä')],
])('metadata %s is the most', (_, metadata) => {
  expect(metadataText(metadata)).toBe(JSON.stringify(metadata));
  expect(metadataFault(metadata)).toBeNull();
});

test.each([
  ['eleven deep', nested(11)],
  ['eleven deep by lists', nestedLists(11)],
  ['half a million deep', nestedLists(500_000)],
  ['a byte larger than 16 KiB', weighing(16_385)],
  ['larger than 16 KiB in fewer letters', weighing(16_386, 'ä')],
])('metadata %s is too much', (_, metadata) => {
  expect(metadataFault(metadata)).toBe('max');
  let problem: unknown;
  try {
    metadataText(metadata);
  } catch (error) {
    problem = error;
  }
  expect(problem).toBeInstanceOf(ApiError);
  expect(problem).toMatchObject({ code: 'validation_failed', errors: [{ field: 'metadata', tag: 'max', message: tooLarge }] });
});

test.each([
  [null, '{"a":["b",{"c":"ä😀"}],"n":[1,null,true]}'],
  ['unicode', '{"a":"\\u0000"}'],
  ['unicode', '{"a":["b",{"c":"\\ud800"}]}'],
  ['unicode', '{"\\u0000":1}'],
  ['unicode', '{"a":{"\\udc00":1}}'],
  ['number', '{"a":1e999}'],
  ['number', '{"a":[1,{"b":12345678901234567890}]}'],
  ['max', `{"a":"\\u0000","b":"${'x'.repeat(16_384)}"}`],
])('its problem is %s: %.40s', (problem, text) => {
  expect(metadataFault(read(text))).toBe(problem);
});

test('a number in the place of metadata is no object, though it is one to us', () => {
  const { metadata } = read('{"metadata":1e999}') as { metadata: object };
  expect(metadataFault(metadata)).toBe('type');
});

test('a number that a double can’t hold is not one deeper than any other', () => {
  expect(metadataFault(read(`${'{"a":'.repeat(10)}1e999${'}'.repeat(10)}`))).toBe('number');
});
