// Closing transactions of a currency: balanced, of at most 200 entries, and with amounts that an entry can have.
import fc from 'fast-check';
import { closingEntries } from './year-end.ts';

const signed = (side: string, amount: bigint) => (side === 'debit' ? amount : -amount);

test('whatever is open, closings bring each balance to zero and are balanced transactions of at most 200 entries', () => {
  const balance = fc.bigInt({ min: -(10n ** 17n), max: 10n ** 17n }).filter((net) => net !== 0n);
  const balances = fc.array(balance, { minLength: 1, maxLength: 700 });
  fc.assert(
    fc.property(balances, (nets) => {
      const closings = closingEntries(
        nets.map((net, index) => ({ code: `a${index}`, currency: 'NGN', net })),
        'retained',
      );
      const left = new Map(nets.map((net, index) => [`a${index}`, net]));
      for (const entries of closings) {
        expect(entries.length).toBeLessThanOrEqual(200);
        expect(entries.reduce((sum, { side, amount }) => sum + signed(side, amount), 0n)).toBe(0n);
        expect(entries.every(({ amount }) => amount > 0n && amount < 10n ** 15n)).toBe(true);
        expect(entries.filter(({ code }) => code !== 'retained').length).toBeGreaterThan(0);
        for (const { code, side, amount } of entries) left.set(code, (left.get(code) ?? 0n) + signed(side, amount));
      }
      expect([...left].filter(([code, net]) => code !== 'retained' && net !== 0n)).toEqual([]);
      expect(left.get('retained') ?? 0n).toBe(nets.reduce((sum, net) => sum + net, 0n));
    }),
  );
});

test('a currency of 199 accounts has one closing, one of 200 has two', () => {
  const of = (count: number) => Array.from({ length: count }, (_, index) => ({ code: `a${index}`, currency: 'USD', net: -1n }));
  expect([199, 200].map((count) => closingEntries(of(count), 'r').map(({ length }) => length))).toEqual([[200], [200, 2]]);
});
