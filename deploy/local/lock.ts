// One house, or one Kafka, at a time on one data directory.
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { StartFailure } from '../../services/platform/lifetime.ts';
import { endProcess, identify, isRunning, type Identity } from './processes.ts';

/** Who has a directory. */
interface Holder extends Identity {
  /** The npm that started it, if one did. */
  npm?: Identity;
}

/**
 * Ends the process that has the data directory if the npm that started it was killed: nobody can end it with Ctrl-C any more. Returns its pid,
 * or undefined where there is no such process.
 */
export async function endOrphan(directory: string): Promise<number | undefined> {
  const holder = parse(read(join(directory, 'lock')));
  if (!holder?.npm || isRunning(holder.npm) || !isRunning(holder)) return undefined;
  await endProcess(holder, 'SIGTERM', 60);
  return holder.pid;
}

/**
 * Takes the data directory for this process, which is known as `name` and was started by `npm` (a pid), and returns how to give it back. Throws
 * {@link StartFailure} while another process has it.
 */
export function lockDirectory(directory: string, name: string, npm?: number): () => void {
  const lock = join(directory, 'lock');
  const draft = `${lock}.${randomUUID()}`;
  // It may have ended by now: whose reader of its lines goes away, as `head` does.
  const parent = npm === undefined ? undefined : (identify('npm', npm) ?? { name: 'npm', pid: npm, started: 'before' });
  const own = JSON.stringify({ ...identify(name, process.pid), npm: parent });
  writeFileSync(draft, own, { mode: 0o600 });
  try {
    // Hard links fail where the name exists, and never show a file half written.
    while (!done(() => linkSync(draft, lock), 'EEXIST')) {
      const found = read(lock);
      const holder = parse(found);
      if (holder && isRunning(holder))
        throw new StartFailure(`DATA_DIR: ${directory} is in use by another ${holder.name} (process ${holder.pid})`);
      // Its holder is gone. Moving it aside is atomic, so of two starts that see this one goes on; who moves a fresh lock puts it back.
      const aside = `${draft}.stale`;
      if (done(() => renameSync(lock, aside), 'ENOENT') && read(aside) !== found) done(() => linkSync(aside, lock), 'EEXIST');
      rmSync(aside, { force: true });
    }
  } finally {
    rmSync(draft, { force: true });
  }
  return () => {
    if (read(lock) === own) rmSync(lock, { force: true });
  };
}

/** Whether it could be done: false where it fails with that code. */
function done(change: () => void, otherwise: 'EEXIST' | 'ENOENT'): boolean {
  try {
    change();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === otherwise) return false;
    throw error;
  }
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

function parse(text: string | undefined): Holder | undefined {
  try {
    return text === undefined ? undefined : (JSON.parse(text) as Holder);
  } catch {
    return undefined;
  }
}
