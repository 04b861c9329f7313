// Builds what browsers load, such as the console, when the hash of its sources differs from that of the last build.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { root } from './plan.ts';

/** A program that is called with a directory, and writes its output there. All paths start at the root of the tree. */
export interface Build {
  program: string;
  /** Files and folders that the output depends on; the lock file is always one. Tests and the output are left out. */
  sources: string[];
  output: string;
  /** Development packages that the program needs. A production install has none of them, so nothing is built there. */
  packages: string[];
}

/** The builds of `npm start`, by what they make. */
export const builds = {
  console: {
    program: 'gateway/console/build.ts',
    sources: ['gateway/console', 'gateway/clients/typescript', 'deploy/verifier/verify.mjs'],
    output: 'gateway/console/built',
    packages: ['esbuild', 'react'],
  },
  guide: {
    program: 'gateway/docs/build.ts',
    sources: ['gateway/docs', 'gateway/console/icon.svg'],
    output: 'gateway/docs/built',
    packages: ['esbuild', 'markdown-it'],
  },
} satisfies Record<string, Build>;

/** Runs Node with these arguments and rejects if it fails. */
export type RunNode = (args: string[]) => Promise<unknown>;

const runNode: RunNode = (args) => promisify(execFile)(process.execPath, args, { cwd: root });

const marker = '.sources';

/**
 * Builds into `output` unless that has been built from the same sources; resolves to whether it was built now. An output appears as a
 * whole, so several may be built at once. Rejects if the program fails.
 */
export async function buildIfStale({ program, sources, output, packages }: Build, run = runNode): Promise<boolean> {
  if (!packages.every((name) => existsSync(join(root, 'node_modules', name)))) return false;
  const directory = join(root, output);
  const hash = hashOf(['package-lock.json', ...sources], output);
  if (builtFrom(directory) === hash) return false;
  const fresh = mkdtempSync(join(dirname(directory), '.built-'));
  const old = `${fresh}-old`;
  try {
    await run([program, fresh]);
    writeFileSync(join(fresh, marker), hash);
    if (existsSync(directory)) renameSync(directory, old);
    renameSync(fresh, directory);
  } catch (error) {
    // Another process that builds the same may have been first.
    if (builtFrom(directory) !== hash) throw error;
  } finally {
    for (const each of [fresh, old]) rmSync(each, { recursive: true, force: true });
  }
  return true;
}

function builtFrom(directory: string): string | undefined {
  const file = join(directory, marker);
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}

/** The hash of the names and contents of all files there. */
function hashOf(sources: string[], output: string): string {
  const hash = createHash('sha256');
  for (const source of sources) {
    for (const file of filesIn(source).sort()) {
      if (file.startsWith(`${output}/`) || file.startsWith(`${dirname(output)}/.built-`) || file.endsWith('.test.ts')) continue;
      const content = readFileSync(join(root, file));
      hash.update(`${file}\0${content.length}\0`).update(content);
    }
  }
  return hash.digest('hex');
}

function filesIn(source: string): string[] {
  const place = join(root, source);
  if (!existsSync(place)) return [];
  if (statSync(place).isFile()) return [source];
  return readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)));
}
