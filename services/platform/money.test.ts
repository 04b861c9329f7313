import fc from 'fast-check';
import { toDecimal, toMinor } from './money.ts';

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

test.each(['', '-1', '+1', '1.', '.5', '1.005', '1e3', ' 1', '1,00', '٣', '12345678901234', 'NaN'])('%j is no amount', (text) => {
  expect(toMinor(text)).toBeNull();
});
