// The fields of requests with their bounds. Lengths are in code points.
import { Type, type TObject, type TProperties, type TSchemaOptions, type TUnsafe } from 'typebox';
import { instantOf } from '../services/platform/calendar.ts';
import { currencies } from '../services/platform/money.ts';
import { printable, printableTrimmed } from '../services/platform/printable.ts';

/** Business types of tenants. */
export const businessTypes = ['wallet', 'exchange', 'lending', 'payment_processor', 'other'] as const;
/** Kinds of accounts. */
export const accountTypes = ['asset', 'liability', 'equity', 'revenue', 'expense'] as const;
/** Statuses of accounts. */
export const accountStatuses = ['active', 'closed'] as const;
/** What a batch does about accounts that exist. */
export const onExisting = ['error', 'skip'] as const;
/** Events that a webhook may subscribe to. */
export const webhookEvents = [
  'transaction.posted',
  'balance.updated',
  'account.created',
  'account.updated',
  'hold.created',
  'hold.captured',
  'hold.voided',
  'hold.expired',
  'definition.changed',
  'books.updated',
  'period.closed',
  'period.reopened',
  'subject.erased',
  'transaction.redacted',
  'log.imported',
  'books.unfrozen',
  'test.webhook',
] as const;
/** Formats of exports. */
export const exportFormats = ['ndjson', 'csv'] as const;
/** Formats of proofs. */
export const proofFormats = ['json', 'tlog-proof'] as const;
/** Statuses of deliveries. */
export const deliveryStatuses = ['pending', 'delivered', 'failed'] as const;
/** Kinds of transactions. */
export const transactionKinds = ['single', 'double', 'reversal', 'exchange', 'capture', 'closing'] as const;
/** Statuses of holds: how they ended. */
export const holdStatuses = ['pending', 'captured', 'voided', 'expired'] as const;
/** Sides of an entry. */
export const sides = ['debit', 'credit'] as const;

/** What happens to a posting into a closed period. */
export const lateEntries = ['refuse', 'next_open'] as const;
/** Closings and reopenings of periods. */
export const periodActions = ['close', 'reopen'] as const;

/** Whether personal data of a transaction can be read. */
export const personalStates = ['open', 'sealed', 'erased'] as const;

/** Reports by their names in paths. */
export const reportNames = [
  ...(['trial-balance', 'balance-sheet', 'income-statement', 'cash-flow'] as const),
  ...(['account-statement', 'general-ledger', 'journal'] as const),
] as const;
/** Formats of reports. */
export const reportFormats = ['json', 'csv', 'xlsx', 'pdf'] as const;
/** How the period of a report is split. */
export const reportColumns = ['total', 'month', 'quarter', 'year'] as const;
/** With what a report is compared. */
export const reportComparisons = ['none', 'previous_period', 'previous_year'] as const;
/** Order of entries in statements and journal. */
export const entryOrders = ['effective', 'posted'] as const;
/** What a trial balance does with closing transactions. */
export const closingChoices = ['include', 'exclude'] as const;

/** What a velocity limit counts. */
export const limitSubjects = ['account', 'each', 'sum'] as const;
/** Statuses of velocity limits. */
export const limitStatuses = ['active', 'paused'] as const;
/** Windows of a calendar. */
export const calendars = ['day', 'week', 'month', 'year'] as const;

// Local part of RFC 5322 atoms and international letters, a domain with at least one dot.
const atom = '[^\\s\\u0000-\\u001f@<>()\\[\\],;:\\\\".]+';
const label = '[A-Za-z0-9\\u00a1-\\u{10ffff}](?:[A-Za-z0-9\\u00a1-\\u{10ffff}-]{0,61}[A-Za-z0-9\\u00a1-\\u{10ffff}])?';
const emailPattern = new RegExp(`^${atom}(?:\\.${atom})*@(?:${label}\\.)+${label}$`, 'u');
const timePattern = /^([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt](?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})$/;

function isDate(text: string): boolean {
  const ms = /^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  // `Date.parse` turns 30 February into March.
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}

// Whether a zone has skipped a day is found when it is known.
const isInstant = (text: string): boolean => instantOf(text, 'first', 'UTC') !== null;

/** The formats of the schemas. */
export const formats = {
  instant: isInstant,
  'instant-or-original': (text: string): boolean => text === 'original' || isInstant(text),
  email: emailPattern,
  date: isDate,
  // An offset may lead beyond the year 9999.
  'date-time': (text: string): boolean => isDate(timePattern.exec(text)?.[1] ?? '') && new Date(text).getUTCFullYear() <= 9999,
};

/** The tag of a text that fails its pattern or format. */
export function tagOfPattern(schema: Record<string, unknown>, value: unknown): string {
  if (schema['format'] !== undefined) return schema['format'] === 'email' ? 'email' : 'datetime';
  // One pattern covers both: a decimal, and greater than zero.
  if (schema['x-tag'] === 'decimal') return /^0+(\.0+)?$/.test(String(value)) ? 'gt' : 'decimal';
  return String(schema['x-tag']);
}

type Options = TSchemaOptions & Record<string, unknown>;

/** A required string. */
function text(max: number, options: Options): TUnsafe<string> {
  return Type.Unsafe<string>({ type: 'string', minLength: 1, maxLength: max, ...options });
}

/**
 * A required string with a pattern; `tag` names its failure, also one of length. `x-published` replaces a pattern in the document that
 * other languages can't compile (JSON Schema 2020-12, core, section 6.4).
 */
export function patterned(tag: string, pattern: string, options: Options): TUnsafe<string> {
  return Type.Unsafe<string>({ type: 'string', pattern, 'x-tag': tag, ...options });
}

/** One of some values. */
export function oneOf<Word extends string>(words: readonly Word[], options: Options = {}): TUnsafe<Word> {
  return Type.Unsafe<Word>({ type: 'string', enum: [...words], ...options });
}

/** The same field, optional; null counts as absent. */
export function optional<Value>(field: TUnsafe<Value>): ReturnType<typeof Type.Optional<TUnsafe<Value | null>>> {
  const { type, enum: words, ...rest } = field as unknown as { type: string; enum?: unknown[] };
  return Type.Optional(Type.Unsafe<Value | null>({ type: [type, 'null'], ...(words && { enum: [...words, null] }), ...rest }));
}

/** An object of these fields; any other one is rejected. */
export function object<Fields extends TProperties>(fields: Fields): TObject<Fields> {
  return Type.Object(fields, { additionalProperties: false });
}

/** The body or query of a route that takes none. */
export const noFields = object({});

/** A field that can't be changed: sent, it is rejected. It is not in the document. */
export const immutable = Type.Optional(Type.Unsafe<null>({ 'x-immutable': true }));

export const name = text(255, { example: 'Acme Payments' });
export const description = Type.Unsafe<string>({ type: 'string', maxLength: 1000, example: 'Deposit by card' });
export const reference = Type.Unsafe<string>({ type: 'string', maxLength: 255, description: 'Your own reference.', example: 'INV-1001' });
// Not published: not every language supports `\\p`.
const printableOf = (pattern: RegExp): Options => ({
  pattern: pattern.source,
  'x-tag': 'printable',
  'x-published': { pattern: undefined },
});

export const idempotencyKey = text(255, {
  ...printableOf(printableTrimmed),
  description:
    'Printable characters without a blank at either end. Kept for ever: the same key with the same request posts once. May be sent as the header `Idempotency-Key` instead.',
  example: 'deposit-42',
});
export const slug = patterned('slug', '^(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*$', {
  description: 'Lower case letters, digits and single hyphens, 3 to 63 characters.',
  'x-published': { pattern: '^[a-z0-9]+(-[a-z0-9]+)*$', minLength: 3, maxLength: 63 },
  example: 'acme',
});
export const businessType = oneOf(businessTypes, { example: 'wallet' });
export const accountCode = patterned('code', '^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$', {
  description: 'Case-sensitive.',
  example: 'CUSTOMER-WALLETS-USD',
});
export const currency = oneOf(currencies, { example: 'USD' });
export const side = oneOf(sides, { example: 'credit' });
export const amount = patterned('decimal', '^(?=.*[1-9])[0-9]{1,13}(\\.[0-9]{1,2})?$', {
  description: 'A decimal string greater than zero with at most 13 digits before and 2 after the point.',
  'x-published': { pattern: '^[0-9]{1,13}(\\.[0-9]{1,2})?$' },
  example: '100.00',
});
export const metadata = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  'x-metadata': 16_384,
  description:
    'Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.',
  example: { order: 42 },
});
/** The client's name of a subject of personal data. */
export const subjectName = text(255, {
  description: 'Your own name of the person, for example a customer number. It is kept in Unicode form NFC.',
  example: 'customer-42',
});
export const email = text(254, { format: 'email', example: 'ada@example.com' });
export const flag = Type.Unsafe<boolean>({ type: 'boolean' });

/** The id of a thing in a query. */
export function idOf(prefix: string, about: string): TUnsafe<string> {
  const example = `${prefix}_01jd1zq5v8e6n9w2k4m7p3r5t8`;
  return patterned('id', `^${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}$`, { description: about, example });
}

/** A time with its offset, RFC 3339. */
export const time = Type.Unsafe<string>({ type: 'string', format: 'date-time', example: '2030-01-31T12:00:00Z' });

/** A day of the books' time zone, or a time with its offset to the millisecond. `BooksTimes` reads it. */
export const instant = Type.Unsafe<string>({
  type: 'string',
  format: 'instant',
  'x-published': { format: undefined },
  description: 'A day of the books’ time zone, or RFC 3339 with an offset and at most three fraction digits.',
  example: '2030-01-31',
});

/** A whole number. */
export function whole(minimum: number, maximum: number, options: Options): TUnsafe<number> {
  return Type.Unsafe<number>({ type: 'integer', minimum, maximum, ...options });
}

/** A secret: never repeated in an error. */
export function secret(min: number, max: number, options: Options): TUnsafe<string> {
  return Type.Unsafe<string>({ type: 'string', minLength: min, maxLength: max, writeOnly: true, 'x-secret': true, ...options });
}

/** A secret of printable characters. */
export function printableSecret(min: number, max: number, options: Options): TUnsafe<string> {
  return secret(min, max, { ...printableOf(printable), ...options });
}

/** `limit` of every list. */
export const pageLimit = Type.Optional(whole(1, 100, { default: 50, description: 'Items on a page.' }));

/** `limit` and `cursor` of a list. */
export const paging = {
  limit: pageLimit,
  cursor: Type.Optional(
    Type.Unsafe<string>({
      type: 'string',
      maxLength: 512,
      description: '`next_cursor` of the previous page of this list, with the same filters.',
      example: 'RECaCTthAZND-5docaqeCmSh7DwXSA',
    }),
  ),
};

/** Description of lists whose pages are bounded in bytes too. */
export const shortPages = 'A page of large items may have fewer than `limit`: check `has_more`.';

/** Filters that list transactions or holds. */
export const filters = {
  account_code: Type.Optional({
    ...accountCode,
    description: 'Case-sensitive. An unknown code or a group matches nothing.',
  } as typeof accountCode),
  currency: Type.Optional(currency),
  // An empty value is a filter too: a client that lost its reference must not get the records of others.
  reference: Type.Optional(Type.Unsafe<string>({ type: 'string', maxLength: 255, example: 'INV-1001', 'x-empty': true })),
  idempotency_key: Type.Optional(
    Type.Unsafe<string>({ type: 'string', minLength: 1, maxLength: 255, example: 'deposit-42', 'x-empty': true }),
  ),
};

/** `start_date` and `end_date` of a list. */
export const period = {
  start_date: Type.Optional(
    Type.Unsafe<string>({ type: 'string', format: 'date', description: 'From 00:00 UTC of this day.', example: '2030-01-01' }),
  ),
  end_date: Type.Optional(
    Type.Unsafe<string>({
      type: 'string',
      format: 'date',
      description: 'Up to, not including, 00:00 UTC of this day.',
      example: '2030-02-01',
    }),
  ),
};
