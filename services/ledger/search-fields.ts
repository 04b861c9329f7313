// Checks of what searches of transactions ask for.
import type { MetadataFilter as MetadataFilterMessage } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { checkedText, invalid } from './fields.ts';
import type { MetadataFilter } from './metadata-search.ts';
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
