// The operator's commands on a deployment that works: postings go on all the time, and none fails.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Command } from 'commander';
import { root } from '../deploy/local/plan.ts';
import { addIdentityCommands } from '../services/identity/operator-commands.ts';
import { addLedgerCommands } from '../services/ledger/operator/commands.ts';
import { addNotifierCommands } from '../services/notifier/operator-commands.ts';
import { operatorProgram } from '../services/platform/operator-program.ts';
import { Settings } from '../services/platform/settings.ts';
import { startCluster, type Cluster, type Tenant } from './cluster.ts';
import { startReceiver, until, type Receiver } from './notifier.ts';
import { bareEnvironment, currentRun } from './run.ts';
import { text } from './sources.ts';
import { newSubscriber, type Subscriber } from './subscriber.ts';

type Service = 'identity' | 'ledger' | 'notifier';

let cluster: Cluster;
let receiver: Receiver;
let subscriber: Subscriber;
let answer = 200;
const posted: string[] = [];
let load: Promise<void>;
let isLoaded = true;

beforeAll(async () => {
  cluster = await startCluster({ environment: { notifier: { WEBHOOK_RETRY_DELAYS: '3600' } } });
  receiver = await startReceiver((_, response) => {
    response.statusCode = answer;
    response.end();
  });
  subscriber = await newSubscriber(cluster);
  await subscriber.call('POST', '', { url: receiver.url, events: ['transaction.posted'] });
  load = postAll();
  await until(() => Promise.resolve(posted.length > 20));
});

afterAll(async () => {
  isLoaded = false;
  await load;
  await cluster.stop();
  await receiver.close();
});

/** Posts one after the other. A posting that fails throws. */
async function postAll(): Promise<void> {
  while (isLoaded) {
    posted.push((await subscriber.post('A sale', { idempotency_key: randomUUID() })).transaction_id as string);
    // Enough to be there at each moment, so that the commands need no minutes.
    await pause(20);
  }
}

interface Ran {
  status: number | null;
  stdout: string;
  stderr: string;
}

// Not spawnSync: the postings go on.
async function run(program: string, args: string[], env: NodeJS.ProcessEnv, cwd = root): Promise<Ran> {
  const child = spawn(program, args, { cwd, env: { ...bareEnvironment, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const ran = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => (ran.stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (ran.stderr += chunk.toString()));
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { status, ...ran };
}

const urlOf = (service: Service) =>
  service === 'ledger'
    ? { MIGRATION_DATABASE_URL: cluster.databases.ledger.ownerUrl }
    : { DATABASE_URL: cluster.databases[service].serviceUrl };

const command = (service: Service, ...args: string[]) => run(process.execPath, [`services/${service}/cli.ts`, ...args], urlOf(service));

/** What a command prints with `--json`: the items and the summary. */
async function json(service: Service, ...args: string[]) {
  const { status, stdout, stderr } = await command(service, ...args, '--json');
  const items =
    stdout.trim() === ''
      ? []
      : stdout
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line));
  const summary = items.pop();
  return { status, items, summary, stderr };
}

const everyCommand = (command: Command): Command[] => [command, ...command.commands.flatMap(everyCommand)];

const tenantId = () => subscriber.tenant.id;
const delivered = (from = 0) => receiver.received.slice(from).map(({ body }) => JSON.parse(body).data.transaction_id as string);
/** Resolves when what is posted by now is delivered. */
const allDelivered = () => {
  const ids = [...posted];
  return until(() => Promise.resolve(new Set(ids).difference(new Set(delivered())).size === 0));
};

test('every command has examples, each of which it takes, and --json', async () => {
  const settings = new Settings({});
  const programs = [operatorProgram('ledger', ''), operatorProgram('notifier', ''), operatorProgram('identity', '')] as const;
  addLedgerCommands(programs[0], settings);
  addNotifierCommands(programs[1], settings, {});
  addIdentityCommands(programs[2], settings);
  const heads = join(mkdtempSync(join(currentRun().directory, 'examples-')), 'heads.txt');
  writeFileSync(heads, `tenant_01jd1zq5v8e6n9w2k4m7p3r5t8 1 ${'0'.repeat(64)}\n`);
  const taken: string[] = [];
  let examples = 0;
  for (const program of programs) {
    for (const command of everyCommand(program).filter(({ commands }) => commands.length === 0)) {
      let help = '';
      command.configureOutput({ writeOut: (text) => (help += text) }).outputHelp();
      const found = [...help.matchAll(/^ {2}\$ \w+ (.*)$/gm)].map(([, line = '']) => line.replace(/ > .*/, '').replace('heads.txt', heads));
      expect([command.name(), help.includes('--json'), found.length > 0]).toEqual([command.name(), true, true]);
      command.action(() => void taken.push(command.name()));
      for (const line of found) {
        const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? '');
        await program.parseAsync(words, { from: 'user' });
        expect([line, taken.at(-1)]).toEqual([line, command.name()]);
        examples += 1;
      }
    }
  }
  expect(taken).toHaveLength(examples);
});

test('the books are verified, compared and rebuilt while postings go on', async () => {
  const { status, items: heads, summary } = await json('ledger', 'heads');
  expect({ status, summary }).toEqual({ status: 0, summary: { type: 'summary', heads: heads.length, findings: 0 } });
  const own = heads.find(({ tenant }) => tenant === tenantId());
  expect(own).toEqual({ type: 'head', tenant: tenantId(), sequence: expect.any(Number), hash: expect.stringMatching(/^[0-9a-f]{64}$/) });
  const file = join(mkdtempSync(join(currentRun().directory, 'heads-')), 'heads');
  writeFileSync(file, (await command('ledger', 'heads')).stdout);
  const verified = await json('ledger', 'verify', '--heads', file);
  const counts = { tenants: heads.length, heads: heads.length, findings: 0 };
  expect(verified).toMatchObject({ status: 0, items: [], summary: { type: 'summary', ...counts }, stderr: '' });
  expect(verified.summary.events).toBeGreaterThan(own.sequence as number);
  expect(await json('ledger', 'rebuild', '--check')).toMatchObject({ status: 0, items: [], summary: { findings: 0, repaired: 0 } });
  expect(await json('ledger', 'rebuild')).toMatchObject({ status: 0, summary: { findings: 0, repaired: 0 } });
});

test('the commands of the page on Kubernetes get the owner’s address and the kept heads into a pod', async () => {
  const [, section = ''] = /\n## Operator's commands in a pod\n([^]*?)\n## /.exec(text('gateway/docs/operate/kubernetes.md')) ?? [];
  const [, block = ''] = /```console\n([^]*?)```/.exec(section) ?? [];
  const directory = mkdtempSync(join(currentRun().directory, 'pod-'));
  // In place of a cluster: it prints the secret, and runs here what a pod would run.
  const kubectl = `kubectl() { case "$*" in *'get secret'*) printf %s "$SECRET" | base64 -w 0;; *) while [ "$1" != -- ]; do shift; done; shift; "$@";; esac; }`;
  const script = [kubectl, ...block.split('\n').filter((line) => !line.includes('keys revoke'))].join('\n');
  const SECRET = cluster.databases.ledger.ownerUrl;
  const ran = await run('bash', ['-euc', script.replaceAll(/([<>]) heads$/gm, '$1 "$HEADS"')], {
    ...urlOf('notifier'),
    SECRET,
    HEADS: join(directory, 'heads'),
  });
  expect(ran).toMatchObject({
    status: 0,
    stdout: expect.stringMatching(/verified: nothing differs\n.* kept heads? verified: nothing differs\n/),
  });
});

test('a terminal shows how far a verification is, and the lines stay what they are', async () => {
  // script gives the command a terminal, and writes what is shown there.
  const line = `"$NODE" services/ledger/cli.ts verify > "$OUTPUT"`;
  const output = join(mkdtempSync(join(currentRun().directory, 'terminal-')), 'output');
  const environment = { ...urlOf('ledger'), NODE: process.execPath, OUTPUT: output, TERM: 'xterm' };
  const shown = await run('script', ['-qec', line, '/dev/null'], environment);
  expect(shown).toMatchObject({ status: 0, stdout: expect.stringMatching(/% \[=*-*\] \d+ of \d+ events/) });
  expect((await command('ledger', 'verify')).stderr).toBe('');
});

test('events are published again under the same ids, and nothing is delivered twice', async () => {
  await allDelivered();
  const before = receiver.received.length;
  const replayed = await json('ledger', 'relay', 'replay', '--tenant', tenantId(), '--from', '1');
  expect(replayed).toMatchObject({ status: 0, stderr: '' });
  const item = { type: 'replay', tenant: tenantId(), from: 1, through: expect.any(Number) };
  expect(replayed).toMatchObject({ status: 0, items: [item], summary: { tenants: 1, events: replayed.items[0].through } });
  const duplicates = async () => {
    const metrics = await (await fetch(`${cluster.opsUrl('notifier')}/metrics`)).text();
    return Number(/^notifier_events_total\{[^}]*result="duplicate"[^}]*\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
  };
  await until(async () => (await duplicates()) >= replayed.summary.events);
  await allDelivered();
  const again = delivered(before);
  expect(new Set(again).size).toBe(again.length);
  expect(again.filter((id) => delivered().indexOf(id) < before)).toEqual([]);
  const { status, items } = await json('ledger', 'relay', 'status', '--tenant', tenantId());
  expect({ status, items }).toMatchObject({ status: 0, items: [{ type: 'tenant', tenant: tenantId(), dead_letters: 0 }] });
  const future = await json('ledger', 'relay', 'replay', '--all', '--since', '2999-01-01T00:00:00Z');
  expect(future).toMatchObject({ status: 0, items: [], summary: { tenants: 0, events: 0 } });
  const beyond = await command('ledger', 'relay', 'replay', '--tenant', tenantId(), '--from', '1000000');
  expect(beyond).toMatchObject({
    status: 1,
    stdout: expect.stringMatching(/ is published through \d+: what comes from 1000000 on is published anyway\n$/),
  });
  for (const wrong of [
    ['--all'],
    ['--from', '1'],
    ['--all', '--from', '0'],
    ['--all', '--since', 'today'],
    ['--all', '--tenant', tenantId(), '--from', '1'],
  ])
    expect(await command('ledger', 'relay', 'replay', ...wrong)).toMatchObject({ status: 2, stdout: '' });
});

test('deliveries that wait are listed by tenant, dead letters one by one', async () => {
  answer = 500;
  const own = await until(async () => {
    const { status, items } = await json('notifier', 'due', '--tenant', tenantId());
    expect(status).toBe(0);
    return items.find(({ pending }) => pending > 0);
  });
  answer = 200;
  expect(own).toEqual({ type: 'tenant', tenant: tenantId(), pending: expect.any(Number), due_seconds: expect.any(Number), enabled: true });
  expect((await command('notifier', 'due')).stdout).toMatch(new RegExp(`^${tenantId()} \\d+ pending, due (in|since) \\d+ s$`, 'm'));
  expect(await json('notifier', 'dead')).toMatchObject({ status: 0, items: [], summary: { type: 'summary', dead_letters: 0 } });
  expect(await json('notifier', 'redrive')).toMatchObject({ status: 0, summary: { redriven: 0, left: 0 } });
});

const statusIn = (tenant: Tenant) => async (key: string) =>
  (await cluster.rest('GET', `/v1/tenants/${tenant.slug}/accounts`, { key })).status;

test('an API key that is revoked is refused at once, and the audit log names the operator', async () => {
  const [leaked, other] = [await cluster.apiKey(subscriber.tenant), await cluster.apiKey(subscriber.tenant)];
  const statusOf = statusIn(subscriber.tenant);
  expect([await statusOf(leaked), await statusOf(other)]).toEqual([200, 200]);
  const { items: listed } = await json('identity', 'keys', 'list', '--tenant', tenantId());
  const last4 = leaked.slice(-4);
  const shown = listed.find((key) => key.last4 === last4);
  expect(shown).toMatchObject({ type: 'key', tenant: tenantId(), kind: 'api_key', status: 'active', member: null });
  const revoked = await json('identity', 'keys', 'revoke', '--key', leaked);
  expect(revoked).toMatchObject({ status: 0, items: [{ id: shown.id, status: 'revoked' }], summary: { tenant: tenantId(), revoked: 1 } });
  expect(await json('identity', 'keys', 'revoke', '--key', shown.id)).toMatchObject({ status: 0, items: [], summary: { revoked: 0 } });
  await until(async () => (await statusOf(leaked)) === 401);
  expect(await statusOf(other)).toBe(200);
  const { body } = await cluster.rest('GET', `/v1/tenants/${tenantId()}/audit`, { key: subscriber.tenant.owner.token });
  expect(body.data.audit[0]).toMatchObject({ type: 'api_key.revoked', actor: 'operator', subject: shown.id, address: null });
  expect((await command('identity', 'keys', 'list', '--tenant', tenantId(), '--all')).stdout).toMatch(new RegExp(`…${last4} .*, revoked`));
  for (const wrong of [
    [],
    ['--key', shown.id, '--all'],
    ['--key', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8'],
    ['--key', 'x'],
    ['--tenant', 'tenant_01jd1zq5v8e6n9w2k4m7p3r5t8'],
  ])
    expect(await command('identity', 'keys', 'revoke', ...wrong)).toMatchObject({ status: 2, stdout: '' });
});

test('all keys of a tenant can be revoked at once, also the access keys of its members', async () => {
  const owner = await cluster.signUp();
  const tenant = await cluster.tenant({ person: owner });
  const key = await cluster.apiKey(tenant);
  const access = await cluster.rest('POST', `/v1/tenants/${tenant.id}/access`, { key: owner.token, body: {} });
  const member = access.body.data.access.key as string;
  const statusOf = statusIn(tenant);
  expect([await statusOf(key), await statusOf(member)]).toEqual([200, 200]);
  expect(await json('identity', 'keys', 'revoke', '--tenant', tenant.id)).toMatchObject({ status: 0, summary: { revoked: 1 } });
  await until(async () => (await statusOf(key)) === 401);
  expect(await statusOf(member)).toBe(200);
  const all = await json('identity', 'keys', 'revoke', '--tenant', tenant.id, '--all');
  expect(all).toMatchObject({ status: 0, items: [{ kind: 'access_key', member: owner.id }] });
  await until(async () => (await statusOf(member)) === 401);
});
