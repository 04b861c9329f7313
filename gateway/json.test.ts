import type { IncomingHttpHeaders } from 'node:http';
import { inexactNumberText, needsCloseCheck, readJson } from './json.ts';
import { ApiError } from './errors.ts';

const plain = { 'content-type': 'application/json' };
const read = (text: string | Buffer, headers: IncomingHttpHeaders = plain): any => readJson(Buffer.from(text as string), headers);
const code = (text: string | Buffer, headers: IncomingHttpHeaders = plain) => {
  try {
    read(text, headers);
    return 'read';
  } catch (error) {
    return error instanceof ApiError ? error.code : error;
  }
};

test('a body is parsed as JSON.parse does', () => {
  for (const value of [{ a: [1, 'ä', null, true, { b: -1.5e3 }] }, [1, 2], {}, [], 'text', 7, null, true]) {
    expect(read(JSON.stringify(value))).toEqual(value);
  }
});

test('an empty body is none, whatever its headers are', () => {
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
  expect(code('{}', { 'content-type': type })).toBe('unsupported_media_type');
});

test('a compressed body is rejected, the encoding identity is not', () => {
  expect(code('{}', { ...plain, 'content-encoding': 'gzip' })).toBe('unsupported_media_type');
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
])('%s is rejected', (_, body) => {
  expect(code(body)).toBe('invalid_json');
});

test('one byte order mark is skipped', () => {
  expect(read(Buffer.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d]))).toEqual({});
  expect(code(Buffer.from('\ufeff\ufeff{}'))).toBe('invalid_json');
  // Characters of which one or two bytes are the same.
  for (const other of ['\uf000', '\ufec0', '\uf03f', '\u0eff']) expect(code(`${other}{}`)).toBe('invalid_json');
});

test.each(['{"a":"\\u0000"}', '{"a":"\\ud800"}', '{"a":"\\uDFFF"}', '["\\uD83D\\uDE00"]'])(
  'a body whose escapes may be invalid Unicode needs a close check: %s',
  (text) => {
    const body = read(text);
    expect(body).toEqual(JSON.parse(text));
    expect(needsCloseCheck(body)).toBe(true);
  },
);

test.each(['{"a":"\\u0001"}', '{"a":"\\u00e9"}', '{"a":"\\ue000"}', '{"a":"u0000"}', '{"a":"ä😀"}'])(
  'a usual body does not: %s',
  (text) => {
    expect(needsCloseCheck(read(text))).toBe(false);
  },
);

test('a number that a double cannot represent is kept as its text', () => {
  const body = read('{"a":12345678901234567890,"b":[1,-1e999,{"c":0.1}],"d":"12345678901234567890"}');
  expect(needsCloseCheck(body)).toBe(true);
  expect([inexactNumberText(body.a), inexactNumberText(body.b[1])]).toEqual(['12345678901234567890', '-1e999']);
  expect([body.b[0], body.b[2], body.d]).toEqual([1, { c: 0.1 }, '12345678901234567890']);
});

test('other values have no such text', () => {
  for (const value of [7, 'text', null, undefined, {}, [], { number: '7' }, { '': '7' }]) expect(inexactNumberText(value)).toBeNull();
});

test('also if the whole body is such a number', () => {
  expect(inexactNumberText(read('12345678901234567890'))).toBe('12345678901234567890');
  expect(read('12.5')).toBe(12.5);
});

test('only the first hundred of these numbers are kept as texts', () => {
  const body = read(`[${Array(101).fill('1e999').join(',')}]`) as unknown[];
  expect([inexactNumberText(body[99]), body[100]]).toEqual(['1e999', Infinity]);
});
