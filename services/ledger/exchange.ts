// Exchange of one currency for another: which entries it posts, and how the rate, fees, spread and rounding make them. Pure.
import { create } from '@bufbuild/protobuf';
import { ExchangeOriginSchema, type ExchangeOrigin } from '../../proto/gen/ledger/v1/events_pb.js';
import { toDecimal } from '../platform/money.ts';
import { Refusal, type Entry } from './accounting.ts';
import { invalid } from './fields.ts';
import { fxPositionCode } from './templates.ts';

/** How a computed amount is rounded to minor units. */
export type Rounding = 'half_even' | 'half_up' | 'down' | 'up';

/** One leg, or a fee; amounts are minor units. */
export interface Part {
  code: string;
  currency: string;
  amount: bigint;
}

/** An exchange as it was asked for. Either one leg's amount is null and there is a rate, or both are given and there is none. */
export interface Exchange {
  debit: Omit<Part, 'amount'> & { amount: bigint | null };
  credit: Omit<Part, 'amount'> & { amount: bigint | null };
  /** 1 `base` = `value` `quote`; `value` in units of 10^-12. */
  rate: { base: string; quote: string; value: bigint } | null;
  rounding: Rounding;
  /** Credited out of the leg of their currency. */
  fees: Part[];
  /** Where the difference to the reference rate (units of 10^-12, base and quote as in the rate) is credited. */
  spread: { code: string; referenceRate: bigint } | null;
}

/** An exchange with what it posts. */
export interface ExchangePosting {
  exchange: Exchange;
  entries: Entry[];
  /** How the amounts came about, for the record. */
  origin: ExchangeOrigin;
}

/** A rate of 1, in the units of a rate. */
const one = 10n ** 12n;
const largestAmount = 10n ** 15n;

/**
 * The entries of an exchange, in the contract's order: debit leg, its fees, its FX position, the other FX position, credit leg, its fees,
 * spread. Each currency balances by itself. Throws {@link Refusal}: a computed amount that is not above zero (`gt`) or too large.
 */
export function exchangeEntries(exchange: Exchange): Omit<ExchangePosting, 'exchange'> {
  const { debit, credit, rate, rounding, fees, spread } = exchange;
  const feesOf = (currency: string) => fees.reduce((sum, fee) => (fee.currency === currency ? sum + fee.amount : sum), 0n);
  const debitFees = feesOf(debit.currency);
  const creditFees = feesOf(credit.currency);
  const isDebitBase = (rate?.base ?? debit.currency) === debit.currency;
  const converted = (amount: bigint, by: bigint, fromBase: boolean): Fraction => (fromBase ? [amount * by, one] : [amount * one, by]);

  let sold = debit.amount === null ? 0n : positive(debit.amount - debitFees, 'debit.amount');
  let bought = credit.amount === null ? 0n : positive(credit.amount + creditFees, 'credit.amount');
  let exact: Fraction = [0n, 1n];
  let rounded = 0n;
  if (credit.amount === null) {
    exact = converted(sold, (rate as NonNullable<typeof rate>).value, isDebitBase);
    bought = rounded = round(exact, rounding);
  } else if (debit.amount === null) {
    exact = converted(bought, (rate as NonNullable<typeof rate>).value, !isDebitBase);
    sold = rounded = round(exact, rounding);
  }
  const debited = positive(sold + debitFees, 'debit.amount');
  const credited = positive(bought - creditFees, 'credit.amount');
  positive(sold, 'debit.amount');
  positive(bought, 'credit.amount');

  const atReference = spread ? round(converted(sold, spread.referenceRate, isDebitBase), 'half_even') : bought;
  if (spread) positive(atReference, 'spread.reference_rate');
  const gain = atReference - bought;

  const entry = (field: string, side: Entry['side'], { code, currency, amount }: Part): Entry => {
    if (amount >= largestAmount) {
      const path = `${field}.account_code`;
      throw new Refusal('balance_overflow', `the amount on account ${code} would have more than 13 digits`, {
        field: path,
        tag: 'balance_overflow',
        value: code,
      });
    }
    return { field: `${field}.account_code`, code, amount, side, currency, counter: false };
  };
  const feeEntries = (currency: string) =>
    fees.flatMap((fee, index) => (fee.currency === currency ? [entry(`fees[${index}]`, 'credit', fee)] : []));
  const position = (field: string, side: Entry['side'], currency: string, amount: bigint) =>
    entry(field, side, { code: fxPositionCode(currency), currency, amount });
  const entries = [
    entry('debit', 'debit', { ...debit, amount: debited }),
    ...feeEntries(debit.currency),
    position('debit', 'credit', debit.currency, sold),
    position('credit', 'debit', credit.currency, atReference),
    entry('credit', 'credit', { ...credit, amount: credited }),
    ...feeEntries(credit.currency),
  ];
  if (spread && gain !== 0n) {
    const amount = gain < 0n ? -gain : gain;
    entries.push(entry('spread', gain > 0n ? 'credit' : 'debit', { code: spread.code, currency: credit.currency, amount }));
  }
  return {
    entries,
    origin: create(ExchangeOriginSchema, {
      rate: rate
        ? { base: rate.base, quote: rate.quote, value: rateText(rate.value) }
        : { base: debit.currency, quote: credit.currency, value: digits12(bought, sold) },
      referenceRate: spread ? rateText(spread.referenceRate) : undefined,
      rounding,
      convertedDebit: toDecimal(sold),
      convertedCredit: toDecimal(bought),
      spread: toDecimal(gain),
      residue: digits12(exact[0] - rounded * exact[1], exact[1] * 100n),
    }),
  };
}

/** A rate's decimal text (up to 12 and 12 digits, above zero) in units of 10^-12, or null where it is not one. */
export function toRate(text: string): bigint | null {
  if (!/^[0-9]{1,12}(\.[0-9]{1,12})?$/.test(text)) return null;
  const [whole = '', fraction = ''] = text.split('.');
  return BigInt(whole + fraction.padEnd(12, '0'));
}

/** Numerator and denominator; the denominator is above zero. */
type Fraction = [numerator: bigint, denominator: bigint];

function positive(amount: bigint, field: string): bigint {
  if (amount <= 0n) throw invalid(field, 'gt', toDecimal(amount), `${field} must come to more than zero after conversion and fees`);
  return amount;
}

function round([numerator, denominator]: Fraction, rounding: Rounding): bigint {
  const size = numerator < 0n ? -numerator : numerator;
  const down = size / denominator;
  const twice = (size % denominator) * 2n;
  const up =
    rounding === 'up'
      ? twice > 0n
      : rounding !== 'down' && (twice > denominator || (twice === denominator && (rounding === 'half_up' || down % 2n === 1n)));
  const result = up ? down + 1n : down;
  return numerator < 0n ? -result : result;
}

/** A quotient as decimal text with 12 digits, half to even. */
function digits12(numerator: bigint, denominator: bigint): string {
  const scaled = round([numerator * one, denominator], 'half_even');
  const digits = (scaled < 0n ? -scaled : scaled).toString().padStart(13, '0');
  return `${scaled < 0n ? '-' : ''}${digits.slice(0, -12)}.${digits.slice(-12)}`;
}

/** A rate as it is shown: without zeros at the end. */
function rateText(value: bigint): string {
  return digits12(value, one).replace(/\.?0+$/, '');
}
