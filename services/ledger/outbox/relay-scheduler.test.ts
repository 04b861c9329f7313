import { jest } from '@jest/globals';
import { RelayScheduler } from './relay-scheduler.ts';

let scheduler: RelayScheduler;

beforeEach(() => {
  jest.useFakeTimers();
  scheduler = new RelayScheduler();
});
afterEach(() => jest.useRealTimers());

test('the tenant that waits longest is first, and none is in two batches', () => {
  for (const tenant of ['b', 'a', 'b']) scheduler.wake(tenant);
  expect(scheduler.take(false)).toEqual(['b', 'a']);
  for (const tenant of ['a', 'c']) scheduler.wake(tenant);
  expect(scheduler.take(false)).toEqual(['c']);
  expect(scheduler.take(false)).toEqual([]);
  scheduler.done(['b', 'a']);
  expect(scheduler.take(false)).toEqual(['a']);
  expect(scheduler.isBusy).toBe(true);
  scheduler.done(['a', 'c']);
  expect(scheduler.isBusy).toBe(false);
});

test('a batch has 64 tenants at most', () => {
  const tenants = Array.from({ length: 100 }, (_, i) => `t${i}`);
  scheduler.repeat(tenants);
  expect(scheduler.take(false)).toEqual(tenants.slice(0, 64));
  expect(scheduler.take(false)).toEqual(tenants.slice(64));
});

test('isolated tenants get batches of their own until they succeed', () => {
  scheduler.isolate(['x', 'y']);
  scheduler.wake('a');
  expect([scheduler.take(false), scheduler.take(true), scheduler.take(true)]).toEqual([['a'], ['x'], ['y']]);
  scheduler.done(['x', 'y', 'a']);
  scheduler.succeeded('x');
  scheduler.repeat(['x', 'y']);
  expect([scheduler.take(false), scheduler.take(true)]).toEqual([['x'], ['y']]);
});

test('a tenant that backs off is not woken, waits longer with each failure, and at once no more when it succeeds', () => {
  const waited = () => {
    scheduler.wake('a');
    const tenants = scheduler.take(false);
    // What comes during a batch that fails waits, too.
    scheduler.wake('a');
    scheduler.backOff('a');
    scheduler.done(tenants);
    scheduler.wake('a');
    let ms = 0;
    for (; !scheduler.isBusy; ms += 100) jest.advanceTimersByTime(100);
    return ms;
  };
  expect([waited(), waited(), waited()]).toEqual([200, 400, 800]);
  for (let times = 0; times < 10; times++) waited();
  expect(waited()).toBe(10_000);
  scheduler.succeeded('a');
  expect(waited()).toBe(200);
});

test('quiet tenants are due together at the end of the quiet period, or at once when the relay ends', () => {
  scheduler.wake('a', true);
  jest.advanceTimersByTime(999);
  scheduler.wake('b', true);
  expect(scheduler.isBusy).toBe(false);
  jest.advanceTimersByTime(1);
  expect(scheduler.take(false)).toEqual(['a', 'b']);
  scheduler.done(['a', 'b']);
  scheduler.wake('b', true);
  scheduler.end();
  scheduler.wake('a', true);
  expect(scheduler.take(false)).toEqual(['b', 'a']);
});

test('every waiter is notified of a due tenant and of the end of a batch', async () => {
  const waiters = [scheduler.changed(), scheduler.changed()];
  scheduler.wake('a');
  await Promise.all(waiters);
  const done = scheduler.changed();
  scheduler.done(scheduler.take(false));
  await done;
});
