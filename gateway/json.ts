// Reads a JSON body as strictly as the house wants it, without making the usual request pay for the rare one.
import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { inexactNumbers, hasPrototypeKeys } from '../services/platform/json.ts';
import { ApiError, validationError } from './errors.ts';

declare global {
  interface JSON {
    /** A value that `JSON.stringify` writes exactly as the text; TypeScript's library does not know it yet. */
    rawJSON(text: string): unknown;
  }
}

// The key of an object that stands for a number which a double can't hold. Nobody else can send one: nobody else knows it.
const mark = `number ${randomUUID()}`;

/** The text of a number that a double can't hold, or null where the value is none. */
export function numberText(value: unknown): string | null {
  const text = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[mark] : undefined;
  return typeof text === 'string' ? text : null;
}

/** Stands for a field that the body and a header give differently, or two headers give; `body`: what is told to have been sent. */
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
// Metadata can't hold so many; an object for each would cost more than all the rest of a body.
const mostMarks = 10_000;

/**
 * Reads a body. An empty one is undefined, a bad one the {@link ApiError}: returned, not thrown, because the framework closes the connection
 * after an error of its parser.
 */
export function readJson(bytes: Buffer, headers: IncomingHttpHeaders): unknown {
  if (bytes.length === 0) return undefined;
  if (!isJsonType(headers['content-type'])) return new ApiError('unsupported_media_type');
  if (!isPlain(headers['content-encoding'])) {
    // RFC 9110, section 15.5.16: it says what would have been taken.
    const given = { message: 'the body must not be compressed', headers: { 'accept-encoding': 'identity' } };
    return new ApiError('unsupported_media_type', given);
  }
  if (!isUtf8(bytes)) return new ApiError('invalid_json');
  const text = bytes.toString('utf8', startsWithMark(bytes) ? 3 : 0);
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return new ApiError('invalid_json');
  }
  if (body === null || (typeof body !== 'object' && typeof body !== 'number')) return body;
  if (hasPrototypeKeys(text, body)) return new ApiError('invalid_json');
  const numbers = inexactNumbers(text, mostMarks + 1);
  if (numbers.length === 0 && !escapes.test(text)) return body;
  if (numbers.length > 2 * mostMarks) {
    const message = `body holds more than ${mostMarks} numbers that would come back as others`;
    return validationError([{ field: 'body', tag: 'number', value: '', message }]);
  }
  const careful = (numbers.length === 0 ? body : JSON.parse(marked(text, numbers))) as object;
  suspects.add(careful);
  return careful;
}

function marked(text: string, numbers: number[]): string {
  let copy = '';
  let copied = 0;
  for (let index = 0; index < numbers.length; index += 2) {
    const [start = 0, end = 0] = numbers.slice(index, index + 2);
    copy += `${text.slice(copied, start)}{"${mark}":"${text.slice(start, end)}"}`;
    copied = end;
  }
  return copy + text.slice(copied);
}

/** Some clients put a byte order mark before UTF-8. */
function startsWithMark(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

// Parts between semicolons, of which one within quotes is none.
const parts = /(?:"(?:\\.|[^"\\])*"?|[^;"])+/g;

/** `application/json`, whatever its parameters, but in UTF-8. */
function isJsonType(header: string | undefined): boolean {
  if (header === 'application/json') return true;
  const [type = '', ...parameters] = (header ?? '').toLowerCase().match(parts) ?? [];
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
