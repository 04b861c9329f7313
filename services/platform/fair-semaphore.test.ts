import { setImmediate as later } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { Overloaded, FairSemaphore, type FairSemaphoreOptions } from './fair-semaphore.ts';

const never = new AbortController().signal;

afterEach(() => {
  jest.useRealTimers();
});

/** Work whose beginning and end is noted, and which ends when it is told. */
function desk(options: FairSemaphoreOptions) {
  const turns = new FairSemaphore(options);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    turns,
    begun,
    /** Asks for work like `a1`, a tenant's letter and a number. */
    ask: (work: string, signal = never): Promise<string> =>
      turns.run(work.charAt(0), signal, async () => {
        begun.push(work);
        await new Promise<void>((end) => ends.set(work, end));
        return work;
      }),
    async end(...works: string[]): Promise<void> {
      for (const work of works) {
        await later();
        ends.get(work)?.();
        await later();
      }
    },
  };
}

/** Asks for all of them; nobody looks at what comes of it. */
function askAll({ ask }: ReturnType<typeof desk>, ...works: string[]): void {
  for (const work of works) ask(work).catch(() => undefined);
}

test('what finds room begins at once, without a wait', () => {
  const turns = new FairSemaphore({ most: 2, ofOne: 2 });
  expect(turns.begin('a', never)).toBeUndefined();
  expect(turns.begin('b', never)).toBeUndefined();
  expect(turns.begin('a', never)).toBeInstanceOf(Promise);
});

test('where nothing may wait, what finds room begins all the same', () => {
  const turns = new FairSemaphore({ most: 1, ofOne: 1, waiting: 0 });
  expect(turns.begin('a', never)).toBeUndefined();
  expect(() => turns.begin('b', never)).toThrow(Overloaded);
});

test('a tenant has no more than his part, and others have the rest', async () => {
  const here = desk({ most: 4, ofOne: 3 });
  askAll(here, 'a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1');
  await later();
  expect(here.begun).toEqual(['a1', 'a2', 'a3', 'b1']);
  await here.end('b1');
  expect(here.begun.slice(4)).toEqual(['b2']);
  await here.end('a2', 'b2');
  expect(here.begun.slice(5)).toEqual(['c1', 'a4']);
});

test('tenants who wait take turns, each in the order in which he asked', async () => {
  const here = desk({ most: 2, ofOne: 2 });
  askAll(here, 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'b1', 'c1', 'b2');
  // Who has his part already comes after those who have nothing.
  await here.end('a1', 'a2', 'b1', 'c1', 'a3', 'b2');
  expect(here.begun).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4', 'a5']);
});

test('one who asks once waits for a round at most, however many wait before him', async () => {
  const here = desk({ most: 2, ofOne: 2 });
  const many = (tenant: string) => Array.from({ length: 500 }, (_, place) => `${tenant}${place}`);
  askAll(here, ...many('a'), ...many('c'), 'b0');
  await here.end('a0', 'a1', 'c0');
  expect(here.begun).toEqual(['a0', 'a1', 'c0', 'b0', 'a2']);
});

test('whoever has waited for his part has no more than it', async () => {
  const here = desk({ ofOne: 1 });
  askAll(here, 'a1', 'a2', 'a3', 'a4');
  await here.end('a1', 'a2');
  expect(here.begun).toEqual(['a1', 'a2', 'a3']);
});

test('without a bound in all each tenant has his part, and work that fails ends, too', async () => {
  const turns = new FairSemaphore({ ofOne: 1 });
  const failing = turns.run('a', never, () => Promise.reject(new Error('as it should')));
  const next = turns.run('a', never, () => Promise.resolve('next'));
  await expect(turns.run('b', never, () => Promise.resolve('other'))).resolves.toBe('other');
  await expect(failing).rejects.toThrow('as it should');
  await expect(next).resolves.toBe('next');
});

test('who has gone is not worked for, and leaves the line to those behind him', async () => {
  const here = desk({ most: 1, ofOne: 1 });
  const leaving = new AbortController();
  askAll(here, 'a1');
  const gone = here.ask('a2', leaving.signal);
  askAll(here, 'a3', 'b1');
  leaving.abort(new Error('gone'));
  await expect(gone).rejects.toThrow('gone');
  await expect(here.ask('c1', leaving.signal)).rejects.toThrow('gone');
  await here.end('a1', 'b1', 'a3');
  expect(here.begun).toEqual(['a1', 'b1', 'a3']);
  // The last of a tenant who leaves takes him out of the line.
  const again = new AbortController();
  askAll(here, 'd1');
  const last = here.ask('e1', again.signal);
  again.abort(new Error('gone'));
  await expect(last).rejects.toThrow('gone');
  askAll(here, 'f1');
  await here.end('d1');
  expect(here.begun.slice(3)).toEqual(['d1', 'f1']);
});

test('who has begun is not stopped by his caller’s leaving, and holds his place until he ends', async () => {
  const here = desk({ most: 1, ofOne: 1 });
  const leaving = new AbortController();
  askAll(here, 'a1');
  const begun = here.ask('b1', leaving.signal);
  await here.end('a1');
  askAll(here, 'b2');
  leaving.abort(new Error('gone'));
  askAll(here, 'c1');
  expect(here.begun).toEqual(['a1', 'b1']);
  await here.end('b1');
  await expect(begun).resolves.toBe('b1');
  await here.end('c1');
  expect(here.begun).toEqual(['a1', 'b1', 'c1', 'b2']);
});

test('who has waited too long is told so', async () => {
  const here = desk({ most: 1, ofOne: 1, patienceMs: 10 });
  askAll(here, 'a1');
  await expect(here.ask('b1')).rejects.toThrow(new Overloaded('too many calls are waiting, and this one has waited too long'));
  await here.end('a1');
  expect(here.begun).toEqual(['a1']);
});

test('each waits for so long himself, whatever became of those before him', async () => {
  jest.useFakeTimers();
  const here = desk({ most: 1, ofOne: 1, patienceMs: 10 });
  const leaving = new AbortController();
  askAll(here, 'a1', 'b1');
  await here.end('a1');
  const gone = here.ask('b2', leaving.signal);
  leaving.abort(new Error('gone'));
  await expect(gone).rejects.toThrow('gone');
  jest.advanceTimersByTime(5);
  askAll(here, 'b3');
  // As long as the first two would have waited.
  jest.advanceTimersByTime(5);
  await here.end('b1');
  expect(here.begun).toEqual(['a1', 'b1', 'b3']);
});

test('a tenant may have half of what waits', async () => {
  const here = desk({ most: 1, ofOne: 1, waiting: 4 });
  askAll(here, 'a1', 'a2', 'a3');
  await expect(here.ask('a4')).rejects.toThrow(Overloaded);
  askAll(here, 'b1');
  await here.end('a1', 'b1', 'a2');
  expect(here.begun).toEqual(['a1', 'b1', 'a2', 'a3']);
});

test('where no more may wait the newest of the tenant who has most gives way', async () => {
  const here = desk({ most: 1, ofOne: 1, waiting: 6 });
  askAll(here, 'z1', 'a1', 'a2');
  const newest = here.ask('a3');
  askAll(here, 'b1', 'c1', 'd1', 'e1');
  await expect(newest).rejects.toThrow(new Overloaded('too many calls are waiting'));
  expect(here.turns.size).toBe(6);
  await here.end('z1', 'a1', 'b1', 'c1', 'd1', 'e1', 'a2');
  expect(here.begun).toEqual(['z1', 'a1', 'b1', 'c1', 'd1', 'e1', 'a2']);
  expect(here.turns.size).toBe(0);
});

test('where no more may wait and none has more than one, nobody gives way', async () => {
  const here = desk({ most: 1, ofOne: 1, waiting: 2, waitingOfOne: 2 });
  askAll(here, 'z1', 'a1', 'b1');
  await expect(here.ask('a2')).rejects.toThrow(Overloaded);
  await expect(here.ask('c1')).rejects.toThrow(Overloaded);
  await here.end('z1', 'a1', 'b1');
  expect(here.begun).toEqual(['z1', 'a1', 'b1']);
});

test('what was not begun can’t be ended', () => {
  const turns = new FairSemaphore({ most: 1, ofOne: 1 });
  expect(() => turns.end('a')).toThrow('what ends was not begun');
  void turns.begin('a', never);
  void turns.begin('b', never);
  expect(() => turns.end('b')).toThrow('what ends was not begun');
});
