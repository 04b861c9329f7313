import { jest } from '@jest/globals';
import { Subscriptions } from './subscriptions.ts';

let now = 0;
let subscriptions: Subscriptions;
beforeEach(() => {
  now = 1_000;
  jest.spyOn(performance, 'now').mockImplementation(() => now);
  subscriptions = new Subscriptions();
});
afterEach(() => jest.restoreAllMocks());

test('a subscribed tenant is published for a minute without asking', () => {
  subscriptions.record('a', true);
  now += 59_999;
  expect(['a', 'b'].map((each) => subscriptions.isSubscribed(each))).toEqual([true, false]);
  now += 1;
  expect(subscriptions.isSubscribed('a')).toBe(false);
});

test('a busy tenant is quiet for two seconds after the fourth answer in a row that it has no webhook', () => {
  subscriptions.record('a', true);
  for (let answer = 0; answer < 3; answer++) subscriptions.record('a', false);
  expect([subscriptions.isQuiet('a'), subscriptions.isSubscribed('a')]).toEqual([false, false]);
  now += 1_999;
  subscriptions.record('a', false);
  expect(subscriptions.isQuiet('a')).toBe(true);
  now += 2_000;
  expect(subscriptions.isQuiet('a')).toBe(false);
  subscriptions.record('a', true);
  expect([subscriptions.isQuiet('a'), subscriptions.isSubscribed('a')]).toEqual([false, true]);
});

test('beyond two hundred thousand tenants all are evicted', () => {
  for (let place = 0; place <= 200_000; place += 1) subscriptions.record(`t${place}`, true);
  expect(subscriptions.isSubscribed('t0')).toBe(true);
  subscriptions.record('one more', true);
  expect(['t0', 'one more'].map((each) => subscriptions.isSubscribed(each))).toEqual([false, true]);
});
