// Validates bodies and queries against their schemas: a fast validator, and a thorough one that lists what is wrong.
import { Ajv, type AnySchemaObject, type ErrorObject, type ValidateFunction } from 'ajv';
import { hasInvalidUnicode } from '../services/platform/json.ts';
import { maxErrors, validationError, type ApiError, type FieldError } from './errors.ts';
import { formats, tagOfPattern } from './fields.ts';
import { HeaderConflict } from './idempotency.ts';
import { inexactNumberText, needsCloseCheck } from './json.ts';
import { metadataFault } from './metadata.ts';
import { echo, fieldMessage } from './validation-messages.ts';

/** JSON Schema with the annotations of `fields.ts`. */
export type Schema = AnySchemaObject;

/** A validator's answer: valid as it is, valid with this value instead, or an error. */
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
  ajv.addVocabulary(['x-tag', 'x-secret', 'x-empty', 'x-published', 'x-digits', 'example']);
  ajv.addKeyword({ keyword: 'x-immutable', validate: (_: unknown, data: unknown) => data === null, errors: false });
  ajv.addKeyword({
    keyword: 'x-future',
    type: 'string',
    validate: (_: unknown, data: string) => Date.parse(data) > Date.now(),
    errors: false,
  });
  // The fast validator takes any object for metadata: `metadataText` checks its size and depth.
  const metadata = (maxBytes: number, data: object): boolean => {
    const tag = thorough ? metadataFault(data, maxBytes) : null;
    metadata.errors = tag === null ? [] : [{ keyword: 'x-metadata', params: { tag } }];
    return tag === null;
  };
  metadata.errors = [] as Partial<ErrorObject>[];
  ajv.addKeyword({ keyword: 'x-metadata', type: 'object', validate: metadata, errors: true });
  return ajv;
}

const fastAjv = newAjv(false);
const thoroughAjv = newAjv(true);

/** A validator of JSON bodies. No body and `null` count as `{}`. `whole`: the body of which this is a part. */
export function bodyValidator(schema: Schema): (data: unknown, whole?: object) => Verdict {
  const isValid = fastAjv.compile(schema);
  const list = errorLister(schema);
  return (data, whole) => {
    const body = data ?? {};
    if (!isValid(body) || needsCloseCheck(whole ?? body)) {
      const errors = list(body);
      if (isFilled(errors)) return { error: validationError(errors) };
    }
    return body === data ? true : { value: body };
  };
}

/** A validator of query strings: whole numbers and flags come as text, and an empty value is none unless the schema says `x-empty`. */
export function queryValidator(schema: Schema): (data: unknown) => Verdict {
  const isValid = fastAjv.compile(schema);
  const list = errorLister(schema);
  const properties = propertiesOf(schema);
  return (data) => {
    const sent = data as Record<string, unknown>;
    const query: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(sent)) {
      const property = properties[name];
      if (property && value === '' && property['x-empty'] !== true) continue;
      query[name] = property && typeof value === 'string' ? typed(property, value) : value;
    }
    if (isValid(query) && !Object.values(query).some((value) => typeof value === 'string' && hasInvalidUnicode(value))) {
      return { value: query };
    }
    // A number too large to be exact is repeated as it was sent.
    const errors = list(query).map((error) =>
      typeof error.value === 'number' && !Number.isSafeInteger(error.value) ? { ...error, value: echo(sent[error.field]) } : error,
    );
    return isFilled(errors) ? { error: validationError(errors) } : { value: query };
  };
}

function typed(schema: Schema, text: string): unknown {
  const types = [schema['type']].flat();
  // A parameter that may be repeated and was not.
  if (types.includes('array')) return [text];
  if (types.includes('integer') && /^-?[0-9]+$/.test(text)) return finite(Number(text));
  return types.includes('boolean') && (text === 'true' || text === 'false') ? text === 'true' : text;
}

/** The number, or the largest one where it is infinite: still a whole number, and beyond every bound. */
function finite(number: number): number {
  return Number.isFinite(number) ? number : Math.sign(number) * Number.MAX_VALUE;
}

function isFilled(errors: FieldError[]): errors is [FieldError, ...FieldError[]] {
  return errors.length > 0;
}

interface PositionedError extends FieldError {
  /** Position in the schema's order, level by level. */
  position: number[];
}

/** Lists what is wrong with a document in the schema's order: one error a field, unknown fields last. */
function errorLister(schema: Schema): (data: unknown) => FieldError[] {
  let compiled: ValidateFunction | undefined;
  const hasSecrets = JSON.stringify(schema).includes('"x-secret"');
  return (data) => {
    if (typeof data !== 'object' || data === null || Array.isArray(data) || inexactNumberText(data) !== null) {
      return [{ field: 'body', tag: 'type', value: hasSecrets ? '' : echo(data), message: 'body must be an object' }];
    }
    const found: PositionedError[] = [];
    const add = (path: string[], tag: string, value: unknown, of: Schema) => {
      const sent = value instanceof HeaderConflict ? value.body : value;
      const isSecret = of['x-secret'] === true || (tag === 'unknown' && hasSecrets) || mayHoldPassword(of, sent);
      const { field, position } = locate(schema, path);
      found.push({
        field,
        position,
        tag,
        value: isSecret ? '' : echo(sent),
        message: fieldMessage(field, tag, of, isSecret ? undefined : sent),
      });
    };
    addInvalidUnicode(schema, data, [], add);
    // Compiled on first use: compiling all at the start would delay it.
    compiled ??= thoroughAjv.compile(schema);
    if (!compiled(prune(schema, data))) for (const error of compiled.errors ?? []) addSchemaError(schema, data, error, add);
    found.sort((one, other) => comparePositions(one.position, other.position));
    const byField = new Map<string, FieldError>();
    for (const { field, tag, value, message } of found) if (!byField.has(field)) byField.set(field, { field, tag, value, message });
    return [...byField.values()].slice(0, maxErrors);
  };
}

type Add = (path: string[], tag: string, value: unknown, of: Schema) => void;

function addSchemaError(schema: Schema, data: object, error: ErrorObject, add: Add): void {
  const path = error.instancePath.split('/').slice(1).map(unescape);
  // A keyword of ours comes without its schema.
  const of = path.reduce((here, step) => (here['items'] as Schema | undefined) ?? propertyOf(here, step), schema);
  const holder = valueAt(data, path);
  const { missingProperty: missing, additionalProperty: unknown } = error.params as {
    missingProperty?: string;
    additionalProperty?: string;
  };
  if (missing === undefined && unknown === undefined) add(path, tagOf(error, of), holder, of);
  // An inexact number is an object of ours, and only its type is wrong.
  else if (inexactNumberText(holder) !== null) add(path, 'type', holder, of);
  else if (missing !== undefined) add([...path, missing], 'required', undefined, propertyOf(of, missing));
  else if (unknown !== undefined) add([...path, unknown], 'unknown', valueAt(holder, [unknown]), {});
}

/** Whether a wrong URL may contain a user's password, which stands before an `@`. */
function mayHoldPassword(schema: Schema, sent: unknown): boolean {
  return schema['x-tag'] === 'url' && (typeof sent === 'object' || (typeof sent === 'string' && sent.includes('@')));
}

function propertiesOf(schema: Schema): Record<string, Schema> {
  return (schema['properties'] as Record<string, Schema> | undefined) ?? {};
}

function propertyOf(schema: Schema, name: string): Schema {
  const properties = propertiesOf(schema);
  return Object.hasOwn(properties, name) ? (properties[name] as Schema) : {};
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
  if (keyword === 'type' && inexactNumberText(data) !== null && types.includes('integer')) return 'number';
  if (keyword === 'x-immutable') return 'immutable';
  // A field that may be absent may be null. Where an empty text is wrong, it counts as missing.
  if (data === null ? !types.includes('null') : data === '' && (types.includes('string') || !types.includes('null'))) return 'required';
  if (keyword === 'x-metadata') return String(error.params['tag']);
  if (keyword === 'pattern' || keyword === 'format') return tagOfPattern(schema, data);
  return tags[keyword] ?? keyword;
}

/** The name of a path, `entries[1].amount`, and its position in the schema's order. */
function locate(schema: Schema, path: string[]): { field: string; position: number[] } {
  let field = '';
  let here = schema;
  const position = path.map((step): number => {
    if (here['items'] !== undefined) {
      here = here['items'] as Schema;
      field += `[${step}]`;
      return Number(step);
    }
    const names = Object.keys(propertiesOf(here));
    here = propertyOf(here, step);
    field += field === '' ? step : `.${step}`;
    const index = names.indexOf(step);
    return index < 0 ? names.length : index;
  });
  return { field, position };
}

function comparePositions(one: number[], other: number[]): number {
  for (let index = 0; index < Math.min(one.length, other.length); index++) {
    const difference = (one[index] ?? 0) - (other[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return one.length - other.length;
}

function unescape(step: string): string {
  return step.replaceAll('~1', '/').replaceAll('~0', '~');
}

function valueAt(data: unknown, path: string[]): unknown {
  return path.reduce<unknown>((value, step) => (value as Record<string, unknown> | undefined)?.[step], data);
}

/** A copy without items and unknown fields beyond the most that are reported: a million of them would be a million errors. */
function prune(schema: Schema, value: unknown): unknown {
  if (Array.isArray(value)) {
    const { items, maxItems = value.length } = schema as { items?: Schema; maxItems?: number };
    return value.slice(0, maxItems + 1).map((item: unknown) => (items ? prune(items, item) : item));
  }
  const isFields = typeof value === 'object' && value !== null && schema['properties'] !== undefined;
  if (!isFields || inexactNumberText(value) !== null) return value;
  const copy: Record<string, unknown> = {};
  let unknown = 0;
  for (const [name, each] of Object.entries(value)) {
    if (Object.hasOwn(propertiesOf(schema), name) || ++unknown <= maxErrors) copy[name] = prune(propertyOf(schema, name), each);
  }
  return copy;
}

/** Adds an error for each text of the schema that holds NUL or half of a surrogate pair. */
function addInvalidUnicode(schema: Schema, data: unknown, path: string[], add: Add): void {
  if (typeof data === 'string') {
    if (hasInvalidUnicode(data)) add(path, 'unicode', data, schema);
  } else if (Array.isArray(data)) {
    const { items, maxItems = 0 } = schema as { items?: Schema; maxItems?: number };
    if (items) data.slice(0, maxItems).forEach((item, index) => addInvalidUnicode(items, item, [...path, String(index)], add));
  } else if (typeof data === 'object' && data !== null) {
    for (const [name, each] of Object.entries(propertiesOf(schema))) {
      addInvalidUnicode(each, (data as Record<string, unknown>)[name], [...path, name], add);
    }
  }
}
