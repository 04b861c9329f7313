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

test('with none left a request is unsent, also where it fails over the receiver’s name, and whoever looks that up says otherwise', () => {
  const script = `import { Sender, Unsent } from ${at('services/notifier/http-client.ts')}; import { Targets } from ${at('services/notifier/addresses.ts')};
    const sender = new Sender({ targets: new Targets(true), timeoutMs: 30_000 }); fill();
    const send = (url) => sender.send({ url, headers: {}, body: Buffer.alloc(0), onceMore: false }).catch((error) => ({ isUnsent: error instanceof Unsent }));
    console.log(JSON.stringify(await Promise.all(['http://127.0.0.1:1/', 'http://hooks.example/'].map(send)))); process.exit();`;
  expect(withNoneLeft(script)).toEqual([{ isUnsent: true }, { isUnsent: true }]);
});
