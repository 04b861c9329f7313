// A build runs when its sources have changed, and only then.
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { currentRun } from '../../test/run.ts';
import { root } from './plan.ts';
import { buildIfStale, type Build } from './stale-build.ts';

const directory = mkdtempSync(join(currentRun().directory, 'build-'));
afterAll(() => rmSync(directory, { recursive: true }));

const write = (name: string, text: string) => writeFileSync(join(directory, name), text);
const from = (name: string) => relative(root, join(directory, name));

test('a build is repeated when a source has changed, been added or removed, and when the last one failed', async () => {
  mkdirSync(join(directory, 'parts'));
  write('build.ts', `import { copyFileSync } from 'node:fs'; copyFileSync('${join(directory, 'parts/a')}', process.argv[2] + '/a');`);
  write('parts/a', '1');
  const build: Build = { program: from('build.ts'), sources: [from('parts')], output: from('parts/built'), packages: ['esbuild'] };
  const built = () => readFileSync(join(directory, 'parts/built/a'), 'utf8');
  expect([await buildIfStale(build), built(), await buildIfStale(build)]).toEqual([true, '1', false]);
  write('parts/a', '2');
  const both = await Promise.all([buildIfStale(build), buildIfStale({ ...build })]);
  expect([both.includes(true), built(), await buildIfStale(build)]).toEqual([true, '2', false]);
  write('parts/b', '');
  expect([await buildIfStale(build), await buildIfStale(build)]).toEqual([true, false]);
  rmSync(join(directory, 'parts/b'));
  await expect(buildIfStale({ ...build, program: from('missing.ts') })).rejects.toThrow('missing.ts');
  expect([built(), await buildIfStale(build), await buildIfStale(build)]).toEqual(['2', true, false]);
  expect(readdirSync(join(directory, 'parts')).sort()).toEqual(['a', 'built']);
  expect(await buildIfStale({ ...build, sources: [from('build.ts')], packages: ['esbuild', 'no-such-package'] })).toBe(false);
});
