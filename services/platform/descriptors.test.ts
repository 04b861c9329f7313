import { spawnSync } from 'node:child_process';
import { pathToFileURL } from 'node:url';
import { root } from '../../deploy/local/plan.ts';
import { bareEnvironment, nodeWith } from '../../test/run.ts';

/** What a script writes that has opened all of 64 descriptors, as JSON. */
function withNoneLeft(script: string): unknown {
  const fill = `import { openSync } from 'node:fs'; const fill = () => { try { for (;;) openSync('/dev/null', 'r'); } catch {} };`;
  const { command, args } = nodeWith(64, ['--input-type=module', '--eval', `${fill} ${script}`]);
  const { stdout, stderr } = spawnSync(command, args, { cwd: root, env: bareEnvironment, encoding: 'utf8' });
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout);
}
const at = (path: string) => JSON.stringify(pathToFileURL(`${root}/${path}`).href);

test('how many there are, and whether one is left, is what the machine says', () => {
  const script = `import { areDescriptorsLeft, mostDescriptors } from ${at('services/platform/descriptors.ts')};
    const told = [mostDescriptors(), areDescriptorsLeft()]; fill(); console.log(JSON.stringify([...told, areDescriptorsLeft()]));`;
  expect(withNoneLeft(script)).toEqual([64, true, false]);
});
