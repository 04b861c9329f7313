// The last line of a test run, the same words whatever runs the tests: `N passed, N failed, N skipped`.
import type { AggregatedResult } from '@jest/reporters';

// eslint-disable-next-line no-restricted-exports -- jest reads the default export
export default class Tally {
  /** A file that could not be run at all counts as one failure. */
  onRunComplete(_contexts: unknown, result: AggregatedResult): void {
    const failed = result.numFailedTests + result.numRuntimeErrorTestSuites;
    const skipped = result.numPendingTests + result.numTodoTests;
    // Jest's own summary comes after every reporter, whatever their order.
    process.once('exit', () => process.stdout.write(`${result.numPassedTests} passed, ${failed} failed, ${skipped} skipped\n`));
  }
}
