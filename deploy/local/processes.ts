// Identifies processes after their parent is gone, ends them, and locks a directory for one of them.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { StartFailure } from '../../services/platform/lifetime.ts';

/** A process that can be recognized later. */
export interface Identity {
  name: string;
  pid: number;
  /** The system's start time, opaque; with the pid it names one process for ever. */
  started: string;
}

/** Whether the system has `/proc`, as Linux does. */
export const hasProc = existsSync('/proc/self/stat');

/** The identity of a running process; undefined where it has ended. */
export function identify(name: string, pid: number): Identity | undefined {
  const started = startTime(pid);
  return started === undefined ? undefined : { name, pid, started };
}

/** Whether exactly this process still runs. */
export function isRunning({ pid, started }: Identity): boolean {
  const time = startTime(pid);
  return time !== undefined && time === started;
}

function startTime(pid: number): string | undefined {
  try {
    if (!hasProc) return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || undefined;
    const status = statusOf(pid);
    // A zombie has ended.
    if (!status || status[0] === 'Z' || status[0] === 'X') return undefined;
    // Ticks since boot repeat after a restart of the machine.
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${status[19] ?? ''}`;
  } catch {
    return undefined;
  }
}

/** The fields of `/proc/<pid>/stat` from the third, the state, on; undefined where there is no such process. */
export function statusOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command's name may hold anything, also parentheses.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

/** Sends `signal`, and SIGKILL after so many seconds. Resolves when the process has ended; true if it was killed. */
export async function endProcess(identity: Identity, signal: NodeJS.Signals, seconds: number): Promise<boolean> {
  if (isRunning(identity)) process.kill(identity.pid, signal);
  const until = Date.now() + seconds * 1000;
  while (isRunning(identity) && Date.now() < until) await pause(20);
  if (!isRunning(identity)) return false;
  process.kill(identity.pid, 'SIGKILL');
  while (isRunning(identity)) await pause(20);
  return true;
}

/**
 * Locks a directory for this process, which is known as `name`; returns how to unlock it. Waits 5 s for a process that is about to end, then throws
 * {@link StartFailure}.
 */
export async function lockDirectory(directory: string, name: string): Promise<() => void> {
  const lock = join(directory, 'lock');
  for (const until = Date.now() + 5_000; ; await pause(100)) {
    try {
      writeFileSync(lock, JSON.stringify(identify(name, process.pid)), { mode: 0o600, flag: 'wx' });
      return () => rmSync(lock, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const holder = readIdentity(lock);
    if (!holder || !isRunning(holder)) rmSync(lock, { force: true });
    else if (Date.now() > until)
      throw new StartFailure(`DATA_DIR: ${directory} is in use by another ${holder.name} (process ${holder.pid})`);
  }
}

function readIdentity(file: string): Identity | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Identity;
  } catch {
    return undefined;
  }
}
