// A disk that a test can fill: a tmpfs that is shrunk to its content, and enlarged again.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A mounted disk. */
export interface Disk {
  directory: string;
  /** Leaves no space for another byte. */
  fill(): void;
  /** Makes space again. */
  free(): void;
  unmount(): void;
}

// A tmpfs uses memory only for its content.
const fullSize = 'size=8g';

let problem: string | null | undefined;

/** Why this machine cannot mount one, or null. */
export function diskProblem(): string | null {
  problem ??= process.platform === 'linux' ? mountProblem() : 'it needs a tmpfs of Linux';
  return problem === '' ? null : problem;
}

function mountProblem(): string {
  const directory = mkdtempSync(join(tmpdir(), 'ledger-mount-'));
  try {
    mountDisk(directory).unmount();
    return '';
  } catch {
    return 'mounting a tmpfs needs root';
  } finally {
    rmdirSync(directory);
  }
}

/** Mounts a disk on a new directory. Throws without permission. */
export function mountDisk(directory: string): Disk {
  mkdirSync(directory, { recursive: true });
  run('mount', '-t', 'tmpfs', '-o', `${fullSize},mode=755`, 'ledger-test', directory);
  return {
    directory,
    fill: () => {
      // Fails where something is written meanwhile.
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
    free: () => run('mount', '-o', `remount,${fullSize}`, directory),
    unmount: () => run('umount', directory),
  };
}

/** Unmounts everything below a directory, also when in use: what a killed run has left. */
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
