// Checks of what searches of transactions ask for.
import type { ListTransactionsRequest, MetadataFilter as MetadataFilterMessage } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { checkedCode, checkedCurrency, checkedId, checkedText, checkedTime, invalid, oneOf, optional } from './fields.ts';
import type { MetadataFilter } from './metadata-search.ts';
import type { TimeRange } from './time-range.ts';
import type { TransactionFilter } from './transaction-search.ts';
import { searchedWords } from './words.ts';

const maxFilters = 4;
const maxValues = 16;
const maxTextLength = 255;
const maxWords = 16;

/** Checks filters by metadata. Throws {@link Refusal} naming `metadata.<key>`. */
export function checkedMetadataFilters(filters: Pick<MetadataFilterMessage, 'key' | 'values'>[]): MetadataFilter[] {
  if (filters.length > maxFilters)
    throw invalid('metadata', 'max', String(filters.length), `metadata must have at most ${maxFilters} filters`);
  return filters.map(({ key, values }, index) => {
    const field = `metadata.${checkedText('metadata', key, { max: 64 })}`;
    if (filters.findIndex((other) => other.key === key) < index) throw invalid(field, 'unique', key, `${field} is there already`);
    if (values.length === 0) throw invalid(field, 'required', '', `${field} is required`);
    if (values.length > maxValues) throw invalid(field, 'max', String(values.length), `${field} must be there at most ${maxValues} times`);
    for (const value of values) checkedText(field, value, { max: maxTextLength });
    const isPrefix = (value: string) => value.endsWith('*');
    const unique = [...new Set(values)];
    return {
      key,
      values: unique.filter((value) => !isPrefix(value)),
      prefixes: unique.filter(isPrefix).map((value) => value.slice(0, -1)),
    };
  });
}

/** Checks words to search for, and returns them as parts of a text search. Throws {@link Refusal} naming `q`. */
export function checkedWords(text: string): string[] {
  const words = searchedWords(checkedText('q', text, { min: 1, max: maxTextLength }));
  if (words.length === 0) throw invalid('q', 'required', text, 'q must have a letter or a digit');
  if (words.length > maxWords) throw invalid('q', 'max', String(words.length), `q must have at most ${maxWords} words`);
  return words;
}

const kinds = ['single', 'double', 'reversal', 'exchange', 'capture', 'closing'] as const;

/** Checks the filters of a list of transactions. Throws {@link Refusal} naming the field. */
export function transactionFilterOf(request: ListTransactionsRequest): TransactionFilter {
  return {
    accountCode: optional(request.accountCode, (code) => checkedCode('account_code', code)),
    currency: optional(request.currency, (currency) => checkedCurrency('currency', currency)),
    reference: optional(request.reference, (text) => checkedText('reference', text, { max: 255 })),
    idempotencyKey: optional(request.idempotencyKey, (text) => checkedText('idempotency_key', text, { min: 1, max: 255 })),
    kind: optional(request.kind, (kind) => oneOf('kind', kind, kinds)),
    hold: optional(request.holdId, (id) => checkedId('hold_id', 'hold', id)),
    reverses: optional(request.reverses, (id) => checkedId('reverses', 'txn', id)),
    metadata: request.metadata.length === 0 ? undefined : checkedMetadataFilters(request.metadata),
    words: optional(request.words, checkedWords),
    subject: optional(request.subjectId, (id) => checkedId('subject_id', 'subj', id)),
    ...effectiveRangeOf(request),
    ...timeRangeOf(request),
  };
}

// The last millisecond of the year 9999, the last that ISO 8601 with four digits can express.
const latestMs = 253_402_300_799_999n;

/** Checks the days of a list. Throws {@link Refusal} naming the field. */
export function timeRangeOf({ startMs, endMs }: TimeRange): TimeRange {
  for (const [field, time] of Object.entries({ start_date: startMs, end_date: endMs })) {
    if (time !== undefined && (time < 0n || time > latestMs)) {
      throw invalid(field, 'datetime', time.toString(), `${field} must be from 1970 to 9999`);
    }
  }
  return { startMs, endMs };
}

type EffectiveRange = Pick<ListTransactionsRequest, 'effectiveFromMs' | 'effectiveToMs'>;

function effectiveRangeOf({ effectiveFromMs: from, effectiveToMs: to }: EffectiveRange): Partial<Record<keyof EffectiveRange, number>> {
  // Nothing counts before 1970.
  const checked = (field: string, ms: bigint) => (ms < 0n ? -1 : checkedTime(field, ms));
  if (from !== undefined && to !== undefined && from > to)
    throw invalid('effective_from', 'oneof', new Date(Number(from)).toISOString(), 'effective_from must not be after effective_to');
  return {
    ...(from !== undefined && { effectiveFromMs: checked('effective_from', from) }),
    ...(to !== undefined && { effectiveToMs: checked('effective_to', to) }),
  };
}
