// Jest calls this to order the test files: those that take longest first, as none of them may be begun last, while the other core has nothing
// to do. Jest itself goes by what it measured the last time, and on a fresh clone by the length of the files.
import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Test } from '@jest/test-result';
import sequencer from '@jest/test-sequencer';
import { root } from '../deploy/local/plan.ts';

/** Files that take more than 40 s on two cores, the longest first. */
const longest = [
  'test/proof/faults.test.ts',
  'test/start.test.ts',
  'test/proof/model.test.ts',
  'test/events.test.ts',
  'test/hostile/inputs.test.ts',
  'services/notifier/kafka.test.ts',
  'test/proof/soak.test.ts',
  'services/ledger/relay.test.ts',
  'test/proof/scale.test.ts',
  'test/switch.test.ts',
];
for (const file of longest) if (!existsSync(join(root, file))) throw new Error(`test/sequence.ts names ${file}, which is not there`);

// Its types are those of its CommonJS file, whose default export is a property.
const TestSequencer = sequencer as unknown as typeof sequencer.default;

// eslint-disable-next-line no-restricted-exports -- jest reads the default export
export default class LongestFirst extends TestSequencer {
  override async sort(tests: Test[]): Promise<Test[]> {
    const place = ({ path }: Test) => {
      const found = longest.indexOf(relative(root, path));
      return found < 0 ? longest.length : found;
    };
    return [...(await super.sort(tests))].sort((one, other) => place(one) - place(other));
  }
}
