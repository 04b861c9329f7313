// Starts the processes of one deployment, writes their logs and pids to disk, and ends them last started first.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { endProcess, identify, isRunning, type Identity } from './processes.ts';

/** How to start one child. */
export interface ChildOptions {
  name: string;
  command: string;
  args: string[];
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  /** Runs as this user; only root can. */
  user?: { uid: number; gid: number };
  /** Keeps root's access to directories that are closed to `user`; needs `setpriv`. */
  passClosedDirectories?: boolean;
  /** The signal that stops it cleanly; SIGTERM unless given. */
  stopSignal?: NodeJS.Signals;
  /** Seconds after which it is killed; 30 unless given. */
  graceSeconds?: number;
}

/** How a child ended. */
export interface Ending {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** One child process. */
export interface Child {
  name: string;
  pid: number;
  /** Resolves when the process has ended. */
  ended: Promise<Ending>;
  running(): boolean;
  /** The last message in its output that says what went wrong; `''` if there is none. */
  lastMessage(): string;
  /** Its whole output since the start. */
  output(): string;
  signal(signal: NodeJS.Signals): void;
  /** Lets this process end first. */
  unref(): void;
  /** Stops it cleanly, kills it after its grace period; true if it was killed. */
  end(): Promise<boolean>;
}

/** Whether `setpriv` of util-linux is installed: with it the kernel signals a child when its parent dies. */
export const hasSetpriv = process.platform === 'linux' && spawnSync('setpriv', ['--pdeathsig', 'keep', 'true']).status === 0;

const maxLogBytes = 64 * 1024 * 1024;

/** The children of one deployment. */
export class Children {
  private readonly logs: string;
  private readonly record: string;
  private readonly running: { child: Child; identity: Identity }[] = [];
  private readonly timer: NodeJS.Timeout;
  private ending = false;

  /** `logs`: directory of their log files; `record`: file with the running ones, for {@link endRecorded}. */
  constructor(logs: string, record: string) {
    this.logs = logs;
    this.record = record;
    mkdirSync(logs, { recursive: true });
    this.timer = setInterval(() => this.truncateLogs(), 30_000).unref();
  }

  /** Starts a process that writes to `<name>.log`; the previous log is kept as `<name>.log.1`. A command that is missing ends with 127. */
  start(options: ChildOptions): Child {
    if (this.ending) throw new Error(`${options.name} is not started while everything stops`);
    const log = join(this.logs, `${options.name}.log`);
    if (existsSync(log)) renameSync(log, `${log}.1`);
    const spawned = spawnLogged(options, log);
    const ended = new Promise<Ending>((resolve) => {
      spawned.once('exit', (code, signal) => resolve({ code, signal }));
      spawned.once('error', (error) => {
        writeFileSync(log, `${error.message}\n`, { flag: 'a' });
        if (spawned.pid === undefined) resolve({ code: 127, signal: null });
      });
    });
    const identity = spawned.pid === undefined ? undefined : identify(options.name, spawned.pid);
    const running = () => identity !== undefined && spawned.exitCode === null && spawned.signalCode === null;
    const child: Child = {
      name: options.name,
      pid: spawned.pid ?? 0,
      ended,
      running,
      lastMessage: () => lastMessage(readFileSync(log, 'utf8')),
      output: () => readFileSync(log, 'utf8'),
      unref: () => spawned.unref(),
      signal: (signal) => {
        if (running()) spawned.kill(signal);
      },
      end: async () => {
        if (!identity || !running()) return false;
        const wasKilled = await endProcess(identity, options.stopSignal ?? 'SIGTERM', options.graceSeconds ?? 30);
        await ended;
        return wasKilled;
      },
    };
    if (identity) this.add({ child, identity });
    return child;
  }

  /** Ends all, last started first, and starts no more. Returns the names of those that were killed. */
  async end(): Promise<string[]> {
    this.ending = true;
    clearInterval(this.timer);
    const killed: string[] = [];
    for (let last = this.running.at(-1); last; last = this.running.at(-1)) {
      if (await last.child.end()) killed.push(last.child.name);
      await last.child.ended;
    }
    return killed;
  }

  /** Kills all at once, for a process that must exit now. */
  kill(): void {
    this.ending = true;
    for (const { child } of this.running) child.signal('SIGKILL');
  }

  private add(entry: { child: Child; identity: Identity }): void {
    const save = () => writeAtomically(this.record, JSON.stringify(this.running.map(({ identity }) => identity)));
    this.running.push(entry);
    save();
    void entry.child.ended.then(() => {
      this.running.splice(this.running.indexOf(entry), 1);
      try {
        save();
      } catch {
        // The directory is gone or its disk full: a reader of the old record sees that the process has ended.
      }
    });
  }

  // The child appends, so it continues at the new end.
  private truncateLogs(): void {
    for (const { child } of this.running) {
      const log = join(this.logs, `${child.name}.log`);
      if ((statSync(log, { throwIfNoEntry: false })?.size ?? 0) > maxLogBytes) truncateSync(log);
    }
  }
}

function spawnLogged(options: ChildOptions, log: string): ChildProcess {
  const { command, args, user } = commandOf(options);
  const file = openSync(log, 'a', 0o600);
  try {
    return spawn(command, args, {
      cwd: options.cwd,
      env: options.env ?? process.env,
      // A pipe would break when the parent dies.
      stdio: ['ignore', file, file],
      // In their own groups Ctrl-C does not reach the children, which the parent ends in order.
      detached: hasSetpriv,
      ...user,
    });
  } finally {
    closeSync(file);
  }
}

function commandOf(options: ChildOptions): { command: string; args: string[]; user?: { uid: number; gid: number } } {
  const { user } = options;
  // A change of user resets the signal for the parent's death, so setpriv does both.
  const flags = user ? [`--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups'] : [];
  // access(2), with which initdb looks for its binaries, ignores the capability without `no_setuid_fixup`.
  if (options.passClosedDirectories)
    flags.push('--inh-caps=+dac_override', '--ambient-caps=+dac_override', '--securebits=+no_setuid_fixup');
  const [command = '', ...args] = endWithParent(options.stopSignal ?? 'SIGTERM', [options.command, ...options.args], flags);
  return { command, args, ...(user && !hasSetpriv && { user }) };
}

/** A command that gets `signal` when the process that starts it dies; without `setpriv` the unchanged command. */
export function endWithParent(signal: NodeJS.Signals, command: string[], flags: string[] = []): string[] {
  return hasSetpriv ? ['setpriv', '--pdeathsig', signal.replace('SIG', ''), ...flags, ...command] : command;
}

/** Ends the processes that a killed parent left running, last started first. Returns their names. */
export async function endRecorded(record: string): Promise<string[]> {
  const left = readRecord(record).filter(isRunning).reverse();
  for (const identity of left) await endProcess(identity, identity.name === 'postgres' ? 'SIGINT' : 'SIGTERM', 10);
  return left.map(({ name }) => name);
}

function readRecord(record: string): Identity[] {
  try {
    return JSON.parse(readFileSync(record, 'utf8')) as Identity[];
  } catch {
    return [];
  }
}

/** Writes a file as a whole or not at all, readable by its owner only. With `flush` it survives a loss of power. */
export function writeAtomically(file: string, text: string, { flush = false } = {}): void {
  writeFileSync(`${file}.new`, text, { mode: 0o600, flush });
  renameSync(`${file}.new`, file);
  if (!flush) return;
  const directory = openSync(dirname(file), 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** How a child ended, as text. */
export function describeEnding(child: Child, { code, signal }: Ending): string {
  if (signal !== null) return `(${signal})`;
  return [`(status ${String(code)})`, child.lastMessage()].filter(Boolean).join(': ');
}

/** The last FATAL line, as of PostgreSQL, or the last line that is no stack frame; of a JSON log the last error. */
function lastMessage(output: string): string {
  const lines = output.split('\n').filter((line) => line.trim() !== '');
  const text = lines.filter((line) => !/^\{|^\s+at |^\s+\.{3} [0-9]+ more$|^Node\.js v|^\s*[\^~}]+$/.test(line));
  const message = text.slice(-20).findLast((line) => line.includes('FATAL: ')) ?? text.at(-1);
  if (message !== undefined) return message.trim();
  const entries = lines.flatMap(parseLine);
  // pino's level 50 is an error.
  const entry = entries.findLast(({ level = 0 }) => level >= 50) ?? entries.at(-1);
  return [entry?.msg, entry?.err?.message].filter(Boolean).join(': ');
}

function parseLine(line: string): { level?: number; msg?: string; err?: { message?: string } }[] {
  try {
    return [JSON.parse(line) as { level?: number; msg?: string; err?: { message?: string } }];
  } catch {
    return [];
  }
}
