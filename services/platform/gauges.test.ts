import { setTimeout as pause } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { openGauges } from './gauges.ts';

test('a value that can’t be measured in time is NaN, and does not delay the other metrics', async () => {
  let measure: () => Promise<{ waiting: number }> = () => Promise.resolve({ waiting: 3 });
  const metrics = new Registry();
  openGauges(metrics, () => measure())('waiting', 'What waits', ({ waiting }) => waiting);
  const measured = async () => /^waiting (.*)$/m.exec(await metrics.metrics())?.[1];
  /** Once the measure before is forgotten. */
  const next = async (asked: typeof measure) => {
    let times = 0;
    measure = () => {
      times++;
      return asked();
    };
    let text = await measured();
    while (times === 0) {
      await pause(20);
      text = await measured();
    }
    return text;
  };
  expect(await measured()).toBe('3');
  expect(await next(() => Promise.reject(new Error('away')))).toBe('Nan');
  expect(await next(() => Promise.resolve({ waiting: 0 }))).toBe('0');
  // A database that stands still.
  const began = performance.now();
  const still = Promise.withResolvers<{ waiting: number }>();
  expect(await next(() => still.promise)).toBe('Nan');
  expect(performance.now() - began).toBeLessThan(10_000);
  // Asked once for all who ask meanwhile: each question waits for a connection.
  measure = () => Promise.reject(new Error('asked again'));
  const later = measured();
  still.resolve({ waiting: 5 });
  expect(await later).toBe('5');
});
