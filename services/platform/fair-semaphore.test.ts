import { setImmediate as later } from 'node:timers/promises';
import { Overloaded, FairSemaphore, type FairSemaphoreOptions } from './fair-semaphore.ts';

const never = new AbortController().signal;

/** Work whose start is recorded and which ends on request. */
function recorder(options: FairSemaphoreOptions) {
  const semaphore = new FairSemaphore(options);
  const started: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    semaphore,
    started,
    /** Runs work like `a1`: the key and a number. */
    run: (work: string, signal = never): Promise<string> =>
      semaphore.run(work.charAt(0), signal, async () => {
        started.push(work);
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

/** Runs all of them and ignores their results. */
function runAll({ run }: ReturnType<typeof recorder>, ...works: string[]): void {
  for (const work of works) run(work).catch(() => undefined);
}

test('where nothing may wait, a free slot is taken all the same', async () => {
  const semaphore = new FairSemaphore({ max: 1, maxPerKey: 1, maxWaiting: 0 });
  await semaphore.acquire('a', never);
  await expect(semaphore.acquire('b', never)).rejects.toThrow(Overloaded);
});

test('a key has no more than its limit, and others have the rest', async () => {
  const here = recorder({ max: 4, maxPerKey: 3 });
  runAll(here, 'a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1');
  await later();
  expect(here.started).toEqual(['a1', 'a2', 'a3', 'b1']);
  await here.end('b1');
  expect(here.started.slice(4)).toEqual(['b2']);
  await here.end('a2', 'b2');
  expect(here.started.slice(5)).toEqual(['c1', 'a4']);
});

test('keys that wait take turns, each in its own order', async () => {
  const here = recorder({ max: 2, maxPerKey: 2 });
  runAll(here, 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'b1', 'c1', 'b2');
  await here.end('a1', 'a2', 'b1', 'c1', 'a3', 'b2');
  expect(here.started).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4', 'a5']);
});

test('a single call waits for one round at most, however many calls of other keys wait before it', async () => {
  const here = recorder({ max: 2, maxPerKey: 2 });
  const many = (key: string) => Array.from({ length: 500 }, (_, index) => `${key}${index}`);
  runAll(here, ...many('a'), ...many('c'), 'b0');
  await here.end('a0', 'a1', 'c0');
  expect(here.started).toEqual(['a0', 'a1', 'c0', 'b0', 'a2']);
});

test('the limit of a key also holds for calls that waited', async () => {
  const here = recorder({ maxPerKey: 1 });
  runAll(here, 'a1', 'a2', 'a3', 'a4');
  await here.end('a1', 'a2');
  expect(here.started).toEqual(['a1', 'a2', 'a3']);
});

test('without a limit of all each key has its own, and failed work releases its slot', async () => {
  const semaphore = new FairSemaphore({ maxPerKey: 1 });
  const failing = semaphore.run('a', never, () => Promise.reject(new Error('as it should')));
  const next = semaphore.run('a', never, () => Promise.resolve('next'));
  await expect(semaphore.run('b', never, () => Promise.resolve('other'))).resolves.toBe('other');
  await expect(failing).rejects.toThrow('as it should');
  await expect(next).resolves.toBe('next');
});

test('an aborted call is not started and leaves the queue to those behind it', async () => {
  const here = recorder({ max: 1, maxPerKey: 1 });
  const leaving = new AbortController();
  runAll(here, 'a1');
  const gone = here.run('a2', leaving.signal);
  runAll(here, 'a3', 'b1');
  leaving.abort(new Error('gone'));
  await expect(gone).rejects.toThrow('gone');
  await expect(here.run('c1', leaving.signal)).rejects.toThrow('gone');
  await here.end('a1', 'b1', 'a3');
  expect(here.started).toEqual(['a1', 'b1', 'a3']);
});

test('a running call that is aborted keeps its slot until it ends', async () => {
  const here = recorder({ max: 1, maxPerKey: 1 });
  const leaving = new AbortController();
  runAll(here, 'a1');
  const running = here.run('b1', leaving.signal);
  await here.end('a1');
  leaving.abort(new Error('gone'));
  runAll(here, 'c1');
  await later();
  expect(here.started).toEqual(['a1', 'b1']);
  await here.end('b1');
  await expect(running).resolves.toBe('b1');
  expect(here.started).toEqual(['a1', 'b1', 'c1']);
});

test('a call that waited too long fails and is not started', async () => {
  const here = recorder({ max: 1, maxPerKey: 1, timeoutMs: 10 });
  runAll(here, 'a1');
  await expect(here.run('b1')).rejects.toThrow(new Overloaded('waited too long'));
  await here.end('a1');
  expect(here.started).toEqual(['a1']);
});

test('a key may have half of the queue', async () => {
  const here = recorder({ max: 1, maxPerKey: 1, maxWaiting: 4 });
  runAll(here, 'a1', 'a2', 'a3');
  await expect(here.run('a4')).rejects.toThrow(Overloaded);
  runAll(here, 'b1');
  await here.end('a1', 'b1', 'a2');
  expect(here.started).toEqual(['a1', 'b1', 'a2', 'a3']);
});

test('in a full queue the newest call of the key with most gives way', async () => {
  const here = recorder({ max: 1, maxPerKey: 1, maxWaiting: 6 });
  runAll(here, 'z1', 'a1', 'a2');
  const newest = here.run('a3');
  runAll(here, 'b1', 'c1', 'd1', 'e1');
  await expect(newest).rejects.toThrow(new Overloaded('too many calls are waiting'));
  expect(here.semaphore.size).toBe(6);
  await here.end('z1', 'a1', 'b1', 'c1', 'd1', 'e1', 'a2');
  expect(here.started).toEqual(['z1', 'a1', 'b1', 'c1', 'd1', 'e1', 'a2']);
  expect(here.semaphore.size).toBe(0);
});

test('in a full queue where each key has one call, none gives way', async () => {
  const here = recorder({ max: 1, maxPerKey: 1, maxWaiting: 2, maxWaitingPerKey: 2 });
  runAll(here, 'z1', 'a1', 'b1');
  await expect(here.run('a2')).rejects.toThrow(Overloaded);
  await expect(here.run('c1')).rejects.toThrow(Overloaded);
  await here.end('z1', 'a1', 'b1');
  expect(here.started).toEqual(['z1', 'a1', 'b1']);
});
