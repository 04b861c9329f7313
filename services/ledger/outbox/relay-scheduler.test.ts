import { jest } from '@jest/globals';
import { restMs } from './subscriptions.ts';
import { Rounds } from './relay-scheduler.ts';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

const open = (resting: string[] = []) => new Rounds((tenant) => resting.includes(tenant));

test('who waits longest is first, and nobody is in two rounds', () => {
  const rounds = open();
  for (const tenant of ['b', 'a', 'b']) rounds.wake(tenant);
  expect(rounds.take(0)).toEqual(['b', 'a']);
  expect(rounds.take(0)).toEqual([]);
  for (const tenant of ['a', 'c']) rounds.wake(tenant);
  expect(rounds.take(0)).toEqual(['c']);
  rounds.done(['b', 'a']);
  expect(rounds.take(0)).toEqual(['a']);
  expect(rounds.isBusy).toBe(true);
  rounds.done(['a', 'c']);
  expect(rounds.isBusy).toBe(false);
});

test('a round has 64 tenants at most, the others are due still', () => {
  const rounds = open();
  const tenants = Array.from({ length: 100 }, (_, i) => `t${String(i)}`);
  for (const tenant of tenants) rounds.wake(tenant);
  expect(rounds.take(0)).toEqual(tenants.slice(0, 64));
  expect(rounds.take(0)).toEqual(tenants.slice(64));
});

test('the next round gathers for a while by what the last one carried, and waits for nothing where nobody is due', () => {
  const rounds = open();
  rounds.wake('a');
  expect(rounds.from).toBe(0);
  rounds.take(10);
  expect(rounds.from).toBe(0);
  rounds.wake('b');
  expect(rounds.from - performance.now()).toBe(45);
});

test('a look in vain does not gather', () => {
  const rounds = open();
  rounds.wake('a');
  rounds.take(0);
  rounds.wake('a');
  expect(rounds.take(0)).toEqual([]);
  const { from } = rounds;
  jest.advanceTimersByTime(10);
  expect(rounds.take(0)).toEqual([]);
  expect(rounds.from).toBe(from);
});

test('who is repeated is due when the round is done, and who was reached waits no more', () => {
  const rounds = open();
  for (const tenant of ['a', 'b']) rounds.wake(tenant);
  const tenants = rounds.take(0);
  rounds.repeat(['a']);
  rounds.putOff('b');
  rounds.reached('b');
  rounds.wake('b');
  expect(rounds.take(0)).toEqual([]);
  rounds.done(tenants);
  expect(rounds.take(0)).toEqual(['a', 'b']);
});

test('who kept others back waits with what he posts meanwhile, then takes rounds alone until something of his is taken', () => {
  const rounds = open();
  rounds.wake('bad');
  rounds.putOff('bad');
  rounds.wake('bad');
  expect(rounds.take(0)).toEqual([]);
  jest.advanceTimersByTime(200);
  for (const tenant of ['a', 'b']) rounds.wake(tenant);
  expect(rounds.take(0)).toEqual(['bad']);
  expect(rounds.take(0)).toEqual(['a', 'b']);
  rounds.done(['a', 'b', 'bad']);
  for (const tenant of ['a', 'bad', 'b']) rounds.wake(tenant);
  expect(rounds.take(0)).toEqual(['a', 'b']);
  expect(rounds.take(0)).toEqual(['bad']);
  rounds.done(['a', 'b', 'bad']);
  rounds.reached('bad');
  for (const tenant of ['a', 'bad', 'b']) rounds.wake(tenant);
  expect(rounds.take(0)).toEqual(['a', 'bad', 'b']);
});

test('two who kept others back are in no round together', () => {
  const rounds = open();
  for (const tenant of ['x', 'y']) rounds.putOff(tenant);
  jest.advanceTimersByTime(200);
  expect(rounds.take(0)).toEqual(['x']);
  expect(rounds.take(0)).toEqual(['y']);
});

test('who kept nobody back waits, too, but then takes rounds with others', () => {
  const rounds = open();
  for (const tenant of ['x', 'y']) rounds.putOff(tenant, { spared: true });
  rounds.wake('x');
  expect(rounds.take(0)).toEqual([]);
  jest.advanceTimersByTime(200);
  expect(rounds.take(0)).toEqual(['x', 'y']);
});

test('another look is taken less and less often, one for all that were in vain, until something is reached', () => {
  const rounds = open();
  const lookedAfter = () => {
    rounds.missed('a');
    rounds.missed('a');
    rounds.reached('a');
    let ms = 0;
    for (rounds.missed('a'), rounds.missed('a'); !rounds.isBusy; ms++) jest.advanceTimersByTime(1);
    rounds.done(rounds.take(0));
    jest.advanceTimersByTime(10_000);
    expect(rounds.isBusy).toBe(false);
    return ms;
  };
  expect(lookedAfter()).toBe(50);
  for (let times = 0; times < 20; times++) rounds.missed('a');
  let ms = 0;
  for (; !rounds.isBusy; ms++) jest.advanceTimersByTime(1);
  expect(ms).toBe(1_000);
  expect(rounds.isMissed('a')).toBe(true);
});

test('who may rest is due with all others that rest, or at once where this ends', () => {
  const rounds = open(['a', 'b']);
  rounds.wake('a');
  jest.advanceTimersByTime(restMs - 1);
  rounds.wake('b');
  expect(rounds.isBusy).toBe(false);
  jest.advanceTimersByTime(1);
  expect(rounds.take(0)).toEqual(['a', 'b']);
  rounds.done(['a', 'b']);
  rounds.wake('b');
  rounds.end();
  expect(rounds.take(0)).toEqual(['b']);
  rounds.wake('a');
  expect(rounds.take(0)).toEqual(['a']);
});

test('who idles waits until somebody is due', async () => {
  const rounds = open(['resting']);
  let roused = 0;
  const idle = async () => {
    await rounds.idle();
    roused += 1;
  };
  const lanes = [idle(), idle()];
  await jest.advanceTimersByTimeAsync(10);
  expect(roused).toBe(0);
  rounds.wake('a');
  await Promise.all(lanes);
  expect(roused).toBe(2);
  const again = idle();
  rounds.wake('resting');
  await jest.advanceTimersByTimeAsync(restMs - 1);
  expect(roused).toBe(2);
  await jest.advanceTimersByTimeAsync(1);
  await again;
});

test('the end rouses who idles, and nothing is looked at again', async () => {
  const rounds = open(['resting']);
  const idle = rounds.idle();
  rounds.missed('a');
  rounds.wake('resting');
  expect(jest.getTimerCount()).toBe(2);
  rounds.close();
  await idle;
  rounds.missed('a');
  expect(jest.getTimerCount()).toBe(0);
  await rounds.idle();
});

test('before the end those that rest are due, and who idles is roused for them', async () => {
  const rounds = open(['resting']);
  rounds.wake('resting');
  const idle = rounds.idle();
  rounds.end();
  await idle;
  expect(jest.getTimerCount()).toBe(0);
  expect(rounds.take(0)).toEqual(['resting']);
});
