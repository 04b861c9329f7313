// Some seconds of what `npm run proof -- grpc` does for as long as it is told.
import { fuzzGrpc } from './grpc.ts';

test('no mutated message makes a service fail, and afterwards the books are right', async () => {
  const { faults, calls, methods } = await fuzzGrpc({ seed: 1, seconds: 10 });
  expect(faults).toEqual([]);
  expect(calls).toBeGreaterThan(methods);
  expect(methods).toBeGreaterThan(50);
}, 120_000);
