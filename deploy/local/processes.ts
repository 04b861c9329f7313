// Tells one process from a later one with the same number, and ends those that nobody waits for any more.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

/** A process as it can be found again after its parent is gone. */
export interface Identity {
  name: string;
  pid: number;
  /** When it started, as the system tells it: with the pid it names one process for ever. */
  started: string;
}

/** Whether the system tells about processes as Linux does. */
export const hasProc = existsSync('/proc/self/stat');

/** When the process started, as an opaque text; undefined where there is no such process, or only its remains (a zombie). */
function startMark(pid: number): string | undefined {
  try {
    if (!hasProc) return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || undefined;
    const status = statusOf(pid);
    if (!status || status[0] === 'Z' || status[0] === 'X') return undefined;
    // Ticks since boot repeat after a restart of the machine.
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${status[19] ?? ''}`;
  } catch {
    return undefined;
  }
}

/** The identity of a running process; undefined where it is gone already. */
export function identify(name: string, pid: number): Identity | undefined {
  const started = startMark(pid);
  return started === undefined ? undefined : { name, pid, started };
}

/** Whether exactly this process still runs. */
export function isRunning({ pid, started }: Identity): boolean {
  const mark = startMark(pid);
  return mark !== undefined && mark === started;
}

/** The fields of `/proc/<pid>/stat` from the third, the state, on; undefined where there is no such process. */
export function statusOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command's name stands in parentheses and may hold anything: count from the last one.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

/** Sends `signal`, waits `seconds` for the end, then kills. Resolves when the process is gone; true if it had to be killed. */
export async function endProcess(identity: Identity, signal: NodeJS.Signals, seconds: number): Promise<boolean> {
  send(identity, signal);
  if (await gone(identity, seconds)) return false;
  send(identity, 'SIGKILL');
  await gone(identity, 10);
  return true;
}

async function gone(identity: Identity, seconds: number): Promise<boolean> {
  for (const until = Date.now() + seconds * 1000; isRunning(identity);) {
    if (Date.now() > until) return false;
    await pause(20);
  }
  return true;
}

function send(identity: Identity, signal: NodeJS.Signals): void {
  if (!isRunning(identity)) return;
  try {
    process.kill(identity.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
