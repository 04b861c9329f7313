// A rolling restart of every process under load: clients notice nothing, and books, streams and deliveries are complete.
import { jest } from '@jest/globals';
import { underLoad } from './load.ts';
import { startRolling, type Rolling } from './rolling.ts';

jest.setTimeout(300_000);

let rolling: Rolling;

beforeAll(async () => {
  rolling = await startRolling();
});
afterAll(() => rolling.stop());

test('every process is restarted one by one under load, and no client gets an error', async () => {
  const { faults } = await underLoad(rolling.url, () => rolling.roll());
  expect(faults).toEqual([]);
});
