// Fairness, limits and locks of the queues that the writer takes batches from.
import { jest } from '@jest/globals';
import { TenantQueues, isolated, type QueueLimits, type Item, type ItemOutcome } from './queue.ts';

const limits: QueueLimits = { waiting: 20, waitingBytes: 10_000, items: 6, entries: 100, bytes: 1_000 };

type More = Partial<Pick<Item, 'expires' | 'uncertain' | 'failFastOnLock' | 'signal'>> & {
  retry?: boolean;
  bytes?: number;
  entries?: number;
  target?: object;
};

/** An item of the tenant that its name begins with, and how it was settled. */
function item(name: string, { retry = false, bytes = 10, target, entries = 2, ...more }: More = {}) {
  const outcomes: ItemOutcome[] = [];
  const posting = { tenant: name.charAt(0), description: name, retry, bytes, target, entries: Array.from({ length: entries }) };
  const settle = (outcome: ItemOutcome) => outcomes.push(outcome);
  const made = {
    expires: Infinity,
    uncertain: false,
    failFastOnLock: false,
    signal: undefined,
    ...more,
    tenant: posting.tenant,
    commands: [posting],
    bytes,
    settle,
  };
  return { made: made as unknown as Item, outcomes };
}

const several = (tenant: string, count: number, more: More = {}) =>
  Array.from({ length: count }, (_, index) => item(`${tenant}${index}`, more));

function queuesOf(items: ReturnType<typeof item>[]): TenantQueues {
  const queues = new TenantQueues(limits);
  for (const { made } of items) queues.add(made);
  return queues;
}

const filled = (...names: (string | [name: string, more: More])[]) =>
  queuesOf(names.map((each) => (typeof each === 'string' ? item(each) : item(...each))));
const names = (items: Item[] | null) => items?.map(({ commands }) => commands[0].description) ?? null;
const refusal = (reason: string, message: string) => [{ refusal: expect.objectContaining({ reason, message }) }];
const overloaded = refusal('overloaded', 'too many postings are waiting');
const tooLate = refusal('unavailable', 'the posting waited too long and was not begun');
const lockConflict = [{ lockConflict: true }];
/** Which of the items are settled. */
const settledOf = (items: ReturnType<typeof item>[]) => items.flatMap(({ outcomes }, index) => (outcomes.length > 0 ? [index] : []));

const large = (name: string, more: More): [string, More] => [name, more];
test.each<[string, (string | [string, More])[], string[][]]>([
  [
    'four small postings of each tenant in turn, in their order, and begins with others than the open one before',
    ['a1', 'a2', 'a3', 'b1', 'a4', 'a5', 'a6', 'b2', 'c1'],
    [
      ['a1', 'a2', 'a3', 'a4', 'b1', 'b2'],
      ['c1', 'a5', 'a6'],
    ],
  ],
  [
    'fewer larger postings of a tenant per turn, and one large one',
    [...['a1', 'a2', 'a3'].map((name) => large(name, { entries: 5 })), ...['b1', 'b2'].map((name) => large(name, { entries: 9 })), 'c1'],
    [['a1', 'a2', 'b1', 'c1', 'a3', 'b2']],
  ],
  ['a reversal as fifty entries', ['a1', 'a2', 'b1'].map((name) => large(name, { entries: 0, target: {} })), [['a1', 'b1'], ['a2']]],
  ['no more bytes than fit', [large('a1', { bytes: 500 }), large('a2', { bytes: 500 }), 'a3'], [['a1', 'a2'], ['a3']]],
  ['no more entries than fit', [large('a1', { entries: 50 }), large('a2', { entries: 50 }), 'a3'], [['a1', 'a2'], ['a3']]],
  ['an item larger than a batch alone', [large('a1', { bytes: 2_000 }), 'b1'], [['a1'], ['b1']]],
  [
    'no item before an earlier one of its tenant that does not fit',
    [large('a1', { bytes: 600 }), large('a2', { bytes: 600 }), 'a3', 'b1'],
    [['a1', 'b1']],
  ],
])('a batch takes %s', (_, items, batches) => {
  const queues = filled(...items);
  for (const batch of batches) expect(names(queues.takeMixed(0, 1, 1))).toEqual(batch);
});

test('a tenant is in one pipeline at a time, which may take more of it', () => {
  const queues = filled('a1');
  queues.takeMixed(0, 1, 1);
  for (const name of ['a2', 'b1']) queues.add(item(name).made);
  expect(names(queues.takeMixed(1, 1, 1))).toEqual(['b1']);
  expect(queues.takeMixed(1, 1, 1)).toBeNull();
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a2']);
  queues.add(item('a3').made);
  queues.release(['a']);
  expect(queues.takeMixed(1, 1, 1)).toBeNull();
  queues.release(['a']);
  expect(names(queues.takeMixed(1, 1, 1))).toEqual(['a3']);
});

test('a tenant taken without a pipeline is in no other batch until it is released', () => {
  const queues = filled('a1', 'b1');
  expect(names(queues.takeMixed(isolated, 1, 1, (tenant) => tenant === 'a'))).toEqual(['a1']);
  queues.add(item('a2').made);
  expect(names(queues.takeMixed(isolated, 1, 1))).toEqual(['b1']);
  expect(queues.takeMixed(0, 1, 1)).toBeNull();
  queues.release(['a']);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a2']);
});

test('each of several pipelines takes its share of the tenants, and only if enough waits', () => {
  const queues = filled('a1', 'b1', 'c1');
  expect(queues.takeMixed(0, 2, 4)).toBeNull();
  expect(names(queues.takeMixed(0, 2, 1))).toEqual(['a1', 'b1']);
  expect(names(queues.takeMixed(1, 2, 1))).toEqual(['c1']);
});

test('a tenant that did not fit into a full batch is in the next one, of any pipeline', () => {
  const queues = filled('a1', 'b1', 'c1', 'd1', 'e1', 'f1', 'g1');
  expect(names(queues.takeMixed(0, 1, 1))).toHaveLength(6);
  expect(names(queues.takeMixed(1, 1, 1))).toEqual(['g1']);
});

test('a released tenant comes after those that wait', () => {
  const queues = filled('a1', 'b1');
  expect(names(queues.takeMixed(0, 2, 1))).toEqual(['a1']);
  queues.add(item('a2').made);
  queues.release(['a']);
  expect(names(queues.takeMixed(0, 2, 1))).toEqual(['b1']);
});

test('items put back come first again, in their order', () => {
  const queues = filled('a1', 'a2');
  const batch = queues.takeMixed(0, 1, 1) as Item[];
  queues.add(item('a3').made);
  queues.putBack(batch);
  queues.release(['a']);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a1', 'a2', 'a3']);
});

describe('a lock elsewhere', () => {
  test('puts a tenant into one batch at a time, without other tenants, until it is over', () => {
    const queues = filled('a1', 'b1');
    expect(queues.takeLockedElsewhere()).toBeNull();
    queues.setLockedElsewhere('a', true);
    expect(names(queues.takeLockedElsewhere())).toEqual(['a1']);
    for (const name of ['a2', 'a3']) queues.add(item(name).made);
    expect(queues.takeLockedElsewhere()).toBeNull();
    queues.release(['a']);
    expect(names(queues.takeMixed(0, 1, 1))).toEqual(['b1']);
    queues.setLockedElsewhere('a', false);
    expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a2', 'a3']);
  });

  test('returns items that fail fast, waiting and new ones, unless they may have been posted', () => {
    const items = [item('a1'), item('a2', { failFastOnLock: true }), item('a3', { failFastOnLock: true, uncertain: true })];
    const queues = queuesOf(items);
    queues.setLockedElsewhere('a', true);
    const late = item('a4', { failFastOnLock: true });
    queues.add(late.made);
    expect([...items, late].map(({ outcomes }) => outcomes)).toEqual([[], lockConflict, [], lockConflict]);
    expect(names(queues.takeLockedElsewhere())).toEqual(['a1', 'a3']);
  });

  test('does not block other tenants if all items of one have expired', () => {
    const queues = filled(['a1', { expires: 0 }], 'b1');
    for (const tenant of ['a', 'b']) queues.setLockedElsewhere(tenant, true);
    expect(names(queues.takeLockedElsewhere())).toEqual(['b1']);
  });
});

test.each([
  ['items', several('a', 10)],
  ['bytes', several('a', 2, { bytes: 2_500 })],
])('a tenant may use half of the %s that may wait; beyond that its postings are refused at once', (_, items) => {
  const queues = queuesOf(items);
  const [own, other] = [item('a+', { retry: true }), item('b')];
  for (const { made } of [own, other]) queues.add(made);
  expect([...items, own, other].map(({ outcomes }) => outcomes)).toEqual([...items.map(() => []), overloaded, []]);
  expect(queues.size).toBe(items.length + 1);
});

const mostBytes = [several('a', 1, { bytes: 2_000 }), several('b', 2, { bytes: 3_000 }), several('c', 1, { bytes: 2_000 })].flat();
test.each<[string, ReturnType<typeof item>[], string, number[]]>([
  ['the newest of the tenant with most waiting', [...several('a', 10), ...several('b', 9), item('c')], 'd', [9]],
  ['the newest of the tenant with most bytes', mostBytes, 'd', [2]],
  [
    'the newest that was never sent',
    [...several('a', 5), ...several('a', 4, { retry: true }), ...several('b', 8), ...several('c', 3)],
    'd',
    [4],
  ],
  [
    'the newest of the only tenant with postings that were never sent',
    [...several('a', 9, { uncertain: true }), ...several('b', 8, { retry: true }), ...several('c', 3)],
    'd',
    [19],
  ],
  ['the new item if its tenant has most waiting', [...several('a', 8), ...several('b', 6), ...several('c', 6)], 'a', [20]],
  ['the new item if its tenant has as much waiting as any', [...several('a', 7), ...several('b', 7), ...several('c', 6)], 'a', [20]],
  ['the new item if all others may have been posted', ['a', 'b'].flatMap((tenant) => several(tenant, 10, { retry: true })), 'c', [20]],
])('a full queue rejects %s', (_, waiting, tenant, rejected) => {
  const queues = queuesOf(waiting);
  const all = [...waiting, item(`${tenant}+`)];
  queues.add(all.at(-1)!.made);
  expect(settledOf(all)).toEqual(rejected);
  expect(all[rejected[0]!]!.outcomes).toEqual(overloaded);
});

test('what has waited too long, or whose client has disconnected, is settled and not begun, unless it may have been posted', () => {
  jest.spyOn(performance, 'now').mockReturnValue(1_000);
  const items = [
    item('a1', { expires: 1_000 }),
    item('b1', { signal: AbortSignal.abort() }),
    item('c1', { expires: 1_000, retry: true }),
    item('d1', { expires: 1_000.5, signal: new AbortController().signal }),
    item('e1', { expires: 0, uncertain: true }),
  ];
  const queues = queuesOf(items);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['d1', 'e1']);
  const unknown = refusal('unavailable', 'the posting waited too long; a retry with the same key finds out');
  expect(items.map(({ outcomes }) => outcomes)).toEqual([tooLate, tooLate, unknown, [], []]);
  expect(queues.size).toBe(0);
  jest.restoreAllMocks();
});

test('a tenant whose items all expired belongs to no pipeline, but one with an open batch does', () => {
  const queues = filled(['a1', { expires: 0 }]);
  expect(queues.takeMixed(0, 1, 1)).toBeNull();
  queues.add(item('a2').made);
  expect(names(queues.takeMixed(1, 1, 1))).toEqual(['a2']);
  queues.add(item('a3', { expires: 0 }).made);
  expect(queues.takeMixed(1, 1, 1)).toBeNull();
  queues.add(item('a4').made);
  expect(queues.takeMixed(0, 1, 1)).toBeNull();
  queues.release(['a']);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a4']);
});

test('takeAll removes everything that waits', () => {
  const queues = filled(['a1', { bytes: 4_000 }], 'a2', ['b1', { bytes: 4_000 }]);
  expect(names(queues.takeAll())).toEqual(['a1', 'a2', 'b1']);
  expect([queues.size, queues.takeAll(), queues.takeMixed(0, 1, 0)]).toEqual([0, [], null]);
});
