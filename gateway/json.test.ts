import type { IncomingHttpHeaders } from 'node:http';
import { isSuspect, numberText, readJson } from './json.ts';
import { ApiError } from './errors.ts';

const plain = { 'content-type': 'application/json' };
const read = (text: string | Buffer, headers: IncomingHttpHeaders = plain): any => readJson(Buffer.from(text as string), headers);
const code = (answer: unknown) => (answer instanceof ApiError ? answer.code : 'read');

test('a body is what JSON.parse makes of it', () => {
  for (const value of [{ a: [1, 'ä', null, true, { b: -1.5e3 }] }, [1, 2], {}, [], 'text', 7, null, true]) {
    expect(read(JSON.stringify(value))).toEqual(value);
  }
});

test('no body is none, whatever its headers say', () => {
  expect(read('', {})).toBeUndefined();
  expect(read('', { 'content-type': 'text/plain', 'content-encoding': 'gzip' })).toBeUndefined();
});

test.each([
  'application/json',
  'Application/JSON',
  ' application/json ',
  'application/json; charset=utf-8',
  'application/json;charset=UTF8',
  'application/json; charset="utf-8"',
  'application/json; Charset = utf-8 ',
  'application/json; profile=x; charset=utf-8',
  'application/json; profile="a;charset=latin1"',
  'application/json; profile="\\";charset=latin1"; charset=utf-8',
  'application/json; version',
])('the media type %j is JSON', (type) => {
  expect(read('{}', { 'content-type': type })).toEqual({});
});

test.each([
  undefined,
  '',
  'text/plain',
  'application/jsonp',
  'application/x-www-form-urlencoded',
  'application/json; charset=latin1',
  'application/json; charset=utf-16',
  'application/json; charset=xutf-8',
  'application/json; charset=utf-80',
  'application/json; charset',
  'application/json; profile=x; charset=iso-8859-1',
  'application/json; profile="x;"; charset=iso-8859-1',
])('the media type %j is not taken', (type) => {
  expect(code(read('{}', { 'content-type': type }))).toBe('unsupported_media_type');
});

test('a body that was compressed is not taken, one that says that it is not compressed is', () => {
  expect(code(read('{}', { ...plain, 'content-encoding': 'gzip' }))).toBe('unsupported_media_type');
  expect(read('{}', { ...plain, 'content-encoding': 'Identity' })).toEqual({});
});

test.each([
  ['no JSON', '{'],
  ['two documents', '{}{}'],
  ['blanks', ' '],
  ['bytes that are no UTF-8', Buffer.from([0x22, 0xff, 0x22])],
  ['a key that changes prototypes', '{"a":{"__proto__":{}}}'],
  ['the same, escaped', '{"a":[{"\\u005f_proto__":{}}]}'],
  ['a constructor’s prototype', '{"constructor":{"prototype":{}}}'],
])('%s is no JSON of ours', (_, body) => {
  expect(code(read(body))).toBe('invalid_json');
});

test('a byte order mark before the text is passed over, and only a whole one', () => {
  expect(read(Buffer.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d]))).toEqual({});
  expect(code(read(Buffer.from('\ufeff\ufeff{}')))).toBe('invalid_json');
  // Characters of which one or two bytes are the same.
  for (const other of ['\uf000', '\ufec0', '\uf03f', '\u0eff']) expect(code(read(`${other}{}`))).toBe('invalid_json');
});

test.each(['{"a":"\\u0000"}', '{"a":"\\ud800"}', '{"a":"\\uDFFF"}', '["\\uD83D\\uDE00"]'])(
  'a body whose escapes may stand for what is no text is looked at more closely: %s',
  (text) => {
    const body = read(text);
    expect(body).toEqual(JSON.parse(text));
    expect(isSuspect(body)).toBe(true);
  },
);

test.each(['{"a":"\\u0001"}', '{"a":"\\u00e9"}', '{"a":"\\ue000"}', '{"a":"u0000"}', '{"a":"ä😀"}'])('a usual body is not: %s', (text) => {
  expect(isSuspect(read(text))).toBe(false);
});

test('a number that a double can’t hold is kept as its text, the others are numbers', () => {
  const body = read('{"a":12345678901234567890,"b":[1,-1e999,{"c":0.1}],"d":"12345678901234567890"}');
  expect(isSuspect(body)).toBe(true);
  expect([numberText(body.a), numberText(body.b[1])]).toEqual(['12345678901234567890', '-1e999']);
  expect([body.b[0], body.b[2], body.d]).toEqual([1, { c: 0.1 }, '12345678901234567890']);
});

test('what is no such number has no text of one', () => {
  for (const value of [7, 'text', null, undefined, {}, [], { number: '7' }, { '': '7' }]) expect(numberText(value)).toBeNull();
});

test('a body alone that is such a number is kept as it was written, too', () => {
  expect(numberText(read('12345678901234567890'))).toBe('12345678901234567890');
  expect(read('12.5')).toBe(12.5);
});

test('more such numbers than metadata could hold are refused in one sentence', () => {
  const body = (count: number) => `[${Array(count).fill('1e999').join(',')}]`;
  const most = read(body(10_000)) as unknown[];
  expect([most.length, numberText(most[9_999])]).toEqual([10_000, '1e999']);
  const refused = read(body(10_001));
  expect(refused).toMatchObject({
    code: 'validation_failed',
    details: { field: 'body', tag: 'number', value: '' },
    errors: [{ field: 'body', tag: 'number', value: '', message: 'body holds more than 10000 numbers that would come back as others' }],
  });
});
