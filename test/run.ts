// One test run: the PostgreSQL server that all tests share, and the directory that lists every process they started.
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { Children, endRecorded } from '../deploy/local/children.ts';
import { withClient } from '../deploy/local/databases.ts';
import { freePort } from '../deploy/local/ports.ts';
import { compileCache } from '../deploy/local/plan.ts';
import { startPostgres } from '../deploy/local/postgres.ts';
import { hasProc, identify, isRunning, statusOf, type Identity } from '../deploy/local/processes.ts';
import { unmountBelow } from './disk.ts';

/** What the tests of one run share. */
export interface Run {
  /** A superuser, or a role that may create databases and roles. */
  adminUrl: string;
  /** Prefix of this run's databases and roles, so that runs on one given server do not collide. */
  prefix: string;
  /** Password of those roles. */
  password: string;
  /** Directory of the run's logs and lists of processes. */
  directory: string;
  /** `LEDGER_TEST_POSTGRES`: the directory whose `node_modules` has another PostgreSQL for the tests than `npm start` has. */
  packages: string | undefined;
}

const variable = 'LEDGER_TEST_RUN';
const directoryPrefix = 'ledger-test-';

let children: Children | undefined;

/** Environment of every process that a test starts, without the developer's own settings. The compile cache saves a third of a start. */
export const bareEnvironment: NodeJS.ProcessEnv = { PATH: process.env['PATH'], NODE_COMPILE_CACHE: compileCache };

/** How Node runs a script; where `descriptors` are given, with so many at most. */
export function nodeWith(descriptors: number | undefined, args: string[]): { command: string; args: string[] } {
  if (descriptors === undefined) return { command: process.execPath, args };
  return { command: 'sh', args: ['-c', `ulimit -n ${descriptors}; exec "$0" "$@"`, process.execPath, ...args] };
}

/** Starts the run's server, or takes that of `MIGRATION_DATABASE_URL`, and puts the run into the environment for the test workers. */
export async function beginRun({ sharedBuffers = '128MB' } = {}): Promise<void> {
  endWithSignal();
  await endDeadRuns();
  const directory = mkdtempSync(join(tmpdir(), directoryPrefix));
  writeFileSync(join(directory, 'run.json'), JSON.stringify(identify('jest', process.pid)));
  const password = randomBytes(16).toString('hex');
  const packages = process.env['LEDGER_TEST_POSTGRES'];
  let adminUrl = process.env['MIGRATION_DATABASE_URL'];
  if (adminUrl === undefined) {
    mkdirSync(join(directory, 'server'));
    children = new Children(join(directory, 'server'), join(directory, 'server', 'processes.json'));
    const server = await startPostgres({
      directory: join(directory, 'server', 'postgres'),
      port: await freePort(),
      password,
      sharedBuffers,
      packages,
      children,
      say: () => undefined,
    });
    adminUrl = server.url;
  }
  if (packages !== undefined) {
    const { rows } = await withClient(adminUrl, (client) => client.query<{ server_version: string }>('show server_version'));
    process.stdout.write(`the tests run on PostgreSQL ${rows[0]?.server_version ?? ''}\n`);
  }
  const run: Run = { adminUrl, prefix: `t${randomBytes(4).toString('hex')}_`, password, directory, packages };
  process.env[variable] = JSON.stringify(run);
}

/** Jest that is ended by a signal calls no teardown and leaves its workers running. */
function endWithSignal(): void {
  process.once('exit', () => children?.kill());
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      for (const worker of childrenOf(process.pid)) process.kill(worker, 'SIGTERM');
      process.exit(1);
    });
  }
}

/** Ends everything that the run has started, the server last. */
export async function endRun(): Promise<void> {
  const run = currentRun();
  await endProcessesOf(run.directory);
  if (children) await children.end();
  else await dropEverything(run);
  unmountBelow(run.directory);
  rmSync(run.directory, { recursive: true, force: true });
}

/** The run that this test belongs to. */
export function currentRun(): Run {
  const text = process.env[variable];
  if (text === undefined) throw new Error('this needs the PostgreSQL server of a test run: start it through npm test or jest');
  return JSON.parse(text) as Run;
}

/** Removes the processes and directories of killed runs. */
async function endDeadRuns(): Promise<void> {
  for (const name of readdirSync(tmpdir()).filter((each) => each.startsWith(directoryPrefix))) {
    const directory = join(tmpdir(), name);
    try {
      if (isRunning(JSON.parse(readFileSync(join(directory, 'run.json'), 'utf8')) as Identity)) continue;
      await endProcessesOf(directory);
      unmountBelow(directory);
      rmSync(directory, { recursive: true, force: true });
    } catch {
      // Another user's, or one that has just begun.
    }
  }
}

async function endProcessesOf(directory: string): Promise<void> {
  const places = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isDirectory() && entry.name !== 'server');
  for (const place of places) await endRecorded(join(directory, place.name, 'processes.json'));
  if (!children) await endRecorded(join(directory, 'server', 'processes.json'));
}

async function dropEverything(run: Run): Promise<void> {
  const like = `${run.prefix.replaceAll('_', '\\_')}%`;
  const [databases, roles] = await withClient(run.adminUrl, async (client) => [
    (await client.query<{ name: string }>('select datname as name from pg_database where datname like $1', [like])).rows,
    (await client.query<{ name: string }>('select rolname as name from pg_roles where rolname like $1 order by rolname desc', [like])).rows,
  ]);
  const names = (rows: { name: string }[] = []) => rows.map((row) => row.name);
  await dropDatabases(run.adminUrl, names(databases), names(roles));
}

/** Removes databases, also with open connections, and then roles. */
export async function dropDatabases(adminUrl: string, names: string[], roles: string[]): Promise<void> {
  await withClient(adminUrl, async (client) => {
    for (const name of names) await client.query(`drop database if exists ${pg.escapeIdentifier(name)} with (force)`);
    for (const role of roles) await client.query(`drop role if exists ${pg.escapeIdentifier(role)}`);
  });
}

/** Running child processes of a process; empty where there is no /proc. */
export function childrenOf(parent: number): number[] {
  const children = hasProc ? readdirSync('/proc').map(Number) : [];
  return children.filter((pid) => pid > 0 && Number(statusOf(pid)?.[1]) === parent);
}
