// What a cluster keeps beside its databases.
import { spawnSync } from 'node:child_process';
import { chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { bareEnvironment, currentRun } from '../../test/run.ts';
import { root } from './plan.ts';
import { keepPort } from './ports.ts';
import { keepSecrets } from './secrets.ts';

const newDirectory = () => mkdtempSync(join(currentRun().directory, 'secrets-'));

test('secrets are the same at every start, and are not made anew for a server that was made with others', async () => {
  const directory = newDirectory();
  const first = await keepSecrets(directory, ['owner'], true);
  mkdirSync(join(directory, 'postgres'));
  writeFileSync(join(directory, 'postgres', 'PG_VERSION'), '18\n');
  expect(await keepSecrets(directory, ['owner'], true)).toEqual(first);
  // As PORT may be given the one that the server had.
  keepPort(first.postgresPort);
  expect((await keepSecrets(directory, ['owner'], true)).postgresPort).not.toBe(first.postgresPort);
  rmSync(join(directory, 'secrets.json'));
  await expect(keepSecrets(directory, ['owner'], true)).rejects.toThrow(/secrets\.json is missing, .*: restore it$/);
  // A server that was given is told the new passwords.
  expect(Object.keys((await keepSecrets(directory, ['owner'], false)).rolePasswords)).toEqual(['owner']);
});

test.each(['', '{', 'null', '[]', '"text"'])('secrets that are %j are told of, and left as they are', async (text) => {
  const file = join(newDirectory(), 'secrets.json');
  writeFileSync(file, text);
  await expect(keepSecrets(dirname(file), [], true)).rejects.toThrow(/^DATA_DIR: [^\n]*secrets\.json can't be read: [^\n]+$/);
  expect(readFileSync(file, 'utf8')).toBe(text);
});

(process.getuid?.() === 0 ? test : test.skip)('root takes no secrets from another user', async () => {
  const file = join(newDirectory(), 'secrets.json');
  const kept = JSON.stringify({ internalToken: 'kept' });
  writeFileSync(file, kept);
  chownSync(file, 65534, 65534);
  await expect(keepSecrets(dirname(file), [], true)).rejects.toThrow(/^DATA_DIR: [^\n]+ is another user's \(65534\): [^\n]+$/);
  expect(readFileSync(file, 'utf8')).toBe(kept);
});

// Begins a command on a machine of its own that has IPv6 alone.
const alone = ['--map-root-user', '--net', 'sh', '-c', 'ip link set lo up && ip addr del 127.0.0.1/8 dev lo && exec "$@"', '-'];
const hasNamespaces = spawnSync('unshare', [...alone, 'true']).status === 0;
(hasNamespaces ? test : test.skip)('a machine without 127.0.0.1 has no server of its own, which is told, and may be given one', () => {
  const script = `import { keepSecrets } from './deploy/local/secrets.ts';
    const [directory, embedded] = process.argv.slice(1);
    const { postgresPort } = await keepSecrets(directory, [], embedded === 'embedded').catch(({ message }) => ({ postgresPort: message }));
    console.log(postgresPort);`;
  const directory = newDirectory();
  const started = (embedded: string) =>
    spawnSync('unshare', [...alone, process.execPath, '--input-type=module', '-e', script, directory, embedded], {
      cwd: root,
      env: bareEnvironment,
      encoding: 'utf8',
    }).stdout;
  expect(started('embedded')).toBe('no port of 127.0.0.1 can be listened on (EADDRNOTAVAIL)\n');
  expect(started('given')).toBe('0\n');
});

test('secrets are on the disk, and so is their name, before anything is made with them', () => {
  const directory = newDirectory();
  // Notes what is flushed, by its name at that moment, and what is renamed.
  const script = `import fs from 'node:fs';
    import { syncBuiltinESMExports } from 'node:module';
    const told = [];
    const name = (descriptor) => ['/secrets.json', '/secrets.json.new', '/.'].find((path) =>
      fs.statSync(${JSON.stringify(directory)} + path, { throwIfNoEntry: false })?.ino === fs.fstatSync(descriptor).ino);
    const { fsyncSync, renameSync } = fs;
    fs.fsyncSync = (descriptor) => { fsyncSync(descriptor); told.push('flushed ' + name(descriptor)); };
    fs.renameSync = (from, to) => { renameSync(from, to); told.push('renamed ' + to.slice(${directory.length})); };
    syncBuiltinESMExports();
    const { keepSecrets } = await import(${JSON.stringify(join(root, 'deploy/local/secrets.ts'))});
    await keepSecrets(${JSON.stringify(directory)}, [], true);
    console.log(told.join(', '));`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { env: bareEnvironment, encoding: 'utf8' });
  expect(stdout).toBe('flushed /secrets.json.new, renamed /secrets.json, flushed /.\n');
});
