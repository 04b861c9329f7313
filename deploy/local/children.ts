// Starts the processes of one deployment, writes their logs and pids to disk, and ends them last started first.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
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

/** Whether `setpriv` of util-linux is installed: with it the kernel signals a child when its parent dies. */
export const hasSetpriv = process.platform === 'linux' && spawnSync('setpriv', ['--pdeathsig', 'keep', 'true']).status === 0;

/** One child process. */
export class Child {
  readonly name: string;
  readonly identity: Identity | undefined;
  /** Resolves when the process has ended; a command that is missing ends with 127. */
  readonly ended: Promise<Ending>;
  private readonly options: ChildOptions;
  private readonly log: string;
  private readonly process: ChildProcess;

  /** Starts it; its output goes to the file `log`. */
  constructor(options: ChildOptions, log: string) {
    [this.name, this.options, this.log] = [options.name, options, log];
    this.process = spawnLogged(options, log);
    this.identity = this.process.pid === undefined ? undefined : identify(options.name, this.process.pid);
    this.ended = new Promise((resolve) => {
      this.process.once('exit', (code, signal) => resolve({ code, signal }));
      this.process.once('error', (error) => {
        writeFileSync(log, `${error.message}\n`, { flag: 'a' });
        if (this.process.pid === undefined) resolve({ code: 127, signal: null });
      });
    });
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  running(): boolean {
    return this.identity !== undefined && this.process.exitCode === null && this.process.signalCode === null;
  }

  /** Its whole output since the start. */
  output(): string {
    return readFileSync(this.log, 'utf8');
  }

  /** What went wrong: the last FATAL line of its output, as of PostgreSQL, or the last one that is no stack frame or JSON; `''` if there is none. */
  lastMessage(): string {
    const lines = this.output()
      .split('\n')
      .filter((line) => /^(?!Node\.js v)[^\s{}^~]/.test(line));
    return (lines.slice(-20).findLast((line) => line.includes('FATAL: ')) ?? lines.at(-1) ?? '').trim();
  }

  signal(signal: NodeJS.Signals): void {
    if (this.running()) this.process.kill(signal);
  }

  /** Lets this process end first. */
  unref(): void {
    this.process.unref();
  }

  /** Stops it cleanly, kills it after its grace period; true if it was killed. */
  async end(): Promise<boolean> {
    if (!this.identity || !this.running()) return false;
    const wasKilled = await endProcess(this.identity, this.options.stopSignal ?? 'SIGTERM', this.options.graceSeconds ?? 30);
    await this.ended;
    return wasKilled;
  }
}

/** The children of one deployment. */
export class Children {
  private readonly logs: string;
  private readonly record: string;
  private readonly running = new Set<Child>();
  private ending = false;

  /** `logs`: directory of their log files; `record`: file with the running ones, for {@link endRecorded}. */
  constructor(logs: string, record: string) {
    [this.logs, this.record] = [logs, record];
    mkdirSync(logs, { recursive: true });
  }

  /** Starts a process that writes to `<name>.log`; the previous log is kept as `<name>.log.1`. */
  start(options: ChildOptions): Child {
    if (this.ending) throw new Error(`${options.name} is not started while everything stops`);
    const log = join(this.logs, `${options.name}.log`);
    if (existsSync(log)) renameSync(log, `${log}.1`);
    const child = new Child(options, log);
    this.running.add(child);
    this.save();
    void child.ended.then(() => {
      this.running.delete(child);
      try {
        this.save();
      } catch {
        // The directory is gone or its disk full: a reader of the old record sees that the process has ended.
      }
    });
    return child;
  }

  /** Ends all, last started first, and starts no more. Returns the names of those that were killed. */
  async end(): Promise<string[]> {
    this.ending = true;
    const killed: string[] = [];
    for (const child of [...this.running].reverse()) if (await child.end()) killed.push(child.name);
    return killed;
  }

  /** Kills all at once, for a process that must exit now. */
  kill(): void {
    this.ending = true;
    for (const child of this.running) child.signal('SIGKILL');
  }

  private save(): void {
    writeAtomically(this.record, JSON.stringify([...this.running].flatMap(({ identity }) => identity ?? [])));
  }
}

function spawnLogged(options: ChildOptions, log: string): ChildProcess {
  const { user } = options;
  // A change of user resets the signal for the parent's death, so setpriv does both.
  const flags = user ? [`--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups'] : [];
  // access(2), with which initdb looks for its binaries, ignores the capability without `no_setuid_fixup`.
  if (options.passClosedDirectories)
    flags.push('--inh-caps=+dac_override', '--ambient-caps=+dac_override', '--securebits=+no_setuid_fixup');
  const [command = '', ...args] = endWithParent(options.stopSignal ?? 'SIGTERM', [options.command, ...options.args], flags);
  const file = openSync(log, 'a', 0o600);
  try {
    // A pipe would break when the parent dies. In their own groups Ctrl-C does not reach the children, which the parent ends in order.
    const { cwd, env = process.env } = options;
    return spawn(command, args, { cwd, env, stdio: ['ignore', file, file], detached: hasSetpriv, ...(!hasSetpriv && user) });
  } finally {
    closeSync(file);
  }
}

/** A command that gets `signal` when the process that starts it dies; without `setpriv` the unchanged command. */
export function endWithParent(signal: NodeJS.Signals, command: string[], flags: string[] = []): string[] {
  return hasSetpriv ? ['setpriv', '--pdeathsig', signal.replace('SIG', ''), ...flags, ...command] : command;
}

/** Ends the processes that a killed parent left running, last started first. Returns their names. */
export async function endRecorded(record: string): Promise<string[]> {
  const recorded = existsSync(record) ? (JSON.parse(readFileSync(record, 'utf8')) as Identity[]) : [];
  const left = recorded.filter(isRunning).reverse();
  for (const identity of left) await endProcess(identity, identity.name === 'postgres' ? 'SIGINT' : 'SIGTERM', 10);
  return left.map(({ name }) => name);
}

/** Writes a file as a whole or not at all, readable by its owner only. With `flush` it survives a loss of power. */
export function writeAtomically(file: string, text: string, { flush = false } = {}): void {
  writeFileSync(`${file}.new`, text, { mode: 0o600, flush });
  renameSync(`${file}.new`, file);
  if (!flush) return;
  const directory = openSync(dirname(file), 'r');
  fsyncSync(directory);
  closeSync(directory);
}

/** How a child ended, as text. */
export function describeEnding(child: Child, { code, signal }: Ending): string {
  if (signal !== null) return `(${signal})`;
  return [`(status ${String(code)})`, child.lastMessage()].filter(Boolean).join(': ');
}
