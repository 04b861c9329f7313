import fc from 'fast-check';
import { exchangeEntries, toRate, type Exchange, type Rounding } from './exchange.ts';
import { Refusal } from './accounting.ts';

const wallet = (currency: string, amount: bigint | null) => ({ code: `WALLET-${currency}`, currency, amount });
const plain: Exchange = {
  debit: wallet('USD', 10_000n),
  credit: wallet('NGN', null),
  rate: { base: 'USD', quote: 'NGN', value: toRate('1525.5')! },
  rounding: 'half_even',
  fees: [],
  spread: null,
};
const shown = (exchange: Exchange) =>
  exchangeEntries(exchange).entries.map(({ code, side, amount, currency, field }) => `${field} ${side} ${code} ${amount} ${currency}`);

test('legs, fees, positions and spread come in the order of the contract', () => {
  const exchange: Exchange = {
    ...plain,
    fees: [
      { code: 'FEES', currency: 'NGN', amount: 50_00n },
      { code: 'FEES', currency: 'USD', amount: 1_00n },
    ],
    spread: { code: 'SPREAD', referenceRate: toRate('1530')! },
  };
  expect(shown(exchange)).toEqual([
    'debit.account_code debit WALLET-USD 10000 USD',
    'fees[1].account_code credit FEES 100 USD',
    'debit.account_code credit FX-POSITION-USD 9900 USD',
    'credit.account_code debit FX-POSITION-NGN 15147000 NGN',
    'credit.account_code credit WALLET-NGN 15097450 NGN',
    'fees[0].account_code credit FEES 5000 NGN',
    'spread.account_code credit SPREAD 44550 NGN',
  ]);
  expect(exchangeEntries(exchange).origin).toMatchObject({
    rate: { base: 'USD', quote: 'NGN', value: '1525.5' },
    referenceRate: '1530',
    convertedDebit: '99.00',
    convertedCredit: '151024.50',
    spread: '445.50',
    residue: '0.000000000000',
  });
});

test('a rate worse than the reference is credited, a better one debited as a loss', () => {
  const loss = exchangeEntries({ ...plain, spread: { code: 'SPREAD', referenceRate: toRate('1525')! } });
  expect(loss.entries.at(-1)).toMatchObject({ code: 'SPREAD', side: 'debit', amount: 5_000n });
  expect(loss.origin.spread).toBe('-50.00');
});

test('with both amounts the rate is derived with 12 digits, based on the debit currency', () => {
  const { origin } = exchangeEntries({ ...plain, debit: wallet('USD', 300n), credit: wallet('EUR', 200n), rate: null });
  expect(origin).toMatchObject({ rate: { base: 'USD', quote: 'EUR', value: '0.666666666667' }, residue: '0.000000000000', spread: '0.00' });
});

test.each<[Partial<Exchange>, string, string]>([
  [{ debit: wallet('USD', 1n), rate: { base: 'NGN', quote: 'USD', value: toRate('999')! } }, 'credit.amount', 'gt'],
  [{ fees: [{ code: 'FEES', currency: 'USD', amount: 10_000n }] }, 'debit.amount', 'gt'],
  [{ fees: [{ code: 'FEES', currency: 'NGN', amount: 10n ** 12n }] }, 'credit.amount', 'gt'],
  [{ debit: wallet('USD', 10n ** 15n - 1n) }, 'credit.account_code', 'balance_overflow'],
  [{ debit: wallet('USD', 1n), spread: { code: 'SPREAD', referenceRate: 1n } }, 'spread.reference_rate', 'gt'],
])('%p is refused at %s', (change, field, tag) => {
  expect(() => exchangeEntries({ ...plain, ...change })).toThrow(
    expect.objectContaining({ blame: expect.objectContaining({ field, tag }) }) as Error,
  );
});

// The model: whole numbers over 10^24, rounded by comparing remainders.
function modelRound(numerator: bigint, denominator: bigint, rounding: Rounding): bigint {
  const [down, left] = [numerator / denominator, numerator % denominator];
  if (left === 0n || rounding === 'down') return down;
  if (rounding === 'up') return down + 1n;
  if (left * 2n !== denominator) return left * 2n > denominator ? down + 1n : down;
  return rounding === 'half_up' || down % 2n === 1n ? down + 1n : down;
}

test('amounts agree with a rational model, and each currency sums to zero', () => {
  const amount = fc.bigInt({ min: 1n, max: 10n ** 10n });
  const rate = fc.bigInt({ min: 1n, max: 10n ** 16n });
  let posted = 0;
  fc.assert(
    fc.property(
      fc.record({
        amount,
        rate,
        reference: fc.option(rate),
        isCredit: fc.boolean(),
        isDebitBase: fc.boolean(),
        rounding: fc.constantFrom<Rounding>('half_even', 'half_up', 'down', 'up'),
        fee: fc.option(fc.bigInt({ min: 1n, max: 1000n })),
        feeCurrency: fc.constantFrom('USD', 'NGN'),
      }),
      (given) => {
        const fee = given.fee ?? 0n;
        const exchange: Exchange = {
          debit: wallet('USD', given.isCredit ? null : given.amount),
          credit: wallet('NGN', given.isCredit ? given.amount : null),
          rate: { base: given.isDebitBase ? 'USD' : 'NGN', quote: given.isDebitBase ? 'NGN' : 'USD', value: given.rate },
          rounding: given.rounding,
          fees: fee === 0n ? [] : [{ code: 'FEES', currency: given.feeCurrency, amount: fee }],
          spread: given.reference === null ? null : { code: 'SPREAD', referenceRate: given.reference },
        };
        const unit = 10n ** 12n;
        const times = (value: bigint, by: bigint, how: Rounding) => modelRound(value * by, unit, how);
        const over = (value: bigint, by: bigint, how: Rounding) => modelRound(value * unit, by, how);
        const toCredit = given.isDebitBase ? times : over;
        const toDebit = given.isDebitBase ? over : times;
        const debitFee = given.feeCurrency === 'USD' ? fee : 0n;
        const creditFee = fee - debitFee;
        const sold = given.isCredit ? toDebit(given.amount + creditFee, given.rate, given.rounding) : given.amount - debitFee;
        const bought = given.isCredit ? given.amount + creditFee : toCredit(sold, given.rate, given.rounding);
        let result;
        try {
          result = exchangeEntries(exchange);
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          return;
        }
        posted++;
        const sums = new Map<string, bigint>();
        for (const entry of result.entries) {
          expect(entry.amount > 0n).toBe(true);
          sums.set(entry.currency, (sums.get(entry.currency) ?? 0n) + (entry.side === 'debit' ? entry.amount : -entry.amount));
        }
        expect([...sums.values()]).toEqual([0n, 0n]);
        const amountOf = (code: string, side: string) => result.entries.find((each) => each.code === code && each.side === side)?.amount;
        expect(amountOf('FX-POSITION-USD', 'credit')).toBe(sold);
        expect(amountOf('WALLET-USD', 'debit')).toBe(sold + debitFee);
        expect(amountOf('WALLET-NGN', 'credit')).toBe(bought - creditFee);
        const atReference = given.reference === null ? bought : toCredit(sold, given.reference, 'half_even');
        expect(amountOf('FX-POSITION-NGN', 'debit')).toBe(atReference);
      },
    ),
    { numRuns: 10_000 },
  );
  expect(posted).toBeGreaterThan(3_000);
});
