// The whole cluster of `npm start` in a directory of its own, on ports of its own, for as long as the benchmark runs.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Children, endRecorded, type Child, type ChildOptions } from '../../deploy/local/children.ts';
import { createDatabase, withClient, type ServiceDatabase } from '../../deploy/local/databases.ts';
import { gatewayChild, migrateChild, root, serviceChild, services, type DeploymentPlan, type Service } from '../../deploy/local/plan.ts';
import { startBroker } from '../../deploy/local/broker.ts';
import { startPostgres } from '../../deploy/local/postgres.ts';
import { identify, isRunning, type Identity } from '../../deploy/local/processes.ts';
import { loadSecrets, newPassword } from '../../deploy/local/secrets.ts';
import { testPort } from '../cluster.ts';

/** Which processes are profiled, and where the profiles go. */
export interface Profiling {
  directory: string;
  processes: string[];
}

/** What a cluster is given. */
export interface HouseOptions {
  /** Where its directory is made; fsync costs nothing in a directory that is in memory. */
  parent: string | undefined;
  /** This directory instead of a new one: what is in it is gone on with, and it is kept at the end. */
  kept?: string | undefined;
  /** Replicas of the ledger. */
  ledgers: number;
  profiling: Profiling | undefined;
  say: (line: string) => void;
}

// Each process has its own of these, or the benchmark must have none of them.
const notPassedOn = /^(HOST|PORT|OPS_PORT|DATA_DIR|INTERNAL_TOKEN|JWT_PRIVATE_KEY|.*_ADDR|.*DATABASE_URL|KAFKA_.*)(_FILE)?$/;

const tmpfs = 0x01021994;
/** Of 4 MB. */
const usedLogFiles = 512;
const directoryPrefix = 'ledger-bench-';
// Says whose a directory is.
const ownerFile = 'bench.json';

/** A cluster; `openServer` and `openProcesses` start it, `end` leaves nothing behind but what is to be kept. */
export class Cluster {
  readonly directory: string;
  /** True where the data lies in memory, so that the figures say nothing about a disk. */
  readonly inMemory: boolean;
  /** Address of the superuser, database `postgres`. */
  adminUrl = '';
  /** Address of the gateway. */
  url = '';
  private plan: DeploymentPlan | undefined;
  private rolePasswords: Record<string, string> = {};
  private readonly options: HouseOptions;
  private readonly children: Children;
  private readonly running = new Map<string, Child>();
  private readonly ops = new Map<string, string>();
  private ending: Promise<void> | undefined;

  constructor(options: HouseOptions) {
    this.options = options;
    this.directory = options.kept === undefined ? mkdtempSync(join(options.parent ?? tmpdir(), directoryPrefix)) : taken(options.kept);
    writeFileSync(join(this.directory, ownerFile), JSON.stringify(identify('bench', process.pid)));
    this.inMemory = statfsSync(this.directory).type === tmpfs;
    this.children = new Children(join(this.directory, 'logs'), join(this.directory, 'processes.json'));
    process.once('exit', () => this.children.kill());
  }

  /** Starts PostgreSQL and makes the databases. */
  async openServer(): Promise<void> {
    const { say } = this.options;
    if (this.options.kept === undefined) await endDead(dirname(this.directory));
    else await endRecorded(join(this.directory, 'processes.json'));
    const roles = services.flatMap((service) => [`${service}_owner`, `${service}_service`]);
    const secrets = await loadSecrets(this.directory, roles, true);
    this.rolePasswords = secrets.rolePasswords;
    const server = await startPostgres({
      directory: join(this.directory, 'postgres'),
      port: secrets.postgresPort,
      password: secrets.postgresPassword,
      sharedBuffers: '256MB',
      children: this.children,
      say,
    });
    this.adminUrl = server.url;
    this.running.set('postgres', server.child);
    if (this.options.kept === undefined) await this.useLog();
    const made: [Service, ServiceDatabase][] = [];
    for (const service of services) made.push([service, await this.newDatabase(service)]);
    const replicas: Partial<Record<Service, number>> = { ledger: this.options.ledgers };
    const addresses: [Service, string[]][] = [];
    for (const service of services) {
      const ports = await Promise.all(Array.from({ length: replicas[service] ?? 1 }, () => testPort()));
      addresses.push([service, ports.map((port) => `127.0.0.1:${port}`)]);
    }
    this.plan = {
      addresses: Object.fromEntries(addresses) as Record<Service, string[]>,
      databases: Object.fromEntries(made) as Record<Service, ServiceDatabase>,
      internalToken: secrets.internalToken,
      jwtPrivateKey: secrets.jwtPrivateKey,
      webhookEncryptionKey: secrets.webhookEncryptionKey,
      insecureTargets: true,
      environment: Object.fromEntries(Object.entries(process.env).filter(([name]) => !notPassedOn.test(name))),
    };
  }

  // The files of the log as a PostgreSQL in use has them, which writes them anew: about as many as it comes to before its first checkpoint. In a new
  // one every commit waits while the next is made, of pages that the machine has not touched yet.
  private async useLog(): Promise<void> {
    const use = `perform pg_logical_emit_message(false, '', ''), pg_switch_wal()`;
    await this.query('postgres', `do $$ begin for file in 1..${usedLogFiles} loop ${use}; end loop; end $$`);
    await this.query('postgres', 'checkpoint');
  }

  /** Starts Kafka, for events to travel over it, after {@link openServer}; resolves to its address. */
  async openKafka(): Promise<string> {
    const { address, child } = await startBroker({
      directory: join(this.directory, 'kafka'),
      port: await testPort(),
      controllerPort: await testPort(),
      children: this.children,
      say: this.options.say,
    });
    this.running.set('kafka', child);
    this.known.environment['KAFKA_BROKERS'] = address;
    return address;
  }

  /** Starts the services and the gateway, after {@link openServer}; resolves when the gateway is ready. */
  async openProcesses(): Promise<void> {
    await Promise.all(services.map((service) => this.finish(migrateChild(service, this.known))));
    for (const service of services) {
      for (const replica of this.known.addresses[service].keys()) await this.startWatched(serviceChild(service, replica, this.known));
    }
    const port = await testPort();
    const gateway = await this.startWatched(gatewayChild('127.0.0.1', port, this.known));
    this.url = `http://127.0.0.1:${port}`;
    while (!(await fetch(`${this.url}/readyz`).catch(() => undefined))?.ok) {
      for (const child of [gateway, ...this.running.values()]) {
        if (!child.running()) throw new Error(`${child.name} ended: ${child.lastMessage()}`);
      }
      await pause(50);
    }
  }

  /** What the cluster consists of. */
  get known(): DeploymentPlan {
    if (!this.plan) throw new Error('the cluster is not open');
    return this.plan;
  }

  /** Process ids of the services, the gateway and Kafka, by name. */
  get processes(): Record<string, number> {
    const entries = [...this.running].filter(([name]) => name !== 'postgres').map(([name, { pid }]) => [name, pid] as const);
    return Object.fromEntries(entries);
  }

  /** Process id of PostgreSQL's first process. */
  get postmaster(): number {
    return this.running.get('postgres')?.pid ?? 0;
  }

  /** Plain HTTP `/healthz`, `/readyz`, `/metrics` of one process of ours. */
  opsUrl(name: string): string {
    const url = this.ops.get(name);
    if (url === undefined) throw new Error(`there is no process ${name}, but ${[...this.ops.keys()].join(', ')}`);
    return url;
  }

  /** A database more, with the roles of `npm start`; an empty one, unless it is there already. */
  newDatabase(name: string): Promise<ServiceDatabase> {
    const role = (kind: string) => {
      const each = `${name}_${kind}`;
      return { role: each, password: this.rolePasswords[each] ?? newPassword() };
    };
    return createDatabase(this.adminUrl, { name, owner: role('owner'), service: role('service') });
  }

  /** Brings the ledger's schema into another database. */
  migrateLedger(database: ServiceDatabase): Promise<unknown> {
    return this.finish(migrateChild('ledger', { ...this.known, databases: { ...this.known.databases, ledger: database } }));
  }

  /** Runs a query as the superuser, whom row-level security does not bind. */
  async query<Row>(database: string, text: string): Promise<Row[]> {
    const url = new URL(this.adminUrl);
    url.pathname = `/${database}`;
    return withClient(url.href, async (client) => (await client.query(text)).rows as Row[]);
  }

  /** Runs an operator's command on the ledger's books and resolves to its output. Throws where it fails. */
  command(name: string, args: string[]): Promise<string> {
    const { ownerUrl, serviceUrl } = this.known.databases.ledger;
    return this.finish({
      name,
      command: process.execPath,
      args,
      cwd: root,
      env: { ...this.known.environment, DATABASE_URL: serviceUrl, MIGRATION_DATABASE_URL: ownerUrl },
    });
  }

  /** What the processes warned of, each kind of warning once with how often. */
  warnings(): string[] {
    const counts = new Map<string, number>();
    for (const [name, child] of this.running) {
      if (name === 'postgres') continue;
      for (const line of child.output().split('\n')) {
        const level = /^\{"level":(\d+)/.exec(line)?.[1];
        if (Number(level) < 40 || level === undefined) continue;
        const { msg, code, err } = JSON.parse(line) as { msg: string; code?: string; err?: { message: string } };
        const warning = `${name}: ${[msg, code, err?.message].filter(Boolean).join(', ')}`;
        counts.set(warning, (counts.get(warning) ?? 0) + 1);
      }
    }
    return [...counts].map(([warning, count]) => `${warning}, ${count} times`);
  }

  /** Ends every process and removes the directory, unless it is to be kept; profiles are written by then. */
  end(): Promise<void> {
    const left = this.options.kept === undefined ? this.directory : join(this.directory, ownerFile);
    this.ending ??= this.children.end().then(() => rmSync(left, { recursive: true, force: true }));
    return this.ending;
  }

  private async startWatched(options: ChildOptions): Promise<Child> {
    const port = await testPort();
    this.ops.set(options.name, `http://127.0.0.1:${port}`);
    return this.start({ ...options, env: { ...options.env, OPS_PORT: String(port) } });
  }

  private start(options: ChildOptions): Child {
    const { profiling } = this.options;
    if (profiling?.processes.includes(options.name) === true) {
      mkdirSync(profiling.directory, { recursive: true });
      options.args.unshift('--cpu-prof', `--cpu-prof-dir=${profiling.directory}`, `--cpu-prof-name=${options.name}.cpuprofile`);
    }
    const child = this.children.start(options);
    this.running.set(options.name, child);
    return child;
  }

  private async finish(options: ChildOptions): Promise<string> {
    const child = this.children.start(options);
    const { code, signal } = await child.ended;
    if (code !== 0) throw new Error(`${options.name} failed (${signal ?? `status ${String(code)}`}): ${child.lastMessage()}`);
    return child.output();
  }
}

/** Makes a directory that is kept, or takes it where nobody else has it. PostgreSQL runs elsewhere and wants its whole path. */
function taken(path: string): string {
  const directory = resolve(path);
  mkdirSync(directory, { recursive: true });
  const owner = join(directory, ownerFile);
  const holder = existsSync(owner) ? (JSON.parse(readFileSync(owner, 'utf8')) as Identity) : undefined;
  if (holder && isRunning(holder)) throw new Error(`${directory} is in use by process ${holder.pid}`);
  return directory;
}

/** Benchmarks that were killed leave their directories, and where nothing ends orphans their processes too. */
async function endDead(parent: string): Promise<void> {
  for (const name of readdirSync(parent).filter((each) => each.startsWith(directoryPrefix))) {
    const directory = join(parent, name);
    try {
      if (isRunning(JSON.parse(readFileSync(join(directory, ownerFile), 'utf8')) as Identity)) continue;
      await endRecorded(join(directory, 'processes.json'));
      rmSync(directory, { recursive: true, force: true });
    } catch {
      // Another user's, or one that is being made this moment.
    }
  }
}
