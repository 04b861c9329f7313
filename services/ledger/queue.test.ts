import { Queues, type Bounds, type Item, type Outcome } from './queue.ts';

const bounds: Bounds = { waiting: 20, waitingBytes: 10_000, items: 6, entries: 100, bytes: 1_000 };

function item(
  tenant: string,
  name: string,
  more: Partial<Pick<Item, 'expires' | 'uncertain' | 'handBack'>> & { bytes?: number; entries?: number } = {},
) {
  const outcomes: Outcome[] = [];
  const order = { tenant, description: name, bytes: more.bytes ?? 10, entries: Array.from({ length: more.entries ?? 2 }) };
  const made = {
    order,
    expires: more.expires ?? Number.POSITIVE_INFINITY,
    uncertain: more.uncertain ?? false,
    handBack: more.handBack ?? false,
    signal: undefined,
    settle: (outcome: Outcome) => outcomes.push(outcome),
  } as unknown as Item;
  return { made, outcomes };
}

const names = (items: Item[] | null) => items?.map(({ order }) => order.description) ?? null;

function filled(...items: [tenant: string, name: string, more?: Parameters<typeof item>[2]][]) {
  const queues = new Queues(bounds);
  for (const each of items) queues.add(item(...each).made);
  return queues;
}

test('a batch takes an item of each tenant in turn, and keeps the order within a tenant', () => {
  const queues = filled(['a', 'a1'], ['a', 'a2'], ['a', 'a3'], ['a', 'a4'], ['b', 'b1'], ['c', 'c1'], ['c', 'c2'], ['c', 'c3']);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3']);
});

test('a tenant is in one lane at a time, which may take more of it', () => {
  const queues = filled(['a', 'a1']);
  queues.takeMixed(0, 1, 1);
  queues.add(item('a', 'a2').made);
  queues.add(item('b', 'b1').made);
  expect(names(queues.takeMixed(1, 1, 1))).toEqual(['b1']);
  expect(queues.takeMixed(1, 1, 1)).toBeNull();
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a2']);
  queues.add(item('a', 'a3').made);
  queues.release(['a']);
  expect(queues.takeMixed(1, 1, 1)).toBeNull();
  queues.release(['a']);
  expect(names(queues.takeMixed(1, 1, 1))).toEqual(['a3']);
});

test('a tenant that is held alone is in no lane until it is released', () => {
  const queues = filled(['a', 'a1']);
  queues.takeMixed(0, 1, 1);
  queues.holdAlone(['a']);
  queues.add(item('a', 'a2').made);
  expect(queues.takeMixed(0, 1, 1)).toBeNull();
  queues.release(['a']);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a2']);
});

test('what is to be handed back does not wait for a head that another process holds, unless it may have been posted', () => {
  const queues = new Queues(bounds);
  const items = [item('a', 'a1'), item('a', 'a2', { handBack: true }), item('a', 'a3', { handBack: true, uncertain: true })];
  for (const { made } of items) queues.add(made);
  queues.contend('a', true);
  const late = item('a', 'a4', { handBack: true });
  queues.add(late.made);
  expect([...items, late].map(({ outcomes }) => outcomes)).toEqual([[], [{ held: true }], [], [{ held: true }]]);
  expect(queues.size).toBe(2);
  expect(names(queues.takeContended())).toEqual(['a1', 'a3']);
});

test('of several lanes each takes its share of the tenants, and only where enough waits', () => {
  const queues = filled(['a', 'a1'], ['b', 'b1'], ['c', 'c1']);
  expect(queues.takeMixed(0, 2, 3)).toBeNull();
  expect(names(queues.takeMixed(0, 2, 1))).toEqual(['a1', 'b1']);
  expect(names(queues.takeMixed(1, 2, 1))).toEqual(['c1']);
});

test('a batch is bounded by bytes and entries, and one larger item travels alone', () => {
  const queues = filled(['a', 'large', { bytes: 2_000 }], ['a', 'next', { entries: 99 }], ['a', 'last', { entries: 2 }]);
  for (const expected of ['large', 'next', 'last']) {
    expect(names(queues.takeMixed(0, 1, 1))).toEqual([expected]);
    queues.release(['a']);
  }
});

test('an item too large for the batch does not let a later one of its tenant overtake it', () => {
  const queues = filled(['a', 'a1', { bytes: 600 }], ['a', 'a2', { bytes: 600 }], ['a', 'a3', { bytes: 10 }], ['b', 'b1']);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a1', 'b1']);
});

test('items put back stand first again, in their order', () => {
  const queues = filled(['a', 'a1'], ['a', 'a2']);
  const batch = queues.takeMixed(0, 1, 1) as Item[];
  queues.add(item('a', 'a3').made);
  queues.putBack(batch);
  queues.release(['a']);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a1', 'a2', 'a3']);
});

test('a tenant may hold half of the queue; beyond it is told so at once', () => {
  const queues = new Queues(bounds);
  const all = Array.from({ length: 12 }, (_, place) => item('greedy', `g${place}`));
  all.forEach(({ made }) => queues.add(made));
  expect(all.map(({ outcomes }) => outcomes.length)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
  expect(queues.size).toBe(10);
});

test('a full queue sheds the newest of whoever has most waiting, not the newcomer', () => {
  const queues = new Queues(bounds);
  const greedy = Array.from({ length: 10 }, (_, place) => item('greedy', `g${place}`));
  const other = Array.from({ length: 9 }, (_, place) => item('other', `o${place}`));
  [...greedy, ...other, item('third', 't')].forEach(({ made }) => queues.add(made));
  const newcomer = item('fourth', 'f');
  queues.add(newcomer.made);
  expect(newcomer.outcomes).toHaveLength(0);
  expect(greedy.map(({ outcomes }) => outcomes.length)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
});

test('what waited too long is settled and not taken, but what may have been posted is resolved', () => {
  const queues = new Queues(bounds);
  const [late, open] = [item('a', 'late', { expires: 0 }), item('a', 'open', { expires: 0, uncertain: true })];
  queues.add(late.made);
  queues.add(open.made);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['open']);
  expect(late.outcomes).toHaveLength(1);
  expect(queues.size).toBe(0);
});

test('a contended tenant is taken alone and not with others', () => {
  const queues = filled(['a', 'a1'], ['b', 'b1']);
  queues.contend('a', true);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['b1']);
  expect(names(queues.takeContended())).toEqual(['a1']);
  expect(queues.takeContended()).toBeNull();
});
