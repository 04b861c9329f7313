// `npm run proof -- rest`: schemathesis fuzzes every REST route from the OpenAPI document, with all credentials and without any.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startCluster, type Cluster } from '../cluster.ts';
import { newTenantRecords, type TenantRecords } from '../tenant-records.ts';
import { ledgerFaults } from './ledger-check.ts';
import { judge } from './load-state.ts';
import { UsageError, type Task } from './task.ts';

/** Without these, nearly all calls under /webhooks would be answered 429. */
const quota = { WEBHOOK_CONFIG_PER_MINUTE: '10000', WEBHOOK_RETRIES_PER_HOUR: '10000', WEBHOOK_TESTS_PER_HOUR: '10000' };

/** Runs a proof: no 500, no undocumented status, no answer that breaks its schema, and the ledger is right afterwards. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  if (spawnSync('schemathesis', ['--version']).status !== 0)
    throw new UsageError('schemathesis is not on the PATH: PATH="$(.ci/tools):$PATH"');
  const cluster = await startCluster({ environment: { notifier: { ...quota, WEBHOOK_TIMEOUT: '2', WEBHOOK_RETRY_DELAYS: '1,1' } } });
  const directory = mkdtempSync(join(tmpdir(), 'ledger-rest-'));
  try {
    const known = await newTenantRecords(cluster);
    const other = await newTenantRecords(cluster, { person: known.tenant.owner });
    const task = { seed, seconds: minutes * 60 };
    const runs = await Promise.all([
      schemathesis(join(directory, 'inside'), cluster, { ...task, settings: settingsOf(known, other) }),
      schemathesis(join(directory, 'outside'), cluster, { ...task, settings: 'auth.auto-signup = false' }),
    ]);
    for (const { summary } of runs) say(summary);
    const alive = await cluster.rest('GET', `/v1/tenants/${known.tenant.slug}/accounts`, { key: known.key });
    const faults = [...runs.flatMap((run) => run.faults), ...(await ledgerFaults(cluster))];
    return judge(alive.status === 200 ? faults : [...faults, `afterwards the key is answered ${alive.status}`], say);
  } finally {
    rmSync(directory, { recursive: true, force: true });
    await cluster.stop();
  }
}

/** Credentials, and records that paths name half of the time. */
function settingsOf({ tenant, key, ids }: TenantRecords, other: TenantRecords): string {
  const known = { ...ids, key_id: other.ids.key_id };
  return [
    `parameters."path.slug" = "${tenant.slug}"`,
    // Keys of this tenant are made and revoked; the first tenant's key must stay valid.
    `parameters."path.tenant_id" = "${other.tenant.id}"`,
    ...Object.keys(known).map((name) => `parameters."path.${name}" = { dictionary = "${name}", probability = 0.5 }`),
    ...Object.entries(known).map(([name, value]) => `dictionaries.${name} = { values = ["${value}"] }`),
    `auth.openapi.userToken.bearer = "${tenant.owner.token}"`,
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
): Promise<{ faults: string[]; summary: string }> {
  mkdirSync(directory);
  const config = join(directory, 'schemathesis.toml');
  // A failed test delivery is a documented 502, overload a 503.
  writeFileSync(
    config,
    `cache.enabled = false\n${task.settings}\nchecks.not_a_server_error.expected-statuses = ["2xx", "4xx", "502", "503"]\n`,
  );
  // With two workers, Python 3.11's parser fails now and then ("recursion depth mismatch").
  const args = [
    ...`--config-file ${config} run ${cluster.url}/openapi.json --seed ${task.seed} --max-time ${Math.ceil(task.seconds)}`.split(' '),
    ...`--checks ${checks.join()} --workers 1 --continue-on-failure --generation-database none --no-color --warnings off`.split(' '),
    // It can't write NDJSON: gateway/import.test.ts sends malformed lines.
    ...'--exclude-operation-id importTransactions'.split(' '),
    ...'--request-timeout 20 --output-sanitize false --suppress-health-check all --max-redirects 0'.split(' '),
  ];
  const child = spawn('schemathesis', args, { cwd: directory, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const status = await new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve));
  const at = output.search(/^=+ SUMMARY =+$/m);
  return { faults: status === 0 ? [] : [output], summary: at < 0 ? output.slice(-500) : output.slice(at) };
}
