// `api`: any path of the API, also one that this version has no command for.
import { Argument, type Command } from 'commander';
import { send, type Transport } from '../clients/typescript/call.ts';
import { withCommonOptions, withExamples, type Context } from './context.ts';
import { operations } from './operations.ts';
import { Readable } from 'node:stream';
import { textOf } from './prompt.ts';
import { type CommonOptions, type Session } from './session.ts';

interface ApiOptions extends CommonOptions {
  file?: string;
  key?: string;
  include?: boolean;
}

const methods = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'];

/** Adds the command. */
export function addApi(program: Command, context: Context): void {
  const api = program
    .command('api')
    .helpGroup('Routes:')
    .summary('Call any path.')
    .description('Call any path. A path without a slash before it is below the tenant’s: accounts is /v1/tenants/<slug>/accounts.')
    .addArgument(new Argument('<method>').choices(methods).argParser((text) => methodOf(text)))
    .argument('<path>', 'with its query; {slug} and {tenant_id} are filled in')
    .option('-f, --file <file>', 'body, - for standard input')
    .option('--key <key>', 'header Idempotency-Key')
    .option('-i, --include', 'print status and headers on standard error');
  withExamples(
    withCommonOptions(api),
    'ledger api GET accounts?limit=5',
    'ledger api GET /v1/user',
    'echo \'{"query":"kind=double"}\' | ledger api PUT filters/double -f -',
  );
  api.action((method: string, path: string, options: ApiOptions) => run(method, path, options, context));
}

async function run(method: string, given: string, options: ApiOptions, context: Context): Promise<void> {
  const session = context.session(options);
  const output = context.output(options);
  const path = given.startsWith('/') ? given : `/v1/tenants/{slug}/${given}`;
  const body = options.file === undefined ? undefined : await textOf(context.streams.stdin, options.file);
  const filled = path
    .replaceAll('{slug}', () => session.tenant)
    .replaceAll('{tenant_id}', path.includes('{tenant_id}') ? await tenantId(session) : '');
  const operation = {
    ...{ method, path: filled, by: credentialOf(method, path), answer: 'response' as const },
    // Bytes go as they are: only other types than JSON are not encoded.
    ...(body !== undefined && { body: 'application/octet-stream' }),
    repeatable: method === 'GET' || options.key !== undefined,
    takesKey: options.key !== undefined,
  };
  const headers = { ...(body !== undefined && { 'content-type': isJson(body) ? 'application/json' : 'application/x-ndjson' }) };
  const query = { headers, ...(options.key !== undefined && { idempotencyKey: options.key }) };
  const { response } = await send(transportOf(session), operation, [], body, query);
  if (options.include) {
    output.note(`${response.status} ${response.statusText}`);
    response.headers.forEach((value, name) => output.note(`${name}: ${value}`));
  }
  if (!response.body) return;
  if (!output.isTerminal || response.headers.get('content-type')?.includes('/json') !== true)
    return output.stream(Readable.fromWeb(response.body));
  output.text(`${JSON.stringify(await response.json(), null, 2)}\n`);
}

function transportOf(session: Session): Transport {
  const credential = (by: 'key' | 'token') => (expired: boolean) => (by === 'key' ? session.key(expired) : session.token(expired));
  return { url: session.url, fetch, retries: 3, timeoutMs: 60_000, credential };
}

/** As the route of that path takes it; an unknown one below a tenant's slug takes a key. */
function credentialOf(method: string, path: string): 'key' | 'token' | 'none' {
  const steps = path.split('?')[0]?.split('/') ?? [];
  const fits = (pattern: string) => {
    const parts = pattern.split('/');
    return (
      parts.length === steps.length && parts.every((part, index) => part === steps[index] || (part.startsWith('{') && steps[index] !== ''))
    );
  };
  // A path without parameters wins: /webhooks/config is no delivery.
  const found = operations
    .filter((operation) => operation.method === method && fits(operation.path))
    .sort((a, b) => a.path.split('{').length - b.path.split('{').length)[0];
  if (found) return found.credential === 'user' ? 'token' : found.credential;
  return path.startsWith('/v1/tenants/') ? 'key' : 'none';
}

async function tenantId(session: Session): Promise<string> {
  const { tenant } = session;
  return (await session.tenants()).find(({ slug }) => slug === tenant)?.id ?? tenant;
}

// Lines of JSON are no JSON; a wrong body is refused better as one.
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return !text.includes('\n{');
  }
}

const methodOf = (text: string) => text.toUpperCase();
