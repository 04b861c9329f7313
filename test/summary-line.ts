// A jest reporter that ends the output with `N passed, N failed, N skipped`.
import type { AggregatedResult } from '@jest/reporters';

// eslint-disable-next-line no-restricted-exports -- jest reads the default export
export default class SummaryLine {
  /** A file that does not run at all counts as one failure. */
  onRunComplete(_contexts: unknown, result: AggregatedResult): void {
    const failed = result.numFailedTests + result.numRuntimeErrorTestSuites;
    const skipped = result.numPendingTests + result.numTodoTests;
    // Jest prints its own summary after every reporter.
    process.once('exit', () => process.stdout.write(`${result.numPassedTests} passed, ${failed} failed, ${skipped} skipped\n`));
  }
}
