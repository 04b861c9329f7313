// Jest calls this once after all tests.
import { endRun } from './run.ts';

// eslint-disable-next-line no-restricted-exports -- jest reads the default export
export default endRun;
