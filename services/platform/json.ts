// JSON as the house takes it, from whichever door: nothing that plays with prototypes, no text that PostgreSQL can't keep, no number that a
// double can't hold. Every check is linear, and none of them recurses deeper than it was told.

/**
 * What keeps JSON out: `type` (no JSON, or a key that changes prototypes), `max` (too deep), `unicode` (a NUL or half of a surrogate pair),
 * `number` (one that a double can't hold).
 */
export type JsonProblem = 'type' | 'max' | 'unicode' | 'number';

/** Thrown for JSON that is not kept. */
export class InvalidJson extends Error {
  readonly flaw: JsonProblem;

  constructor(flaw: JsonProblem) {
    super(`flawed JSON: ${flaw}`);
    this.flaw = flaw;
  }
}

/** Reads JSON that may be kept as it is; an object is one deep. Throws {@link InvalidJson}. */
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

/** Whether a text holds what PostgreSQL can't keep: a NUL or half of a surrogate pair. */
export function hasInvalidUnicode(text: string): boolean {
  return text.includes('\0') || !text.isWellFormed();
}

function changesPrototypes(value: object): boolean {
  if (Object.hasOwn(value, '__proto__')) return true;
  const maker = Object.hasOwn(value, 'constructor') ? (value as { constructor: unknown }).constructor : null;
  return typeof maker === 'object' && maker !== null && Object.hasOwn(maker, 'prototype');
}

// Any letter of the two keys may be escaped.
const dangerousKeys = /__proto__|"constructor"|\\u00[567]/;

/** Whether a key somewhere in a JSON value, however deep, changes prototypes where it is copied. `text` is what the value was read from. */
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

// 16 digits or more, or an exponent, where a number can begin: few texts match, no usual number does.
const longNumber = /(?:^|[:,[\s])-?(?:[0-9.]{16}|[0-9][0-9.]*[eE])/;

const quote = 0x22;
const backslash = 0x5c;
const minus = 0x2d;
const point = 0x2e;
const zero = 0x30;
const nine = 0x39;

/**
 * Where numbers stand in a JSON text that a double can't hold: begin and end of each, at most `most` of them. Held is what JSON.stringify
 * writes again as the same number. JSON.parse with a reviver would tell each number's source, too, but takes 1.5 s for a megabyte of them.
 */
export function inexactNumbers(text: string, most: number): number[] {
  const found: number[] = [];
  if (!longNumber.test(text)) return found;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      for (at++; text.charCodeAt(at) !== quote && at < text.length; at++) if (text.charCodeAt(at) === backslash) at++;
    } else if (code === minus || (code >= zero && code <= nine)) {
      const number = numberAt(text, at);
      if (!isHeld(text, number)) found.push(at, number.end);
      if (found.length === 2 * most) return found;
      at = number.end - 1;
    }
  }
  return found;
}

interface Figures {
  start: number;
  end: number;
  /** Where the first digit that counts stands, and how many count: zeros at either end do not. */
  first: number;
  digits: number;
  /** The power of ten of the first digit that counts. */
  magnitude: number;
}

function numberAt(text: string, start: number): Figures {
  let at = text.charCodeAt(start) === minus ? start + 1 : start;
  let place = 0;
  let pointPlace = -1;
  let first = -1;
  let firstPlace = 0;
  let lastPlace = -1;
  for (; ; at++) {
    const code = text.charCodeAt(at);
    if (code === point) {
      pointPlace = place;
    } else if (code >= zero && code <= nine) {
      if (code !== zero) {
        if (first < 0) {
          first = at;
          firstPlace = place;
        }
        lastPlace = place;
      }
      place++;
    } else {
      break;
    }
  }
  let exponent = 0;
  if ((text.charCodeAt(at) | 0x20) === 0x65) {
    at++;
    const negative = text.charCodeAt(at) === minus;
    if (negative || text.charCodeAt(at) === 0x2b) at++;
    for (let code = text.charCodeAt(at); code >= zero && code <= nine; code = text.charCodeAt(++at)) {
      // As large as this is as large as any.
      exponent = Math.min(exponent * 10 + code - zero, 1e12);
    }
    if (negative) exponent = -exponent;
  }
  const whole = pointPlace < 0 ? place : pointPlace;
  const digits = first < 0 ? 0 : lastPlace - firstPlace + 1;
  return { start, end: at, first, digits, magnitude: whole - 1 - firstPlace + exponent };
}

function isHeld(text: string, number: Figures): boolean {
  const { start, end, digits, magnitude } = number;
  if (digits === 0) return true;
  // A double keeps any 15 digits, writes no more than 17, and lies between 4.9e-324 and 1.8e308.
  if (digits > 17 || magnitude > 308 || magnitude < -324) return false;
  if (digits <= 15 && magnitude >= -307 && magnitude <= 307) return true;
  const source = text.slice(start, end);
  const written = String(Number(source));
  if (written === source) return true;
  // Of what became `0` or `Infinity` no digit counts.
  const own = numberAt(written, 0);
  return own.digits === digits && own.magnitude === magnitude && sameDigits(text, number.first, written, own.first, digits);
}

function sameDigits(one: string, oneAt: number, other: string, otherAt: number, digits: number): boolean {
  for (let left = digits; left > 0; left--) {
    if (one.charCodeAt(oneAt) === point) oneAt++;
    if (other.charCodeAt(otherAt) === point) otherAt++;
    if (one.charCodeAt(oneAt++) !== other.charCodeAt(otherAt++)) return false;
  }
  return true;
}
