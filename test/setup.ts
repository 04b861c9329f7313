// Jest calls this once before all tests.
import { beginRun } from './run.ts';

// eslint-disable-next-line no-restricted-exports -- jest reads the default export
export default async function setUp(): Promise<void> {
  // A developer's own, by which PostgreSQL's and Node's clients in the tests would go.
  for (const name of Object.keys(process.env)) if (/^PG[A-Z]+$|^NODE_USE_ENV_PROXY$/.test(name)) Reflect.deleteProperty(process.env, name);
  await beginRun();
}
