// Checks of the fields of payments: conditions and exchanges of a posting, as messages and as the rules need them.
import type {
  Condition as ConditionMessage,
  Exchange as ExchangeMessage,
  ExchangeLeg,
  Posting,
} from '../../proto/gen/ledger/v1/ledger_pb.js';
import { signedMinor, toMinor } from '../platform/money.ts';
import type { Check, Condition } from './accounting.ts';
import { exchangeEntries, toRate, type Exchange, type ExchangePosting, type Part, type Rounding } from './exchange.ts';
import { checkedCode, checkedCurrency, invalid } from './fields.ts';

const maxConditions = 20;
const maxFees = 10;
const roundings: readonly Rounding[] = ['half_even', 'half_up', 'down', 'up'];

/** All conditions of a posting, those on entries first. Throws {@link Refusal} naming the field. */
export function checkedConditions({ entries, require }: Pick<Posting, 'entries' | 'require'>): Condition[] {
  if (require.length > maxConditions) {
    throw invalid('require', 'max', String(require.length), `require must have at most ${maxConditions} items`);
  }
  const onEntries = entries.flatMap((entry, index) => {
    if (!entry.require) return [];
    return [checkedCondition(`entries[${index}].require`, { ...entry.require, accountCode: entry.accountCode, currency: entry.currency })];
  });
  return [...onEntries, ...require.map((condition, index) => checkedCondition(`require[${index}]`, condition))];
}

function checkedCondition(field: string, condition: ConditionMessage): Condition {
  const { version } = condition;
  const checks: Check[] = [];
  if (version !== undefined) {
    if (version < 0n) throw invalid(`${field}.version`, 'min', String(version), `${field}.version must not be below zero`);
    checks.push({ path: 'version', measure: 'version', comparator: 'eq', value: version, text: String(version) });
  }
  for (const measure of ['balance', 'available'] as const) {
    for (const comparator of ['gte', 'lte', 'eq'] as const) {
      const text = condition[measure]?.[comparator];
      if (text === undefined) continue;
      const path = `${measure}.${comparator}`;
      const value = signedMinor(text);
      if (value === null) {
        throw invalid(
          `${field}.${path}`,
          'decimal',
          text,
          `${field}.${path} must be a signed decimal string with at most 13 digits before and 2 after the point`,
        );
      }
      checks.push({ path, measure, comparator, value, text });
    }
  }
  if (checks.length === 0) throw invalid(field, 'required', '', `${field} must compare version, balance or available`);
  return {
    field,
    code: checkedCode(`${field}.account_code`, condition.accountCode),
    currency: checkedCurrency(`${field}.currency`, condition.currency),
    checks,
  };
}

/** An exchange and the entries it posts. Throws {@link Refusal} naming the field. */
export function checkedExchange(message: ExchangeMessage): ExchangePosting {
  const debit = checkedLeg('debit', message.debit);
  const credit = checkedLeg('credit', message.credit);
  if (debit.currency === credit.currency) {
    throw invalid('credit.currency', 'same', credit.currency, 'debit and credit must have two different currencies');
  }
  const hasBoth = debit.amount !== null && credit.amount !== null;
  if (hasBoth && message.rate) {
    throw invalid('rate', 'same', message.rate.value, 'rate must be left out where both amounts are given, or one of these');
  }
  if (debit.amount === null && credit.amount === null) {
    throw invalid('debit.amount', 'required', '', 'debit.amount or credit.amount is required');
  }
  if (!hasBoth && !message.rate) throw invalid('rate', 'required', '', 'rate is required where one amount is to be computed');
  if (message.fees.length > maxFees) throw invalid('fees', 'max', String(message.fees.length), `fees must have at most ${maxFees} items`);
  const rounding = message.rounding === '' ? 'half_even' : (message.rounding as Rounding);
  if (!roundings.includes(rounding)) throw invalid('rounding', 'oneof', rounding, `rounding must be one of ${roundings.join(', ')}`);
  const { spread } = message;
  const exchange: Exchange = {
    debit,
    credit,
    rate: message.rate ? checkedRate(message.rate, debit.currency, credit.currency) : null,
    rounding,
    fees: message.fees.map((fee, index) => checkedFee(`fees[${index}]`, fee, [debit.currency, credit.currency])),
    spread: spread
      ? {
          code: checkedCode('spread.account_code', spread.accountCode),
          referenceRate: checkedRateValue('spread.reference_rate', spread.referenceRate),
        }
      : null,
  };
  return { exchange, ...exchangeEntries(exchange) };
}

function checkedLeg(field: string, leg: ExchangeLeg | undefined): Exchange['debit'] {
  if (!leg) throw invalid(field, 'required', '', `${field} is required`);
  const code = checkedCode(`${field}.account_code`, leg.accountCode);
  const currency = checkedCurrency(`${field}.currency`, leg.currency);
  return { code, currency, amount: leg.amount === undefined ? null : checkedAmount(`${field}.amount`, leg.amount) };
}

function checkedFee(field: string, fee: ExchangeLeg, currencies: string[]): Part {
  const { code, currency, amount } = checkedLeg(field, fee);
  if (amount === null) throw invalid(`${field}.amount`, 'required', '', `${field}.amount is required`);
  if (!currencies.includes(currency)) {
    throw invalid(`${field}.currency`, 'oneof', currency, `${field}.currency must be one of ${currencies.join(', ')}, as the legs`);
  }
  return { code, currency, amount };
}

function checkedRate(rate: { base: string; quote: string; value: string }, ...legs: [string, string]): NonNullable<Exchange['rate']> {
  const base = checkedCurrency('rate.base', rate.base);
  const quote = checkedCurrency('rate.quote', rate.quote);
  for (const [field, currency, other] of [
    ['rate.base', base, quote],
    ['rate.quote', quote, base],
  ] as const) {
    if (!legs.includes(currency) || currency === other) {
      throw invalid(field, 'oneof', currency, `${field} must be one of ${legs.join(', ')}, and base and quote must differ`);
    }
  }
  return { base, quote, value: checkedRateValue('rate.value', rate.value) };
}

function checkedRateValue(field: string, text: string): bigint {
  const value = toRate(text);
  if (value === null) {
    throw invalid(
      field,
      text === '' ? 'required' : 'decimal',
      text,
      `${field} must be a decimal string with at most 12 digits before and 12 after the point`,
    );
  }
  if (value === 0n) throw invalid(field, 'gt', text, `${field} must be greater than zero`);
  return value;
}

/** An amount in minor units. Throws {@link Refusal} naming the field. */
export function checkedAmount(field: string, text: string): bigint {
  if (text === '') throw invalid(field, 'required', '', `${field} is required`);
  const amount = toMinor(text);
  if (amount === null)
    throw invalid(field, 'decimal', text, `${field} must be a decimal string with at most 13 digits before and 2 after the point`);
  if (amount === 0n) throw invalid(field, 'gt', text, `${field} must be greater than zero`);
  return amount;
}
