// Writes the methods of the TypeScript client from the OpenAPI document: each operation by its noun and verb.
import { pascalCase } from '../openapi-names.ts';

interface Schema {
  $ref?: string;
  type?: unknown;
  properties?: Record<string, Schema>;
}

interface Media {
  content?: Record<string, { schema: Schema }>;
}

interface Operation {
  operationId: string;
  summary: string;
  description: string;
  security: Record<string, unknown>[];
  parameters?: { name: string; in: string; required?: boolean }[];
  requestBody?: Media & { required: boolean };
  responses: Record<string, Media>;
  'x-cli'?: { noun: string; verb: string };
  'x-internal'?: boolean;
  'x-idempotent'?: boolean;
}

/** What the generator reads of the document. */
export interface ClientDocument {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

const camelCase = (text: string): string => text.replaceAll(/[-_]([a-z])/g, (_, letter: string) => letter.toUpperCase());
const nameOf = ({ $ref = '' }: Schema): string => $ref.slice($ref.lastIndexOf('/') + 1);

/** One method: its line in the table that the client reads, and its typed signatures. */
interface Method {
  noun: string;
  verb: string;
  entry: string;
  signatures: string[];
  doc: string;
}

const importLines = [
  ['{ CallOptions, Operation }', '../call.ts'],
  ['{ Listing }', '../listing.ts'],
  ['* as T', './types.gen.ts'],
]
  .map(([names, from]) => `import type ${names} from '${from}';`)
  .join('\n');

/** The text of `resources.gen.ts`. */
export function resourcesFile(document: ClientDocument): string {
  const methods = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, operation]) => methodOf(document, path, method, operation) ?? []),
  );
  const nouns = Map.groupBy(methods, ({ noun }) => noun);
  const lines = (print: (method: Method) => string): string =>
    [...nouns].map(([noun, of]) => `  ${noun}: {\n${of.map(print).join('\n')}\n  };`).join('\n');
  return `// @ts-nocheck
// Made by \`npm run generate\` from the OpenAPI document: do not edit.
${importLines}

/** Every operation by noun and verb. */
export interface Resources {
${lines(({ verb, doc, signatures }) => [`    /** ${doc} */`, ...signatures.map((each) => `    ${verb}${each};`)].join('\n'))}
}

/** What the client sends for each. */
export const operations: { readonly [Noun in keyof Resources]: { readonly [Verb in keyof Resources[Noun]]: Operation } } = {
${lines(({ verb, entry }) => `    ${verb}: ${entry},`).replaceAll('  };', '  },')}
};
`;
}

function methodOf(document: ClientDocument, path: string, method: string, operation: Operation): Method | undefined {
  const { operationId: id, 'x-cli': name, parameters = [], requestBody, responses, security, summary, description } = operation;
  if (!name || operation['x-internal'] === true) return undefined;
  // The client knows its tenant.
  const inPath = parameters.filter((each) => each.in === 'path' && each.name !== 'slug' && each.name !== 'tenant_id');
  const query = parameters.filter((each) => each.in === 'query');
  const call = `T.${pascalCase(id)}Call`;
  const bodyType = requestBody && Object.keys(requestBody.content ?? {})[0];
  const answers = answersOf(document, responses);
  const paging = pagingOf(document, query, answers.data);
  const isNeeded = query.some((each) => each.required === true);
  const options = query.length === 0 ? 'CallOptions' : `${call}['query'] & CallOptions`;
  const sent = [
    ...inPath.map((each) => `${camelCase(each.name)}: string`),
    ...(requestBody ? [`body${requestBody.required ? '' : '?'}: ${bodyType === 'application/json' ? `${call}['body']` : 'Lines'}`] : []),
  ].map((each) => each.replace('Lines', 'string | Uint8Array | ReadableStream<Uint8Array>'));
  const signature = (given: string, answer: string, needed = isNeeded): string =>
    `(${[...sent, `options${needed ? '' : '?'}: ${given}`].join(', ').replace('body?:', needed ? 'body: undefined |' : 'body?:')}): ${answer}`;
  const answer = paging ? `Listing<${answers.type}, ${itemType(answers.type, paging.items)}>` : `Promise<${answers.type}>`;
  const tried = query.some((each) => each.name === 'dry_run') && answers.tried !== undefined;
  const signatures = [
    ...(tried ? [signature(`${options} & { dry_run: true }`, `Promise<${answers.tried ?? ''}>`, true)] : []),
    ...(answers.hasFiles ? [signature(`${options} & { format: 'csv' | 'xlsx' | 'pdf' }`, 'Promise<Response>', true)] : []),
    signature(options, answer),
  ];
  const entry = {
    method: method.toUpperCase(),
    path,
    by: 'userToken' in (security[0] ?? {}) ? 'token' : 'apiKeyToken' in (security[0] ?? {}) ? 'key' : 'none',
    ...(bodyType !== undefined && { body: bodyType }),
    ...(answers.kind !== 'data' && { answer: answers.kind }),
    ...(parameters.some((each) => each.name === 'Idempotency-Key') && { takesKey: true }),
    ...((method === 'get' || operation['x-idempotent'] === true) && { repeatable: true }),
    ...(paging && { paging }),
  };
  const [first = ''] = description.split('\n\n');
  const doc = [`${summary}.`, ...(first === summary ? [] : [first])].join(' ').replaceAll('*/', '* /');
  return { noun: name.noun, verb: camelCase(name.verb), entry: JSON.stringify(entry), signatures, doc };
}

interface Answers {
  /** What the client hands out: `data`, the whole JSON, or the response with a file or text. */
  kind: 'data' | 'json' | 'response';
  type: string;
  /** The type of a dry run. */
  tried?: string;
  /** The same in other formats. */
  hasFiles: boolean;
  /** Name of the schema of `data`. */
  data: string;
}

function answersOf({ components }: ClientDocument, responses: Record<string, Media>): Answers {
  const good = Object.entries(responses).filter(([status]) => status.startsWith('2'));
  const [first] = good.map(([, { content = {} }]) => Object.keys(content));
  const schemas = good.flatMap(([, { content }]) => content?.['application/json']?.schema ?? []);
  const response = { kind: 'response', type: 'Response', hasFiles: false, data: '' } as const;
  const [schema] = schemas;
  if (!first || !schema) return response;
  const bodies = schemas.map((each) => components.schemas[nameOf(each)]?.properties);
  if (!bodies[0]?.['success'])
    return { ...response, kind: 'json', type: schema.$ref === undefined ? 'Record<string, unknown>' : `T.${nameOf(schema)}` };
  // The status with the highest number comes last: of a posting, 201.
  const names = [...new Set(bodies.map((body) => nameOf(body?.['data'] ?? {})))];
  const data = names.at(-1) ?? '';
  const type = data === '' ? 'Record<string, never>' : `T.${data}`;
  return { kind: 'data', type, hasFiles: first.length > 1, data, ...(names.length > 1 && { tried: `T.${names[0] ?? ''}` }) };
}

/** How a list continues, and where a page has its items. */
interface Paging {
  by: 'cursor' | 'after_sequence' | 'offset';
  items: string;
}

function pagingOf({ components }: ClientDocument, query: { name: string }[], data: string): Paging | undefined {
  const by = (['cursor', 'offset', 'after_sequence'] as const).find((name) => query.some((each) => each.name === name));
  const fields = components.schemas[data]?.properties;
  if (!by || !fields?.['pagination']) return undefined;
  const arrayIn = (properties: Record<string, Schema>) => Object.keys(properties).find((name) => properties[name]?.type === 'array');
  const report = components.schemas[nameOf(fields['report'] ?? {})]?.properties;
  const items = arrayIn(fields) ?? (report && `report.${arrayIn(report) ?? ''}`);
  return items === undefined ? undefined : { by, items };
}

const itemType = (data: string, items: string): string =>
  `${data}${items
    .split('.')
    .map((name) => `['${name}']`)
    .join('')}[number]`;
