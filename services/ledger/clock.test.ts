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

test('an observed clock goes on by the process’s clock, in whole milliseconds', () => {
  const clock = new DatabaseClock();
  clock.observe(1_700_000_000_000, own);
  expect(clock.now()).toBe(1_700_000_000_000);
  at(100_500.75);
  expect(clock.now()).toBe(1_700_000_000_500);
});

test('an observation is used for two seconds', () => {
  const clock = new DatabaseClock();
  clock.observe(1_700_000_000_000, own);
  at(102_000);
  expect(clock.now()).toBe(1_700_000_002_000);
  at(102_001);
  expect(clock.now()).toBeNull();
  clock.observe(1_700_000_002_001, own);
  expect(clock.now()).toBe(1_700_000_002_001);
});

test('of several answers the quickest counts: a late one shows an earlier time', () => {
  const clock = new DatabaseClock();
  clock.observe(1_000_000, own);
  at(100_100);
  // 80 ms on its way back.
  clock.observe(1_000_020, own - 85);
  expect(clock.now()).toBe(1_000_100);
});

test('a clock known only by slow answers is unknown', () => {
  const clock = new DatabaseClock();
  clock.observe(1_000_000, own - 5.5);
  expect(clock.now()).toBeNull();
  at(100_100);
  // Each leaves more open, both together a millisecond.
  clock.observe(1_000_097, own - 4);
  expect(clock.now()).toBe(1_000_100);
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
