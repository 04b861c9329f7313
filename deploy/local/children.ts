// Starts the processes of one house, keeps their output and their numbers on disk, and ends them last started first.
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
  copyFileSync,
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
  /** Keep root's way through directories that are closed to `user`; needs `setpriv`. */
  passClosedDirectories?: boolean;
  /** What ends it in good order. */
  stopSignal?: NodeJS.Signals;
  /** Seconds that it may take to end before it is killed. */
  graceSeconds?: number;
}

/** How a child ended. */
export interface Ending {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** One running child. */
export interface Child {
  name: string;
  pid: number;
  /** Resolves when the process has ended, whatever ended it. */
  ended: Promise<Ending>;
  running(): boolean;
  /** The last line that it wrote for people, or the message of its last log line; `''` if it wrote nothing. */
  lastWords(): string;
  /** Everything it has written since it was started. */
  output(): string;
  signal(signal: NodeJS.Signals): void;
  /** This process may end before it does. */
  unref(): void;
  /** Ends it in good order, kills it after its grace; true if it had to be killed. */
  end(): Promise<boolean>;
}

/** Whether `setpriv` of util-linux is there: it lets a child be signalled by the kernel when its parent dies, however it dies. */
export const hasSetpriv = process.platform === 'linux' && spawnSync('setpriv', ['--pdeathsig', 'keep', 'true']).status === 0;

const logLimitBytes = 64 * 1024 * 1024;

/** The children of one house. */
export class Children {
  private readonly logs: string;
  private readonly record: string;
  private readonly running: { child: Child; identity: Identity }[] = [];
  private readonly trimmer: NodeJS.Timeout;
  private ending = false;

  /** `logs`: directory of a log file each; `record`: file that lists the running ones, for {@link endRecorded}; `trimMs`: how often logs are cut. */
  constructor(logs: string, record: string, trimMs = 30_000) {
    this.logs = logs;
    this.record = record;
    mkdirSync(logs, { recursive: true });
    this.trimmer = setInterval(() => this.trimLogs(), trimMs).unref();
  }

  /** Starts a process; its output goes to `<name>.log`, the one of the run before is kept as `<name>.log.1`. Throws if it can't be started. */
  start(options: ChildOptions): Child {
    if (this.ending) throw new Error(`${options.name} is not started: everything is being stopped`);
    const log = join(this.logs, `${options.name}.log`);
    try {
      renameSync(log, `${log}.1`);
    } catch {
      // First start.
    }
    const file = openSync(log, 'a', 0o600);
    const { command, args, user } = wrapped(options);
    let spawned: ChildProcess;
    try {
      spawned = spawn(command, args, {
        cwd: options.cwd,
        env: options.env ?? process.env,
        // The file itself, not a pipe: the child outlives a killed parent without dying of the next line it writes.
        stdio: ['ignore', file, file],
        // A group of its own, so that Ctrl-C reaches the parent alone, which ends the children in their order. Without setpriv a killed
        // group would leave them behind, so there they stay in it.
        detached: hasSetpriv,
        ...user,
      });
    } finally {
      closeSync(file);
    }
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
      lastWords: () => lastWords(readFileSync(log, 'utf8')),
      output: () => readFileSync(log, 'utf8'),
      unref: () => spawned.unref(),
      signal: (signal) => {
        if (running()) spawned.kill(signal);
      },
      end: async () => {
        if (!identity || !running()) return false;
        const killed = await endProcess(identity, options.stopSignal ?? 'SIGTERM', options.graceSeconds ?? 30);
        await ended;
        return killed;
      },
    };
    if (identity) {
      const entry = { child, identity };
      this.running.push(entry);
      this.write();
      void ended.then(() => {
        this.running.splice(this.running.indexOf(entry), 1);
        try {
          // Who ended it may have removed its directory, too.
          if (existsSync(dirname(this.record))) this.write();
        } catch {
          // A full disk, say: whoever reads the old record sees that it has ended.
        }
      });
    }
    return child;
  }

  /** Ends all, last started first, and starts no more. Returns the names of those that had to be killed. */
  async end(): Promise<string[]> {
    this.ending = true;
    clearInterval(this.trimmer);
    const killed: string[] = [];
    for (let last = this.running.at(-1); last; last = this.running.at(-1)) {
      if (await last.child.end()) killed.push(last.child.name);
      // `ended` has resolved; the entry leaves the list in the same turn or the next.
      await new Promise((done) => setImmediate(done));
    }
    return killed;
  }

  /** Kills what is left, at once: for a process that must exit now. */
  kill(): void {
    this.ending = true;
    for (const { child } of this.running) child.signal('SIGKILL');
  }

  private write(): void {
    writeWhole(this.record, JSON.stringify(this.running.map((entry) => entry.identity)));
  }

  private trimLogs(): void {
    for (const { child } of this.running) {
      const log = join(this.logs, `${child.name}.log`);
      if ((statSync(log, { throwIfNoEntry: false })?.size ?? 0) <= logLimitBytes) continue;
      // The child holds the file open for appending, so it goes on at the new end.
      try {
        copyFileSync(log, `${log}.1`);
      } catch {
        // On a full disk there is no room for a copy, and the log holds the room that is missing.
      }
      truncateSync(log);
    }
  }
}

/** Ends what a killed parent has left behind, last started first. Returns the names of what was still running. */
export async function endRecorded(record: string): Promise<string[]> {
  let identities: unknown;
  try {
    identities = JSON.parse(readFileSync(record, 'utf8'));
  } catch {
    return [];
  }
  const listed = Array.isArray(identities) ? (identities as (Identity | null)[]) : [];
  const known = listed.filter((each): each is Identity => typeof each?.pid === 'number');
  const left = known.filter(isRunning).reverse();
  for (const identity of left) await endProcess(identity, identity.name === 'postgres' ? 'SIGINT' : 'SIGTERM', 10);
  return left.map((identity) => identity.name);
}

/**
 * Writes a file so that it is there as a whole or not at all; only its owner can read it. With `flush` also after a loss of power: when this
 * returns it is on the disk, and so is its name.
 */
export function writeWhole(file: string, text: string, { flush = false } = {}): void {
  writeFileSync(`${file}.new`, text, { mode: 0o600, flush });
  renameSync(`${file}.new`, file);
  // Windows opens no directory.
  if (!flush || process.platform === 'win32') return;
  const directory = openSync(dirname(file), 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** A command that is sent `signal` when the process that starts it dies, however that dies; the command as it is where that can't be had. */
export function boundToParent(signal: NodeJS.Signals, command: string[], flags: string[] = []): string[] {
  return hasSetpriv ? ['setpriv', '--pdeathsig', signal.replace('SIG', ''), ...flags, ...command] : command;
}

/** How a child ended, for people: a killed one has said nothing about it, one that gave up has. */
export function ending(child: Child, { code, signal }: Ending): string {
  if (signal !== null) return `(${signal})`;
  return [`(status ${String(code)})`, child.lastWords()].filter(Boolean).join(': ');
}

function wrapped(options: ChildOptions): { command: string; args: string[]; user?: { uid: number; gid: number } } {
  const { user } = options;
  const flags: string[] = [];
  // A change of user makes the kernel forget the parent, so setpriv does both, in the right order.
  if (user) flags.push(`--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups');
  if (user && options.passClosedDirectories) {
    // access(2), by which initdb looks for its binaries, lays the capability aside for any user but root unless the bit says otherwise.
    flags.push('--inh-caps=+dac_override', '--ambient-caps=+dac_override', '--securebits=+no_setuid_fixup');
  }
  const [command = '', ...args] = boundToParent(options.stopSignal ?? 'SIGTERM', [options.command, ...options.args], flags);
  return { command, args, ...(user && !hasSetpriv && { user }) };
}

function lastWords(text: string): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const human = lines.filter((line) => !line.startsWith('{'));
  // A stack trace ends in frames, Java's also in how many it leaves out; the words stand before them.
  const words = human.filter((line) => !/^\s+at |^\s+\.{3} [0-9]+ more$|^Node\.js v|^\s*[\^~]+$|^\s*}?$/.test(line)).at(-1);
  // The last of a PostgreSQL that can't start, or go on after a crash, are that it shuts down; why stands before them. While it runs they are its clients' faults.
  const turn = human.findLast((line) => /ready to accept connections|startup process/.test(line));
  const hasStarted = turn?.includes('ready') === true;
  const cause = human.slice(-20).findLast((line) => /\bFATAL: /.test(line) && !line.includes('the database system is'));
  if (words !== undefined) return ((hasStarted ? undefined : cause) ?? words).trim();
  const entries = lines.flatMap(entryOf);
  // pino's levels: 50 is an error.
  const entry = entries.findLast(({ level }) => (level ?? 0) >= 50) ?? entries.at(-1);
  return [entry?.msg, entry?.err?.message].filter(Boolean).join(': ');
}

/** A log line; none where it was cut off, as on a full disk. */
function entryOf(line: string): { level?: number; msg?: string; err?: { message?: string } }[] {
  try {
    return [JSON.parse(line) as { level?: number; msg?: string; err?: { message?: string } }];
  } catch {
    return [];
  }
}
