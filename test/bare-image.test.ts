// The image's exact file set and the compose file's own commands, in a bare directory, as a user who may write nothing there.
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import { withClient } from '../deploy/local/databases.ts';
import { root, services } from '../deploy/local/plan.ts';
import { clientOf } from './client.ts';
import { newChildren, testPort } from './cluster.ts';
import { startOwnPostgres, type OwnPostgres } from './own-postgres.ts';
import { until } from './polling.ts';
import { processes } from './required-settings.ts';
import { text } from './sources.ts';

type Manifest = Record<string, any>;

const compose = parse(text('deploy/compose.yaml'), { merge: true }) as { services: Record<string, Manifest>; configs: Manifest };
const dockerfile = text('deploy/Dockerfile');
const final = dockerfile.slice(dockerfile.lastIndexOf('\nFROM '));
const [program = '', ...flags] = JSON.parse(/^ENTRYPOINT (.+)$/m.exec(final)?.[1] ?? '[]') as string[];
const [, uid = '', gid = ''] = /^USER ([0-9]+):([0-9]+)$/m.exec(final) ?? [];
// Only root becomes another user; anybody else runs it as himself.
const user = process.getuid?.() === 0 ? { user: { uid: Number(uid), gid: Number(gid) } } : {};

// Not in the run's directory, which other users can't enter.
const directory = mkdtempSync(join(tmpdir(), 'ledger-image-'));
const app = join(directory, 'app');
const volumes = {
  '/run/secrets': join(directory, 'secrets'),
  '/mail': join(directory, 'mail'),
  '/checkpoints': join(directory, 'checkpoints'),
};
const children = newChildren();
let postgres: OwnPostgres;
/** Counts what the processes send to the collector. */
let spans = 0;
const receiver = createServer((_, response) => {
  spans += 1;
  response.end();
});
let collector = '';
const ports: Record<string, { own: number; ops: number }> = {};

/** What the final stage copies: packages that are not for development, files that the build may see, and what the browser's stage builds. */
function layOut(): void {
  mkdirSync(app);
  const removed = [...(/rm -rf (.+)$/m.exec(dockerfile)?.[1] ?? '').matchAll(/\S+/g)].map(String);
  const { packages } = JSON.parse(text('package-lock.json')) as { packages: Record<string, { dev?: true }> };
  const kept = Object.entries(packages).filter(([path, { dev }]) => path !== '' && dev !== true && existsSync(join(root, path)));
  const wanted = kept.map(([path]) => path).filter((path) => !removed.some((gone) => path === gone || path.startsWith(`${gone}/`)));
  expect([removed.length, wanted.length < Object.keys(packages).length]).toEqual([4, true]);
  // A package inside of another comes with it, and is left out with it.
  const outer = wanted.filter((path) => path.lastIndexOf('node_modules/') === 0);
  for (const path of outer) linked(path);
  for (const path of Object.keys(packages).filter((each) => each !== '' && !wanted.includes(each)))
    rmSync(join(app, path), { recursive: true, force: true });
  const ignored = (path: string) => path.endsWith('.test.ts') || /(^|\/)(built|\.built-[^/]*)$/.test(path);
  expect(text('.dockerignore')).toMatch(/\n\*\*\/\*\.test\.ts\n\*\*\/built\n\*\*\/\.built-\*\n/);
  for (const [, names = ''] of final.matchAll(/^COPY (?!--from)(.+) \S+$/gm)) {
    for (const name of names.split(' ')) cpSync(join(root, name), join(app, name), { recursive: true, filter: (path) => !ignored(path) });
  }
  for (const [, script = '', output = ''] of dockerfile.matchAll(/node (\S+\/build\.ts) (\S+)/g)) {
    execFileSync(process.execPath, [script, join(app, output)], { cwd: root, stdio: 'ignore' });
  }
}

/** A hard link for each file, or a copy where the directory is on another disk. */
function linked(path: string): void {
  mkdirSync(dirname(join(app, path)), { recursive: true });
  const copy = (...options: string[]) => spawnSync('cp', [...options, join(root, path), join(app, path)]).status;
  if (copy('-rl') !== 0) expect(copy('-r')).toBe(0);
}

/** A text of the compose file with the directories and servers of this test. */
function here(value: string): string {
  const moved = Object.entries(volumes).reduce((sofar, [path, place]) => sofar.replaceAll(path, place), value);
  const { host } = new URL(postgres.adminUrl);
  const withPostgres = moved.replace('@postgres:5432/', `@${host}/`);
  if (value === 'http://collector:4318') return collector;
  return withPostgres.replace(
    /^(identity|ledger|notifier|auditor):[0-9]+$/,
    (address, name: string) => `127.0.0.1:${ports[name]?.own ?? address}`,
  );
}

/** Starts what the compose file starts. Without Kafka the relay calls the notifier. */
function start(name: string) {
  const { command, environment = {} } = compose.services[name]!;
  const given = Object.entries<string>(environment).map(([variable, value]) => [variable, here(value)] as const);
  const more = ports[name] && { HOST: '127.0.0.1', PORT: String(ports[name].own), OPS_PORT: String(ports[name].ops) };
  const env = {
    ...Object.fromEntries(given),
    ...more,
    ...(name === 'ledger' && { KAFKA_BROKERS: '', NOTIFIER_ADDR: here('notifier:50053') }),
    ...(name === 'notifier' && { KAFKA_BROKERS: '' }),
  };
  const args = [...flags, ...(command as string[]).map(here)];
  return children.start({ name, command: process.execPath, args, cwd: app, env, ...(name !== 'secrets' && user) });
}

beforeAll(async () => {
  postgres = await startOwnPostgres();
  for (const statement of (compose.configs['databases'].content as string).split(';').filter((each) => each.trim() !== '')) {
    await withClient(postgres.adminUrl, (client) => client.query(statement));
  }
  layOut();
  await new Promise<void>((listening) => void receiver.listen(0, '127.0.0.1', listening));
  collector = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  for (const place of Object.values(volumes)) mkdirSync(place);
  for (const place of [volumes['/mail'], volumes['/checkpoints']]) chmodSync(place, 0o777);
  chmodSync(directory, 0o755);
  for (const name of processes) ports[name] = { own: await testPort(), ops: await testPort() };
});

afterAll(async () => {
  await children.end();
  receiver.close();
  await postgres.end();
  rmSync(directory, { recursive: true, force: true });
});

test('the image has all that secrets, migrations and processes need, up to a posting', async () => {
  expect(program).toBe('node');
  const done = async (name: string) => {
    const child = start(name);
    expect([name, await child.ended, child.output()]).toEqual([name, { code: 0, signal: null }, expect.any(String)]);
  };
  await done('secrets');
  const token = readFileSync(join(volumes['/run/secrets'], 'internal-token'), 'utf8');
  await done('secrets');
  expect(readFileSync(join(volumes['/run/secrets'], 'internal-token'), 'utf8')).toBe(token);
  await Promise.all(services.map((name) => done(`${name}-migrate`)));
  // A second time, as `docker compose up` does.
  await done('identity-migrate');

  const commandDone = async (name: string, ...args: string[]) => {
    const { environment } = compose.services[`${name}-migrate`]!;
    const env = Object.fromEntries(Object.entries<string>(environment).map(([variable, value]) => [variable, here(value)]));
    const child = children.start({ name: `${name}-command`, command: process.execPath, args, cwd: app, env, ...user });
    expect([args, await child.ended, child.output()]).toEqual([args, { code: 0, signal: null }, expect.any(String)]);
  };

  const started = processes.map((name) => ({ name, child: start(name) }));
  for (const { name, child } of started) {
    const ready = () => {
      if (!child.running()) throw new Error(`${name} has ended: ${child.output()}`);
      return fetch(`http://127.0.0.1:${ports[name]!.ops}/readyz`).then(
        ({ status }) => status,
        () => 0,
      );
    };
    expect(await until(ready, (status) => status === 200)).toBe(200);
  }
  const url = `http://127.0.0.1:${ports['gateway']!.own}`;
  for (const path of ['/console', '/docs/', '/docs/guide/', '/openapi.json'])
    expect([path, (await fetch(url + path)).status]).toEqual([path, 200]);

  const client = clientOf(url);
  const tenant = await client.tenant();
  const path = `/v1/tenants/${tenant.slug}`;
  const key = await client.apiKey(tenant);
  const post = async (to: string, body: object) => (await client.rest('POST', path + to, { key, body })).status;
  expect(await post('/accounts/setup', { business_type: 'wallet' })).toBe(201);
  const entries = [
    { account_code: 'SETTLEMENT-NGN', side: 'debit', amount: '100.00', currency: 'NGN' },
    { account_code: 'CUSTOMER-WALLETS-NGN', side: 'credit', amount: '100.00', currency: 'NGN' },
  ];
  expect(await post('/transactions/double-entry', { idempotency_key: 'deposit', description: 'Deposit', entries })).toBe(201);
  await commandDone('ledger', 'services/ledger/cli.ts', 'verify');
  await commandDone('notifier', 'services/notifier/cli.ts', 'redrive');
  for (const { child } of started) child.signal('SIGTERM');
  for (const { name, child } of started) expect([name, await child.ended]).toEqual([name, { code: 0, signal: null }]);
  // A process that ends has sent what it had.
  expect(spans).toBeGreaterThan(0);
});
