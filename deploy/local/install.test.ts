import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readFile, readlink, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';

let tree: string;

beforeEach(async () => {
  tree = await mkdtemp(join(tmpdir(), 'install-'));
  await mkdir(join(tree, 'deploy/local'), { recursive: true });
  await mkdir(join(tree, 'bin'));
  await copyFile(join(import.meta.dirname, 'install.sh'), join(tree, 'deploy/local/install.sh'));
  await writeFile(join(tree, 'package-lock.json'), '{}');
  // Stands in for npm: removes the packages, waits while a file exists, and creates what npm would.
  const npm = `#!/bin/sh
[ "$1" != config ] || { echo "\${IGNORES:-false}"; exit; }
rm -rf node_modules
echo began >>npm.log
while [ -e paused ]; do sleep 0.1; done
mkdir -p node_modules/.bin && touch node_modules/.package-lock.json node_modules/.bin/node node_modules/.bin/jest
chmod +x node_modules/.bin/*
`;
  await writeFile(join(tree, 'bin/npm'), npm);
  await chmod(join(tree, 'bin/npm'), 0o755);
});

afterEach(() => rm(tree, { recursive: true }));

/** The script's output and exit status. */
const install = async (
  args: string[] = [],
  onOutput = (_output: string): void => undefined,
  env: NodeJS.ProcessEnv = {},
): Promise<{ output: string; status: number | null }> => {
  const script = spawn('sh', ['deploy/local/install.sh', ...args], {
    cwd: tree,
    env: { ...process.env, PATH: `${join(tree, 'bin')}:${process.env['PATH'] ?? ''}`, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [script.stdout, script.stderr]) stream.setEncoding('utf8').on('data', (text: string) => onOutput((output += text)));
  return await new Promise((resolve) => script.once('close', (status) => resolve({ output, status })));
};

const runsOfNpm = async (): Promise<number> => (await readFile(join(tree, 'npm.log'), 'utf8')).split('\n').length - 1;

test('two commands at once in a fresh clone install the packages once', async () => {
  const paused = join(tree, 'paused');
  await writeFile(paused, '');
  const onOutput = (output: string) => {
    if (output.includes('waiting')) rmSync(paused, { force: true });
  };
  const both = await Promise.all([install([], onOutput), install(['jest'], onOutput)]);
  expect(both.map(({ status }) => status)).toEqual([0, 0]);
  expect(both.map(({ output }) => output).join('')).toMatch(/waiting for process \d+, which installs the packages/);
  expect(await runsOfNpm()).toBe(1);
  await expect(readlink(join(tree, '.installing'))).rejects.toThrow('ENOENT');
});

test('the lock of an installation that was killed is ignored', async () => {
  // No process has this number: Linux and macOS give none above 4,194,304.
  await symlink('99999999', join(tree, '.installing'));
  const { output, status } = await install();
  expect(status).toBe(0);
  expect(output).not.toContain('waiting');
  expect(await runsOfNpm()).toBe(1);
});

test('with complete packages nothing is installed and no lock is waited for', async () => {
  await install();
  await symlink(String(process.pid), join(tree, '.installing'));
  expect(await install(['jest'])).toEqual({ status: 0, output: '' });
  expect(await runsOfNpm()).toBe(1);
});

test('only a lock file with other content causes an installation, not one that is newer', async () => {
  await install();
  const later = new Date(Date.now() + 60_000);
  await utimes(join(tree, 'package-lock.json'), later, later);
  await install();
  expect(await runsOfNpm()).toBe(1);
  await writeFile(join(tree, 'package-lock.json'), '{ "packages": {} }');
  await utimes(join(tree, 'package-lock.json'), later, later);
  await install();
  expect(await runsOfNpm()).toBe(2);
});

test('it runs the command with the tools of the tree, and releases its lock', async () => {
  const command = ['--', 'sh', '-c', 'echo "$$ $1"; command -v jest; [ ! -L .installing ]', 'sh', 'two words'];
  const { output, status } = await install(['jest', ...command]);
  expect(output).toMatch(/\d+ two words\n/);
  expect(output).toContain(`\n${join(tree, 'node_modules/.bin/jest')}\n`);
  expect(status).toBe(0);
  expect((await install(['--', 'sh', '-c', 'exit 7'])).status).toBe(7);
});

test('with ignore-scripts it fails and installs nothing', async () => {
  const { output, status } = await install([], undefined, { IGNORES: 'true' });
  expect([output, status]).toEqual([
    expect.stringMatching(/^npm's setting ignore-scripts [^\n]+: set npm_config_ignore_scripts=false\n$/),
    1,
  ]);
  await expect(runsOfNpm()).rejects.toThrow('ENOENT');
});

test.each(['a"b', 'a$b', 'a`b', 'a\\b', 'a:b', 'a*b', 'node_modules/ab'])('in a directory like %s it fails at once', async (name) => {
  const above = tree;
  tree = join(above, name);
  await mkdir(join(tree, '..'), { recursive: true });
  await mkdir(tree);
  for (const each of ['deploy', 'bin', 'package-lock.json']) await rename(join(above, each), join(tree, each));
  const { output, status } = await install();
  tree = above;
  expect([output, status]).toEqual([expect.stringMatching(/^this can't be installed or started in [^\n]+\n$/), 1]);
});

test('in a directory with blanks, quotes and other letters it installs', async () => {
  const above = tree;
  tree = join(above, `é '(b) %ü#?-~`);
  await mkdir(tree);
  for (const each of ['deploy', 'bin', 'package-lock.json']) await rename(join(above, each), join(tree, each));
  const { status } = await install(['--', 'true']);
  tree = above;
  expect(status).toBe(0);
});
