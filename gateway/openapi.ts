// Builds the OpenAPI 3.1 document: parameters and bodies from the routes' schemas, answers and errors from their `doc`.
import { errorAnswers } from './openapi-errors.ts';
import { headerDocs } from './openapi-headers.ts';
import { cliNameOf, pascalCase } from './openapi-names.ts';
import type { Answer, Doc, DocumentedRoute } from './openapi-route.ts';
import { record, ref, words } from './records.ts';

/** The schemas of a route's answers by name: each is a `…Result`, and what it has in `data` a `…Data`. */
export function answerSchemas({ id, answers }: Doc): [name: string, schema: object][] {
  return Object.values(answers).flatMap((answer): [string, object][] => {
    const { schema, message, unwrappedType, tries = false } = answer;
    const result = resultName(id, answer);
    if (unwrappedType !== undefined) return result === undefined ? [] : [[result, published(schema)]];
    const name = dataName(id, answer);
    const isOpenObject = !('properties' in schema);
    const envelope = record({
      // No `const: true`: the most used Python generator turns it into a string.
      success: { type: 'boolean', description: 'true' },
      data: isOpenObject ? schema : ref(name),
      ...(message !== undefined && { message: { type: 'string' } }),
    });
    if (tries) Object.assign(envelope['properties'] as object, { dry_run: { type: 'boolean', description: 'Only for a dry run: true.' } });
    return [...(isOpenObject ? [] : [[name, published(schema)] as [string, object]]), [result ?? '', published(envelope)]];
  });
}

const dataName = (id: string, { name }: Answer): string => `${name ?? pascalCase(id)}Data`;

/** The name of an answer's whole body; none for text and files. */
function resultName(id: string, { name, unwrappedType, schema }: Answer): string | undefined {
  return unwrappedType === undefined || 'properties' in schema ? `${name ?? pascalCase(id)}Result` : undefined;
}

function answerDoc(id: string, answer: Answer): object {
  const { description, example: data, message, headers: names = [], unwrappedType, files = {}, schema: own } = answer;
  const result = resultName(id, answer);
  const schema = result === undefined ? published(own) : ref(result);
  const example = unwrappedType === undefined ? { success: true, data, ...(message !== undefined && { message }) } : data;
  const others = Object.entries(files).map(([type, file]) => [type, { schema: { type: 'string', format: 'binary' }, example: file }]);
  const content = { [unwrappedType ?? 'application/json']: { schema, example }, ...(Object.fromEntries(others) as object) };
  return { description, headers: headerDocs(names), content };
}

/** The name of an operation's body. */
export const requestName = (id: string): string => `${pascalCase(id)}Request`;

/** An operation: body, answers and security. */
export function operationDoc(route: DocumentedRoute, body: Record<string, unknown> | undefined): Record<string, unknown> {
  const { access, doc } = route;
  const answers = Object.fromEntries(Object.entries(doc.answers).map(([status, answer]) => [status, answerDoc(doc.id, answer)]));
  const examples = Object.entries(doc.bodies ?? {}).map(([each, value]) => [each, { value }]);
  const [errors, name] = [errorAnswers(route), cliNameOf(doc.id)];
  const scope = access.by === 'key' ? `Needs an API key with the scope \`${access.scope}\`.` : '';
  return {
    operationId: doc.id,
    tags: [doc.tag],
    summary: doc.summary,
    description: [doc.description, scope].filter(Boolean).join('\n\n') || doc.summary,
    security: access.by === 'anyone' ? [] : [access.by === 'key' ? { apiKeyToken: [] } : { userToken: [] }],
    ...(access.by === 'key' && { 'x-scope': access.scope }),
    ...(name && { 'x-cli': name }),
    ...(doc.isAlias === true && { 'x-internal': true }),
    ...((doc.idempotent ?? doc.repeatable) === true && { 'x-idempotent': true }),
    'x-error-codes': errors.codes,
    ...(body && {
      requestBody: {
        required: doc.bodyOptional !== true,
        content: { 'application/json': { schema: ref(requestName(doc.id)), examples: Object.fromEntries(examples) as object } },
      },
    }),
    ...(doc.stream && {
      requestBody: { required: true, content: { [doc.stream.type]: { schema: doc.stream.schema, example: doc.stream.example } } },
    }),
    responses: {
      ...errors.responses,
      ...answers,
      ...(doc.redirect !== undefined && {
        302: { description: doc.redirect, headers: headerDocs(['Location', 'Set-Cookie']), content: {} },
      }),
    },
  };
}

const ownWords = ['x-tag', 'x-secret', 'x-future', 'x-empty', 'x-published', 'x-digits'];

function isOpen(schema: { type?: unknown }): boolean {
  return [schema.type].flat().includes('object') && !('properties' in schema) && !('additionalProperties' in schema);
}

// An enum that has a name, or metadata, as a reference to it.
function named(schema: { type?: unknown; enum?: unknown }): object {
  const { type, enum: values, ...rest } = schema;
  const { 'x-metadata': metadataBytes, ...described } = rest as { 'x-metadata'?: number };
  if (metadataBytes !== undefined) return { ...orNull(type, 'Metadata'), ...described };
  if (!Array.isArray(values)) return schema;
  const own = values.filter((value) => value !== null).join();
  const name = Object.keys(words).find((each) => words[each]?.join() === own);
  if (name === undefined) return schema;
  return { ...orNull(type, name), ...rest };
}

const orNull = (type: unknown, name: string): object => (Array.isArray(type) ? { anyOf: [ref(name), { type: 'null' }] } : ref(name));

// Such a field exists to be rejected. Client generators make code that does not compile of a type that can only be null.
const isImmutable = (value: unknown): boolean => typeof value === 'object' && value !== null && 'x-immutable' in value;

/** A schema without the validator's annotations, and with hints for client generators. */
export function published(schema: object): object;
export function published(schema: unknown): unknown;
export function published(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((each) => published(each));
  if (typeof schema !== 'object' || schema === null) return schema;
  const { 'x-published': instead, maximum } = schema as { 'x-published'?: object; maximum?: unknown };
  const own = Object.entries({ ...named(schema), ...instead }).filter(([key, value]) => !ownWords.includes(key) && !isImmutable(value));
  if (typeof maximum === 'number' && maximum >= 2 ** 31) own.push(['format', 'int64']);
  // The default, but a generator takes an object without it for one without fields.
  if (isOpen(Object.fromEntries(own))) own.push(['additionalProperties', true]);
  return Object.fromEntries(own.map(([key, value]) => [key, key === 'example' ? value : published(value)]));
}
