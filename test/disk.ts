// A disk of a test's own that can be full: a tmpfs, whose size is cut down to what it holds and given back.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A mounted disk. */
export interface Disk {
  directory: string;
  /** Leaves no room for another byte, until it is freed. */
  fill(): void;
  /** Gives the room back. */
  free(): void;
  unmount(): void;
}

// What it may hold: a tmpfs takes memory only for what it does hold.
const room = 'size=8g';

let problem: string | null | undefined;

/** Why there can be no such disk on this machine, or null where there can. */
export function diskProblem(): string | null {
  problem ??= process.platform === 'linux' ? mountProblem() : 'it takes a tmpfs of Linux';
  return problem === '' ? null : problem;
}

function mountProblem(): string {
  const directory = mkdtempSync(join(tmpdir(), 'ledger-mount-'));
  try {
    mountDisk(directory).unmount();
    return '';
  } catch {
    return 'no tmpfs can be mounted here, which takes root';
  } finally {
    rmdirSync(directory);
  }
}

/** Mounts a disk on a directory, which is made. Throws where that can't be done: mostly, where this process is not root. */
export function mountDisk(directory: string): Disk {
  mkdirSync(directory, { recursive: true });
  run('mount', '-t', 'tmpfs', '-o', `${room},mode=755`, 'ledger-test', directory);
  return {
    directory,
    fill: () => {
      // What is written meanwhile makes it too small for what it holds, which the system refuses.
      for (let tries = 100; ; tries--) {
        const { blocks, bfree, bsize } = statfsSync(directory);
        try {
          run('mount', '-o', `remount,size=${(blocks - bfree) * bsize}`, directory);
          return;
        } catch (error) {
          if (tries === 0) throw error;
        }
      }
    },
    free: () => run('mount', '-o', `remount,${room}`, directory),
    unmount: () => run('umount', directory),
  };
}

/** Unmounts what is mounted below a directory, also where somebody still uses it: what a killed run has left. */
export function unmountBelow(directory: string): void {
  if (process.platform !== 'linux') return;
  const places = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    // A space in a path is written as an octal number.
    .map((line) => (line.split(' ')[1] ?? '').replace(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(parseInt(code, 8))));
  for (const place of places.filter((each) => each.startsWith(`${directory}/`))) run('umount', '--lazy', place);
}

function run(command: string, ...args: string[]): void {
  const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(error?.message ?? stderr.trim());
}
