import { jest } from '@jest/globals';
import { RelayScheduler } from './relay-scheduler.ts';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

const open = (quiet: string[] = []) => new RelayScheduler((tenant) => quiet.includes(tenant), 1_000);
const backOff = { firstMs: 200, maxMs: 10_000 };

test('the tenant that waits longest is first, and none is in two batches', () => {
  const scheduler = open();
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
  const scheduler = open();
  const tenants = Array.from({ length: 100 }, (_, i) => `t${i}`);
  scheduler.repeat(tenants);
  expect(scheduler.take(false)).toEqual(tenants.slice(0, 64));
  expect(scheduler.take(false)).toEqual(tenants.slice(64));
});

test('isolated tenants get batches of their own until they succeed', () => {
  const scheduler = open();
  scheduler.isolate(['x', 'y']);
  scheduler.wake('a');
  expect(scheduler.take(false)).toEqual(['a']);
  expect(scheduler.take(true)).toEqual(['x']);
  expect(scheduler.take(true)).toEqual(['y']);
  scheduler.done(['x', 'y', 'a']);
  scheduler.succeeded('x');
  scheduler.repeat(['x', 'y']);
  expect([scheduler.take(false), scheduler.take(true)]).toEqual([['x'], ['y']]);
});

test('a tenant that backs off is not woken, waits longer with each failure, and at once no more when it succeeds', () => {
  const scheduler = open();
  const waited = () => {
    scheduler.backOff('a', backOff);
    scheduler.wake('a');
    let ms = 0;
    for (; !scheduler.isBusy; ms += 100) jest.advanceTimersByTime(100);
    scheduler.done(scheduler.take(false));
    return ms;
  };
  expect([waited(), waited(), waited()]).toEqual([200, 400, 800]);
  for (let times = 0; times < 10; times++) waited();
  expect(waited()).toBe(10_000);
  scheduler.succeeded('a');
  expect(waited()).toBe(200);
});

test('what comes during a batch that fails waits, too', () => {
  const scheduler = open();
  scheduler.wake('a');
  const tenants = scheduler.take(false);
  scheduler.wake('a');
  scheduler.backOff('a', backOff);
  scheduler.done(tenants);
  expect(scheduler.isBusy).toBe(false);
  jest.advanceTimersByTime(200);
  expect(scheduler.take(false)).toEqual(['a']);
});

test('quiet tenants are due together at the end of the quiet period, or at once when the relay ends', () => {
  const scheduler = open(['a', 'b']);
  scheduler.wake('a');
  jest.advanceTimersByTime(999);
  scheduler.wake('b');
  expect(scheduler.isBusy).toBe(false);
  jest.advanceTimersByTime(1);
  expect(scheduler.take(false)).toEqual(['a', 'b']);
  scheduler.done(['a', 'b']);
  scheduler.wake('b');
  scheduler.end();
  scheduler.wake('a');
  expect(scheduler.take(false)).toEqual(['b', 'a']);
});

test('every waiter is notified of a due tenant, of the end of a batch and of the close, which stops all timers', async () => {
  const scheduler = open(['quiet']);
  const waiters = [scheduler.changed(), scheduler.changed()];
  scheduler.wake('a');
  await Promise.all(waiters);
  const done = scheduler.changed();
  scheduler.done(scheduler.take(false));
  await done;
  const closed = scheduler.changed();
  scheduler.backOff('a', backOff);
  scheduler.wake('quiet');
  expect(jest.getTimerCount()).toBe(2);
  scheduler.close();
  await closed;
  scheduler.backOff('b', backOff);
  expect(jest.getTimerCount()).toBe(0);
  await scheduler.changed();
});
