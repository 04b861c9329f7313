// Checks of request fields: text, codes, identifiers, currencies, metadata and actors.
import { tenantUuid, toUuid } from '../platform/ids.ts';
import { InvalidJson, parseJson, type JsonProblem } from '../platform/json.ts';
import { currencies, isCurrency, type Currency } from '../platform/money.ts';
import { printableTrimmed } from '../platform/printable.ts';
import { Refusal } from './accounting.ts';

const codePattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

// Tags whose message ends with what was sent, if that is short.
const shownTags = ['oneof', 'min', 'max', 'code', 'decimal', 'gt', 'id', 'datetime'];
const maxShown = 60;

/** A refusal that names the field; `value` is what was sent, cut to 1,000 characters. */
export function invalid(field: string, tag: string, value: string, message: string): Refusal {
  const isShown = value.length <= maxShown && shownTags.includes(tag);
  const shown = /^-?[0-9.]+$/.test(value) ? value : JSON.stringify(value);
  return new Refusal('validation_failed', isShown ? `${message}, not ${shown}` : message, { field, tag, value: value.slice(0, 1000) });
}

/** Checks a text's length in code points and that PostgreSQL can hold it. Throws {@link Refusal} naming the field. */
export function checkedText(field: string, text: string, bounds: { min?: number; max: number }): string {
  if (text.includes('\0')) throw invalid(field, 'unicode', text, `${field} must not contain NUL`);
  if (text.length < (bounds.min ?? 0)) throw invalid(field, 'required', text, `${field} is required`);
  // A code point is one or two UTF-16 units. Count them only where that matters.
  if (text.length > bounds.max && (text.length > 2 * bounds.max || [...text].length > bounds.max)) {
    throw invalid(field, 'max', text, `${field} must have at most ${bounds.max} characters`);
  }
  return text;
}

/** Checks an idempotency key. Throws {@link Refusal} naming the field. */
export function checkedKey(key: string): string {
  checkedText('idempotency_key', key, { min: 1, max: 255 });
  if (printableTrimmed.test(key)) return key;
  throw invalid('idempotency_key', 'printable', key, 'idempotency_key must consist of printable characters without a blank at either end');
}

/** Checks an account code. Throws {@link Refusal} naming the field. */
export function checkedCode(field: string, code: string): string {
  if (code === '') throw invalid(field, 'required', code, `${field} is required`);
  if (!codePattern.test(code))
    throw invalid(field, 'code', code, `${field} must be 1 to 64 letters, digits and ._:- and begin with a letter or digit`);
  return code;
}

/** Checks an identifier and returns its UUID. Throws {@link Refusal} naming the field. */
export function checkedId(field: string, prefix: Parameters<typeof toUuid>[0], id: string): string {
  const uuid = prefix === 'tenant' ? tenantUuid(id) : toUuid(prefix, id);
  if (uuid === null) throw invalid(field, id === '' ? 'required' : 'id', id, `${field} must be an identifier with the prefix ${prefix}_`);
  return uuid;
}

/** Checks a time, milliseconds since the Unix epoch. Throws {@link Refusal} naming the field. */
export function checkedTime(field: string, ms: bigint): number {
  if (ms < 0n || ms > 253_402_300_799_999n) throw invalid(field, 'datetime', String(ms), `${field} must be a time before the year 10000`);
  return Number(ms);
}

/** Checks a currency. Throws {@link Refusal} naming the field. */
export function checkedCurrency(field: string, currency: string): Currency {
  if (currency === '') throw invalid(field, 'required', currency, `${field} is required`);
  if (!isCurrency(currency)) throw invalid(field, 'oneof', currency, `${field} must be one of ${currencies.join(', ')}`);
  return currency;
}

const metadataProblems: Record<JsonProblem, string> = {
  type: 'must be a JSON object',
  max: 'must be at most 10 deep',
  unicode: 'must not contain NUL or half of a surrogate pair',
  number: 'holds a number that a double cannot represent: send it as a string',
};

/** Checks metadata; returns compact JSON and its canonical form (keys sorted). Throws {@link Refusal} naming the field. */
export function checkedMetadata(text: string, field = 'metadata'): { text: string; canonical: string } {
  if (text === '' || text === '{}') return { text: '{}', canonical: '{}' };
  const refuse = (tag: string, problem: string) => invalid(field, tag, text, `${field} ${problem}`);
  // Not even 16 KiB with much white space and many escapes.
  if (text.length > 65_536) throw refuse('max', 'must have at most 16 KiB as JSON');
  let value: unknown;
  try {
    value = parseJson(text, 10);
  } catch (error) {
    if (error instanceof InvalidJson) throw refuse(error.flaw, metadataProblems[error.flaw]);
    throw error;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refuse('type', metadataProblems.type);
  const compact = JSON.stringify(value);
  if (Buffer.byteLength(compact) > 16_384) throw refuse('max', 'must have at most 16 KiB as JSON');
  return { text: compact, canonical: sorted(value) };
}

function sorted(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(sorted).join(',')}]`;
  const fields = value as Record<string, unknown>;
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${sorted(fields[key])}`).join(',')}}`;
}

// Invisible, direction-changing and unassigned characters, with which one actor's name could look like another's in the audit trail.
const invisible = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u;
// Variation selectors are allowed after an emoji or an ideograph.
const variationSelectors = /(?<=\p{Extended_Pictographic})\ufe0f|(?<=\p{Ideographic})[\u{e0100}-\u{e01ef}]/gu;

/** Checks an actor. Throws {@link Refusal} naming the field. */
export function checkedActor(actor: string): string {
  checkedText('actor', actor, { max: 255 });
  if (invisible.test(actor.replaceAll(variationSelectors, '')) || actor.trim() === '')
    throw invalid('actor', 'unicode', actor, 'actor must be a name without characters that are invisible or not assigned');
  return actor;
}

/** The tenant's UUID of a request. Throws {@link Refusal} naming the field. */
export function tenantOf(request: { tenantId: string }): string {
  return checkedId('tenant_id', 'tenant', request.tenantId);
}

/** A field that may be absent, checked. */
export function optional<Value, Checked>(value: Value | undefined, check: (value: Value) => Checked): Checked | undefined {
  return value === undefined ? undefined : check(value);
}

/** Checks one of some words. Throws {@link Refusal} naming the field. */
export function oneOf<const Word extends string>(field: string, value: string, words: readonly Word[]): Word {
  const word = words.find((each) => each === value);
  if (word === undefined) throw invalid(field, value === '' ? 'required' : 'oneof', value, `${field} must be one of ${words.join(' ')}`);
  return word;
}
