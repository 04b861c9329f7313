// Jest calls this once before all tests.
import { beginRun } from './run.ts';

// eslint-disable-next-line no-restricted-exports -- jest reads the default export
export default async function setUp(): Promise<void> {
  // The disk of a shared machine may stand still for seconds, of which no test is to tell. What loses its server has one of its own.
  await beginRun({ durable: false });
}
