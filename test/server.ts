// A PostgreSQL server of a test's own, to be stopped, stalled and started again under a cluster.
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Children } from '../deploy/local/children.ts';
import { withClient } from '../deploy/local/databases.ts';
import { startPostgres, type PostgresOptions } from '../deploy/local/postgres.ts';
import { mountDisk, type Disk } from './disk.ts';
import { testPort } from './cluster.ts';
import { openProxy } from './proxy.ts';
import { childrenOf, currentRun } from './run.ts';
import { startStandby } from './standby.ts';

/** A server that may be away. */
export interface OwnServer {
  /** A superuser's address, database `postgres`. */
  adminUrl: string;
  /** What it keeps everything on; null where that is the machine's own. */
  disk: Disk | null;
  /** Whether it runs: it may have ended by itself. */
  running(): boolean;
  /** Its log, since it was started. */
  log(): string;
  /** Sends a signal: SIGSTOP and SIGCONT to all of its processes; SIGQUIT, the immediate stop, is waited for, and so is SIGINT. */
  signal(signal: 'SIGSTOP' | 'SIGCONT' | 'SIGQUIT' | 'SIGINT'): Promise<void>;
  /** Starts it anew on the same port and directory, after its end; resolves when it answers. */
  start(): Promise<void>;
  /**
   * Makes a standby that each commit waits for, kills the server, and puts the standby into its place. Whoever came by way of `adminUrl`'s port is
   * cut off and finds the other there. Resolves to how long nobody answered, milliseconds.
   */
  failOver(): Promise<number>;
  /** Ends it, for good. */
  end(): Promise<void>;
}

/** Starts a server that no other test sees, with `ownDisk` on a disk that can be full. */
export async function ownServer({ ownDisk = false } = {}): Promise<OwnServer> {
  const { directory: parent, password, packages } = currentRun();
  const directory = join(parent, `server-${randomBytes(4).toString('hex')}`);
  mkdirSync(directory);
  const disk = ownDisk ? mountDisk(join(directory, 'disk')) : null;
  const children = new Children(directory, join(directory, 'processes.json'));
  const place = disk?.directory ?? directory;
  const placed = async (name: string): Promise<PostgresOptions> => ({
    directory: join(place, name),
    port: await testPort(),
    password,
    sharedBuffers: '128MB',
    packages,
    children,
    say: () => undefined,
  });
  let options = await placed('postgres');
  let { url, child } = await startPostgres(options);
  // The way to whichever it is.
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
      // Each of its processes leads a group of its own.
      if (signal === 'SIGSTOP' || signal === 'SIGCONT') for (const pid of childrenOf(child.pid)) toProcess(pid, signal);
      if (signal === 'SIGQUIT' || signal === 'SIGINT') await child.ended;
    },
    start: async () => {
      ({ url, child } = await startPostgres(options));
    },
    failOver: async () => {
      const next = await placed(`standby-${++standbys}`);
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
    end: async () => {
      await front.close();
      await children.end();
      disk?.unmount();
    },
  };
}

function toProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
