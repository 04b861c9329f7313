// Strict JSON: no prototype keys, no text that PostgreSQL rejects, no number that a double cannot represent. Every check is linear.

/**
 * Why JSON is rejected: `type` (not JSON, or a key that changes prototypes), `max` (too deep), `unicode` (NUL or half of a surrogate pair),
 * `number` (one that a double cannot represent).
 */
export type JsonProblem = 'type' | 'max' | 'unicode' | 'number';

/** Thrown for rejected JSON. */
export class InvalidJson extends Error {
  readonly flaw: JsonProblem;

  constructor(flaw: JsonProblem) {
    super(`flawed JSON: ${flaw}`);
    this.flaw = flaw;
  }
}

/** Parses JSON of at most this depth; a flat object is one deep. Throws {@link InvalidJson}. */
export function parseJson(text: string, maxDepth: number): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new InvalidJson('type');
  }
  const flaw = flawOf(value, maxDepth) ?? (inexactNumbers(text, 1).length > 0 ? 'number' : null);
  if (flaw) throw new InvalidJson(flaw);
  return value;
}

function flawOf(value: unknown, left: number): JsonProblem | null {
  if (typeof value === 'string') return hasInvalidUnicode(value) ? 'unicode' : null;
  if (typeof value !== 'object' || value === null) return null;
  if (left === 0) return 'max';
  if (changesPrototypes(value)) return 'type';
  for (const key of Object.keys(value)) {
    if (hasInvalidUnicode(key)) return 'unicode';
    const flaw = flawOf((value as Record<string, unknown>)[key], left - 1);
    if (flaw) return flaw;
  }
  return null;
}

/** Whether a text contains NUL or half of a surrogate pair, which PostgreSQL rejects. */
export function hasInvalidUnicode(text: string): boolean {
  return text.includes('\0') || !text.isWellFormed();
}

function changesPrototypes(value: object): boolean {
  if (Object.hasOwn(value, '__proto__')) return true;
  const constructor: unknown = Object.hasOwn(value, 'constructor') ? (value as { constructor: unknown }).constructor : null;
  return typeof constructor === 'object' && constructor !== null && Object.hasOwn(constructor, 'prototype');
}

// Any letter of the two keys may be escaped.
const dangerousKeys = /__proto__|"constructor"|\\u00[567]/;

/** Whether a key anywhere in a JSON value changes prototypes where the value is copied. `text`: what it was parsed from. */
export function hasPrototypeKeys(text: string, value: unknown): boolean {
  if (!dangerousKeys.test(text)) return false;
  const waiting = [value];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next !== 'object' || next === null) continue;
    if (!Array.isArray(next) && changesPrototypes(next)) return true;
    for (const item of Array.isArray(next) ? (next as unknown[]) : Object.values(next)) waiting.push(item);
  }
  return false;
}

// 16 digits or more, or an exponent, where a number can begin: no usual number matches.
const longNumber = /(?:^|[:,[\s])-?(?:[0-9.]{16}|[0-9][0-9.]*[eE])/;
// What is a number or the end of a string. A pattern of whole strings would overflow V8's stack.
const tokens = /\\.|"|-?[0-9][0-9.eE+-]*/g;

/**
 * The positions of the numbers in a JSON text that a double cannot represent, at most `max` of them: those that `JSON.stringify` would write
 * as another number. A reviver of `JSON.parse` would find them too, but takes 1.5 s for a megabyte of numbers.
 */
export function inexactNumbers(text: string, max: number): { start: number; end: number }[] {
  const found: { start: number; end: number }[] = [];
  if (!longNumber.test(text)) return found;
  let isString = false;
  for (const { 0: token, index: start } of text.matchAll(tokens)) {
    if (token === '"') isString = !isString;
    else if (!isString && !isExact(token)) found.push({ start, end: start + token.length });
    if (found.length === max) break;
  }
  return found;
}

function isExact(number: string): boolean {
  // A double represents any 15 digits.
  if (number.length <= 15 && !/[eE]/.test(number)) return true;
  const value = Number(number);
  return Number.isFinite(value) && normalized(number) === normalized(String(value));
}

/** The significant digits of a number and their power of ten: `1.50e3` is `15e2`. */
function normalized(number: string): string {
  const [, whole = '', fraction = '', exponent = '0'] = /([0-9]+)(?:\.([0-9]+))?(?:[eE](.+))?/.exec(number) ?? [];
  const digits = whole + fraction;
  let [start, end] = [0, digits.length];
  while (digits[start] === '0') start++;
  while (end > start && digits[end - 1] === '0') end--;
  return start === end ? '0' : `${digits.slice(start, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
}
