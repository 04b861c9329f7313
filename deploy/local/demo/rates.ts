// Exchange rates of the demo, which change a little each day, and conversions as the ledger makes them.
import type { Currency } from './chart.ts';
import type { SeededRandom } from './seeded-random.ts';

type Foreign = Exclude<Currency, 'NGN'>;

/** Naira for one unit of a currency. */
export class Rates {
  private readonly hundredths: Record<Foreign, number> = { USD: 154_000, EUR: 166_500, GBP: 195_200 };

  /** The next day's rates. */
  move(random: SeededRandom): void {
    for (const currency of ['USD', 'EUR', 'GBP'] as const) {
      const step = Math.trunc((this.hundredths[currency] * random.between(-45, 47)) / 10_000);
      this.hundredths[currency] += step;
    }
  }

  /** In hundredths of a naira, `perMille` dearer. */
  of(currency: Foreign, perMille = 0): bigint {
    return (BigInt(this.hundredths[currency]) * BigInt(1000 + perMille)) / 1000n;
  }

  /** Minor units that are worth so many kobo. */
  fromKobo(kobo: bigint, currency: Currency): bigint {
    return currency === 'NGN' ? kobo : (kobo * 100n) / this.of(currency);
  }
}

/** A quotient, rounded half to even as the ledger does. */
export function divided(numerator: bigint, denominator: bigint): bigint {
  const floor = numerator / denominator;
  const twice = (numerator % denominator) * 2n;
  return twice > denominator || (twice === denominator && floor % 2n === 1n) ? floor + 1n : floor;
}
