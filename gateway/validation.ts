// Checks bodies and queries against their schemas: a fast validator for what is right, and a thorough one that lists what is wrong.
import { Ajv, type AnySchemaObject, type ErrorObject, type ValidateFunction } from 'ajv';
import { hasInvalidUnicode } from '../services/platform/json.ts';
import { formats, tagOfPattern } from './fields.ts';
import { HeaderConflict, isSuspect, numberText } from './json.ts';
import { metadataFault } from './metadata.ts';
import { ApiError, validationError, maxErrors, type FieldError } from './errors.ts';
import { echo, fieldMessage } from './validation-messages.ts';

/** A schema of ours: JSON Schema with the annotations of `fields.ts`. */
export type Schema = AnySchemaObject;

/** What a validator answers: fine as it is, fine with this value instead, or what is wrong. */
export type Verdict = true | { value: unknown } | { error: ApiError };

function newAjv(thorough: boolean): Ajv {
  const ajv = new Ajv({
    allErrors: thorough,
    verbose: thorough,
    coerceTypes: false,
    removeAdditional: false,
    allowUnionTypes: true,
    formats,
  });
  ajv.addVocabulary(['x-tag', 'x-secret', 'x-empty', 'x-published', 'example']);
  ajv.addKeyword({ keyword: 'x-immutable', validate: (_: unknown, data: unknown) => data === null, errors: false });
  ajv.addKeyword({
    keyword: 'x-future',
    type: 'string',
    validate: (_: unknown, data: string) => Date.parse(data) > Date.now(),
    errors: false,
  });
  // In the fast validator metadata is any object: who takes it turns it into text, and finds it too long or too deep on the way.
  const metadata = (_schema: unknown, data: object): boolean => {
    const tag = thorough ? metadataFault(data) : null;
    metadata.errors = tag === null ? [] : [{ keyword: 'x-metadata', params: { tag } }];
    return tag === null;
  };
  metadata.errors = [] as Partial<ErrorObject>[];
  ajv.addKeyword({ keyword: 'x-metadata', type: 'object', validate: metadata, errors: true });
  return ajv;
}

const fastAjv = newAjv(false);
const thoroughAjv = newAjv(true);

/** A validator of JSON bodies. No body and `null` count as `{}`; a problem met while reading it is the verdict. */
export function bodyValidator(schema: Schema): (data: unknown) => Verdict {
  const fast = fastAjv.compile(schema);
  const list = lister(schema);
  return (data) => {
    if (data instanceof ApiError) return { error: data };
    const body = data ?? {};
    if (!fast(body) || isSuspect(body)) {
      const errors = list(body);
      if (isFilled(errors)) return { error: validationError(errors) };
    }
    return body === data ? true : { value: body };
  };
}

/** A validator of query strings: whole numbers come as text, and an empty value is none unless the schema says `x-empty`. */
export function queryValidator(schema: Schema): (data: unknown) => Verdict {
  const fast = fastAjv.compile(schema);
  const list = lister(schema);
  const properties = Object.entries(schema['properties'] as Record<string, Schema>);
  return (data) => {
    const sent = data as Record<string, unknown>;
    const query: Record<string, unknown> = {};
    for (const [name, property] of properties) {
      const value = sent[name];
      if (value === undefined || (value === '' && property['x-empty'] !== true)) continue;
      query[name] = isWhole(property) && typeof value === 'string' && /^-?[0-9]+$/.test(value) ? finite(Number(value)) : value;
    }
    if (fast(query) && !Object.values(query).some((value) => typeof value === 'string' && hasInvalidUnicode(value)))
      return { value: query };
    // A number too large to be exact is told as it was sent.
    const errors = list(query).map((error) =>
      typeof error.value === 'number' && !Number.isSafeInteger(error.value) ? { ...error, value: echo(sent[error.field]) } : error,
    );
    return isFilled(errors) ? { error: validationError(errors) } : { value: query };
  };
}

function isWhole(schema: Schema): boolean {
  return [schema['type']].flat().includes('integer');
}

/** The number, or the largest where it is none: still a whole number, and beyond every bound. */
function finite(number: number): number {
  return Number.isFinite(number) ? number : Math.sign(number) * Number.MAX_VALUE;
}

function isFilled(errors: FieldError[]): errors is [FieldError, ...FieldError[]] {
  return errors.length > 0;
}

interface Found extends FieldError {
  place: number[];
}

/** Lists what is wrong with a document in the schema's order, one error a field. */
function lister(schema: Schema): (data: unknown) => FieldError[] {
  let compiled: ValidateFunction | undefined;
  const secretive = JSON.stringify(schema).includes('"x-secret"');
  return (data) => {
    if (typeof data !== 'object' || data === null || Array.isArray(data) || numberText(data) !== null) {
      const tag = 'type';
      return [{ field: 'body', tag, value: secretive ? '' : echo(data), message: 'body must be an object' }];
    }
    const found: Found[] = [];
    const add = (path: string[], tag: string, value: unknown, of: Schema) => {
      const { field, place } = locate(schema, path);
      const sent = value instanceof HeaderConflict ? value.body : value;
      const visible = of['x-secret'] === true ? '' : echo(sent);
      found.push({ field, place, tag, value: mayHoldPassword(of, sent, visible) ? '' : visible, message: fieldMessage(field, tag, of) });
    };
    untextual(schema, data, [], (path, value, of) => add(path, 'unicode', value, of));
    // Not at the start: to compile all of them took an eighth of it.
    const thorough = (compiled ??= thoroughAjv.compile(schema));
    // A million wrong items would be a million errors: what is beyond the limit is not looked at.
    if (!thorough(shortened(schema, data))) {
      for (const error of thorough.errors ?? []) {
        const path = error.instancePath.split('/').slice(1).map(unescape);
        const missing = error.keyword === 'required' ? String(error.params['missingProperty']) : undefined;
        // A keyword of ours comes without its schema.
        const of = path.reduce((here, step) => (here['items'] as Schema | undefined) ?? property(here, step), schema);
        const holder = at(data, path);
        if (missing === undefined) add(path, tagOf(error, of), holder, of);
        // A number that a double can't hold is an object of ours.
        else if (numberText(holder) !== null) add(path, 'type', holder, of);
        else add([...path, missing], 'required', undefined, property(of, missing));
      }
    }
    found.sort((one, other) => comparePlaces(one.place, other.place));
    const first = found.filter((error, index) => found.findIndex((other) => other.field === error.field) === index);
    return first.slice(0, maxErrors).map(({ field, tag, value, message }) => ({ field, tag, value, message }));
  };
}

/** Of an address, what stands before an @; the @ itself may be behind what is shown of an object beyond all measure. */
function mayHoldPassword(schema: Schema, sent: unknown, visible: unknown): boolean {
  if (schema['x-tag'] !== 'url') return false;
  return (typeof sent === 'object' && typeof visible === 'string') || JSON.stringify(visible).includes('@');
}

function property(schema: Schema, name: string): Schema {
  return (schema['properties'] as Record<string, Schema> | undefined)?.[name] ?? {};
}

const tags: Record<string, string> = {
  type: 'type',
  enum: 'oneof',
  minLength: 'min',
  minItems: 'min',
  minimum: 'min',
  maxLength: 'max',
  maxItems: 'max',
  maximum: 'max',
  'x-future': 'gt',
};

function tagOf(error: ErrorObject, schema: Schema): string {
  const { keyword, data } = error;
  const types = [schema['type']].flat();
  if (keyword === 'type' && data instanceof HeaderConflict) return 'same';
  if (keyword === 'type' && numberText(data) !== null && types.includes('integer')) return 'number';
  if (keyword === 'x-immutable') return 'immutable';
  // A field that may be absent may be null. Where an empty text is wrong, it is as good as missing.
  if (data === null ? !types.includes('null') : data === '' && (types.includes('string') || !types.includes('null'))) return 'required';
  if (keyword === 'x-metadata') return String(error.params['tag']);
  if (keyword === 'pattern' || keyword === 'format') return tagOfPattern(schema, data);
  return tags[keyword] ?? keyword;
}

/** Where a path stands in the schema's order, and its name: `entries[1].amount`. */
function locate(schema: Schema, path: string[]): { field: string; place: number[] } {
  let field = '';
  let here = schema;
  const place = path.map((step): number => {
    if (here['items'] !== undefined) {
      here = here['items'] as Schema;
      field += `[${step}]`;
      return Number(step);
    }
    const names = Object.keys((here['properties'] as object | undefined) ?? {});
    here = property(here, step);
    field += field === '' ? step : `.${step}`;
    return names.indexOf(step);
  });
  return { field, place };
}

function comparePlaces(one: number[], other: number[]): number {
  for (let index = 0; index < Math.min(one.length, other.length); index++) {
    const difference = (one[index] ?? 0) - (other[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return one.length - other.length;
}

function unescape(step: string): string {
  return step.replaceAll('~1', '/').replaceAll('~0', '~');
}

function at(data: unknown, path: string[]): unknown {
  return path.reduce<unknown>((value, step) => (value as Record<string, unknown> | undefined)?.[step], data);
}

// Of the schema's fields alone: to copy 75,000 others took 80 ms, for which everybody waited.
function shortened(schema: Schema, data: object): object {
  const copy: Record<string, unknown> = {};
  for (const [name, { maxItems }] of Object.entries(schema['properties'] as Record<string, Schema>)) {
    if (!Object.hasOwn(data, name)) continue;
    const value = (data as Record<string, unknown>)[name];
    copy[name] = Array.isArray(value) && typeof maxItems === 'number' ? value.slice(0, maxItems + 1) : value;
  }
  return copy;
}

/** Calls back for each text of the schema that is none. */
function untextual(schema: Schema, data: unknown, path: string[], report: (path: string[], value: string, schema: Schema) => void): void {
  if (typeof data === 'string') {
    if (hasInvalidUnicode(data)) report(path, data, schema);
  } else if (Array.isArray(data)) {
    const { items, maxItems = 0 } = schema as { items?: Schema; maxItems?: number };
    if (items) data.slice(0, maxItems).forEach((item, index) => untextual(items, item, [...path, String(index)], report));
  } else if (typeof data === 'object' && data !== null && schema['properties'] !== undefined) {
    for (const [name, each] of Object.entries(schema['properties'] as Record<string, Schema>)) {
      untextual(each, (data as Record<string, unknown>)[name], [...path, name], report);
    }
  }
}
