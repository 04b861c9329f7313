// The cluster as tests see it: real processes with their own ports and databases on the run's PostgreSQL server.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Children, type Child, type ChildOptions, type Ending } from '../deploy/local/children.ts';
import { createDatabase, withClient, type DatabasePlan, type ServiceDatabase } from '../deploy/local/databases.ts';
import {
  gatewayChild,
  root,
  serviceChild,
  servers,
  services,
  type DeploymentPlan,
  type Server,
  type Service,
} from '../deploy/local/plan.ts';
import { freePort } from '../deploy/local/ports.ts';
import { newKeys } from '../deploy/local/secrets.ts';
import { hostAndPort } from '../services/platform/settings.ts';
import { clientOf } from './client.ts';
import { mailsIn, type Mail } from './mails.ts';
import { bareEnvironment, currentRun, dropDatabases } from './run.ts';

const run = promisify(execFile);

/** How a test's cluster differs from the default. */
export interface ClusterOptions {
  /** How many replicas of a process there are, one by default: `ledger`, `ledger-2` … */
  replicas?: Partial<Record<Server | 'gateway', number>>;
  /** More environment, by process (`ledger-2`) or by service (all replicas of `ledger`). */
  environment?: Record<string, NodeJS.ProcessEnv>;
  /** Environment, by process, that depends on the addresses: proxies between two processes. */
  between?: (plan: Pick<DeploymentPlan, 'addresses' | 'databases'>) => Promise<Record<string, NodeJS.ProcessEnv>>;
  /** The PostgreSQL server instead of the run's, by a superuser's address. */
  server?: { adminUrl: string };
  /** The run's end stops it, not this test file's. */
  outlivesFile?: boolean;
}

/** What the gateway answered. */
export interface Answer {
  status: number;
  headers: Headers;
  /** The parsed JSON, or the text of anything else. */
  body: any;
}

/** A running cluster. */
export interface Cluster {
  /** The gateway, `http://127.0.0.1:…`; the first of several. */
  url: string;
  /** `host:port` of every replica. */
  addresses: Record<Server | 'gateway', string[]>;
  internalToken: string;
  databases: Record<Service, FreshDatabase>;
  /** Where mails are written as files. */
  mailDirectory: string;
  /** The mails to an address, oldest first. Waits until there are as many as `count`, one by default. */
  mails(email: string, count?: number): Promise<Mail[]>;
  /** Plain HTTP `/healthz`, `/readyz`, `/metrics` of one process. */
  opsUrl(name: string): string;
  pid(name: string): number;
  /** Sends JSON (a string or bytes go as they are) to the gateway, with `key` as bearer token. */
  rest(method: string, path: string, options?: RestOptions): Promise<Answer>;
  /** Registers a new user and logs in. */
  signUp(): Promise<Person>;
  /** A new tenant of that user, by default of a new one; without a chart. */
  tenant(options?: { person?: Person; businessType?: string }): Promise<Tenant>;
  /** A new API key's text. */
  apiKey(tenant: Tenant, scopes?: string[]): Promise<string>;
  /** Sends a signal. Resolves when the process has ended, if the signal ends it. */
  kill(name: string, signal?: NodeJS.Signals): Promise<void>;
  /** Stops a process, if it runs, and starts it on the same port, with more environment or another version if given; resolves when it is ready. */
  restart(name: string, environment?: NodeJS.ProcessEnv, sources?: string): Promise<void>;
  /** What a process has logged since it was last started. */
  logs(name: string): string;
  /** Stops everything and removes its databases. Throws if a process had ended by itself. */
  stop(): Promise<void>;
}

export interface RestOptions {
  key?: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface Person {
  id: string;
  email: string;
  password: string;
  /** The JWT. */
  token: string;
}

export interface Tenant {
  id: string;
  slug: string;
  owner: Person;
}

/** Starts identity, ledger, notifier, auditor and gateway and resolves when all of them are ready. One cluster serves a whole test file. */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  const children = newChildren();
  const databases = await freshDatabases(options.server);
  const gateways = await freeAddresses(options.replicas?.gateway);
  const url = `http://${gateways[0]}`;
  const plan = await newPlan(options, databases, url);
  const between = (await options.between?.(plan)) ?? {};
  const processes = new Map<string, { options: ChildOptions; ops: string; child?: Child; asked?: boolean }>();
  for (const child of [
    ...servers.flatMap((service) => plan.addresses[service].map((_, replica) => serviceChild(service, replica, plan))),
    ...gateways.map((address, replica) => {
      const { host, port } = hostAndPort(address);
      const child = gatewayChild(host, port, plan);
      return replica === 0 ? child : { ...child, name: `${child.name}-${replica + 1}` };
    }),
  ]) {
    const opsPort = await testPort();
    const more = {
      ...options.environment?.[child.name.replace(/-[0-9]+$/, '')],
      ...options.environment?.[child.name],
      ...between[child.name],
    };
    const env = { ...child.env, OPS_PORT: String(opsPort), ...more };
    processes.set(child.name, { options: { ...child, env }, ops: `http://127.0.0.1:${opsPort}` });
  }
  const found = (name: string) => {
    const entry = processes.get(name);
    if (!entry) throw new Error(`there is no process ${name}, but ${[...processes.keys()].join(', ')}`);
    return entry;
  };
  const unasked: string[] = [];
  const launch = async (name: string) => {
    const entry = found(name);
    const child = children.start(entry.options);
    if (options.outlivesFile === true) child.unref();
    entry.child = child;
    entry.asked = false;
    await ready(name, child, entry.ops);
    void child.ended.then((how) => {
      if (entry.asked !== true) unasked.push(`${name} ended ${described(how)}: ${child.lastMessage()}`);
    });
  };
  const end = async (name: string, signal: NodeJS.Signals) => {
    const entry = found(name);
    if (entry.child?.running() !== true) return;
    const endsIt = ['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGQUIT'].includes(signal);
    if (endsIt) entry.asked = true;
    entry.child.signal(signal);
    if (endsIt) await entry.child.ended;
  };
  const stop = async () => {
    // At once: each of them ends cleanly whatever the others do.
    for (const entry of processes.values()) {
      entry.asked = true;
      entry.child?.signal('SIGTERM');
    }
    const killed = await children.end();
    await Promise.all(services.map((service) => databases[service].drop()));
    const faults = [...unasked, ...killed.map((name) => `${name} did not stop on SIGTERM`)];
    if (faults.length > 0) throw new Error(faults.join('; '));
  };
  try {
    await Promise.all([...processes.keys()].map(launch));
  } catch (error) {
    await stop().catch(() => undefined);
    throw error;
  }
  const { mailDirectory } = plan;
  return {
    url,
    addresses: { ...plan.addresses, gateway: gateways },
    internalToken: plan.internalToken,
    databases,
    mailDirectory,
    mails: (email, count) => mailsIn(mailDirectory, email, count),
    opsUrl: (name) => found(name).ops,
    pid: (name) => found(name).child?.pid ?? 0,
    ...clientOf(url),
    kill: (name, signal = 'SIGKILL') => end(name, signal),
    restart: async (name, environment = {}, sources = root) => {
      await end(name, 'SIGTERM');
      const entry = found(name);
      entry.options = { ...entry.options, cwd: sources, env: { ...entry.options.env, ...environment } };
      await launch(name);
    },
    logs: (name) => found(name).child?.output() ?? '',
    stop,
  };
}

async function newPlan(options: ClusterOptions, databases: Record<Service, FreshDatabase>, publicUrl: string): Promise<DeploymentPlan> {
  const addresses = {} as Record<Server, string[]>;
  for (const service of servers) addresses[service] = await freeAddresses(options.replicas?.[service]);
  // Only what a process needs: the developer's own settings stay out.
  const environment = { ...bareEnvironment, HOME: process.env['HOME'], TMPDIR: process.env['TMPDIR'] };
  return {
    addresses,
    databases,
    ...newKeys(),
    checkpointDirectory: mkdtempSync(join(currentRun().directory, 'checkpoints-')),
    mailDirectory: mkdtempSync(join(currentRun().directory, 'mail-')),
    publicUrl,
    insecureTargets: true,
    environment,
  };
}

async function freshDatabases(server: ClusterOptions['server']): Promise<Record<Service, FreshDatabase>> {
  const entries: [Service, FreshDatabase][] = [];
  const { adminUrl } = server ?? currentRun();
  for (const service of services) entries.push([service, await freshDatabase(service, { migrated: true, adminUrl })]);
  return Object.fromEntries(entries) as Record<Service, FreshDatabase>;
}

/** Child processes that are recorded in the run's directory, so that the run's end finds those that a test left. */
export function newChildren(): Children {
  const directory = mkdtempSync(join(currentRun().directory, 'cluster-'));
  return new Children(directory, join(directory, 'processes.json'));
}

async function freeAddresses(count = 1): Promise<string[]> {
  const addresses: string[] = [];
  while (addresses.length < count) addresses.push(`127.0.0.1:${await testPort()}`);
  return addresses;
}

/** A free port from this worker's own range. */
export function testPort(): Promise<number> {
  return freePort(Number(process.env['JEST_WORKER_ID'] ?? 1) % 8, 8);
}

async function ready(name: string, child: Child, ops: string): Promise<void> {
  for (const until = Date.now() + 100_000; child.running(); await pause(50)) {
    const answer = await fetch(`${ops}/readyz`, { signal: AbortSignal.timeout(2000) }).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.ok) return;
    if (Date.now() > until) throw new Error(`${name} is not ready after 100 s: ${child.output().slice(-2000)}`);
  }
  throw new Error(`${name} ended at its start: ${child.output().slice(-2000)}`);
}

function described({ code, signal }: Ending): string {
  return signal ?? `with status ${String(code)}`;
}

/** Settings of a test's own pool: on a busy machine the test may pause for seconds within a transaction. */
export const longTransactionTimeouts = { idle_in_transaction_session_timeout: '60s', synchronous_commit: 'off' };
/** The same for tests that wait for locks: on a busy machine the holder may need longer than a service's two seconds. */
export const longLockTimeouts = { ...longTransactionTimeouts, lock_timeout: '60s', statement_timeout: '60s' };

/** A database of one test file. */
export interface FreshDatabase extends ServiceDatabase {
  /** Address of the same database for a superuser (or the role of `MIGRATION_DATABASE_URL`). */
  adminUrl: string;
  drop(): Promise<void>;
}

/** A new database for one test file; `migrated`: with schema, copied from a template that is migrated once a run. `adminUrl`: of another server. */
export async function freshDatabase(
  service: Service | 'notifier',
  { migrated = false, adminUrl = currentRun().adminUrl } = {},
): Promise<FreshDatabase> {
  const plan = planOf(service, `${service}_${randomBytes(4).toString('hex')}`);
  if (migrated) plan.template = await migratedTemplate(service, adminUrl);
  const database = await createDatabase(adminUrl, plan);
  const own = new URL(adminUrl);
  own.pathname = `/${plan.name}`;
  return { ...database, adminUrl: own.href, drop: () => dropDatabases(adminUrl, [plan.name], []) };
}

function planOf(service: Service | 'notifier', name: string): DatabasePlan {
  const { prefix, password } = currentRun();
  return {
    name: `${prefix}${name}`,
    owner: { role: `${prefix}${service}_owner`, password },
    service: { role: `${prefix}${service}_service`, password },
    ...(service === 'ledger' && { auditor: { role: `${prefix}ledger_auditor`, password } }),
  };
}

async function migratedTemplate(service: Service | 'notifier', adminUrl: string): Promise<string> {
  const { prefix } = currentRun();
  const plan = planOf(service, `${service}_template`);
  await withClient(adminUrl, async (client) => {
    // Two workers may need it at once. The lock ends with the connection.
    await client.query('select pg_advisory_lock(hashtext($1))', [plan.name]);
    const ready = `${prefix}${service}_migrated`;
    const found = await client.query('select from pg_database where datname = $1', [ready]);
    if ((found.rowCount ?? 0) > 0) return;
    const database = await createDatabase(adminUrl, plan);
    const env = {
      ...bareEnvironment,
      DATABASE_URL: database.serviceUrl,
      MIGRATION_DATABASE_URL: database.ownerUrl,
      ...(database.auditorUrl !== undefined && { AUDITOR_DATABASE_URL: database.auditorUrl }),
    };
    await run(process.execPath, [`services/${service}/main.ts`, 'migrate'], { cwd: root, env }).catch(
      (error: { stdout: string; stderr: string }) => {
        throw new Error(`migrating ${service} failed: ${error.stdout}${error.stderr}`);
      },
    );
    // Only a complete template gets this name.
    await client.query(`alter database "${plan.name}" rename to "${ready}"`);
  });
  return `${prefix}${service}_migrated`;
}
