// Writes what the command line takes from the OpenAPI document: a table of the routes as commands.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { openApiDocument } from '../clients/document.ts';
import type { Field, Operation } from './operation.ts';
import { commandLinePage } from './page.ts';

/* eslint-disable @typescript-eslint/no-explicit-any -- the document as it is */
/* eslint-disable @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-member-access */
/* eslint-disable @typescript-eslint/no-unsafe-argument, @typescript-eslint/no-unsafe-return, @typescript-eslint/no-unsafe-call */

type Node = Record<string, any>;

/** The routes of the document that are commands, in its order. */
function operationsOf(document: Node): Operation[] {
  const deref = (node: Node | undefined): Node => {
    if (!node) return {};
    if (typeof node['$ref'] === 'string') return { ...deref(at(document, node['$ref'])), ...without(node, '$ref') };
    // Null or one other.
    const choices = (node['anyOf'] as Node[] | undefined)?.filter((each) => each['type'] !== 'null') ?? [];
    return choices.length === 1 ? { ...deref(choices[0]), ...without(node, 'anyOf') } : node;
  };
  return Object.entries<Node>(document['paths']).flatMap(([path, item]) =>
    Object.entries<Node>(item)
      .filter(([, operation]) => operation['x-cli'] !== undefined)
      .map(([method, operation]) => operationOf(method.toUpperCase(), path, operation, deref)),
  );
}

function operationOf(method: string, path: string, operation: Node, deref: (node: Node | undefined) => Node): Operation {
  const parameters: Node[] = operation['parameters'] ?? [];
  const fieldsIn = (where: string) =>
    parameters
      .filter((each) => each['in'] === where && each['name'] !== 'slug' && each['name'] !== 'tenant_id')
      .map((each) => fieldOf(each['name'], { ...deref(each['schema']), ...each }, each['required'] === true, deref));
  const content: Node = operation['requestBody']?.content ?? {};
  const json = content['application/json'];
  const schema = deref(json?.schema);
  const body: Field[] | undefined =
    json &&
    Object.entries<Node>(schema['properties'] ?? {}).map(([name, each]) =>
      fieldOf(name, deref(each), schema['required']?.includes(name), deref),
    );
  const stream = json ? undefined : Object.keys(content)[0];
  const [, success] = Object.entries<Node>(operation['responses']).find(([status]) => status.startsWith('2')) ?? [];
  const types = Object.keys(success?.['content'] ?? {});
  const files = types.filter((type) => type !== 'application/json');
  const data = deref(deref(success?.['content']?.['application/json']?.schema)['properties']?.data)['properties'] ?? {};
  const members = Object.keys(data);
  const list = members.find((name) => deref(data[name])['type'] === 'array');
  const security = Object.keys(operation['security']?.[0] ?? {})[0];
  const { noun, verb } = operation['x-cli'];
  const [pathFields, query] = [fieldsIn('path'), fieldsIn('query')];
  // Names of metadata are the tenant's, so that the document has no parameter for them.
  if (query.some(({ name }) => name === 'q'))
    query.push({ name: 'metadata', type: 'map', description: 'Only with this value of metadata.' });
  return {
    ...{ id: operation['operationId'], noun, verb, method, path, summary: operation['summary'] },
    ...(operation['description'] !== undefined && { description: operation['description'] }),
    credential: security === 'apiKeyToken' ? 'key' : security === 'userToken' ? 'user' : 'none',
    ...{ path_fields: pathFields, query },
    ...(body && { body }),
    ...(operation['requestBody']?.required === true && { body_required: true as const }),
    ...(stream !== undefined && { stream }),
    ...(parameters.some((each) => each['name'] === 'Idempotency-Key') && { idempotent: true as const }),
    ...(list !== undefined && (members.length === 1 || members.includes('pagination')) && { list }),
    ...(members.length === 1 && list === undefined && { one: members[0] as string }),
    ...(files.length > 0 && { files }),
    ...exampleOf(parameters, pathFields, query, body, Object.values<Node>(json?.examples ?? {})[0]?.['value']),
  };
}

function fieldOf(name: string, schema: Node, required: boolean, deref: (node: Node | undefined) => Node): Field {
  const types = [schema['type'] ?? schema['schema']?.type ?? 'json'].flat().filter((type) => type !== 'null');
  const items = deref(schema['items'] ?? schema['schema']?.items);
  const isTexts = items['type'] === 'string';
  const values: unknown[] | undefined = schema['enum'] ?? (isTexts ? items['enum'] : undefined);
  const isMap = types[0] === 'object' && schema['properties'] === undefined;
  const type = { string: 'text', integer: 'integer', boolean: 'boolean', array: isTexts ? 'list' : 'json' }[types[0] as string];
  const [description] = String(schema['description'] ?? '').split(/(?<=\.)\s/);
  return {
    ...{ name, type: (type ?? (isMap ? 'map' : 'json')) as Field['type'] },
    ...(required && { required: true as const }),
    ...(schema['writeOnly'] === true && { secret: true as const }),
    ...(values && { values: values.filter((each) => typeof each === 'string') }),
    ...(description !== '' && { description: description as string }),
  };
}

function exampleOf(parameters: Node[], pathFields: Field[], query: Field[], body: Field[] | undefined, value: Node | undefined) {
  const valueOf = (name: string) => parameters.find((each) => each['name'] === name)?.['example'] ?? `<${name}>`;
  const words = pathFields.map(({ name }) => quote(String(valueOf(name))));
  words.push(
    ...query.filter(({ required }) => required).map(({ name }) => `--${kebab(name)} ${quote(String(queryExample(parameters, name)))}`),
  );
  if (!body || !value) return { example: words.join(' ') };
  const simple = (name: string) => body.find((field) => field.name === name)?.type !== 'json';
  const isSecret = (name: string) => body.find((field) => field.name === name)?.secret === true;
  if (!Object.keys(value).every(simple)) return { example: [...words, '-f body.json'].join(' '), example_body: JSON.stringify(value) };
  for (const [name, each] of Object.entries(value).filter(([field]) => !isSecret(field))) words.push(...flags(name, each));
  return { example: words.join(' ') };
}

function queryExample(parameters: Node[], name: string): unknown {
  const parameter = parameters.find((each) => each['name'] === name);
  return parameter?.['example'] ?? Object.values<Node>(parameter?.['examples'] ?? {})[0]?.['value'] ?? `<${name}>`;
}

function flags(name: string, value: unknown): string[] {
  const flag = name === 'idempotency_key' ? '--key' : `--${kebab(name)}`;
  if (value === true) return [flag];
  if (value === false) return [`--no-${kebab(name)}`];
  if (Array.isArray(value)) return [`${flag} ${value.map((each) => quote(String(each))).join(' ')}`];
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).map(
      ([key, each]) => `${flag} ${quote(`${key}=${typeof each === 'string' ? each : JSON.stringify(each)}`)}`,
    );
  }
  return [`${flag} ${quote(String(value))}`];
}

/** A field's name as a flag. */
const kebab = (name: string): string => name.replaceAll('_', '-');

const quote = (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`);

function at(document: Node, pointer: string): Node {
  return pointer
    .slice(2)
    .split('/')
    .reduce<Node>((node, step) => node[step], document);
}

function without(node: Node, name: string): Node {
  return Object.fromEntries(Object.entries(node).filter(([key]) => key !== name));
}

/** The table's source text. */
function tableOf(all: Operation[], version: string): string {
  const rows = all.map((operation) => `  ${JSON.stringify(operation)},\n`);
  return [
    '// Generated from the OpenAPI document: npm run generate.\n',
    "import type { Operation } from './operation.ts';\n\n",
    `/** The version of the API. */\nexport const apiVersion = ${JSON.stringify(version)};\n\n`,
    '/** Every route that is a command. */\n',
    `export const operations: Operation[] = [\n${rows.join('')}];\n`,
  ].join('');
}

// Into the tree, or for a comparison into another directory with the same folders.
const [root = join(import.meta.dirname, '../..')] = process.argv.slice(2);
const document = await openApiDocument();
const write = (file: string, text: string) => {
  mkdirSync(dirname(join(root, file)), { recursive: true });
  writeFileSync(join(root, file), text);
};
const operations = operationsOf(document);
write('gateway/cli/operations.ts', tableOf(operations, String((document['info'] as Node)['version'])));
write('gateway/docs/reference/command-line.md', await commandLinePage(operations));
process.exit(0);
