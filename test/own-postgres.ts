// A PostgreSQL server for one test that stops, stalls, restarts or fails over under a cluster.
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Children } from '../deploy/local/children.ts';
import { withClient } from '../deploy/local/databases.ts';
import { startPostgres, type Postgres, type PostgresOptions } from '../deploy/local/postgres.ts';
import { mountDisk, type Disk } from './disk.ts';
import { testPort } from './cluster.ts';
import { openProxy } from './proxy.ts';
import { childrenOf, currentRun } from './run.ts';
import { startStandby } from './standby.ts';

/** A server under the test's control. */
export interface OwnPostgres {
  /** A superuser's address, database `postgres`. */
  adminUrl: string;
  /** Its own disk, or null: the machine's. */
  disk: Disk | null;
  running(): boolean;
  /** Its log since its last start. */
  log(): string;
  /** SIGSTOP and SIGCONT go to all of its processes; SIGQUIT (immediate stop) and SIGINT resolve when it has ended. */
  signal(signal: 'SIGSTOP' | 'SIGCONT' | 'SIGQUIT' | 'SIGINT'): Promise<void>;
  /** Starts it again on the same port and directory; resolves when it answers. */
  start(): Promise<void>;
  /** Makes a synchronous standby, kills the server and promotes the standby behind the same `adminUrl`. Resolves to the outage, milliseconds. */
  failOver(): Promise<number>;
  /** Starts an asynchronous standby, as a read replica. */
  startReplica(): Promise<Postgres>;
  end(): Promise<void>;
}

/** Starts a server; `ownDisk`: on a disk that can be filled. */
export async function startOwnPostgres({ ownDisk = false } = {}): Promise<OwnPostgres> {
  const { directory: parent, password, packages } = currentRun();
  const directory = join(parent, `server-${randomBytes(4).toString('hex')}`);
  mkdirSync(directory);
  const disk = ownDisk ? mountDisk(join(directory, 'disk')) : null;
  const children = new Children(directory, join(directory, 'processes.json'));
  const parentDirectory = disk?.directory ?? directory;
  const optionsOf = async (name: string): Promise<PostgresOptions> => ({
    directory: join(parentDirectory, name),
    port: await testPort(),
    password,
    sharedBuffers: '128MB',
    packages,
    children,
    say: () => undefined,
  });
  let options = await optionsOf('postgres');
  let { url, child } = await startPostgres(options);
  const front = await openProxy(options.port);
  const adminUrl = new URL(url);
  adminUrl.port = String(front.port);
  let standbys = 0;
  return {
    adminUrl: adminUrl.href,
    disk,
    running: () => child.running(),
    log: () => child.output(),
    signal: async (signal) => {
      child.signal(signal);
      // Each of its processes has its own process group.
      if (signal === 'SIGSTOP' || signal === 'SIGCONT') for (const pid of childrenOf(child.pid)) signalIfRunning(pid, signal);
      if (signal === 'SIGQUIT' || signal === 'SIGINT') await child.ended;
    },
    start: async () => {
      ({ url, child } = await startPostgres(options));
    },
    failOver: async () => {
      const next = await optionsOf(`standby-${++standbys}`);
      const standby = await startStandby(url, options.directory, next);
      const began = performance.now();
      child.signal('SIGQUIT');
      await child.ended;
      await withClient(standby.url, (client) => client.query('select pg_promote()'));
      front.lead(next.port);
      const tookMs = performance.now() - began;
      rmSync(options.directory, { recursive: true });
      options = next;
      ({ url, child } = standby);
      return tookMs;
    },
    startReplica: async () => {
      const replica = await startStandby(url, options.directory, await optionsOf(`standby-${++standbys}`));
      await withClient(url, async (client) => {
        await client.query('alter system reset synchronous_standby_names');
        await client.query('select pg_reload_conf()');
      });
      return replica;
    },
    end: async () => {
      await front.close();
      await children.end();
      disk?.unmount();
    },
  };
}

function signalIfRunning(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
