// The config folder: profiles with their credentials, and positions of `listen`. Only the user can read it.
import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { AccessKey } from '../clients/typescript/ledger.ts';
import { Failure } from './failure.ts';

/** One deployment, user and tenant. Either a login (`refresh_token`) or an `api_key`. */
export interface Profile {
  url: string;
  /** Slug. */
  tenant?: string | undefined;
  email?: string | undefined;
  api_key?: string | undefined;
  refresh_token?: string | undefined;
  token?: string | undefined;
  token_expires_at?: string | undefined;
  /** Keys that the login was exchanged for, by the tenant's slug. */
  access?: Record<string, AccessKey> | undefined;
}

/** The content of `config.json`. */
export interface Config {
  current: string;
  profiles: Record<string, Profile>;
}

const lockMs = { poll: 20, stale: 20_000, wait: 30_000 };

/** Where the folder is: `LEDGER_CONFIG_DIR`, or the platform's usual place. */
export function configDirectory(env: Record<string, string | undefined>, home: string): string {
  if (env['LEDGER_CONFIG_DIR']) return env['LEDGER_CONFIG_DIR'];
  return join(env['XDG_CONFIG_HOME'] || env['APPDATA'] || join(home, '.config'), 'ledger');
}

/** Reads and writes the folder. Several commands may run at once. */
export class ConfigFolder {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** The profiles; without a file, none. */
  read(): Config {
    const config = (this.readJson('config.json') ?? { current: 'default', profiles: {} }) as Config;
    if (typeof config.current === 'string' && typeof config.profiles === 'object') return config;
    throw new Failure('usage', `${join(this.path, 'config.json')} is not a config of this program`, 'Remove the file and log in again.');
  }

  /** Changes the profiles, one process at a time: a refresh token is good once. */
  async update<T>(change: (config: Config) => Promise<T> | T): Promise<T> {
    this.prepare();
    const lock = join(this.path, 'lock');
    await acquire(lock);
    const alive = setInterval(() => touch(lock), lockMs.stale / 4);
    alive.unref();
    try {
      const config = this.read();
      const result = await change(config);
      this.writeJson('config.json', config);
      return result;
    } finally {
      clearInterval(alive);
      rmSync(lock, { recursive: true, force: true });
    }
  }

  /** A file's JSON; undefined: there is none. */
  readJson(name: string): unknown {
    const file = join(this.path, name);
    let text;
    try {
      text = readFileSync(file, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw new Failure('usage', `${file} can't be read: ${(error as Error).message}`);
    }
    try {
      return JSON.parse(text);
    } catch {
      throw new Failure('usage', `${file} is not JSON`, 'Remove the file and log in again.');
    }
  }

  /** Replaces a file at once, so that a reader or a crash never sees half of it. */
  writeJson(name: string, value: unknown): void {
    this.prepare();
    const file = join(this.path, name);
    const draft = `${file}.${process.pid}`;
    writeFileSync(draft, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600, flush: true });
    renameSync(draft, file);
  }

  private prepare(): void {
    mkdirSync(this.path, { recursive: true, mode: 0o700 });
    // A folder that was there before may be open to others.
    if ((statSync(this.path).mode & 0o077) !== 0) chmodSync(this.path, 0o700);
  }
}

async function acquire(lock: string): Promise<void> {
  for (const until = Date.now() + lockMs.wait; ; await pause(lockMs.poll)) {
    try {
      mkdirSync(lock);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    // Its owner was killed.
    if (ageMs(lock) > lockMs.stale) rmSync(lock, { recursive: true, force: true });
    if (Date.now() > until) throw new Failure('unavailable', `another command keeps ${lock}`, `Remove it if none runs.`);
  }
}

function ageMs(path: string): number {
  try {
    return Date.now() - statSync(path).mtimeMs;
  } catch {
    return 0;
  }
}

function touch(path: string): void {
  try {
    utimesSync(path, new Date(), new Date());
  } catch {
    // The command is ending.
  }
}
