import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises';
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
  // In npm's place: removes what is there, takes its time where it is held, and leaves what npm would.
  const npm = `#!/bin/sh
rm -rf node_modules
echo began >>npm.log
while [ -e held ]; do sleep 0.1; done
mkdir -p node_modules/.bin && touch node_modules/.package-lock.json node_modules/.bin/node node_modules/.bin/jest
chmod +x node_modules/.bin/node
`;
  await writeFile(join(tree, 'bin/npm'), npm);
  await chmod(join(tree, 'bin/npm'), 0o755);
});

afterEach(() => rm(tree, { recursive: true }));

/** What the script says, and with what status it ends. */
const install = async (
  commands: string[] = [],
  hear = (_said: string): void => undefined,
): Promise<{ said: string; status: number | null }> => {
  const script = spawn('sh', ['deploy/local/install.sh', ...commands], {
    cwd: tree,
    env: { ...process.env, PATH: `${join(tree, 'bin')}:${process.env['PATH'] ?? ''}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [script.stdout, script.stderr]) stream.setEncoding('utf8').on('data', (text: string) => hear((said += text)));
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
