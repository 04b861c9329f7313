// Jest calls this once before all tests.
import { beginRun } from './run.ts';

// eslint-disable-next-line no-restricted-exports -- jest reads the default export
export default async function setUp(): Promise<void> {
  await beginRun();
}
