import { jest } from '@jest/globals';
import { Subscriptions } from './subscriptions.ts';

let now = 0;
beforeEach(() => {
  now = 1_000;
  jest.spyOn(performance, 'now').mockImplementation(() => now);
});
afterEach(() => jest.restoreAllMocks());

test('where nobody can be asked everybody listens', () => {
  const listeners = new Subscriptions(false);
  expect(listeners.split(['a', 'b'])).toEqual({ heard: ['a', 'b'], unheard: [] });
});

test('who was never asked about is asked about', () => {
  const listeners = new Subscriptions(true);
  expect(listeners.split(['a', 'b'])).toEqual({ heard: [], unheard: ['a', 'b'] });
  expect(listeners.noneFor('a')).toBe(false);
});

test('a tenant with a listener is published for a minute without asking, and then asked about again', () => {
  const listeners = new Subscriptions(true);
  listeners.learn('a', true);
  now += 59_999;
  expect(listeners.split(['a', 'b'])).toEqual({ heard: ['a'], unheard: ['b'] });
  now += 1;
  expect(listeners.split(['a', 'b'])).toEqual({ heard: [], unheard: ['a', 'b'] });
});

/** Has nobody listen to a tenant so often. */
function ignore(listeners: Subscriptions, tenant: string, times = 4): void {
  for (let time = 0; time < times; time++) listeners.learn(tenant, false);
}

test('a tenant nobody listens to is left alone from the fourth answer in a row, so that a few events wait for nothing', () => {
  const listeners = new Subscriptions(true);
  ignore(listeners, 'a', 3);
  expect(listeners.noneFor('a')).toBe(false);
  now += 1_999;
  listeners.learn('a', false);
  expect(listeners.noneFor('a')).toBe(true);
  now += 2_000;
  ignore(listeners, 'a', 3);
  expect(listeners.noneFor('a')).toBe(false);
});

test('a tenant nobody listens to is left alone for two seconds, not for ever', () => {
  const listeners = new Subscriptions(true);
  ignore(listeners, 'a');
  now += 1_999;
  expect(listeners.noneFor('a')).toBe(true);
  now += 1;
  expect(listeners.noneFor('a')).toBe(false);
  expect(listeners.split(['a']).unheard).toEqual(['a']);
});

test('the last answer is the one that holds', () => {
  const listeners = new Subscriptions(true);
  ignore(listeners, 'a');
  expect(listeners.noneFor('a')).toBe(true);
  listeners.learn('a', true);
  expect(listeners.noneFor('a')).toBe(false);
  expect(listeners.split(['a']).heard).toEqual(['a']);
  listeners.learn('a', false);
  expect(listeners.split(['a']).unheard).toEqual(['a']);
});

test.each([true, false])('beyond two hundred thousand answers all that say %p are forgotten rather than kept for ever', (wanted) => {
  const listeners = new Subscriptions(true);
  const isKnown = (tenant: string) => (wanted ? listeners.split([tenant]).heard.length > 0 : listeners.noneFor(tenant));
  const learn = (tenant: string) => (wanted ? listeners.learn(tenant, true) : ignore(listeners, tenant));
  learn('t0');
  for (let place = 1; place <= 200_000; place += 1) listeners.learn(`t${place}`, wanted);
  expect(isKnown('t0')).toBe(true);
  learn('one more');
  expect([isKnown('t0'), isKnown('one more')]).toEqual([false, true]);
});
