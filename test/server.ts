// A PostgreSQL server of a test's own, to be stopped, stalled and started again under a house.
import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Children } from '../deploy/local/children.ts';
import { startPostgres } from '../deploy/local/postgres.ts';
import { childrenOf } from '../deploy/local/processes.ts';
import { mountDisk, type Disk } from './disk.ts';
import { testPort } from './house.ts';
import { currentRun } from './run.ts';

/** A server that may be away. */
export interface OwnServer {
  /** A superuser's address, database `postgres`. */
  adminUrl: string;
  /** What it keeps everything on; null where that is the machine's own. */
  disk: Disk | null;
  /** Whether it runs: it may have ended by itself. */
  running(): boolean;
  /** Sends a signal: SIGSTOP and SIGCONT to all of its processes; SIGQUIT, the immediate stop, is waited for, and so is SIGINT. */
  signal(signal: 'SIGSTOP' | 'SIGCONT' | 'SIGQUIT' | 'SIGINT'): Promise<void>;
  /** Starts it anew on the same port and directory, after its end; resolves when it answers. */
  start(): Promise<void>;
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
  const options = {
    directory: join(disk?.directory ?? directory, 'postgres'),
    port: await testPort(),
    password,
    sharedBuffers: '128MB',
    packages,
    children,
    say: () => undefined,
  };
  let { url, child } = await startPostgres(options);
  return {
    adminUrl: url,
    disk,
    running: () => child.running(),
    signal: async (signal) => {
      child.signal(signal);
      // Each of its processes leads a group of its own.
      if (signal === 'SIGSTOP' || signal === 'SIGCONT') for (const pid of childrenOf(child.pid)) toProcess(pid, signal);
      if (signal === 'SIGQUIT' || signal === 'SIGINT') await child.ended;
    },
    start: async () => {
      ({ url, child } = await startPostgres(options));
    },
    end: async () => {
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
