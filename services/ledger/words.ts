// Words of texts, as they are indexed and searched: case and accents folded, whatever else stands between letters and digits.

// A lexeme has at most 2,046 bytes.
const maxWordLength = 100;

function fold(text: string): string {
  const plain = text.normalize('NFKD').replaceAll(/\p{M}/gu, '');
  // Upper case first: it makes `ss` of `ß`. The last sigma of a word is a sigma.
  return plain.toUpperCase().toLowerCase().replaceAll('ς', 'σ');
}

/** The words of a text, each once. */
export function wordsOf(text: string): string[] {
  const words = fold(text).match(/[\p{L}\p{N}]+/gu) ?? [];
  return [...new Set(words.map(cut))];
}

/**
 * What is indexed of a transaction's description and reference: its words, and the lexeme that all texts of a tenant (UUID) in one span of sequences
 * have in common, for which `find_texts` searches. Nothing without words.
 */
export function lexemesOf(
  tenant: string,
  sequence: bigint,
  { description, reference = '' }: { description: string; reference?: string | undefined },
): string[] {
  const words = wordsOf(`${description} ${reference}`);
  return words.length === 0 ? [] : [`@${tenant.replaceAll('-', '')}${sequence >> 14n}`, ...words];
}

/** A text search for all words of a text, those with a trailing `*` as prefixes, each once: PostgreSQL's `tsquery`, one part for each. */
export function searchedWords(text: string): string[] {
  const words = fold(text).match(/[\p{L}\p{N}]+\*?/gu) ?? [];
  return [...new Set(words.map((word) => (word.endsWith('*') ? `'${cut(word.slice(0, -1))}':*` : `'${cut(word)}'`)))];
}

function cut(word: string): string {
  return word.length <= maxWordLength ? word : Array.from(word).slice(0, maxWordLength).join('');
}
