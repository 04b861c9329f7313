// Request fields of payments: conditions, the end of validity, dry runs and exchanges; and how they become messages of the ledger.
import { Type, type Static } from 'typebox';
import type { AccountLimit } from '../proto/gen/ledger/v1/events_pb.js';
import type { Condition, Exchange, ExchangeLeg, Posting } from '../proto/gen/ledger/v1/ledger_pb.js';
import { missingScope, type Caller } from './auth.ts';
import { accountCode, amount, currency, flag, object, oneOf, optional, patterned, sides, time, whole } from './fields.ts';

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
    Type.Unsafe<string>({
      ...time,
      description: 'From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.',
    }),
  ),
  override_reason: optional(
    Type.Unsafe<string>({
      type: 'string',
      minLength: 1,
      maxLength: 255,
      description:
        'Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.',
      example: 'Charge-back 4711',
    }),
  ),
};

const limit = object({ currency, min_available: optional(signedAmount), max_balance: optional(signedAmount) });

/** Blocks and limits of an account. */
export const accountRules = {
  limits: optional(
    Type.Unsafe<Static<typeof limit>[]>({
      type: 'array',
      maxItems: 4,
      items: limit,
      description:
        'At most one per currency. `min_available` is the floor of `available` (`-500.00`: a credit line), `max_balance` the ceiling of the balance. A limit may be broken already when it is set: it refuses what makes that worse.',
      example: [{ currency: 'USD', min_available: '-500.00', max_balance: null }],
    }),
  ),
  blocked: optional(
    Type.Unsafe<('debit' | 'credit')[]>({
      type: 'array',
      items: oneOf(sides),
      description: 'Sides on which the account takes no entries (`account_blocked`).',
      example: [],
    }),
  ),
};

/** Errors of limits that an account can't have. */
export const ruleErrors = ['account_is_group', 'currency_not_allowed'] as const;

/** Examples of their fields, below `at`. */
export function ruleErrorFields(at: string): Record<(typeof ruleErrors)[number], { field: string; value: string }[]> {
  return {
    account_is_group: [
      { field: `${at}limits`, value: 'ASSETS' },
      { field: `${at}blocked`, value: 'ASSETS' },
    ],
    currency_not_allowed: [{ field: `${at}limits[0].currency`, value: 'NGN' }],
  };
}

/** Limits as messages. */
export function limitsOf(limits: Static<typeof limit>[]): AccountLimit[] {
  return limits.map(({ currency: of, min_available, max_balance }) => ({
    $typeName: 'ledger.v1.AccountLimit',
    currency: of,
    ...(min_available != null && { minAvailable: min_available }),
    ...(max_balance != null && { maxBalance: max_balance }),
  }));
}

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

/** Adds the terms of a request to its message. Throws `forbidden` where the key may not override limits. */
export function addTerms<Message extends Pick<Posting, 'require' | 'validUntilMs' | 'overrideReason'>>(
  message: Message,
  sent: { require?: Static<typeof ofAccount>[] | null; valid_until?: string | null; override_reason?: string | null },
  { scopes }: Caller,
): Message {
  if (sent.override_reason != null) {
    if (!scopes.has('limits:override')) throw missingScope('limits:override');
    message.overrideReason = sent.override_reason;
  }
  if (sent.require != null) message.require = sent.require.map(conditionOf);
  if (sent.valid_until != null) message.validUntilMs = BigInt(Date.parse(sent.valid_until));
  return message;
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
