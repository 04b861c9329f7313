// `npm start`: the whole house on one machine. Starts PostgreSQL, brings the schemas up to date, starts the services and the gateway, and ends
// them in the opposite order.
import { once } from 'node:events';
import { accessSync, constants, existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { Agent, get, type IncomingMessage } from 'node:http';
import { dirname, join, resolve } from 'node:path';
import { json } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import type { Readiness } from '../../services/platform/health.ts';
import { StartFailure, errorMessage } from '../../services/platform/lifetime.ts';
import { isTransient } from '../../services/platform/postgres-errors.ts';
import { BadSetting, Settings, hostAndPort, isProduction } from '../../services/platform/settings.ts';
import { Children, endRecorded, ending, type Child, type ChildOptions } from './children.ts';
import {
  closeToOthers,
  createDatabase,
  keepDatabases,
  matchPasswords,
  withClient,
  type DatabasePlan,
  type ServiceDatabase,
} from './databases.ts';
import { endOrphan, lockDirectory } from './lock.ts';
import { gatewayChild, migrateChild, root, serviceChild, services, type HousePlan, type Service } from './plan.ts';
import { keepPort, lastingPortProblem } from './ports.ts';
import { endOrphanedPostgres, startPostgres } from './postgres.ts';
import { keepSecrets, type Secrets } from './secrets.ts';

const defaultAddresses: Record<Service, string> = {
  identity: '127.0.0.1:50051',
  ledger: '127.0.0.1:50052',
  notifier: '127.0.0.1:50053',
};

// These are this process's own, or given to each child with a value of its own.
const notPassedOn = [
  'HOST',
  'PORT',
  'OPS_PORT',
  'DATA_DIR',
  'DATABASE_URL',
  'MIGRATION_DATABASE_URL',
  'INTERNAL_TOKEN',
  'JWT_PRIVATE_KEY',
  'WEBHOOK_ENCRYPTION_KEY',
];

// From package.json, for the parent may be another by the time it is looked at.
const npm = process.env['npm_lifecycle_event'] === 'start' ? Number(process.env['npm_pid']) || undefined : undefined;
// Of no use to the house, whose connections bring their settings along, and in its own way of a few.
delete process.env['PGOPTIONS'];

let children: Children | undefined;
let unlock: (() => void) | undefined;
let stopping: Promise<never> | undefined;

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Ends everything in order and exits; the first call decides the status. */
function stop(status: number): Promise<never> {
  stopping ??= (async () => {
    for (const name of (await children?.end()) ?? []) say(`${name} did not end in time and was killed`);
    unlock?.();
    process.exit(status);
  })();
  return stopping;
}

async function start(): Promise<void> {
  const [stray] = process.argv.slice(2);
  if (stray !== undefined) throw new StartFailure(`npm start takes no arguments (${stray}): the README tells its environment variables`);
  const settings = readSettings(new Settings(process.env));
  const { dataDirectory } = settings;
  prepareDirectory(dataDirectory);
  const orphan = await endOrphan(dataDirectory);
  if (orphan !== undefined) say(`ended what an earlier start had left running: npm start (process ${orphan})`);
  unlock = lockDirectory(dataDirectory, 'npm start', npm);
  await endLeftovers(dataDirectory);
  await checkPorts(settings);
  const roles = services.flatMap((service) => [`${service}_owner`, `${service}_service`]);
  const secrets = await keepSecrets(dataDirectory, roles, settings.databaseUrl === undefined);
  children = new Children(join(dataDirectory, 'logs'), join(dataDirectory, 'processes.json'));

  const adminUrl = settings.databaseUrl ?? (await startEmbedded(dataDirectory, secrets, children));
  if (settings.databaseUrl !== undefined) await answering(settings.databaseUrl);
  const databases = await createDatabases(adminUrl, secrets);
  keepDatabases(dataDirectory, databases);
  const plan: HousePlan = {
    addresses: settings.addresses,
    databases,
    internalToken: settings.internalToken ?? secrets.internalToken,
    jwtPrivateKey: settings.jwtPrivateKey ?? secrets.jwtPrivateKey,
    webhookEncryptionKey: settings.webhookEncryptionKey ?? secrets.webhookEncryptionKey,
    insecureTargets: !settings.production,
    environment: passedOn(),
  };
  say('bringing the schemas up to date');
  await Promise.all(services.map((service) => migrate(migrateChild(service, plan))));
  for (const service of services) await closeToOthers(databases[service]);
  say(`starting ${services.join(', ')} and the gateway`);
  for (const service of services) settings.addresses[service].forEach((_, replica) => startAndWatch(serviceChild(service, replica, plan)));
  const gateway = startAndWatch(gatewayChild(settings.host, settings.port, plan));
  const address = publicAddress(settings);
  await ready(address, gateway);
  say(`ready ${address}`);
}

interface StartSettings {
  dataDirectory: string;
  host: string;
  port: number;
  addresses: Record<Service, string[]>;
  databaseUrl: string | undefined;
  internalToken: string | undefined;
  jwtPrivateKey: string | undefined;
  webhookEncryptionKey: string | undefined;
  production: boolean;
}

function readSettings(settings: Settings): StartSettings {
  const addresses = Object.fromEntries(
    services.map((service) => [service, settings.addresses(`${service.toUpperCase()}_ADDR`, defaultAddresses[service])]),
  ) as Record<Service, string[]>;
  return {
    dataDirectory: resolve(root, settings.text('DATA_DIR', '.data')),
    host: settings.text('HOST', '127.0.0.1'),
    port: settings.integer('PORT', { min: 1, max: 65535, fallback: 8080 }),
    addresses,
    databaseUrl: settings.optional('MIGRATION_DATABASE_URL') === undefined ? undefined : settings.databaseUrl('MIGRATION_DATABASE_URL'),
    internalToken: settings.optional('INTERNAL_TOKEN'),
    jwtPrivateKey: settings.optional('JWT_PRIVATE_KEY'),
    webhookEncryptionKey: settings.optional('WEBHOOK_ENCRYPTION_KEY'),
    production: isProduction(settings),
  };
}

function passedOn(): NodeJS.ProcessEnv {
  const own = new Set(notPassedOn.flatMap((name) => [name, `${name}_FILE`]));
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !own.has(name)));
}

/** Makes the data directory; it must be a directory that takes files. */
function prepareDirectory(directory: string): void {
  const probe = join(directory, `.probe-${process.pid}`);
  try {
    if (!existsSync(directory)) {
      makeDirectory(directory);
      // It will hold secrets, and may lie in a clone.
      writeFileSync(join(directory, '.gitignore'), '*\n');
    }
    writeFileSync(probe, '');
    rmSync(probe);
    accessSync(directory, constants.R_OK | constants.X_OK);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? '';
    const problem = code === 'EEXIST' || code === 'ENOTDIR' ? 'is not a directory' : `can't be written to (${code})`;
    throw new BadSetting('DATA_DIR', `${directory} ${problem}`);
  }
}

/** As `mkdirSync` with `recursive`, which never returns where the system denies a directory with ENOENT (/proc, Node 24). */
function makeDirectory(directory: string): void {
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory()) return;
  if (!existsSync(dirname(directory))) makeDirectory(dirname(directory));
  mkdirSync(directory);
}

/** An npm start that was killed leaves its processes behind. */
async function endLeftovers(dataDirectory: string): Promise<void> {
  const left = await endRecorded(join(dataDirectory, 'processes.json'));
  if (await endOrphanedPostgres(join(dataDirectory, 'postgres'))) left.push('postgres');
  if (left.length > 0) say(`ended what an earlier start had left running: ${left.join(', ')}`);
}

async function checkPorts(settings: StartSettings): Promise<void> {
  const wanted = [
    { name: 'PORT', host: settings.host, port: settings.port },
    ...services.flatMap((service) =>
      settings.addresses[service].map((address) => ({ name: `${service.toUpperCase()}_ADDR`, ...hostAndPort(address) })),
    ),
  ];
  const seen = new Map<string, string>();
  for (const { name, host, port } of wanted) {
    keepPort(port);
    const other = seen.get(`${host}:${port}`);
    if (other !== undefined) throw new BadSetting(name, `asks for ${host}:${port}, which is also ${other}`);
    seen.set(`${host}:${port}`, name);
  }
  // Another house may be ending this moment: its processes need a second to let go.
  const problems = await Promise.all(wanted.map(({ host, port }) => lastingPortProblem(host, port)));
  wanted.forEach(({ name, host, port }, index) => {
    const problem = problems[index];
    if (problem === 'EADDRINUSE')
      throw new BadSetting(name, `can't be ${host}:${port}: another program listens there, or a connection from there has just ended`);
    if (problem === undefined) return;
    if (name === 'PORT' && problem !== 'EACCES')
      throw new BadSetting('HOST', `can't be ${host}: this machine can't listen there (${problem})`);
    throw new BadSetting(name, `can't be ${host}:${port}: this machine can't listen there (${problem})`);
  });
}

async function startEmbedded(dataDirectory: string, secrets: Secrets, all: Children): Promise<string> {
  say(`starting PostgreSQL on ${dataDirectory}`);
  const { url, child } = await startPostgres({
    directory: join(dataDirectory, 'postgres'),
    port: secrets.postgresPort,
    password: secrets.postgresPassword,
    sharedBuffers: '256MB',
    children: all,
    say,
  });
  watch(child);
  return url;
}

/** A given server may itself be starting: as every process waits for its database, 30 s. */
async function answering(url: string): Promise<void> {
  for (const until = Date.now() + 30_000; ; await pause(200)) {
    try {
      await withClient(url, (client) => client.query('select 1'));
      return;
    } catch (error) {
      // A password that is refused, or a name that nobody knows, will not be another in a while.
      const passing = isTransient(error) && !/^(28...|ENOTFOUND)$/.test((error as { code?: string }).code ?? '');
      if (!passing || Date.now() > until)
        throw new BadSetting('MIGRATION_DATABASE_URL', `does not lead to a database: ${errorMessage(error)}`);
    }
  }
}

async function createDatabases(adminUrl: string, secrets: Secrets): Promise<Record<Service, ServiceDatabase>> {
  const databases: [Service, ServiceDatabase][] = [];
  for (const service of services) {
    const role = (name: string) => ({ role: name, password: secrets.rolePasswords[name] ?? '' });
    const plan: DatabasePlan = { name: service, owner: role(`${service}_owner`), service: role(`${service}_service`) };
    try {
      const database = await createDatabase(adminUrl, plan);
      await matchPasswords(adminUrl, plan, database);
      databases.push([service, database]);
    } catch (error) {
      throw new StartFailure(`the database ${service} could not be prepared: ${errorMessage(error)}`);
    }
  }
  return Object.fromEntries(databases) as Record<Service, ServiceDatabase>;
}

function begin(options: ChildOptions): Child {
  if (!children) throw new Error('nothing can be started yet');
  return children.start(options);
}

async function migrate(options: ChildOptions): Promise<void> {
  const child = begin(options);
  const how = await child.ended;
  if (how.code !== 0) throw new StartFailure(`${options.name} failed ${ending(child, how)}`);
}

function startAndWatch(options: ChildOptions): Child {
  const child = begin(options);
  watch(child);
  return child;
}

/** A child that ends by itself takes the house down. */
function watch(child: Child): void {
  void child.ended.then(async (how) => {
    // A signal to every process at once may end a child before this one has noticed it.
    await pause(300);
    if (stopping) return;
    fail(`${child.name} ended ${ending(child, how)}`);
    await stop(1);
  });
}

async function ready(address: string, gateway: Child): Promise<void> {
  const begun = Date.now();
  let told = begun;
  while (gateway.running() && !stopping) {
    const state = await readinessOf(address).catch(() => undefined);
    // Ready it is without a notifier, too, but whoever begins with a webhook would be told to come again. Kafka may be away.
    const missing = state?.dependencies ? services.filter((service) => state.dependencies?.[service] !== 'ok') : ['gateway'];
    if (state?.ready === true && missing.length === 0) return;
    if (Date.now() - told > 5000) {
      told = Date.now();
      // Not yet the word that scripts wait for.
      say(`waiting for ${missing.join(' and ')} (${Math.round((told - begun) / 1000)} s)`);
    }
    await pause(50);
  }
  // Its watcher says why, and stops the house.
  await new Promise<never>(() => undefined);
}

// By an agent of its own: with NODE_USE_ENV_PROXY the common one, and `fetch`, would ask a proxy, which mostly does not lead back here.
async function readinessOf(address: string): Promise<Partial<Readiness>> {
  const asked = get(`${address}/readyz`, { agent: new Agent(), signal: AbortSignal.timeout(2000) });
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return { ...((await json(response)) as Partial<Readiness>), ready: response.statusCode === 200 };
}

/** Where a client on this machine reaches the gateway. */
function publicAddress({ host, port }: StartSettings): string {
  const everywhere = ['0.0.0.0', '::', 'localhost'].includes(host);
  return `http://${everywhere ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host}:${port}`;
}

function fail(line: string): void {
  process.stderr.write(`${line}\n`);
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void stop(0));
// Whoever read the lines may be gone; the house goes on.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
process.on('uncaughtException', (error) => {
  fail(error.stack ?? error.message);
  void stop(1);
});
process.on('exit', () => children?.kill());

start().catch(async (error: unknown) => {
  // What fails while everything is being stopped fails because of that.
  if (!stopping)
    fail(error instanceof BadSetting || error instanceof StartFailure ? error.message : ((error as Error).stack ?? String(error)));
  await stop(1);
});
