// Reads a JSON body as strictly as the house wants it, without making the usual request pay for the rare one.
import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';
import { Problem } from './problem.ts';

declare global {
  interface JSON {
    /** A value that `JSON.stringify` writes exactly as the text; TypeScript's library does not know it yet. */
    rawJSON(text: string): unknown;
  }
}

// The key of an object that stands for a number which a double can't hold. Nobody else can send one: a NUL is refused.
const mark = '\0number';

/** The text of a number that a double can't hold, or null where the value is none. */
export function numberText(value: unknown): string | null {
  const text = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[mark] : undefined;
  return typeof text === 'string' ? text : null;
}

/** Stands for a field that the body and a header give differently. */
export class HeaderConflict {
  readonly body: unknown;

  constructor(body: unknown) {
    this.body = body;
  }
}

// Bodies whose texts or numbers need a closer look.
const suspects = new WeakSet();

/** Whether the body may hold a NUL, half of a surrogate pair or a number that a double can't hold. */
export function isSuspect(body: object): boolean {
  return suspects.has(body);
}

// Raw, neither can be in well-formed UTF-8 JSON; escaped, both can.
const escapes = /\\u(?:0000|[dD][89a-fA-F])/;
// 16 digits or more, or an exponent, where a number can begin: few texts match, no usual number does.
const longNumber = /[:,[\s]-?(?:[0-9.]{16}|[0-9][0-9.]*[eE])/;
// The same numbers one by one, and strings, which are passed over.
const stringsAndLongNumbers = /"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:[0-9.]{16,}(?:[eE][+-]?[0-9]+)?|[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]+)/g;

/** A function that reads a body's text; it throws where the text is no JSON or tries to change prototypes. */
export type Parse = (text: string) => unknown;

/**
 * Reads a body. An empty one is undefined, a bad one the {@link Problem}: returned, not thrown, because the framework closes the connection
 * after an error of its parser.
 */
export function readJson(bytes: Buffer, headers: IncomingHttpHeaders, parse: Parse): unknown {
  if (bytes.length === 0) return undefined;
  if (!isJsonType(headers['content-type']) || !isPlain(headers['content-encoding'])) return new Problem('unsupported_media_type');
  if (!isUtf8(bytes)) return new Problem('invalid_json');
  const text = bytes.toString('utf8');
  try {
    const body = parse(text);
    if (typeof body !== 'object' || body === null) return body;
    // JSON.parse with a reviver would name each number's source, too, but takes 1.5 s for a megabyte of small ones.
    const marked = longNumber.test(text) ? text.replaceAll(stringsAndLongNumbers, markNumber) : text;
    if (marked === text && !escapes.test(text)) return body;
    const careful: object = marked === text ? body : (parse(marked) as object);
    suspects.add(careful);
    return careful;
  } catch {
    return new Problem('invalid_json');
  }
}

function markNumber(token: string): string {
  return token.startsWith('"') || holds(Number(token), token) ? token : `{"\\u0000number":"${token}"}`;
}

/** Whether a double and the text that it was read from are the same number. */
function holds(value: number, source: string): boolean {
  return Number.isFinite(value) && canonical(String(value)) === canonical(source);
}

/** Digits without zeros at either end, and the power of ten: equal for equal numbers. */
function canonical(text: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = /^(-?)([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]+))?$/.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}

/** `application/json`, whatever its parameters, but in UTF-8. */
function isJsonType(header: string | undefined): boolean {
  if (header === 'application/json') return true;
  const [type = '', ...parameters] = (header ?? '').toLowerCase().split(';');
  if (type.trim() !== 'application/json') return false;
  return parameters.every((parameter) => {
    const [name = '', value = ''] = parameter.split('=');
    return name.trim() !== 'charset' || /^"?utf-?8"?$/.test(value.trim());
  });
}

/** Compressed bodies are not taken: what a kilobyte unpacks to is not known before it is unpacked. */
function isPlain(encoding: string | undefined): boolean {
  return encoding === undefined || encoding.toLowerCase() === 'identity';
}
