import fc from 'fast-check';
import { Refusal, type Entry, type Side } from './accounting.ts';
import { takePart, type Part } from './matching.ts';

const entry = (code: string, side: Side, amount: bigint, currency = 'NGN', counter = false): Entry => ({
  code,
  side,
  amount,
  currency,
  counter,
});
const all: Part = { amount: null, entries: null };
const some = (...entries: Entry[]): Part => ({ amount: null, entries });
const two = [entry('a', 'debit', 50n), entry('b', 'credit', 50n)];
const split = [entry('a', 'debit', 50n), entry('b', 'credit', 80n), entry('a', 'debit', 30n)];

test('without amount and entries all that is left is taken, and lines without a rest are not posted', () => {
  expect(takePart(split, all, 'hold_exceeded')).toEqual({ entries: split, amounts: [50n, 80n, 30n] });
  const used = [entry('a', 'debit', 0n), entry('b', 'credit', 30n), entry('a', 'debit', 30n)];
  expect(takePart(used, all, 'hold_exceeded')).toEqual({ entries: used.slice(1), amounts: [0n, 30n, 30n] });
});

test('an amount is taken from both of two lines', () => {
  const posted = [entry('a', 'debit', 20n), entry('b', 'credit', 20n)];
  expect(takePart(two, { amount: 20n, entries: null }, 'hold_exceeded')).toEqual({ entries: posted, amounts: [20n, 20n] });
});

test('entries fill alike lines in order, and are posted as they were sent', () => {
  const sent = [entry('b', 'credit', 60n), entry('a', 'debit', 20n), entry('a', 'debit', 40n)];
  expect(takePart(split, some(...sent), 'hold_exceeded')).toEqual({ entries: sent, amounts: [50n, 60n, 10n] });
});

test('the line that balances a single entry stays one', () => {
  const lines = [entry('a', 'credit', 50n), entry('SUSPENSE-NGN', 'debit', 50n, 'NGN', true)];
  const sent = some(entry('SUSPENSE-NGN', 'debit', 5n), entry('a', 'credit', 5n));
  expect(takePart(lines, sent, 'reversal_exceeded').entries.map(({ counter }) => counter)).toEqual([true, false]);
});

test.each<[string, Entry[], Part, string, string, string]>([
  ['an amount above what is left', two, { amount: 51n, entries: null }, 'hold_exceeded', 'amount', '0.51'],
  ['an amount for three lines', split, { amount: 1n, entries: null }, 'entries_mismatch', 'amount', '0.01'],
  [
    'an entry above what is left of alike lines',
    split,
    some(entry('b', 'credit', 81n), entry('a', 'debit', 81n)),
    ...(['hold_exceeded', 'entries[0].amount', '0.81'] as const),
  ],
  [
    'a second entry above what the first has left',
    split,
    some(entry('a', 'debit', 70n), entry('a', 'debit', 11n), entry('b', 'credit', 80n), entry('b', 'credit', 1n)),
    ...(['hold_exceeded', 'entries[1].amount', '0.11'] as const),
  ],
  ['another account', two, some(entry('a', 'debit', 1n), entry('c', 'credit', 1n)), 'entries_mismatch', 'entries[1].account_code', 'c'],
  ['the other side', two, some(entry('b', 'debit', 1n), entry('b', 'credit', 1n)), 'entries_mismatch', 'entries[0].account_code', 'b'],
  [
    'another currency',
    two,
    some(entry('a', 'debit', 1n, 'USD'), entry('b', 'credit', 1n, 'USD')),
    ...(['entries_mismatch', 'entries[0].account_code', 'a'] as const),
  ],
  ['entries that do not balance', two, some(entry('a', 'debit', 2n), entry('b', 'credit', 1n)), 'unbalanced', 'entries', 'NGN'],
])('%s is refused, and the field is named', (_, lines, part, reason, field, value) => {
  const refused = () => takePart(lines, part, 'hold_exceeded');
  expect(refused).toThrow(Refusal);
  expect(refused).toThrow(expect.objectContaining({ reason, blame: expect.objectContaining({ field, tag: reason, value }) as unknown }));
});

test('the caller names the reason of too much', () => {
  expect(() => takePart(two, { amount: 51n, entries: null }, 'reversal_exceeded')).toThrow(
    expect.objectContaining({ reason: 'reversal_exceeded' }),
  );
});

test('parts never take more than there is, and together take all', () => {
  const amounts = fc.array(fc.bigInt({ min: 1n, max: 20n }), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(amounts, fc.array(fc.bigInt({ min: 1n, max: 30n }), { maxLength: 10 }), (debits, parts) => {
      const total = debits.reduce((sum, amount) => sum + amount, 0n);
      let lines = [...debits.map((amount) => entry('a', 'debit', amount)), entry('b', 'credit', total)];
      let left = total;
      for (const part of parts) {
        const take = () => takePart(lines, some(entry('a', 'debit', part), entry('b', 'credit', part)), 'hold_exceeded');
        if (part > left) {
          expect(take).toThrow(Refusal);
          continue;
        }
        const taken = take();
        lines = lines.map((line, index) => ({ ...line, amount: line.amount - (taken.amounts[index] as bigint) }));
        left -= part;
        const sums = Map.groupBy(lines, ({ side }) => side);
        for (const side of sums.values()) expect(side.reduce((sum, { amount }) => sum + amount, 0n)).toBe(left);
        expect(lines.every(({ amount }) => amount >= 0n)).toBe(true);
      }
    }),
  );
});
