import fc from 'fast-check';
import { currencies, isCurrency, toDecimal, toMinor } from './money.ts';

test.each([
  [0n, '0.00'],
  [5n, '0.05'],
  [99n, '0.99'],
  [100n, '1.00'],
  [-5n, '-0.05'],
  [-99n, '-0.99'],
  [-100n, '-1.00'],
  [10n ** 38n - 1n, `${'9'.repeat(36)}.99`],
])('%s minor units are %s', (minor, text) => {
  expect(toDecimal(minor)).toBe(text);
});

test('an amount that is written and read again is the same amount', () => {
  fc.assert(fc.property(fc.bigInt(0n, 10n ** 15n - 1n), (minor) => toMinor(toDecimal(minor)) === minor));
});

test.each([
  ['0', 0n],
  ['10', 1000n],
  ['10.5', 1050n],
  ['10.05', 1005n],
  ['007.50', 750n],
  ['9999999999999.99', 10n ** 15n - 1n],
])('the amount %s is %s minor units', (text, minor) => {
  expect(toMinor(text)).toBe(minor);
});

test.each(['', '-1', '+1', '1.', '.5', '1.005', '1e3', ' 1', '1,00', '٣', '12345678901234', 'NaN'])('%j is no amount', (text) => {
  expect(toMinor(text)).toBeNull();
});

test('four currencies are supported, in capitals', () => {
  expect(currencies).toEqual(['NGN', 'USD', 'EUR', 'GBP']);
  expect([...currencies, 'JPY', 'usd', '', 'toString'].filter(isCurrency)).toEqual([...currencies]);
});
