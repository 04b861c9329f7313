import { jest } from '@jest/globals';
import { Clock } from './clock.ts';

/** This process's own clock, set by the test. */
let own = 0;
const at = (ms: number) => {
  own = ms;
};

beforeEach(() => {
  at(100_000);
  jest.spyOn(performance, 'now').mockImplementation(() => own);
});
afterEach(() => jest.restoreAllMocks());

test('a clock that was never heard is not told', () => {
  expect(new Clock().now()).toBeNull();
});

test('what was heard goes on by this process’s own clock, in whole milliseconds', () => {
  const clock = new Clock();
  clock.heard(1_700_000_000_000);
  expect(clock.now()).toBe(1_700_000_000_000);
  at(100_500.75);
  expect(clock.now()).toBe(1_700_000_000_500);
});

test('what was heard is believed for two seconds, and again when it is heard again', () => {
  const clock = new Clock();
  clock.heard(1_700_000_000_000);
  at(102_000);
  expect(clock.now()).toBe(1_700_000_002_000);
  at(102_001);
  expect(clock.now()).toBeNull();
  clock.heard(1_700_000_002_001);
  expect(clock.now()).toBe(1_700_000_002_001);
});

test('of several answers the quickest is believed: one that came late says an earlier time', () => {
  const clock = new Clock();
  clock.heard(1_000_000);
  at(100_100);
  // 80 ms on its way back.
  clock.heard(1_000_020);
  expect(clock.now()).toBe(1_000_100);
  at(100_200);
  clock.heard(1_000_230);
  expect(clock.now()).toBe(1_000_230);
});

test('a quick answer counts in its five seconds and in the next five, not longer', () => {
  const clock = new Clock();
  clock.heard(1_000_000);
  const slow = () => clock.heard(1_000_000 - 50 + (own - 100_000));
  at(105_000);
  slow();
  expect(clock.now()).toBe(1_005_000);
  // The first window ends here, and is the one before.
  at(105_001);
  slow();
  expect(clock.now()).toBe(1_005_001);
  at(110_001);
  slow();
  expect(clock.now()).toBe(1_010_001);
  at(110_002);
  slow();
  expect(clock.now()).toBe(1_009_952);
});

test('after a silence of two windows nothing of before counts, so that a clock set back is followed', () => {
  const quiet = new Clock();
  quiet.heard(1_000_000);
  at(110_000);
  quiet.heard(900_000);
  expect(quiet.now()).toBe(1_010_000);
  const quieter = new Clock();
  at(100_000);
  quieter.heard(1_000_000);
  at(110_001);
  quieter.heard(900_000);
  expect(quieter.now()).toBe(900_000);
});
