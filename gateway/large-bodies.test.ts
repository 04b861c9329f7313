import { newId } from '../services/platform/ids.ts';
import { paceNoMore, readInTurn } from './large-bodies.ts';

/** Takes the processor for so long, milliseconds. */
function busy(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

test('who sends large bodies that take long waits for three times as long after each, and others come between', async () => {
  const [dear, other, quick] = [newId('tenant'), newId('tenant'), newId('tenant')];
  const read: { whose: string; began: number; ended: number }[] = [];
  const all = Promise.withResolvers<void>();
  const send = (whose: string, bytes: number, milliseconds: number) =>
    readInTurn(
      whose,
      bytes,
      () => {
        const began = performance.now();
        busy(milliseconds);
        read.push({ whose, began, ended: performance.now() });
        if (read.length === 8) all.resolve();
      },
      () => new AbortController().signal,
    );
  for (let count = 0; count < 3; count++) send(dear, 1 << 20, 60);
  for (let count = 0; count < 2; count++) send(other, 1 << 20, 60);
  send(quick, 1 << 20, 0);
  send(quick, 20_000, 0);
  send(dear, 1_000, 0);
  await all.promise;
  // The small one at once; then one of each, before anybody knows; then those of who is known, in turn.
  expect(read.map(({ whose }) => whose)).toEqual([dear, dear, other, quick, quick, dear, other, dear]);
  for (const [place, { began }] of read.entries()) {
    const before = read[place - 1];
    if (place > 4 && before) expect(began - before.ended).toBeGreaterThanOrEqual(3 * 60 - 2);
  }
});

test('what a client has left that waits is neither read nor kept, and the others go on', async () => {
  const [dear, other] = [newId('tenant'), newId('tenant')];
  const read: string[] = [];
  const all = Promise.withResolvers<void>();
  const clients = Object.fromEntries(['first', 'left', 'stays', 'early', 'single', 'all'].map((name) => [name, new AbortController()]));
  for (const [name, client] of Object.entries(clients)) {
    const work = () => {
      busy(60);
      read.push(name);
      // It waits by then: the next one is read after three times as long as this one took.
      if (name === 'first') setTimeout(() => clients['left']?.abort(), 50);
      // All that the other one has.
      if (name === 'single') setTimeout(() => clients['all']?.abort(), 50);
      if (name === 'stays') all.resolve();
    };
    readInTurn(name === 'single' || name === 'all' ? other : dear, 1 << 20, work, () => client.signal);
  }
  clients['early']?.abort();
  await all.promise;
  await new Promise((done) => setTimeout(done, 4 * 60));
  expect(read).toEqual(['first', 'single', 'stays']);
});

test('bodies of up to 16 KiB are not paced, whatever their sender sends beside them', async () => {
  const dear = newId('tenant');
  const { signal } = new AbortController();
  const read = (bytes: number, milliseconds: number) =>
    new Promise<void>((done) => {
      const work = () => done(busy(milliseconds));
      readInTurn(dear, bytes, work, () => signal);
    });
  await read(1 << 20, 60);
  const began = performance.now();
  await Promise.all([1, 2, 3].map(() => read(16 << 10, 0)));
  expect(performance.now() - began).toBeLessThan(3 * 60);
});

test('nobody is paced for how long the process stood still', async () => {
  const paced = async () => {
    const dear = newId('tenant');
    let ended = 0;
    const next = Promise.withResolvers<number>();
    const works = [
      () => {
        busy(800);
        ended = performance.now();
      },
      () => next.resolve(performance.now() - ended),
    ];
    for (const work of works) readInTurn(dear, 1 << 20, work, () => new AbortController().signal);
    return next.promise;
  };
  let waited = await paced();
  // Where the machine is busy, the process may stand still meanwhile, too.
  for (let again = 0; waited > 2_350 && again < 4; again++) waited = await paced();
  expect(waited).toBeLessThan(2_350);
});

test('at the end of the process those that wait are read one behind the other, without a pace', async () => {
  const dear = newId('tenant');
  const ended: number[] = [];
  const all = Promise.withResolvers<void>();
  const work = () => {
    busy(60);
    ended.push(performance.now());
    // The second is still one of those that nobody knew to be dear.
    if (ended.length === 2) setTimeout(paceNoMore, 10);
    if (ended.length === 8) all.resolve();
  };
  const { signal } = new AbortController();
  work();
  for (let count = 0; count < 7; count++) readInTurn(dear, 1 << 20, work, () => signal);
  await all.promise;
  expect(ended[7]! - ended[2]!).toBeLessThan(5 * 60 * 2);
});
