// The messages of validation errors, and the rejected value as the answer repeats it.
import { inexactNumberText } from './json.ts';

declare global {
  interface JSON {
    /** A value that `JSON.stringify` writes as this text; TypeScript's library does not know it yet. */
    rawJSON(text: string): unknown;
  }
}

// Values with more parts or more levels are not repeated.
const maxParts = 10_000;
const maxDepth = 100;

/** A rejected value as the answer repeats it: as it was sent, `""` for none, `…` for an object or array that is too large or too deep. */
export function echo(value: unknown): unknown {
  if (value === undefined) return '';
  let parts = 0;
  const copy = (item: unknown, depth: number): unknown => {
    if (typeof item !== 'object' || item === null) return item;
    const number = inexactNumberText(item);
    if (number !== null) return JSON.rawJSON(number);
    const entries = Object.entries(item);
    parts += entries.length;
    if (parts > maxParts || depth > maxDepth) throw new RangeError('too large');
    if (Array.isArray(item)) return item.map((each) => copy(each, depth + 1));
    return Object.fromEntries(entries.map(([key, each]) => [key, copy(each, depth + 1)]));
  };
  try {
    return copy(value, 0);
  } catch {
    return '…';
  }
}

/** JSON types in words. */
const typeNames: Record<string, string> = {
  string: 'a string',
  integer: 'a whole number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
};

/** What a field must be, by tag. Tags that depend on the schema are in {@link predicate}. */
const predicates: Record<string, string> = {
  email: 'must be an email address',
  slug: 'must be 3 to 63 lower-case letters and digits with single hyphens between',
  code: 'must be 1 to 64 letters, digits and ._:- and begin with a letter or digit',
  key: 'must be 1 to 64 letters, digits, _ and -',
  decimal: 'must be a decimal string with at most 13 digits before and 2 after the point',
  gt: 'must be greater than zero',
  url: 'must be an address like https://example.com/hooks',
  id: 'must be a valid identifier',
  unicode: 'must not contain NUL or half of a surrogate pair',
  number: 'holds a number that a double cannot represent: send it as a string',
  printable: 'must consist of printable characters without a blank at either end',
  same: 'must be the same in the body and in one Idempotency-Key header',
  immutable: 'cannot be changed',
  required: 'is required',
  unknown: 'is unknown: check its spelling, or leave it out',
};

/** The message of a field error. `schema`: the one that the field fails; `sent`: its value, unless it is a secret. */
export function fieldMessage(field: string, tag: string, schema: Record<string, unknown>, sent?: unknown): string {
  return `${field} ${predicate(tag, schema)}${sentInstead(tag, sent)}`;
}

const maxShown = 60;
/** Tags whose messages end with the value that was sent. */
const shownTags = ['oneof', 'min', 'max', 'email', 'slug', 'code', 'decimal', 'gt', 'id', 'datetime'];

/** What was sent instead, as the end of a message: its type, its length, or a short value. */
function sentInstead(tag: string, sent: unknown): string {
  if (sent === undefined) return '';
  if (tag === 'type') return `, not ${typeNameOf(sent)}`;
  if ((tag === 'min' || tag === 'max') && (typeof sent === 'string' || Array.isArray(sent))) return `, not ${Array.from(sent).length}`;
  if (!shownTags.includes(tag)) return '';
  if (typeof sent === 'string' && sent.length <= maxShown) return `, not ${JSON.stringify(sent)}`;
  return typeof sent === 'boolean' || (typeof sent === 'number' && Number.isSafeInteger(sent)) ? `, not ${sent}` : '';
}

function typeNameOf(sent: unknown): string {
  if (Array.isArray(sent)) return 'an array';
  if (typeof sent === 'number' || inexactNumberText(sent) !== null) return 'a number';
  return typeNames[typeof sent] ?? 'null';
}

function predicate(tag: string, schema: Record<string, unknown>): string {
  if (tag === 'type') {
    const types = [schema['type']].flat().filter((type) => type !== 'null');
    return `must be ${types.map((type) => typeNames[String(type)] ?? String(type)).join(' or ')}`;
  }
  if (tag === 'oneof') return `must be one of ${(schema['enum'] as (string | null)[]).filter((word) => word !== null).join(', ')}`;
  if (tag === 'min' || tag === 'max') return bound(tag, schema);
  if (tag === 'decimal' && schema['x-digits'] !== undefined)
    return 'must be a decimal string with at most 12 digits before and 12 after the point';
  if (tag === 'datetime' && schema['format'] === 'date-time') return 'must be a time like 2030-01-31T12:00:00Z';
  if (tag === 'datetime' && String(schema['format']).startsWith('instant')) {
    const more = schema['format'] === 'instant' ? '' : ', or original';
    return `must be a date like 2030-01-31 or a time like 2030-01-31T12:00:00.000Z${more}`;
  }
  if (tag === 'datetime') return 'must be a date like 2030-01-31';
  if (tag === 'printable' && schema['x-secret'] === true) return 'must consist of printable characters';
  if (tag === 'gt' && schema['x-future'] === true) return 'must be in the future';
  return predicates[tag] ?? `fails ${tag}`;
}

function bound(tag: 'min' | 'max', schema: Record<string, unknown>): string {
  const bytes = schema['x-metadata'];
  if (typeof bytes === 'number') return `must be at most ${bytes / 1024} KiB as JSON and at most 10 deep`;
  const words = tag === 'min' ? 'at least' : 'at most';
  const of = (name: string) => schema[`${tag}${name}`] as number | undefined;
  if (of('Length') !== undefined) return `must have ${words} ${counted(of('Length'), 'character')}`;
  if (of('Items') !== undefined) return `must have ${words} ${counted(of('Items'), 'item')}`;
  return `must be ${words} ${of('imum')}`;
}

function counted(count: number | undefined, what: string): string {
  return `${count ?? 0} ${what}${count === 1 ? '' : 's'}`;
}
