// Request fields of payments: conditions, the end of validity, dry runs and exchanges; and how they become messages of the ledger.
import { Type, type Static } from 'typebox';
import type { Condition, Exchange, ExchangeLeg, Posting } from '../proto/gen/ledger/v1/ledger_pb.js';
import { accountCode, amount, currency, flag, object, oneOf, optional, patterned, time, whole } from './fields.ts';

/** How a computed amount is rounded. */
export const roundings = ['half_even', 'half_up', 'down', 'up'] as const;

const signedAmount = patterned('decimal', '^-?[0-9]{1,13}(\\.[0-9]{1,2})?$', {
  description: 'A decimal string, signed, in the account’s normal direction.',
  example: '-500.00',
});
const rateValue = patterned('decimal', '^[0-9]{1,12}(\\.[0-9]{1,12})?$', {
  'x-digits': 12,
  description: 'A decimal string greater than zero with at most 12 digits before and after the point.',
  example: '1525.5',
});

const bounds = object({ gte: optional(signedAmount), lte: optional(signedAmount), eq: optional(signedAmount) });
const comparisons = {
  version: optional(whole(0, Number.MAX_SAFE_INTEGER, { description: 'The balance’s `version` before the request.' })),
  balance: optional(Type.Unsafe<Static<typeof bounds>>({ ...bounds, description: 'Compared after the whole request.' })),
  available: optional(Type.Unsafe<Static<typeof bounds>>(bounds)),
};
const ofEntry = object(comparisons);
const ofAccount = object({ account_code: accountCode, currency, ...comparisons });

/** `require` of an entry: what must hold for its account in its currency. */
export const entryRequire = optional(
  Type.Unsafe<Static<typeof ofEntry>>({
    ...ofEntry,
    description: 'What must hold for this account in this currency, or nothing is posted (`condition_failed`). At least one comparison.',
  }),
);

/** Fields that every posting may have besides its entries. */
export const terms = {
  require: optional(
    Type.Unsafe<Static<typeof ofAccount>[]>({
      type: 'array',
      maxItems: 20,
      items: ofAccount,
      description: 'What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).',
    }),
  ),
  valid_until: optional(
    Type.Unsafe<string>({ ...time, description: 'From this time on, by the database’s clock, the request is refused (`too_late`).' }),
  ),
};

/** The query of routes that can be tried first. */
export const dryRunQuery = object({
  dry_run: Type.Optional({
    ...flag,
    default: false,
    description: 'true: decided by the real rules on the real books, and not posted.',
  } as typeof flag),
});

const leg = object({ account_code: accountCode, currency, amount: optional(amount) });
const fee = object({ account_code: accountCode, currency, amount });
const rate = object({ base: currency, quote: currency, value: rateValue });
const spread = object({ account_code: accountCode, reference_rate: rateValue });

/** Fields of an exchange. */
export const exchangeFields = {
  debit: Type.Unsafe<Static<typeof leg>>({
    ...leg,
    description: 'Wallet to wallet: the one that pays. Bank to bank: the one that receives.',
  }),
  credit: Type.Unsafe<Static<typeof leg>>({ ...leg, description: 'In another currency.' }),
  rate: optional(
    Type.Unsafe<Static<typeof rate>>({ ...rate, description: '1 base = value quote. Left out where both legs have an amount.' }),
  ),
  rounding: optional(oneOf(roundings, { default: 'half_even', description: 'Of the computed amount.' })),
  fees: optional(
    Type.Unsafe<Static<typeof fee>[]>({
      type: 'array',
      maxItems: 10,
      items: fee,
      description: 'Credited out of the leg of their currency: the debit’s before converting, the credit’s after.',
    }),
  ),
  spread: optional(
    Type.Unsafe<Static<typeof spread>>({
      ...spread,
      description: 'Where the difference to a reference rate of the same base and quote is credited; a loss is debited.',
    }),
  ),
};
type SentCondition = Partial<Static<typeof ofAccount>>;

/** A condition as a message. */
export function conditionOf({ account_code, currency: code, version, balance, available }: SentCondition): Condition {
  const amounts = (sent: Static<typeof bounds>) => ({
    $typeName: 'ledger.v1.AmountBounds' as const,
    ...(sent.gte != null && { gte: sent.gte }),
    ...(sent.lte != null && { lte: sent.lte }),
    ...(sent.eq != null && { eq: sent.eq }),
  });
  return {
    $typeName: 'ledger.v1.Condition',
    accountCode: account_code ?? '',
    currency: code ?? '',
    ...(version != null && { version: BigInt(version) }),
    ...(balance != null && { balance: amounts(balance) }),
    ...(available != null && { available: amounts(available) }),
  };
}

/** Adds the terms of a request to its message. */
export function addTerms(
  posting: Posting,
  sent: { require?: Static<typeof ofAccount>[] | null; valid_until?: string | null },
  query: Static<typeof dryRunQuery>,
): Posting {
  if (sent.require != null) posting.require = sent.require.map(conditionOf);
  if (sent.valid_until != null) posting.validUntilMs = BigInt(Date.parse(sent.valid_until));
  posting.dryRun = query.dry_run === true;
  return posting;
}

/** An exchange as a message. */
export function exchangeOf(body: Static<ReturnType<typeof object<typeof exchangeFields>>>): Exchange {
  const legOf = (sent: Static<typeof leg>): ExchangeLeg => ({
    $typeName: 'ledger.v1.ExchangeLeg',
    accountCode: sent.account_code,
    currency: sent.currency,
    ...(sent.amount != null && { amount: sent.amount }),
  });
  return {
    $typeName: 'ledger.v1.Exchange',
    debit: legOf(body.debit),
    credit: legOf(body.credit),
    rounding: body.rounding ?? '',
    fees: (body.fees ?? []).map(legOf),
    ...(body.rate != null && { rate: { $typeName: 'ledger.v1.ExchangeRate' as const, ...body.rate } }),
    ...(body.spread != null && {
      spread: {
        $typeName: 'ledger.v1.ExchangeSpread' as const,
        accountCode: body.spread.account_code,
        referenceRate: body.spread.reference_rate,
      },
    }),
  };
}
