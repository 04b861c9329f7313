// The packed command line as it is installed on a user's machine, and what its commands print.
import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../deploy/local/plan.ts';
import { bareEnvironment, currentRun } from './run.ts';

/** How a command ended. */
export interface Ended {
  code: number;
  out: string;
  err: string;
}

/** The installed program. */
export interface CommandLine {
  /** Where it is installed. */
  directory: string;
  /** Runs a command to its end. */
  run: (args: string[], options?: { input?: string; env?: NodeJS.ProcessEnv }) => Promise<Ended>;
  /** Starts a command that goes on. */
  start: (
    args: string[],
    env?: NodeJS.ProcessEnv,
  ) => { child: ChildProcess; out: () => string; err: () => string; ended: Promise<number | null> };
  /** An environment with a new config folder. */
  environment: (more?: NodeJS.ProcessEnv) => NodeJS.ProcessEnv;
}

/** Packs the program and installs it, without a registry. */
export function installCommandLine(): CommandLine {
  const directory = mkdtempSync(join(currentRun().directory, 'command-line-'));
  execFileSync(process.execPath, ['gateway/cli/build.ts', directory], { cwd: root, env: bareEnvironment });
  const app = join(directory, 'app');
  mkdirSync(app);
  const install = ['install', '--offline', '--no-audit', '--no-fund', '--silent', join(directory, 'ledger-cli-1.0.0.tgz')];
  execFileSync('npm', install, { cwd: app, env: { ...bareEnvironment, HOME: directory } });
  const program = join(app, 'node_modules/ledger-cli/ledger.js');
  const given = (env: NodeJS.ProcessEnv = {}) => ({ cwd: directory, env: { ...bareEnvironment, HOME: directory, ...env } });
  return {
    directory: app,
    run: (args, { input = '', env } = {}) =>
      new Promise((resolve) => {
        const child = execFile(process.execPath, [program, ...args], { ...given(env), maxBuffer: 1 << 26 }, (error, out, err) =>
          resolve({ code: error ? (typeof error.code === 'number' ? error.code : 255) : 0, out, err }),
        );
        child.stdin?.end(input);
      }),
    start: (args, env) => {
      const child = spawn(process.execPath, [program, ...args], { ...given(env), stdio: ['ignore', 'pipe', 'pipe'] });
      let [out, err] = ['', ''];
      child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
      child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
      return { child, out: () => out, err: () => err, ended: new Promise((resolve) => child.once('close', resolve)) };
    },
    environment: (more = {}) => ({ LEDGER_CONFIG_DIR: mkdtempSync(join(directory, 'config-')), ...more }),
  };
}
