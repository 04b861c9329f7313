import { jest } from '@jest/globals';
import { Subscriptions } from './subscriptions.ts';

let now = 0;
beforeEach(() => {
  now = 1_000;
  jest.spyOn(performance, 'now').mockImplementation(() => now);
});
afterEach(() => jest.restoreAllMocks());

function unsubscribe(subscriptions: Subscriptions, tenant: string, answers = 4): void {
  for (let answer = 0; answer < answers; answer++) subscriptions.record(tenant, false);
}

test('every tenant is subscribed where the sink takes all events', () => {
  expect(new Subscriptions(false).split(['a', 'b'])).toEqual({ subscribed: ['a', 'b'], unsubscribed: [] });
});

test('a subscribed tenant is published for a minute without asking, and then asked about again', () => {
  const subscriptions = new Subscriptions(true);
  subscriptions.record('a', true);
  now += 59_999;
  expect(subscriptions.split(['a', 'b'])).toEqual({ subscribed: ['a'], unsubscribed: ['b'] });
  now += 1;
  expect(subscriptions.split(['a', 'b'])).toEqual({ subscribed: [], unsubscribed: ['a', 'b'] });
});

test('a busy tenant is quiet for two seconds after the fourth answer that it has no webhook', () => {
  const subscriptions = new Subscriptions(true);
  unsubscribe(subscriptions, 'a', 3);
  expect(subscriptions.isQuiet('a')).toBe(false);
  now += 1_999;
  subscriptions.record('a', false);
  expect(subscriptions.isQuiet('a')).toBe(true);
  now += 2_000;
  expect(subscriptions.isQuiet('a')).toBe(false);
});

test('the last answer counts', () => {
  const subscriptions = new Subscriptions(true);
  unsubscribe(subscriptions, 'a');
  subscriptions.record('a', true);
  expect([subscriptions.isQuiet('a'), subscriptions.split(['a']).subscribed]).toEqual([false, ['a']]);
  subscriptions.record('a', false);
  expect(subscriptions.split(['a']).unsubscribed).toEqual(['a']);
});

test.each([true, false])('beyond two hundred thousand answers all that say %p are evicted', (isSubscribed) => {
  const subscriptions = new Subscriptions(true);
  const isKnown = (tenant: string) => (isSubscribed ? subscriptions.split([tenant]).subscribed.length > 0 : subscriptions.isQuiet(tenant));
  const record = (tenant: string) => (isSubscribed ? subscriptions.record(tenant, true) : unsubscribe(subscriptions, tenant));
  record('t0');
  for (let place = 1; place <= 200_000; place += 1) subscriptions.record(`t${place}`, isSubscribed);
  expect(isKnown('t0')).toBe(true);
  record('one more');
  expect([isKnown('t0'), isKnown('one more')]).toEqual([false, true]);
});
