import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readFile, readlink, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { until } from '../../test/notifier.ts';

let tree: string;

beforeEach(async () => {
  tree = await mkdtemp(join(tmpdir(), 'install-'));
  await mkdir(join(tree, 'deploy/local'), { recursive: true });
  await mkdir(join(tree, 'bin'));
  await copyFile(join(import.meta.dirname, 'install.sh'), join(tree, 'deploy/local/install.sh'));
  await writeFile(join(tree, 'package-lock.json'), '{}');
  // In npm's place: removes what is there, takes its time where it is held, and leaves what npm would.
  const npm = `#!/bin/sh
[ "$1" != config ] || { echo "\${IGNORES:-false}"; exit; }
rm -rf node_modules
echo began >>npm.log
echo $$ >npm.pid
while [ -e held ]; do sleep 0.1; done
mkdir -p node_modules/.bin && touch node_modules/.package-lock.json node_modules/.bin/node node_modules/.bin/jest
chmod +x node_modules/.bin/*
`;
  await writeFile(join(tree, 'bin/npm'), npm);
  await chmod(join(tree, 'bin/npm'), 0o755);
});

afterEach(() => rm(tree, { recursive: true }));

/** What the script says, and with what status it ends. */
const install = async (
  args: string[] = [],
  hear = (_said: string, _script: ChildProcess): void => undefined,
  env: NodeJS.ProcessEnv = {},
): Promise<{ said: string; status: number | null }> => {
  const script = spawn('sh', ['deploy/local/install.sh', ...args], {
    cwd: tree,
    env: { ...process.env, PATH: `${join(tree, 'bin')}:${process.env['PATH'] ?? ''}`, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [script.stdout, script.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => hear((said += text), script));
  return await new Promise((resolve) => script.once('close', (status) => resolve({ said, status })));
};

const runsOfNpm = async (): Promise<number> => (await readFile(join(tree, 'npm.log'), 'utf8')).split('\n').length - 1;

test('two commands at once in a fresh clone install the packages once', async () => {
  const held = join(tree, 'held');
  await writeFile(held, '');
  const hear = (said: string) => {
    if (said.includes('waiting')) rmSync(held, { force: true });
  };
  const both = await Promise.all([install([], hear), install(['jest'], hear)]);
  expect(both.map(({ status }) => status)).toEqual([0, 0]);
  expect(both.map(({ said }) => said).join('')).toMatch(/waiting for process \d+, which installs the packages/);
  expect(await runsOfNpm()).toBe(1);
  await expect(readlink(join(tree, '.installing'))).rejects.toThrow('ENOENT');
});

test('the lock of an installation that was killed holds nobody up', async () => {
  // No process has this number: Linux and macOS give none above 4,194,304.
  await symlink('99999999', join(tree, '.installing'));
  const { said, status } = await install();
  expect(status).toBe(0);
  expect(said).not.toContain('waiting');
  expect(await runsOfNpm()).toBe(1);
});

test('where the packages are there, nothing is installed and nobody waited for', async () => {
  await install();
  await symlink(String(process.pid), join(tree, '.installing'));
  expect(await install(['jest'])).toEqual({ status: 0, said: '' });
  expect(await runsOfNpm()).toBe(1);
});

test('a lock file that is newer and no other, as a checkout makes it, has nothing installed; another one has', async () => {
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

test('a lock file as it was at the last installation has it made anew where somebody has made another since', async () => {
  await install();
  const at = (seconds: number) => new Date(Date.now() + seconds * 1000);
  await writeFile(join(tree, 'node_modules/.package-lock.json'), '{}');
  await utimes(join(tree, 'node_modules/.package-lock.json'), at(30), at(30));
  await utimes(join(tree, 'package-lock.json'), at(60), at(60));
  await install();
  expect(await runsOfNpm()).toBe(2);
});

test('it goes on as the command behind it, with the tools of the tree, and holds nobody up any more', async () => {
  const command = ['--', 'sh', '-c', 'echo "$$ $1"; command -v jest; [ ! -L .installing ]', 'sh', 'two words'];
  const { said, status } = await install(['jest', ...command]);
  expect(said).toMatch(/\d+ two words\n/);
  expect(said).toContain(`\n${join(tree, 'node_modules/.bin/jest')}\n`);
  expect(status).toBe(0);
  expect((await install(['--', 'sh', '-c', 'exit 7'])).status).toBe(7);
});

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('at %s it ends at once, and npm with it', async (signal) => {
  await writeFile(join(tree, 'held'), '');
  const npmRuns = () => {
    try {
      return process.kill(Number(readFileSync(join(tree, 'npm.pid'), 'utf8')), 0);
    } catch {
      return false;
    }
  };
  const { status } = await install(['--', 'touch', 'went-on'], (said, script) => {
    if (!said.endsWith('takes a minute)\n')) return;
    void until(() => Promise.resolve(npmRuns())).then(() => script.kill(signal));
  });
  expect(status).toBe(1);
  expect([npmRuns(), existsSync(join(tree, 'went-on')), existsSync(join(tree, '.installing'))]).toEqual([false, false, false]);
});

test('where npm passes over install scripts it says so, and installs nothing', async () => {
  const { said, status } = await install([], undefined, { IGNORES: 'true' });
  expect([said, status]).toEqual([
    expect.stringMatching(/^npm's setting ignore-scripts [^\n]+: give npm_config_ignore_scripts=false\n$/),
    1,
  ]);
  await expect(runsOfNpm()).rejects.toThrow('ENOENT');
});

test.each(['a"b', 'a$b', 'a`b', 'a\\b', 'a:b', 'a*b', 'node_modules/ab'])(
  'in a directory like %s it says at once that it can’t be there',
  async (name) => {
    const above = tree;
    tree = join(above, name);
    await mkdir(join(tree, '..'), { recursive: true });
    await mkdir(tree);
    for (const each of ['deploy', 'bin', 'package-lock.json']) await rename(join(above, each), join(tree, each));
    const { said, status } = await install();
    tree = above;
    expect([said, status]).toEqual([expect.stringMatching(/^this can't be installed or started in [^\n]+\n$/), 1]);
  },
);

test('in a directory with blanks, quotes and letters of other scripts it installs', async () => {
  const above = tree;
  tree = join(above, `é '(b) %ü#?-~`);
  await mkdir(tree);
  for (const each of ['deploy', 'bin', 'package-lock.json']) await rename(join(above, each), join(tree, each));
  const { status } = await install(['--', 'true']);
  tree = above;
  expect(status).toBe(0);
});
