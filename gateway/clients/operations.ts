// Reads the operations of the OpenAPI document as client libraries show them: by noun and verb, with what each takes and answers.
import { pascalCase } from '../openapi-names.ts';

/** A schema of the document. */
export interface Schema {
  $ref?: string;
  type?: unknown;
  format?: string;
  items?: Schema;
  properties?: Record<string, Schema>;
}

interface Media {
  headers?: object;
  content?: Record<string, { schema: Schema }>;
}

/** A parameter of the document. */
export interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  schema: Schema;
}

interface Operation {
  operationId: string;
  summary: string;
  description: string;
  security: Record<string, unknown>[];
  parameters?: Parameter[];
  requestBody?: Media & { required: boolean };
  responses: Record<string, Media>;
  'x-cli'?: { noun: string; verb: string };
  'x-internal'?: boolean;
  'x-idempotent'?: boolean;
}

/** What the generators read of the document. */
export interface ClientDocument {
  webhooks?: unknown;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

/** What a call answers. */
interface Answer {
  /** What the library hands out: `data`, the whole JSON, or the response with a file or text. */
  kind: 'data' | 'json' | 'response';
  /** Name of the schema; empty: nothing in particular. */
  schema: string;
  /** The schema of a dry run, where it is another one. */
  tried?: string;
  /** The same in other formats. */
  hasFiles: boolean;
}

/** How a list continues, and where a page has its items. */
interface Paging {
  by: 'cursor' | 'after_sequence' | 'offset';
  /** `accounts`, `report.lines`. */
  items: string;
  /** Name of the schema of an item. */
  item: string;
}

/** An operation as a method. */
export interface Method {
  noun: string;
  /** With dashes: `post-single`. */
  verb: string;
  id: string;
  method: string;
  path: string;
  by: 'key' | 'token' | 'none';
  /** In the path, without what the client knows: its tenant. */
  parameters: string[];
  query: Parameter[];
  body: { type: string; required: boolean } | undefined;
  answer: Answer;
  paging: Paging | undefined;
  takesKey: boolean;
  repeatable: boolean;
  /** One line. */
  doc: string;
}

/** Name of the schema that a schema refers to. */
export const nameOf = ({ $ref = '' }: Schema): string => $ref.slice($ref.lastIndexOf('/') + 1);

/** `account_code` or `post-single` in camel case. */
export const camelCase = (text: string): string => text.replaceAll(/[-_]([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** All operations but aliases of others. */
export function methodsOf(document: ClientDocument): Method[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, operation]) => methodOf(document, path, method, operation) ?? []),
  );
}

/** Methods by noun. */
export function nounsOf(document: ClientDocument): [noun: string, methods: Method[]][] {
  return [...Map.groupBy(methodsOf(document), ({ noun }) => noun)];
}

function methodOf(document: ClientDocument, path: string, method: string, operation: Operation): Method | undefined {
  const { operationId: id, 'x-cli': name, parameters = [], requestBody, responses, security, summary, description } = operation;
  if (!name || operation['x-internal'] === true) return undefined;
  const query = parameters.filter((each) => each.in === 'query');
  const [bodyType] = Object.keys(requestBody?.content ?? {});
  const answer = answerOf(document, responses);
  const [first = ''] = description.split('\n\n');
  return {
    ...{ ...name, id, method: method.toUpperCase(), path, query, answer },
    by: 'userToken' in (security[0] ?? {}) ? 'token' : 'apiKeyToken' in (security[0] ?? {}) ? 'key' : 'none',
    parameters: [...path.matchAll(/\{(\w+)\}/g)].map(([, each = '']) => each).filter((each) => each !== 'slug' && each !== 'tenant_id'),
    body: bodyType === undefined ? undefined : { type: bodyType, required: requestBody?.required === true },
    paging: pagingOf(document, query, answer),
    takesKey: parameters.some((each) => each.name === 'Idempotency-Key'),
    repeatable: method === 'get' || operation['x-idempotent'] === true,
    doc: [`${summary}.`, ...(first === summary ? [] : [first])].join(' '),
  };
}

function answerOf({ components }: ClientDocument, responses: Record<string, Media>): Answer {
  const good = Object.entries(responses).filter(([status]) => status.startsWith('2'));
  const [first] = good.map(([, { content = {} }]) => Object.keys(content));
  const schemas = good.flatMap(([, { content }]) => content?.['application/json']?.schema ?? []);
  const [schema] = schemas;
  if (!first || !schema) return { kind: 'response', schema: '', hasFiles: false };
  const bodies = schemas.map((each) => components.schemas[nameOf(each)]?.properties);
  if (!bodies[0]?.['success']) return { kind: 'json', schema: nameOf(schema), hasFiles: false };
  // The status with the highest number comes last: of a posting, 201.
  const names = [...new Set(bodies.map((body) => nameOf(body?.['data'] ?? {})))];
  return { kind: 'data', schema: names.at(-1) ?? '', hasFiles: first.length > 1, ...(names.length > 1 && { tried: names[0] ?? '' }) };
}

function pagingOf({ components }: ClientDocument, query: Parameter[], { schema }: Answer): Paging | undefined {
  const by = (['cursor', 'offset', 'after_sequence'] as const).find((name) => query.some((each) => each.name === name));
  const fields = components.schemas[schema]?.properties;
  if (!by || !fields?.['pagination']) return undefined;
  const listIn = (properties: Record<string, Schema> | undefined) =>
    Object.entries(properties ?? {}).find(([, each]) => each.type === 'array');
  const inReport = fields['report'] && listIn(components.schemas[nameOf(fields['report'])]?.properties);
  const [name, list] = listIn(fields) ?? inReport ?? [];
  if (name === undefined) return undefined;
  return { by, items: inReport ? `report.${name}` : name, item: nameOf(list?.items ?? {}) };
}

/**
 * A copy of the document without what the layers over the generated types know: errors, header fields and aliases. `path`: whether it
 * keeps the parameters of paths.
 */
export function withoutTransport(whole: object, path: boolean): ClientDocument {
  const copy = structuredClone(whole) as ClientDocument;
  delete copy.webhooks;
  for (const item of Object.values(copy.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      if (operation['x-internal'] === true) Reflect.deleteProperty(item, method);
      operation.parameters = (operation.parameters ?? []).filter((each) => each.in === 'query' || (path && each.in === 'path'));
      for (const [status, answer] of Object.entries(operation.responses)) {
        delete answer.headers;
        if (!status.startsWith('2')) Reflect.deleteProperty(operation.responses, status);
      }
    }
  }
  return copy;
}

/** The name of the type of an operation's body. */
export const bodyName = (id: string): string => `${pascalCase(id)}Request`;
