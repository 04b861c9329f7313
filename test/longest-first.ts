// Jest's order of test files: the longest first, so that no core is idle while the last one runs.
import { relative } from 'node:path';
import type { Test } from '@jest/test-result';
import sequencer from '@jest/test-sequencer';
import { root } from '../deploy/local/plan.ts';

/** Files that take more than 20 s on two idle cores, most of it waiting. */
export const longest = [
  'test/rotate-secrets.test.ts',
  'test/console/pages.test.ts',
  'test/documents.test.ts',
  'test/proof/faults/faults.test.ts',
  'test/restore-drill.test.ts',
  'test/restore-page.test.ts',
  'test/alerts/alerts.test.ts',
  'services/notifier/kafka-consumer.test.ts',
  'test/events.test.ts',
  'gateway/failure.test.ts',
  'test/start.test.ts',
  'test/proof/model/model.test.ts',
  'test/hostile/inputs.test.ts',
  'services/ledger/outbox/relay.test.ts',
  'test/operator-commands.test.ts',
  'test/deletion.test.ts',
];

// Its types are those of its CommonJS file, whose default export is a property.
const TestSequencer = sequencer as unknown as typeof sequencer.default;

// eslint-disable-next-line no-restricted-exports -- jest reads the default export
export default class LongestFirst extends TestSequencer {
  override async sort(tests: Test[]): Promise<Test[]> {
    const rank = ({ path }: Test) => {
      const found = longest.indexOf(relative(root, path));
      return found < 0 ? longest.length : found;
    };
    return [...(await super.sort(tests))].sort((one, other) => rank(one) - rank(other));
  }
}
