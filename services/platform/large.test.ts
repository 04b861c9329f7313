import { inSlices, turnOf } from './large.ts';

/** Waits for turns as so many messages that came at once; answers each in the order in which it had its turn, and in which turn that was. */
async function taken(...sizes: number[]): Promise<[number, number][]> {
  let turn = 0;
  let left = sizes.length;
  const count = () => {
    turn++;
    if (left > 0) setImmediate(count);
  };
  const had: [number, number][] = [];
  const all = sizes.map(async (bytes, place) => {
    await turnOf(bytes, 10);
    left--;
    had.push([place, turn]);
  });
  setImmediate(count);
  await Promise.all(all);
  return had;
}

test('large messages that have come at once have turns of their own, first come first served, and small ones wait for none of them', async () => {
  const had = await taken(16_384, 12_000, 10, 100_000, 0);
  expect(had.map(([place]) => place)).toEqual([2, 4, 0, 1, 3]);
  const [small, other, ...large] = had.map(([, turn]) => turn);
  expect([small, other]).toEqual([0, 0]);
  expect(new Set(large).size).toBe(3);
});

test('so it is whenever some come, also one alone', async () => {
  for (let round = 0; round < 3; round++) {
    expect((await taken(11)).map(([place]) => place)).toEqual([0]);
    const turns = (await taken(8_192, 8_193)).map(([, turn]) => turn);
    expect(new Set(turns).size).toBe(2);
  }
});

test('of smaller ones 16 KiB share a turn, in the order in which they came', async () => {
  const had = await taken(8_192, 8_192, 11, 16_373, 20_000, 11);
  expect(had.map(([place]) => place)).toEqual([0, 1, 2, 3, 4, 5]);
  const [first, ...others] = had.map(([, turn]) => turn);
  expect(others.map((turn) => turn - first!)).toEqual([0, 1, 1, 2, 3]);
});

test('where nothing else is said, what has more than 256 KiB is large', () => {
  expect(turnOf(256 * 1024)).toBeUndefined();
  return expect(turnOf(256 * 1024 + 1)).resolves.toBeUndefined();
});

describe('large work', () => {
  /** Takes the processor for so long, milliseconds. */
  function busy(milliseconds: number): void {
    for (const until = performance.now() + milliseconds; performance.now() < until;);
  }

  test('is done in pieces, after each of which others have as long as it took; what is short is one piece', async () => {
    const done: { part: number; began: number; ended: number }[] = [];
    const work = (part: number) => {
      const began = performance.now();
      busy(part);
      done.push({ part, began, ended: performance.now() });
    };
    await inSlices([6, 9, 0, 0, 5], work, new AbortController().signal);
    expect(done.map(({ part }) => part)).toEqual([6, 9, 0, 0, 5]);
    const rests = done.slice(1).map(({ began }, place) => began - done[place]!.ended);
    // Timers go by whole milliseconds.
    expect(rests[0]).toBeGreaterThanOrEqual(5);
    expect(rests[1]).toBeGreaterThanOrEqual(8);
    let turns = 0;
    const small = inSlices([0, 0, 0], () => turns++, new AbortController().signal);
    expect(turns).toBe(3);
    await small;
  });

  test('of several at once leaves others as long, too', async () => {
    const done: { began: number; ended: number }[] = [];
    const work = () => {
      const began = performance.now();
      busy(6);
      done.push({ began, ended: performance.now() });
    };
    const { signal } = new AbortController();
    await Promise.all([1, 2, 3].map(() => inSlices([1, 2, 3], work, signal)));
    // Their first parts are done at once, and the first rest may have passed with that; timers go by whole milliseconds.
    const rests = done.slice(4).map(({ began }, place) => began - done[place + 3]!.ended);
    expect(rests).toHaveLength(5);
    for (const each of rests) expect(each).toBeGreaterThanOrEqual(5);
  });

  test('rests no longer than half a second, however long the process stood still', async () => {
    const rested = async () => {
      const done: { began: number; ended: number }[] = [];
      const work = (part: number) => {
        const began = performance.now();
        busy(part);
        done.push({ began, ended: performance.now() });
      };
      await inSlices([650, 650, 0], work, new AbortController().signal);
      return Math.max(...done.slice(1).map(({ began }, place) => began - done[place]!.ended));
    };
    let longest = await rested();
    // Where the machine is busy, the process may stand still in its rest, too.
    for (let again = 0; longest > 640 && again < 9; again++) longest = await rested();
    expect(longest).toBeLessThan(640);
  });

  test('is not gone on with where nobody waits for it any more', async () => {
    const client = new AbortController();
    const done: number[] = [];
    const work = (part: number) => {
      busy(5);
      done.push(part);
      if (part === 2) client.abort(new Error('left'));
    };
    await expect(inSlices([1, 2, 3], work, client.signal)).rejects.toThrow('left');
    expect(done).toEqual([1, 2]);
  });
});
