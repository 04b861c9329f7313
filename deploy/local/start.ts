// `npm start`: PostgreSQL, migrations, the services and the gateway on one machine, stopped in reverse order.
import { once } from 'node:events';
import { accessSync, constants, mkdirSync, writeFileSync } from 'node:fs';
import { Agent, get, type IncomingMessage } from 'node:http';
import { join, resolve } from 'node:path';
import { json } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import type { Readiness } from '../../services/platform/health.ts';
import { Lifetime, StartFailure } from '../../services/platform/lifetime.ts';
import { waitForAnswer } from '../../services/platform/postgres-start.ts';
import { BadSetting, Settings, hostAndPort, isProduction } from '../../services/platform/settings.ts';
import { Children, describeEnding, endRecorded, type Child, type ChildOptions } from './children.ts';
import { createDatabase, revokePublicConnect, saveDatabases, setPasswords, type DatabasePlan, type ServiceDatabase } from './databases.ts';
import {
  enableChild,
  gatewayChild,
  localUrl,
  migrateChild,
  root,
  serviceChild,
  servers,
  services,
  type DeploymentPlan,
  type Server,
  type Service,
} from './plan.ts';
import { portProblem } from './ports.ts';
import { startPostgres } from './postgres.ts';
import { lockDirectory } from './processes.ts';
import { loadSecrets, type Secrets } from './secrets.ts';
import { buildIfStale, builds, type RunNode } from './stale-build.ts';

const defaultAddresses: Record<Server, string> = {
  identity: '127.0.0.1:50051',
  ledger: '127.0.0.1:50052',
  notifier: '127.0.0.1:50053',
  auditor: '127.0.0.1:50054',
};

const auditorRole = 'ledger_auditor';

// Of this process only, or set for each child.
const ownVariables = [
  'HOST',
  'PORT',
  'OPS_PORT',
  'DATA_DIR',
  'DATABASE_URL',
  'MIGRATION_DATABASE_URL',
  'AUDITOR_DATABASE_URL',
  'INTERNAL_TOKEN',
  'JWT_PRIVATE_KEY',
  'CHECKPOINT_PRIVATE_KEY',
  'IDENTITY_ENCRYPTION_KEY',
  'SUBJECT_ENCRYPTION_KEY',
  'WEBHOOK_ENCRYPTION_KEY',
].flatMap((name) => [name, `${name}_FILE`]);

const lifetime = new Lifetime();
let stopping: Promise<never> | undefined;

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Stops everything in order and exits; the first call sets the status and the line on standard error. */
function stop(status: number, line?: string): Promise<never> {
  if (!stopping && line !== undefined) process.stderr.write(`${line}\n`);
  return (stopping ??= lifetime.end().then(() => process.exit(status)));
}

async function start(): Promise<void> {
  const [argument] = process.argv.slice(2);
  if (argument !== undefined)
    throw new StartFailure(
      `npm start takes no arguments (${argument}): its environment variables are in gateway/docs/reference/settings.md`,
    );
  const settings = readSettings(new Settings(process.env));
  const { dataDirectory } = settings;
  prepareDirectory(dataDirectory);
  lifetime.add('lock', await lockDirectory(dataDirectory, 'npm start'));
  const record = join(dataDirectory, 'processes.json');
  const left = await endRecorded(record);
  if (left.length > 0) say(`ended processes of an earlier start: ${left.join(', ')}`);
  await checkPorts(settings);
  const roles = [...services.flatMap((service) => [`${service}_owner`, `${service}_service`]), auditorRole];
  const secrets = await loadSecrets(dataDirectory, roles, settings.databaseUrl === undefined);
  const children = new Children(join(dataDirectory, 'logs'), record);
  process.on('exit', () => children.kill());
  lifetime.add('processes', async () => {
    for (const name of await children.end()) say(`${name} did not end in time and was killed`);
  });

  const built = buildAll(children);
  let adminUrl = settings.databaseUrl;
  if (adminUrl === undefined) {
    say(`starting PostgreSQL on ${dataDirectory}`);
    const { postgresPort: port, postgresPassword: password } = secrets;
    const directory = join(dataDirectory, 'postgres');
    const server = await startPostgres({ directory, port, password, sharedBuffers: '256MB', children, say });
    watch(server.child);
    adminUrl = server.url;
  }
  const databases = await createDatabases(adminUrl, secrets);
  saveDatabases(dataDirectory, databases);
  const plan: DeploymentPlan = {
    addresses: settings.addresses,
    databases,
    internalToken: settings.internalToken ?? secrets.internalToken,
    jwtPrivateKey: settings.jwtPrivateKey ?? secrets.jwtPrivateKey,
    checkpointPrivateKey: settings.checkpointPrivateKey ?? secrets.checkpointPrivateKey,
    checkpointDirectory: join(dataDirectory, 'checkpoints'),
    identityEncryptionKey: settings.identityEncryptionKey ?? secrets.identityEncryptionKey,
    subjectEncryptionKey: settings.subjectEncryptionKey ?? secrets.subjectEncryptionKey,
    webhookEncryptionKey: settings.webhookEncryptionKey ?? secrets.webhookEncryptionKey,
    mailDirectory: join(dataDirectory, 'mail'),
    publicUrl: localUrl(settings.host, settings.port),
    insecureTargets: !settings.production,
    environment: Object.fromEntries(Object.entries(process.env).filter(([name]) => !ownVariables.includes(name))),
  };
  say('migrating the databases');
  await Promise.all(services.map((service) => runToEnd(children, migrateChild(service, plan))));
  await runToEnd(children, enableChild(plan));
  for (const service of services) await revokePublicConnect(databases[service]);
  say(`starting ${servers.join(', ')} and the gateway`);
  for (const service of servers)
    settings.addresses[service].forEach((_, replica) => watch(children.start(serviceChild(service, replica, plan))));
  await built;
  watch(children.start(gatewayChild(settings.host, settings.port, plan)));
  const url = localUrl(settings.host, settings.port);
  await waitUntilReady(url);
  say(`ready ${url}`);
}

type StartSettings = ReturnType<typeof readSettings>;

function readSettings(settings: Settings) {
  const addresses = servers.map((service) => [service, settings.addresses(`${service.toUpperCase()}_ADDR`, defaultAddresses[service])]);
  return {
    dataDirectory: resolve(root, settings.text('DATA_DIR', '.data')),
    host: settings.text('HOST', '127.0.0.1'),
    port: settings.integer('PORT', { min: 1, max: 65535, fallback: 8080 }),
    addresses: Object.fromEntries(addresses) as Record<Server, string[]>,
    databaseUrl: settings.optional('MIGRATION_DATABASE_URL') === undefined ? undefined : settings.databaseUrl('MIGRATION_DATABASE_URL'),
    internalToken: settings.optional('INTERNAL_TOKEN'),
    jwtPrivateKey: settings.optional('JWT_PRIVATE_KEY'),
    checkpointPrivateKey: settings.optional('CHECKPOINT_PRIVATE_KEY'),
    identityEncryptionKey: settings.optional('IDENTITY_ENCRYPTION_KEY'),
    subjectEncryptionKey: settings.optional('SUBJECT_ENCRYPTION_KEY'),
    webhookEncryptionKey: settings.optional('WEBHOOK_ENCRYPTION_KEY'),
    production: isProduction(settings),
  };
}

/** Creates the data directory; throws {@link BadSetting} where it can't be written to. */
function prepareDirectory(directory: string): void {
  try {
    // It will hold secrets, and may be in a clone.
    if (mkdirSync(directory, { recursive: true }) !== undefined) writeFileSync(join(directory, '.gitignore'), '*\n');
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new BadSetting(
      'DATA_DIR',
      `${directory} is no directory that can be written to (${(error as NodeJS.ErrnoException).code ?? ''})`,
    );
  }
}

/** Throws {@link BadSetting} where an address is given twice or can't be used. */
async function checkPorts({ host, port, addresses }: StartSettings): Promise<void> {
  const wanted = servers.flatMap((service) =>
    addresses[service].map((address) => ({ name: `${service.toUpperCase()}_ADDR`, ...hostAndPort(address) })),
  );
  const seen = new Map<string, string>();
  for (const each of [{ name: 'PORT', host, port }, ...wanted]) {
    const address = `${each.host}:${each.port}`;
    const other = seen.get(address);
    if (other !== undefined) throw new BadSetting(each.name, `is ${address}, which is also ${other}`);
    seen.set(address, each.name);
    // An earlier start may be ending.
    const problem = await portProblem(each.host, each.port, 2_000);
    if (problem === 'EADDRINUSE') throw new BadSetting(each.name, `can't be ${address}: it is in use`);
    if (problem !== undefined) throw new BadSetting(each.name, `can't be ${address}: this machine can't listen there (${problem})`);
  }
}

async function createDatabases(adminUrl: string, secrets: Secrets): Promise<Record<Service, ServiceDatabase>> {
  const databases: [Service, ServiceDatabase][] = [];
  for (const service of services) {
    const role = (name: string) => ({ role: name, password: secrets.rolePasswords[name] ?? '' });
    const plan: DatabasePlan = {
      name: service,
      owner: role(`${service}_owner`),
      service: role(`${service}_service`),
      ...(service === 'ledger' && { auditor: role(auditorRole) }),
    };
    const database = await waitForAnswer('MIGRATION_DATABASE_URL', () => createDatabase(adminUrl, plan));
    await setPasswords(adminUrl, plan, database);
    databases.push([service, database]);
  }
  return Object.fromEntries(databases) as Record<Service, ServiceDatabase>;
}

/** Builds what browsers load. A failure is thrown where it is awaited, and is no unhandled one before. */
function buildAll(children: Children): Promise<unknown> {
  const started = Object.entries(builds).map(async ([name, build]) => {
    const run: RunNode = (args) => {
      say(`building the ${name}`);
      return runToEnd(children, { name: `${name}-build`, command: process.execPath, args, cwd: root });
    };
    return buildIfStale(build, run);
  });
  const all = Promise.all(started);
  all.catch(() => undefined);
  return all;
}

async function runToEnd(children: Children, options: ChildOptions): Promise<void> {
  const child = children.start(options);
  const how = await child.ended;
  if (how.code !== 0) throw new StartFailure(`${options.name} failed ${describeEnding(child, how)}`);
}

/** A child that ends by itself stops everything. */
function watch(child: Child): void {
  void child.ended.then(async (how) => {
    // A signal to the whole group may end a child before this process has handled it.
    await pause(300);
    await stop(1, `${child.name} ended ${describeEnding(child, how)}`);
  });
}

async function waitUntilReady(url: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const state = await readinessOf(url).catch(() => undefined);
    // The gateway is ready without a notifier and an auditor, too. Kafka may be away.
    const missing = state?.dependencies ? servers.filter((service) => state.dependencies?.[service] !== 'ok') : ['gateway'];
    if (state?.ready === true && missing.length === 0) return;
    if (attempt % 100 === 0) say(`waiting for ${missing.join(' and ')}`);
    await pause(50);
  }
}

// With an own agent: with NODE_USE_ENV_PROXY `fetch` and the global agent would use the proxy.
async function readinessOf(url: string): Promise<Partial<Readiness>> {
  const request = get(`${url}/readyz`, { agent: new Agent(), signal: AbortSignal.timeout(2000) });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return { ...((await json(response)) as Partial<Readiness>), ready: response.statusCode === 200 };
}

// It would apply to the connections of this process and its children.
delete process.env['PGOPTIONS'];
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void stop(0));
// package.json sets it to the pid of npm, which may be killed without a chance to pass a signal on.
const npm = Number(process.env['npm_pid']);
if (npm > 0) setInterval(() => process.ppid !== npm && void stop(0), 1_000).unref();
// The reader of the output may end first.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
process.on('uncaughtException', (error) => void stop(1, error.stack ?? error.message));

start().catch((error: unknown) => {
  const isKnown = error instanceof BadSetting || error instanceof StartFailure;
  return stop(1, isKnown ? error.message : ((error as Error).stack ?? String(error)));
});
