// The sentences of validation errors, and how much of a wrong value is repeated.
import { numberText } from './json.ts';

// An object with more parts, or deeper, is no mistake that somebody reads: of such a one the beginning of its JSON is shown.
const mostParts = 10_000;
const mostLevels = 100;
const maxShown = 1000;

/** A value as it is repeated to its sender: as it was sent, but for objects and arrays that are beyond all measure. */
export function echo(value: unknown): unknown {
  if (value === undefined) return '';
  if (typeof value !== 'object' || value === null) return value;
  if (roomAfter(value, mostParts, mostLevels) >= 0) return withNumbers(value);
  return `${written(value, maxShown).slice(0, maxShown).toWellFormed()}…`;
}

/** How many more parts a value leaves room for; negative where it is too large or too deep. */
function roomAfter(value: unknown, parts: number, levels: number): number {
  if (typeof value !== 'object' || value === null) return parts - 1;
  if (levels === 0) return -1;
  let left = parts - 1;
  const isList = Array.isArray(value);
  for (const item of isList ? (value as unknown[]) : Object.keys(value)) {
    if (left < 0) return left;
    left = roomAfter(isList ? item : (value as Record<string, unknown>)[item as string], left, levels - 1);
  }
  return left;
}

/** A value as JSON, given up where there is no more room: neither a million items nor a million levels are walked. */
function written(value: unknown, room: number): string {
  const number = numberText(value);
  if (number !== null) return number;
  if (typeof value === 'string') return JSON.stringify(value.slice(0, room + 1));
  if (typeof value !== 'object' || value === null) return String(value);
  const isList = Array.isArray(value);
  let text = isList ? '[' : '{';
  for (const item of isList ? (value as unknown[]) : Object.keys(value)) {
    if (text.length > room) return text;
    if (text.length > 1) text += ',';
    text += isList ? '' : `${JSON.stringify(item)}:`;
    text += written(isList ? item : (value as Record<string, unknown>)[item as string], room - text.length);
  }
  return `${text}${isList ? ']' : '}'}`;
}

/** The value with its numbers as they were sent. */
function withNumbers(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const number = numberText(value);
  if (number !== null) return JSON.rawJSON(number);
  if (Array.isArray(value)) return value.map(withNumbers);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withNumbers(item)]));
}

const typeNames: Record<string, string> = {
  string: 'a string',
  integer: 'a whole number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
};

const patterns: Record<string, string> = {
  email: 'must be an email address',
  slug: 'must be 3 to 63 lower-case letters and digits with single hyphens between',
  code: 'must be 1 to 64 letters, digits and ._:- and begin with a letter or digit',
  decimal: 'must be a decimal text with up to 13 digits before and 2 after the point',
  gt: 'must be greater than zero',
  url: 'must be an address like https://example.com/hooks',
  id: 'is not a valid identifier',
  unicode: 'must not hold NUL or half of a surrogate pair',
  number: 'holds a number that would come back as another one: send it as text',
  same: 'differs between the body and the Idempotency-Key header, or is in two of those',
  immutable: 'cannot be changed',
  required: 'is required',
};

/** What is wrong with a field, as a sentence; `schema` is the one that the field fails. */
export function fieldMessage(field: string, tag: string, schema: Record<string, unknown>): string {
  return `${field} ${predicate(tag, schema)}`;
}

function predicate(tag: string, schema: Record<string, unknown>): string {
  if (tag === 'type') {
    const types = [schema['type']].flat().filter((type) => type !== 'null');
    return `must be ${types.map((type) => typeNames[String(type)] ?? String(type)).join(' or ')}`;
  }
  if (tag === 'oneof') return `must be one of ${(schema['enum'] as (string | null)[]).filter((word) => word !== null).join(', ')}`;
  if (tag === 'min' || tag === 'max') return bound(tag, schema);
  if (tag === 'datetime' && schema['format'] === 'date-time') return 'must be a time like 2030-01-31T12:00:00Z';
  if (tag === 'datetime') return 'must be a date like 2030-01-31';
  if (tag === 'gt' && schema['x-future'] === true) return 'must be in the future';
  return patterns[tag] ?? `fails ${tag}`;
}

function bound(tag: 'min' | 'max', schema: Record<string, unknown>): string {
  if (schema['x-metadata'] === true) return 'must be at most 16 KiB as JSON and at most 10 deep';
  const words = tag === 'min' ? 'at least' : 'at most';
  const of = (name: string) => schema[`${tag}${name}`] as number | undefined;
  if (of('Length') !== undefined) return `must have ${words} ${counted(of('Length'), 'character')}`;
  if (of('Items') !== undefined) return `must have ${words} ${counted(of('Items'), 'item')}`;
  return `must be ${words} ${of('imum')}`;
}

function counted(count: number | undefined, what: string): string {
  return `${count ?? 0} ${what}${count === 1 ? '' : 's'}`;
}
