import fc from 'fast-check';
import { InvalidJson, inexactNumbers, hasPrototypeKeys, parseJson } from './json.ts';

const flawOf = (text: string) => {
  try {
    parseJson(text, 10);
    return null;
  } catch (error) {
    if (!(error instanceof InvalidJson)) throw error;
    return error.flaw;
  }
};
const inexact = (text: string) => {
  return inexactNumbers(text, 1000).map(({ start, end }) => text.slice(start, end));
};

test.each([
  '0',
  '-0',
  '0.000',
  '0e999',
  '1.10',
  '1E5',
  '1e+5',
  '1e-7',
  '0.1',
  '123456789012345',
  '999999999999999e290',
  '9007199254740992',
  '9007199254740992.000',
  '9007199254740992e0',
  '12345678901234567000',
  '1.7976931348623157e308',
  '1e308',
  '0.00001e313',
  '2.2250738585072014e-308',
  '5e-324',
  '0.30000000000000004',
])('a double represents %s', (number) => {
  for (const text of [number, `[${number}]`, `{"a":-${number.replace(/^-/, '')}}`]) expect(inexact(text)).toEqual([]);
  expect(parseJson(`[${number}]`, 1)).toEqual([Number(number)]);
});

test.each([
  '9007199254740993',
  '12345678901234567890',
  '0.12345678901234567890',
  '0.1000000000000000055511151231257827',
  '1e309',
  '-1E999',
  '1e99999999999999999999',
  '2e308',
  '1e-325',
  '3e-324',
  '4.9e-324',
  `1${'0'.repeat(400)}`,
  `0.${'0'.repeat(400)}1`,
])('a double does not represent %s', (number) => {
  expect(inexact(`{"a":[1,${number},"${number}"],"b\\"${number}":${number}}`)).toEqual([number, number]);
  expect(inexact(number)).toEqual([number]);
  expect(flawOf(`[${number}]`)).toBe('number');
});

/** A number's digits that count and their power of ten, by way of its text. */
function decimal(number: string): string {
  const [, whole = '', fraction = '', exponent = '0'] = /^-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(number) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  const counting = digits.replace(/0+$/, '');
  return counting === '' ? '0' : `${counting}e${Number(exponent) - fraction.length + digits.length - counting.length}`;
}

test('a double represents a number if it is written as the same number again, however either is spelled', () => {
  const digits = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 18 }).map((each) => each.join(''));
  const number = fc
    .tuple(
      fc.constantFrom('', '-'),
      digits.map((each) => each.replace(/^0+(?=[0-9])/, '')),
      fc.option(digits),
      fc.option(fc.oneof(fc.integer({ min: -25, max: 25 }), fc.integer({ min: 285, max: 325 }), fc.integer({ min: -340, max: -285 }))),
      fc.constantFrom('e', 'E'),
    )
    .map(
      ([sign, whole, fraction, exponent, e]) =>
        `${sign}${whole}${fraction === null ? '' : `.${fraction}`}${exponent === null ? '' : `${e}${exponent}`}`,
    );
  const double = fc.double({ noNaN: true, noDefaultInfinity: true }).map((each) => JSON.stringify(each));
  const nearly = double.map((each) => each.replace(/([0-9])(e|$)/, (_, last: string, e: string) => `${(Number(last) + 1) % 10}${e}`));
  fc.assert(
    fc.property(fc.oneof(number, double, nearly), (text) => {
      const value = Number(text);
      const held = Number.isFinite(value) && decimal(String(value)) === decimal(text);
      expect([text, inexact(`[${text}]`)]).toEqual([text, held ? [] : [text]]);
    }),
    { numRuns: 3000 },
  );
});

test('no more are found than were asked for', () => {
  expect(inexactNumbers('[1e999,2,1e999,1e999]', 2)).toEqual([
    { start: 1, end: 6 },
    { start: 9, end: 14 },
  ]);
});

test('numbers in strings are no numbers, wherever the quotes are', () => {
  expect(inexact(String.raw`["1e999","\"1e999","\\",1,"\\\"1e999",1.5e999]`)).toEqual(['1.5e999']);
});

test.each([
  ['type', '{'],
  ['type', ''],
  ['type', '{"a":{"__proto__":{"b":1}}}'],
  ['type', '[{"\\u005f_proto__":1}]'],
  ['type', '{"constructor":{"prototype":1}}'],
  ['unicode', '{"a":"\\u0000"}'],
  ['unicode', '{"a\\u0000":1}'],
  ['unicode', '{"a":1,"b":[2,"c",{"d":{}}],"e":"\\u0000"}'],
  ['type', '[{"a":{}},{"constructor":{"prototype":1}}]'],
  ['unicode', '["\\ud800"]'],
  ['number', '{"a":[1e400]}'],
  ['max', `${'['.repeat(11)}${']'.repeat(11)}`],
  ['max', `${'{"a":'.repeat(11)}1${'}'.repeat(11)}`],
  [null, `${'['.repeat(10)}${']'.repeat(10)}`],
  [null, '{"constructor":1,"a":"__proto__","\\u0061":"\\ud83d\\ude00"}'],
])('the flaw %s: %s', (flaw, text) => {
  expect(flawOf(text)).toBe(flaw);
});

test('null is not a flaw, wherever it stands', () => {
  for (const text of ['null', '[null]', '{"a":null,"constructor":null}']) expect(flawOf(text)).toBeNull();
  const text = '{"a":null,"b":["__proto__",null,1,{"c":null}],"constructor":null}';
  expect(hasPrototypeKeys(text, JSON.parse(text))).toBe(false);
});

test('half a million levels are rejected as eleven are', () => {
  expect(flawOf('['.repeat(500_000) + ']'.repeat(500_000))).toBe('max');
  expect(flawOf(`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`)).toBe('max');
});

test('a key that changes prototypes is found however deep it is and however it is written', () => {
  const deep = (inner: string) => `${'[{"a":'.repeat(50_000)}${inner}${'}]'.repeat(50_000)}`;
  for (const [inner, poisoned] of [
    ['{"__proto__":null}', true],
    ['{"__pro\\u0074o__":null}', true],
    ['{"constru\\u0063tor":{"prototype":null}}', true],
    ['{"constructor":"prototype"}', false],
    ['"__proto__"', false],
  ] as const) {
    expect([inner, hasPrototypeKeys(deep(inner), JSON.parse(deep(inner)))]).toEqual([inner, poisoned]);
  }
});
