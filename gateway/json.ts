// Reads JSON bodies strictly: media type, UTF-8, no prototype keys, and no number that a double cannot represent.
import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { hasPrototypeKeys, inexactNumbers } from '../services/platform/json.ts';
import { ApiError } from './errors.ts';

// The key of an object that stands for an inexact number. Clients cannot send one, because they do not know it.
const numberKey = `number ${randomUUID()}`;

// Every one is an error, and at most 20 errors are answered.
const maxMarked = 100;

/** The text of a number that a double cannot represent, or null where the value is none. */
export function inexactNumberText(value: unknown): string | null {
  const text = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[numberKey] : undefined;
  return typeof text === 'string' ? text : null;
}

const suspects = new WeakSet();

/** Whether a body may contain NUL, half of a surrogate pair or an inexact number. */
export function needsCloseCheck(body: object): boolean {
  return suspects.has(body);
}

// In well-formed UTF-8 JSON, NUL and half of a surrogate pair can only stand as escapes.
const escapes = /\\u(?:0000|[dD][89a-fA-F])/;

/** Reads a body; an empty one is undefined. Throws {@link ApiError}. */
export function readJson(bytes: Buffer, headers: IncomingHttpHeaders): unknown {
  if (bytes.length === 0) return undefined;
  if (!isJsonType(headers['content-type'])) throw new ApiError('unsupported_media_type');
  // A compressed body could be any size.
  if ((headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity') {
    throw new ApiError('unsupported_media_type', {
      message: 'the body must not be compressed',
      headers: { 'accept-encoding': 'identity' },
    });
  }
  return parseBody(bytes);
}

/** Reads JSON as the body of a request. Throws {@link ApiError}. */
export function parseBody(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new ApiError('invalid_json', { message: 'invalid JSON payload: the body is not UTF-8' });
  // Some clients send a byte order mark.
  const text = bytes.toString('utf8').replace(/^\ufeff/, '');
  const body = parse(text);
  if (body === null || (typeof body !== 'object' && typeof body !== 'number')) return body;
  if (hasPrototypeKeys(text, body)) throw new ApiError('invalid_json');
  const numbers = inexactNumbers(text, maxMarked);
  if (numbers.length === 0 && !escapes.test(text)) return body;
  const marked = (numbers.length === 0 ? body : parse(markNumbers(text, numbers))) as object;
  suspects.add(marked);
  return marked;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new ApiError('invalid_json');
  }
}

function markNumbers(text: string, numbers: { start: number; end: number }[]): string {
  let copy = '';
  let copied = 0;
  for (const { start, end } of numbers) {
    copy += `${text.slice(copied, start)}{"${numberKey}":"${text.slice(start, end)}"}`;
    copied = end;
  }
  return copy + text.slice(copied);
}

// Parameters between semicolons; one within quotes does not separate.
const parameterPattern = /(?:"(?:\\.|[^"\\])*"?|[^;"])+/g;

/** `application/json` with any parameters, but only in UTF-8. */
function isJsonType(header: string | undefined): boolean {
  if (header === 'application/json') return true;
  const [type = '', ...parameters] = (header ?? '').toLowerCase().match(parameterPattern) ?? [];
  if (type.trim() !== 'application/json') return false;
  return parameters.every((parameter) => {
    const [name = '', value = ''] = parameter.split('=');
    return name.trim() !== 'charset' || /^"?utf-?8"?$/.test(value.trim());
  });
}
