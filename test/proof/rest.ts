// Every REST route, fuzzed from the gateway's own OpenAPI document by schemathesis: no 500, no status that the document does not list, no
// answer that breaks its schema; with credentials that open everything, and without any.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startCluster, type Cluster, type Tenant } from '../cluster.ts';
import { faultsOf } from './soundness.ts';
import type { Task } from './task.ts';

/** Whether schemathesis is on the PATH; `.ci/tools` installs it and prints where. */
export const hasSchemathesis = spawnSync('schemathesis', ['--version']).status === 0;

/** What a run of the fuzzer found. */
export interface Fuzzed {
  /** What broke its promise, as the fuzzer prints it; empty where nothing did. */
  faults: string[];
  /** The fuzzer's own last lines: how much it tried. */
  summary: string;
}

// With the limits of the specification nearly everything under /webhooks would be answered 429.
const generous = { WEBHOOK_CONFIG_PER_MINUTE: '10000', WEBHOOK_RETRIES_PER_HOUR: '10000', WEBHOOK_TESTS_PER_HOUR: '10000' };

/** Starts a cluster, fuzzes it for so many seconds in all and checks what is left of it. */
export async function fuzzRest({ seed, seconds }: { seed: number; seconds: number }): Promise<Fuzzed> {
  const cluster = await startCluster({ environment: { notifier: { ...generous, WEBHOOK_TIMEOUT: '2', WEBHOOK_RETRY_DELAYS: '1,1' } } });
  const directory = mkdtempSync(join(tmpdir(), 'ledger-rest-'));
  try {
    const known = await furnish(cluster);
    const [inside, outside] = await Promise.all([
      schemathesis(join(directory, 'inside'), cluster, { seed, seconds, settings: settingsOf(known) }),
      schemathesis(join(directory, 'outside'), cluster, { seed, seconds, settings: 'auth.auto-signup = false' }),
    ]);
    const alive = await cluster.rest('GET', `/v1/tenants/${known.books.slug}/accounts`, { key: known.key });
    return {
      faults: [
        ...inside.faults,
        ...outside.faults,
        ...(alive.status === 200 ? [] : [`afterwards the key is answered ${alive.status}`]),
        ...(await faultsOf(cluster)),
      ],
      summary: `with credentials:\n${inside.summary}\nwithout:\n${outside.summary}`,
    };
  } finally {
    rmSync(directory, { recursive: true, force: true });
    await cluster.stop();
  }
}

/** As long as it is told to. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  if (!hasSchemathesis) throw new Error('schemathesis is not on the PATH: PATH="$(.ci/tools):$PATH"');
  const { faults, summary } = await fuzzRest({ seed, seconds: minutes * 60 });
  say(summary);
  for (const fault of faults) say(fault);
  return faults.length === 0;
}

interface Known {
  token: string;
  key: string;
  /** What the key opens. */
  books: Tenant;
  /** What the token makes and revokes keys of: not of the books, whose key must live on. */
  other: Tenant;
  transaction: string;
  apiKey: string;
  delivery: string;
}

async function furnish(cluster: Cluster): Promise<Known> {
  const books = await cluster.tenant();
  const other = await cluster.tenant({ person: books.owner });
  const key = await cluster.apiKey(books);
  const path = `/v1/tenants/${books.slug}`;
  const made = async (where: string, body: unknown, by = key) => {
    const answer = await cluster.rest('POST', where, { key: by, body });
    if (answer.status >= 300 && answer.status !== 502) throw new Error(`${where}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  await made(`${path}/accounts/setup`, { business_type: 'wallet' });
  const posting = { account_code: 'SETTLEMENT-NGN', amount: '1000000.00', side: 'debit', currency: 'NGN' };
  const { transaction } = (await made(`${path}/transactions`, posting)).data;
  await made(`${path}/webhooks`, { url: 'http://127.0.0.1:9/hook', events: ['transaction.posted'] });
  const { delivery_id: delivery } = await made(`${path}/webhooks/test`, {});
  const { api_key: apiKey } = (await made(`/v1/tenants/${other.id}/api-keys`, { name: 'x', scopes: ['reports:read'] }, books.owner.token))
    .data;
  return { token: books.owner.token, key, books, other, transaction: transaction.transaction_id, apiKey: apiKey.id, delivery };
}

/** Credentials, and the records that a path names half of the time. */
function settingsOf({ token, key, books, other, transaction, apiKey, delivery }: Known): string {
  const known = { transaction_id: transaction, key_id: apiKey, delivery_id: delivery, account_code: 'SETTLEMENT-NGN' };
  return [
    ...[
      ['slug', books.slug],
      ['tenant_id', other.id],
    ].map(([name, value]) => `parameters."path.${name}" = "${value}"`),
    ...Object.keys(known).map((name) => `parameters."path.${name}" = { dictionary = "${name}", probability = 0.5 }`),
    ...Object.entries(known).map(([name, value]) => `dictionaries.${name} = { values = ["${value}"] }`),
    `auth.openapi.userToken.bearer = "${token}"`,
    `auth.openapi.apiKey.bearer = "${key}"`,
  ].join('\n');
}

const checks = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'ignored_auth',
  'unsupported_method',
  'allow_header_conformance',
  'use_after_free',
];

async function schemathesis(
  directory: string,
  cluster: Cluster,
  task: { seed: number; seconds: number; settings: string },
): Promise<Fuzzed> {
  mkdirSync(directory);
  const config = join(directory, 'schemathesis.toml');
  // A test delivery that fails is a documented 502, and who is shed is told 503.
  writeFileSync(
    config,
    `cache.enabled = false\n${task.settings}\nchecks.not_a_server_error.expected-statuses = ["2xx", "4xx", "502", "503"]\n`,
  );
  // One worker: with two, threads of Python 3.11 meet in its parser now and then ("recursion depth mismatch").
  const args = [
    ...[
      '--config-file',
      config,
      'run',
      `${cluster.url}/openapi.json`,
      '--seed',
      String(task.seed),
      '--max-time',
      String(Math.ceil(task.seconds)),
    ],
    ...[
      '--checks',
      checks.join(),
      '--workers',
      '1',
      '--continue-on-failure',
      '--generation-database',
      'none',
      '--no-color',
      '--warnings',
      'off',
    ],
    ...['--request-timeout', '20', '--output-sanitize', 'false', '--suppress-health-check', 'all', '--max-redirects', '0'],
  ];
  const child = spawn('schemathesis', args, { cwd: directory, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const status = await new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve));
  const at = output.search(/^=+ SUMMARY =+$/m);
  return { faults: status === 0 ? [] : [output], summary: at < 0 ? output.slice(-500) : output.slice(at) };
}
