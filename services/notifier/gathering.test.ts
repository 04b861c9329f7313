import { gathered, type Part } from './gathering.ts';

function part(partition: number, more: Partial<Part> = {}): Part {
  const nothing = () => Promise.resolve();
  return { partition, messages: [], first: 0n, next: '1', commit: nothing, heartbeat: nothing, wanted: () => true, alone: false, ...more };
}

async function handedOver(parts: Part[]): Promise<number[][]> {
  const turns: number[][] = [];
  const note = gathered((together) => {
    turns.push(together.map(({ partition }) => partition));
    return Promise.resolve();
  });
  await Promise.allSettled(parts.map(note));
  return turns;
}

test('parts that come at once are noted together, but for two of one partition, which has one place', async () => {
  expect(await handedOver([part(0), part(1), part(1), part(2), part(0)])).toEqual([
    [0, 1],
    [1, 2, 0],
  ]);
});

test('what failed before is noted alone, and what is wanted no more not at all', async () => {
  const unwanted = part(3, { wanted: () => false });
  expect(await handedOver([part(0), part(1, { alone: true }), unwanted, part(2)])).toEqual([[0], [1], [2]]);
});
