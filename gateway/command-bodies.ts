// Bodies of the routes that move or hold money. A batch has the same as its items.
import { Type, type Static } from 'typebox';
import {
  accountCode,
  amount,
  currency,
  description,
  flag,
  idempotencyKey,
  instant,
  metadata,
  object,
  optional,
  reference,
  side,
  time,
  whole,
} from './fields.ts';
import { entryRequire, exchangeFields, terms } from './payment-fields.ts';
import { personalField } from './personal.ts';

/** Fields of every body, before and after its own. */
export const commonFields = {
  idempotency_key: optional(idempotencyKey),
  description: optional(description),
  reference: optional(reference),
};
const lastFields = { metadata: optional(metadata), ...terms };
const effectiveAt = {
  ...instant,
  description:
    'When it counts, where that is not when it is recorded: a day of the books’ time zone (its first millisecond), or RFC 3339 with an offset and at most three fraction digits. From 1970 to `future_days` ahead.',
} as typeof instant;
const postedFields = { ...lastFields, effective_at: optional(effectiveAt) };
const postingFields = { ...postedFields, personal: personalField };
const reversedFields = {
  ...lastFields,
  effective_at: optional({
    ...effectiveAt,
    format: 'instant-or-original',
    description:
      'When it counts, as for postings; `original`: when the transaction counts. Not before that. Left out: now, or when the transaction counts if that is later.',
  } as typeof instant),
};
const lineFields = { account_code: accountCode, amount, side, currency };
const entryFields = { ...lineFields, require: entryRequire };

/** An entry as it is sent. */
export type SentEntry = Static<ReturnType<typeof object<typeof entryFields>>>;

const entriesOf = (about: string) =>
  Type.Unsafe<SentEntry[]>({ type: 'array', minItems: 2, maxItems: 200, items: object(entryFields), description: about });

/** What all bodies have in common. */
export type CommonBody = Static<ReturnType<typeof object<typeof commonFields & typeof lastFields>>>;

/** The same of postings. */
export type PostedBody = Static<ReturnType<typeof object<typeof commonFields & typeof postingFields>>>;

export const singleBody = object({ ...commonFields, ...lineFields, ...postingFields });

const entries = entriesOf('Debits and credits must be equal in each currency. An account may appear more than once.');

export const doubleBody = object({ ...commonFields, entries, ...postingFields });

export const exchangeBody = object({ ...commonFields, ...exchangeFields, ...postingFields });

export const holdBody = object({
  ...commonFields,
  entries,
  expires_at: optional(
    Type.Unsafe<string>({ ...time, description: 'From then on it can’t be captured, and what remains is released. Left out: never.' }),
  ),
  expires_in: optional(
    whole(1, 34_560_000, {
      description: 'The same in seconds from now, in place of `expires_at`. For retries that compute the time anew.',
      example: 604_800,
    }),
  ),
  ...lastFields,
});

export const captureBody = object({
  ...commonFields,
  amount: optional(
    Type.Unsafe<string>({ ...amount, description: 'Of a hold of two entries. With neither this nor `entries`: all that remains.' }),
  ),
  entries: optional(entriesOf('Entries of the hold by account, side and currency, with amounts of their own, equal in each currency.')),
  final: optional(
    Type.Unsafe<boolean>({ ...flag, default: true, description: 'true: what is not captured is released. false: it stays held.' }),
  ),
  ...postedFields,
});

export const voidBody = object({ description: optional(description) });

export const reversalBody = object({
  ...commonFields,
  amount: optional(
    Type.Unsafe<string>({ ...amount, description: 'Of a transaction of two entries. With neither this nor `entries`: all that is left.' }),
  ),
  entries: optional(
    entriesOf('As they are to be posted: mirrors of the transaction’s entries with amounts of their own, equal in each currency.'),
  ),
  ...reversedFields,
});
