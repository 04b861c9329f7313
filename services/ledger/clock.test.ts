import { jest } from '@jest/globals';
import { DatabaseClock } from './clock.ts';

/** The process's clock, set by the test. */
let own = 0;
const at = (ms: number) => {
  own = ms;
};

beforeEach(() => {
  at(100_000);
  jest.spyOn(performance, 'now').mockImplementation(() => own);
});
afterEach(() => jest.restoreAllMocks());

test('a clock that was never observed is unknown', () => {
  expect(new DatabaseClock().now()).toBeNull();
});

test('an observed clock goes on by the process’s clock, in whole milliseconds, for two seconds', () => {
  const clock = new DatabaseClock();
  clock.observe(1_700_000_000_000, own);
  for (const [ms, expected] of [
    [100_000, 1_700_000_000_000],
    [100_500.75, 1_700_000_000_500],
    [102_000, 1_700_000_002_000],
    [102_001, null],
  ] as const) {
    at(ms);
    expect(clock.now()).toBe(expected);
  }
});

test.each([
  ['is that of the quickest, because a late one shows an earlier time', 0, 1_000_020, 85, 1_000_100],
  ['is known by two slow ones that leave a millisecond together', 5.5, 1_000_097, 4, 1_000_100],
  ['is unknown by slow ones alone', 5.5, 1_000_000, 105.5, null],
])('the time of two answers %s', (_, firstMs, second, secondMs, expected) => {
  const clock = new DatabaseClock();
  clock.observe(1_000_000, own - firstMs);
  expect(clock.now()).toBe(firstMs > 5 ? null : 1_000_000);
  at(100_100);
  clock.observe(second, own - secondMs);
  expect(clock.now()).toBe(expected);
});

test('a quick answer counts in its window and the next', () => {
  const clock = new DatabaseClock();
  clock.observe(1_000_000, own);
  const slow = () => clock.observe(1_000_000 - 3 + (own - 100_000), own - 4);
  at(105_000);
  slow();
  expect(clock.now()).toBe(1_005_000);
  // The first window ends here and becomes the previous one.
  at(105_001);
  slow();
  expect(clock.now()).toBe(1_005_001);
  at(110_001);
  slow();
  expect(clock.now()).toBe(1_010_001);
  at(110_002);
  slow();
  expect(clock.now()).toBe(1_009_999);
});

test('after two windows without answers nothing older counts', () => {
  const clock = new DatabaseClock();
  clock.observe(1_000_000, own - 1);
  at(110_001);
  clock.observe(1_009_990, own - 4);
  expect(clock.now()).toBe(1_009_990);
});

test.each([
  ['back', -3_600_000],
  ['on', 3_600_000],
])('a clock that was set %s is followed from the next answer', (_, by) => {
  const clock = new DatabaseClock();
  clock.observe(1_000_000_000, own - 1);
  at(100_100);
  clock.observe(1_000_000_100 + by, own - 1);
  expect(clock.now()).toBe(1_000_000_100 + by);
});
