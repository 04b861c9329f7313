// Every route as `ledger <noun> <verb>`, from the table of the OpenAPI document.
import { randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { Listing, type Ledger } from '../clients/typescript/ledger.ts';
import { withCommonOptions, withExamples, type Context } from './context.ts';
import type { CommonOptions } from './session.ts';
import { Failure } from './failure.ts';
import type { Operation } from './operation.ts';
import { operations } from './operations.ts';
import { flagOf, optionsOf, queryOf, valuesOf } from './options.ts';
import type { Item, Output } from './output.ts';
import { textOf } from './prompt.ts';
import { columnsOf, flatTree, reportRows } from './tables.ts';

interface RouteOptions extends CommonOptions {
  file?: string;
  output?: string;
  all?: boolean;
  key?: string;
  [field: string]: unknown;
}

/** Adds a command for each route, below its noun. */
export function addRoutes(program: Command, context: Context): void {
  for (const noun of [...new Set(operations.map((operation) => operation.noun))].sort()) {
    const verbs = operations.filter((operation) => operation.noun === noun);
    const names = verbs.map(({ verb }) => verb).join(', ');
    const parent = program.command(noun).description(names).helpGroup('Routes:').helpOption('-h, --help', 'show this help');
    for (const operation of verbs) addRoute(parent, operation, context);
  }
}

function addRoute(parent: Command, operation: Operation, context: Context): void {
  const { noun, verb, summary, description, body, stream, files, list } = operation;
  const command = parent.command(verb).summary(summary).description([summary, description].filter(Boolean).join('.\n\n'));
  for (const { name, description: about = '' } of operation.path_fields) command.argument(`<${name}>`, about);
  const ofBody = (body ?? []).filter(({ secret, name }) => !secret && name !== 'idempotency_key');
  for (const option of [...operation.query, ...ofBody].flatMap(optionsOf)) command.addOption(option);
  if (body ?? stream)
    command.option('-f, --file <file>', stream ? 'body as NDJSON, - for standard input' : 'body as JSON, - for standard input; flags win');
  if (operation.idempotent) command.option('--key <key>', 'idempotency key: the same key does the same once (a new one by default)');
  if (files) command.option('-o, --output <file>', 'where to write the file; standard output by default');
  if (list !== undefined) command.option('--all', 'read all pages');
  const examples = [`ledger ${[noun, verb, operation.example].filter(Boolean).join(' ')}`];
  if (operation.example_body !== undefined)
    examples.unshift(`echo '${operation.example_body.replaceAll("'", String.raw`'\''`)}' > body.json`);
  if (list !== undefined) examples.push(`${examples[0]} --all --json`);
  withExamples(withCommonOptions(command), ...examples);
  command.action(() => run(operation, command.args, command.opts(), context));
}

async function run(operation: Operation, args: string[], options: RouteOptions, context: Context): Promise<void> {
  const output = context.output(options);
  const body = await bodyOf(operation, options, context);
  const given: Record<string, unknown> = queryOf(operation.query, options);
  // The service's own CSV; a table is made of it, because a report's JSON is a tree.
  const asCsv = options.json !== true && operation.files?.includes('text/csv') === true && given['format'] === undefined;
  if (asCsv) given['format'] = 'csv';
  const hasKey = (body as { idempotency_key?: unknown } | undefined)?.idempotency_key != null;
  if (operation.stream !== undefined) given['timeoutMs'] = longestImportMs;
  const call = () => callOf(context.session(options), operation, args, body, given);
  const makesKey = operation.idempotent && !hasKey && (options.key !== undefined || given['dry_run'] !== true);
  const answer = makesKey ? await context.once(options.key ?? newKey(), given, call) : await call();
  if (asCsv && output.format === 'table' && options.output === undefined && answer instanceof Response) {
    const { rows, columns } = reportRows(await answer.text());
    return rows.length > 0 ? output.items(rows, columns) : output.note('None.');
  }
  await print(operation, answer, options, output);
}

// Its answer begins when the first items are posted, which a busy deployment may put off.
const longestImportMs = 600_000;

/** A key of a posting. */
export const newKey = (): string => `cli-${randomUUID()}`;

/** Calls the client's method of the operation. */
async function callOf(
  session: { ledger: Ledger; tenantLedger: Ledger },
  operation: Operation,
  args: string[],
  body: unknown,
  given: object,
): Promise<unknown> {
  const needsTenant = /\{(slug|tenant_id)\}/.test(operation.path);
  const verb = operation.verb.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
  const nouns = (needsTenant ? session.tenantLedger : session.ledger) as unknown as Record<
    string,
    Record<string, (...all: unknown[]) => unknown>
  >;
  const method = nouns[operation.noun]?.[verb];
  if (!method) throw new Error(`the client has no ${operation.noun}.${verb}`);
  const answer = method(...args, ...((operation.body ?? operation.stream) ? [body] : []), given);
  // A list is awaited where it is printed: its pages may be many.
  return answer instanceof Listing ? { listing: answer } : await answer;
}

async function bodyOf(
  { body: fields, body_required: isRequired, stream }: Operation,
  options: RouteOptions,
  context: Context,
): Promise<unknown> {
  if (!fields && stream === undefined) return undefined;
  if (!fields) {
    if (options.file === undefined) throw new Failure('usage', 'this needs a body', 'Give it with -f FILE, or -f - from standard input.');
    // Of any length: it is not read into memory.
    return Readable.toWeb(options.file === '-' ? context.streams.stdin : createReadStream(options.file));
  }
  const text = options.file === undefined ? undefined : await textOf(context.streams.stdin, options.file);
  const open = fields.filter(({ secret }) => !secret);
  const given: Item = { ...(text === undefined ? {} : objectOf(text, options.file ?? '')), ...valuesOf(open, options) };
  const missing = fields.filter(({ name, required }) => required && !(name in given));
  const unset = missing.filter(({ secret }) => !secret).map((field) => `--${flagOf(field)}`);
  if (unset.length > 0) throw new Failure('usage', `missing: ${unset.join(', ')}`, 'Give flags, or the body with -f FILE.');
  for (const { name } of missing) {
    const otherwise = `Give the body with -f FILE, or -f - from standard input: {"${name}": "…"}`;
    given[name] = await context.prompt.secret(name.replaceAll('_', ' '), otherwise);
  }
  return isRequired || Object.keys(given).length > 0 ? given : undefined;
}

/** A file's JSON object. */
export function objectOf(text: string, file: string): Item {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Failure('usage', `${file} is no JSON: ${(error as Error).message}`);
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Item;
  throw new Failure('usage', `${file} must have a JSON object`);
}

async function print(operation: Operation, answer: unknown, options: RouteOptions, output: Output): Promise<void> {
  if (answer instanceof Response) return writeFile(answer, options.output, output);
  const { list, one, id } = operation;
  const listing = (answer as { listing?: Listing<Item, Item> }).listing;
  if (listing && list !== undefined) return printPages(listing, list, columnsOf(id), options.all === true, output);
  const data = (listing ? await listing : answer) as Item;
  const items = list === undefined ? undefined : data[list];
  if (Array.isArray(items)) return output.items(output.format === 'table' ? flatTree(items as Item[]) : (items as Item[]), columnsOf(id));
  const item = one === undefined ? data : data[one];
  if (typeof item === 'object' && item !== null) output.item(item as Item);
  else output.item({ [one ?? 'result']: item });
}

async function printPages(
  listing: Listing<Item, Item>,
  list: string,
  columns: readonly string[] | undefined,
  all: boolean,
  output: Output,
): Promise<void> {
  let count = 0;
  for await (const page of listing.pages()) {
    const items = page[list] as Item[];
    count += items.length;
    output.items(items, columns);
    if (all || !(page['pagination'] as { has_more: boolean }).has_more) continue;
    return output.note('There are more: --all reads all pages.');
  }
  if (count === 0) output.note('None.');
}

async function writeFile(answer: Response, file: string | undefined, output: Output): Promise<void> {
  if (!answer.body) return;
  const type = answer.headers.get('content-type') ?? '';
  if (file === undefined && output.isTerminal && !/^text\/|json/.test(type))
    throw new Failure('usage', `${type} is no text for a terminal`, 'Give -o FILE.');
  if (file === undefined) return output.stream(Readable.fromWeb(answer.body));
  await pipeline(Readable.fromWeb(answer.body), createWriteStream(file));
  output.note(`written to ${file}`);
}
