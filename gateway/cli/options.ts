// Flags of a route's command, from its fields and back to them.
import { InvalidArgumentError, Option } from 'commander';
import { Failure } from './failure.ts';
import type { Field } from './operation.ts';

/** A field's name as a flag. */
export const flagOf = ({ name }: Field): string => name.replaceAll('_', '-');

// As commander names the value of a flag.
const keyOf = (field: Field) => flagOf(field).replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

/** The options of a field. */
export function optionsOf(field: Field): Option[] {
  const flag = flagOf(field);
  const description = `${field.description ?? field.name.replaceAll('_', ' ')}${field.required ? ' (required)' : ''}`;
  switch (field.type) {
    case 'boolean':
      return [new Option(`--${flag}`, description), new Option(`--no-${flag}`, `sets ${field.name} to false`).hideHelp()];
    case 'list': {
      const option = new Option(`--${flag} <values...>`, description);
      return [field.values ? option.choices(field.values) : option];
    }
    case 'map':
      return [new Option(`--${flag} <key=value>`, `${description} May be repeated.`.trim()).argParser(pair)];
    case 'json':
      return [new Option(`--${flag} <json>`, `${description} As JSON.`).argParser(json)];
    case 'integer':
      return [new Option(`--${flag} <number>`, description).argParser(whole)];
    default: {
      const option = new Option(`--${flag} <text>`, description);
      return [field.values ? option.choices(field.values) : option];
    }
  }
}

/** The fields that were given as flags. */
export function valuesOf(fields: readonly Field[], options: Record<string, unknown>): Record<string, unknown> {
  const given = fields.filter((field) => options[keyOf(field)] !== undefined);
  return Object.fromEntries(given.map((field) => [field.name, options[keyOf(field)]]));
}

/** The same for a query: each pair of a map is a parameter, `metadata.order=42`. */
export function queryOf(fields: readonly Field[], options: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(valuesOf(fields, options));
  return Object.fromEntries(
    entries.flatMap(([name, value]): [string, unknown][] => {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[name, value]];
      return Object.entries(value).map(([key, each]) => [`${name}.${key}`, typeof each === 'object' ? JSON.stringify(each) : each]);
    }),
  );
}

/** Adds `key=value` to the pairs before. A value that is JSON of a number, truth value, list or object is one; everything else is text. */
export function pair(text: string, before: Record<string, unknown> = {}): Record<string, unknown> {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('It must be key=value.');
  return { ...before, [text.slice(0, at)]: valueOf(text.slice(at + 1)) };
}

function valueOf(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    // A number that JSON would print in another way is a text, such as an order's number with zeros or 20 digits.
    return typeof value === 'number' && String(value) !== text ? text : value;
  } catch {
    return text;
  }
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new InvalidArgumentError(`It is no JSON: ${(error as Error).message}.`);
  }
}

/** A whole number that is not negative. */
export function whole(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

/** An address of HTTP. */
export function httpUrl(text: string, name: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // Credentials in it would be shown and kept.
  if (url && /^https?:$/.test(url.protocol) && url.username === '') return url.href;
  throw new Failure('usage', `${name} must be an address such as https://ledger.example.com, not ${JSON.stringify(text)}`);
}

/** The address of a deployment: without a slash at its end. */
export const serverUrl = (text: string, name: string): string =>
  httpUrl(text, name)
    .replace(/[?#].*$/, '')
    .replace(/\/+$/, '');
