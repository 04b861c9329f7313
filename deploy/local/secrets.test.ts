import { spawnSync } from 'node:child_process';
import { chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { bareEnvironment, currentRun } from '../../test/run.ts';
import { root } from './plan.ts';
import { loadSecrets } from './secrets.ts';

const newDirectory = () => mkdtempSync(join(currentRun().directory, 'secrets-'));

test('secrets are the same at every start, and are not replaced for an existing server', async () => {
  const directory = newDirectory();
  const first = await loadSecrets(directory, ['owner'], true);
  mkdirSync(join(directory, 'postgres'));
  writeFileSync(join(directory, 'postgres', 'PG_VERSION'), '18\n');
  expect(await loadSecrets(directory, ['owner'], true)).toEqual(first);
  rmSync(join(directory, 'secrets.json'));
  await expect(loadSecrets(directory, ['owner'], true)).rejects.toThrow(/secrets\.json is missing, .*: restore it$/);
  // An external server gets new passwords.
  expect(Object.keys((await loadSecrets(directory, ['owner'], false)).rolePasswords)).toEqual(['owner']);
});

test('a directory of an earlier version gets the keys that it lacks, once, and keeps the others', async () => {
  const directory = newDirectory();
  const { identityEncryptionKey, checkpointPrivateKey, ...earlier } = await loadSecrets(directory, [], false);
  writeFileSync(join(directory, 'secrets.json'), JSON.stringify(earlier));
  const now = await loadSecrets(directory, [], false);
  expect(now).toEqual({
    ...earlier,
    identityEncryptionKey: expect.stringMatching(/^[0-9a-f]{8}:.{44}$/),
    checkpointPrivateKey: expect.stringContaining('PRIVATE KEY'),
  });
  expect([now.identityEncryptionKey, now.checkpointPrivateKey]).not.toEqual([identityEncryptionKey, checkpointPrivateKey]);
  expect(await loadSecrets(directory, [], false)).toEqual(now);
});

test.each(['', '{', 'null', '[]', '"text"'])('secrets that are %j are reported and stay unchanged', async (text) => {
  const file = join(newDirectory(), 'secrets.json');
  writeFileSync(file, text);
  await expect(loadSecrets(dirname(file), [], true)).rejects.toThrow(/^DATA_DIR: [^\n]*secrets\.json can't be read: [^\n]+$/);
  expect(readFileSync(file, 'utf8')).toBe(text);
});

(process.getuid?.() === 0 ? test : test.skip)('root does not take the secrets of another user', async () => {
  const file = join(newDirectory(), 'secrets.json');
  const kept = JSON.stringify({ internalToken: 'kept' });
  writeFileSync(file, kept);
  chownSync(file, 65534, 65534);
  await expect(loadSecrets(dirname(file), [], true)).rejects.toThrow(/^DATA_DIR: [^\n]+ belongs to user 65534: start as that user$/);
  expect(readFileSync(file, 'utf8')).toBe(kept);
});

test('secrets and their file name are on the disk before anything is created with them', () => {
  const directory = newDirectory();
  // Records what is flushed, by its name at that moment, and what is renamed.
  const script = `import fs from 'node:fs';
    import { syncBuiltinESMExports } from 'node:module';
    const steps = [];
    const name = (descriptor) => ['/secrets.json', '/secrets.json.new', '/.'].find((path) =>
      fs.statSync(${JSON.stringify(directory)} + path, { throwIfNoEntry: false })?.ino === fs.fstatSync(descriptor).ino);
    const { fsyncSync, renameSync } = fs;
    fs.fsyncSync = (descriptor) => { fsyncSync(descriptor); steps.push('flushed ' + name(descriptor)); };
    fs.renameSync = (from, to) => { renameSync(from, to); steps.push('renamed ' + to.slice(${directory.length})); };
    syncBuiltinESMExports();
    const { loadSecrets } = await import(${JSON.stringify(join(root, 'deploy/local/secrets.ts'))});
    await loadSecrets(${JSON.stringify(directory)}, [], true);
    console.log(steps.join(', '));`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { env: bareEnvironment, encoding: 'utf8' });
  expect(stdout).toBe('flushed /secrets.json.new, renamed /secrets.json, flushed /.\n');
});
