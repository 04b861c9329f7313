// Fairness, limits and locks of the queues that the writer takes batches from.
import { jest } from '@jest/globals';
import { TenantQueues, type QueueLimits, type Item, type Outcome } from './queue.ts';

const limits: QueueLimits = { waiting: 20, waitingBytes: 10_000, items: 6, entries: 100, bytes: 1_000 };

function item(
  tenant: string,
  name: string,
  more: Partial<Pick<Item, 'expires' | 'uncertain' | 'failFastOnLock' | 'signal'>> & {
    retry?: boolean;
    bytes?: number;
    entries?: number;
    reverses?: object;
  } = {},
) {
  const outcomes: Outcome[] = [];
  const { retry = false, bytes = 10, reverses = null } = more;
  const posting = { tenant, description: name, retry, bytes, reverses, entries: Array.from({ length: more.entries ?? 2 }) };
  const made = {
    posting,
    expires: more.expires ?? Number.POSITIVE_INFINITY,
    uncertain: more.uncertain ?? false,
    failFastOnLock: more.failFastOnLock ?? false,
    signal: more.signal,
    settle: (outcome: Outcome) => outcomes.push(outcome),
  } as unknown as Item;
  return { made, outcomes };
}

const overloaded = [{ refusal: expect.objectContaining({ reason: 'overloaded', message: 'too many postings are waiting' }) }];
const tooLate = [{ refusal: expect.objectContaining({ reason: 'unavailable', message: 'the posting waited too long and was not begun' }) }];

const names = (items: Item[] | null) => items?.map(({ posting }) => posting.description) ?? null;

function filled(...items: [tenant: string, name: string, more?: Parameters<typeof item>[2]][]) {
  const queues = new TenantQueues(limits);
  for (const each of items) queues.add(item(...each).made);
  return queues;
}

const postings = (...all: string[]) => filled(...all.map((name): [string, string] => [name.charAt(0), name]));

test('a batch takes four small postings of each tenant in turn, and keeps the order within a tenant', () => {
  const queues = postings('a1', 'a2', 'a3', 'b1', 'a4', 'a5', 'a6');
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a1', 'a2', 'a3', 'a4', 'b1', 'a5']);
});

test('a tenant takes fewer larger postings per turn, and one large one', () => {
  const of = (name: string, entries: number): Parameters<typeof item> => [name.charAt(0), name, { entries }];
  const queues = filled(of('a1', 5), of('a2', 5), of('a3', 5), of('b1', 9), of('b2', 9), of('c1', 2));
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2']);
});

test('a batch begins with other tenants than the one before, while that is still open', () => {
  const queues = postings('a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'b3', 'a5', 'c1', 'c2', 'b4');
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a1', 'a2', 'a3', 'a4', 'b1', 'b2']);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['c1', 'c2', 'a5', 'b3', 'b4']);
});

test('a tenant is in one pipeline at a time, which may take more of it', () => {
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

test('an isolated tenant is in no pipeline until it is released', () => {
  for (const pipeline of [0, 1]) {
    const queues = filled(['a', 'a1']);
    queues.takeMixed(pipeline, 1, 1);
    queues.isolate(['a']);
    queues.add(item('a', 'a2').made);
    expect(queues.takeMixed(pipeline, 1, 1)).toBeNull();
    queues.release(['a']);
    expect(names(queues.takeMixed(pipeline, 1, 1))).toEqual(['a2']);
  }
});

test('an item that fails fast does not wait for another replica’s lock, unless it may have been posted', () => {
  const queues = new TenantQueues(limits);
  const items = [item('a', 'a1'), item('a', 'a2', { failFastOnLock: true }), item('a', 'a3', { failFastOnLock: true, uncertain: true })];
  for (const { made } of items) queues.add(made);
  queues.setLockedElsewhere('a', true);
  const late = item('a', 'a4', { failFastOnLock: true });
  queues.add(late.made);
  expect([...items, late].map(({ outcomes }) => outcomes)).toEqual([[], [{ lockConflict: true }], [], [{ lockConflict: true }]]);
  expect(queues.size).toBe(2);
  expect(names(queues.takeLockedElsewhere())).toEqual(['a1', 'a3']);
});

test('each of several pipelines takes its share of the tenants, and only if enough waits', () => {
  const queues = filled(['a', 'a1'], ['b', 'b1'], ['c', 'c1']);
  expect(queues.takeMixed(0, 2, 3)).toBeNull();
  expect(names(queues.takeMixed(0, 2, 1))).toEqual(['a1', 'b1']);
  expect(names(queues.takeMixed(1, 2, 1))).toEqual(['c1']);
});

test('a batch is bounded by bytes and entries, and a larger item is a batch of its own', () => {
  const queues = filled(['a', 'large', { bytes: 2_000 }], ['a', 'next', { entries: 99 }], ['a', 'last', { entries: 2 }]);
  for (const expected of ['large', 'next', 'last']) {
    expect(names(queues.takeMixed(0, 1, 1))).toEqual([expected]);
    queues.release(['a']);
  }
});

test('a reversal counts as many entries, because the original may have as many', () => {
  const of = (name: string): Parameters<typeof item> => [name.charAt(0), name, { entries: 0, reverses: {} }];
  const queues = filled(of('a1'), of('a2'), of('b1'));
  expect([names(queues.takeMixed(0, 1, 1)), names(queues.takeMixed(1, 1, 1))]).toEqual([['a1', 'b1'], null]);
});

test('an item too large for the batch does not let a later one of its tenant overtake it', () => {
  const queues = filled(['a', 'a1', { bytes: 600 }], ['a', 'a2', { bytes: 600 }], ['a', 'a3', { bytes: 10 }], ['b', 'b1']);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a1', 'b1']);
});

test('items put back come first again, in their order', () => {
  const queues = filled(['a', 'a1'], ['a', 'a2']);
  const batch = queues.takeMixed(0, 1, 1) as Item[];
  queues.add(item('a', 'a3').made);
  queues.putBack(batch);
  queues.release(['a']);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a1', 'a2', 'a3']);
});

test('a tenant may use half of the queue; beyond that its postings are refused at once', () => {
  const queues = new TenantQueues(limits);
  const all = Array.from({ length: 12 }, (_, index) => item('greedy', `g${index}`));
  all.forEach(({ made }) => queues.add(made));
  expect(all.map(({ outcomes }) => outcomes.length)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
  expect(all.at(-1)?.outcomes).toEqual(overloaded);
  expect(queues.size).toBe(10);
});

test('a full queue rejects the newest of the tenant with most waiting, not the new item', () => {
  const queues = new TenantQueues(limits);
  const greedy = Array.from({ length: 10 }, (_, index) => item('greedy', `g${index}`));
  const other = Array.from({ length: 9 }, (_, index) => item('other', `o${index}`));
  [...greedy, ...other, item('third', 't')].forEach(({ made }) => queues.add(made));
  const newcomer = item('fourth', 'f');
  queues.add(newcomer.made);
  expect(newcomer.outcomes).toHaveLength(0);
  expect(greedy.map(({ outcomes }) => outcomes.length)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
});

describe('an item that may have been posted', () => {
  const waiting = (tenant: string, count: number, more: Parameters<typeof item>[2] = {}) =>
    Array.from({ length: count }, (_, index) => item(tenant, `${tenant}${index}`, more));
  const put = (queues: TenantQueues, items: ReturnType<typeof item>[]) => items.forEach(({ made }) => queues.add(made));
  const rejectedOf = (items: ReturnType<typeof item>[]) => items.flatMap(({ outcomes }, index) => (outcomes.length > 0 ? [index] : []));

  test('replaces its tenant’s newest that was never sent, if the tenant is at its limit', () => {
    const queues = new TenantQueues(limits);
    const own = [...waiting('a', 8), ...waiting('a', 2, { retry: true })];
    put(queues, own);
    const again = waiting('a', 2, { retry: true });
    put(queues, again);
    expect([rejectedOf(own), rejectedOf(again), queues.size]).toEqual([[6, 7], [], 10]);
    expect(own[7]?.outcomes).toEqual(overloaded);
  });

  test('replaces one that was never sent, of the tenant with most waiting', () => {
    const queues = new TenantQueues(limits);
    const [open, begun, few] = [waiting('open', 9, { uncertain: true }), waiting('begun', 8, { retry: true }), waiting('few', 3)];
    put(queues, [...open, ...begun, ...few]);
    const again = waiting('again', 2, { retry: true });
    put(queues, again);
    expect([open, begun, few, again].map(rejectedOf)).toEqual([[], [], [1, 2], []]);
    const [own] = waiting('open', 1, { retry: true });
    put(queues, [own!]);
    expect([open, begun, few, [own!]].map(rejectedOf)).toEqual([[], [], [0, 1, 2], []]);
    // A tenant with nothing left no longer counts: of three tenants one of three pipelines takes one.
    expect(new Set(queues.takeMixed(0, 3, 1)?.map(({ posting }) => posting.tenant)).size).toBe(1);
  });

  test('is rejected itself if everything that waits may have been posted', () => {
    const queues = new TenantQueues(limits);
    const all = ['a', 'b'].flatMap((tenant) => [...waiting(tenant, 5, { uncertain: true }), ...waiting(tenant, 5, { retry: true })]);
    put(queues, all);
    const late = [...waiting('a', 1), ...waiting('a', 1, { retry: true }), ...waiting('c', 1), ...waiting('c', 1, { retry: true })];
    put(queues, late);
    expect([rejectedOf(all), rejectedOf(late), queues.size]).toEqual([[], [0, 1, 2, 3], 20]);
  });
});

test('an item that waited too long is settled and not taken, unless it may have been posted', () => {
  const queues = new TenantQueues(limits);
  const [late, open] = [item('a', 'late', { expires: 0 }), item('a', 'open', { expires: 0, uncertain: true })];
  queues.add(late.made);
  queues.add(open.made);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['open']);
  expect(late.outcomes).toEqual(tooLate);
  expect(queues.size).toBe(0);
});

test('a tenant locked elsewhere is in one batch at a time, without other tenants', () => {
  const queues = filled(['a', 'a1'], ['b', 'b1']);
  expect(queues.takeLockedElsewhere()).toBeNull();
  queues.setLockedElsewhere('a', true);
  expect(names(queues.takeLockedElsewhere())).toEqual(['a1']);
  queues.add(item('a', 'a2').made);
  expect(queues.takeLockedElsewhere()).toBeNull();
  queues.release(['a']);
  expect(names(queues.takeLockedElsewhere())).toEqual(['a2']);
});

test('a tenant locked elsewhere whose items have expired does not block the others', () => {
  const queues = filled(['a', 'a1', { expires: 0 }], ['b', 'b1']);
  for (const tenant of ['a', 'b']) queues.setLockedElsewhere(tenant, true);
  expect(names(queues.takeLockedElsewhere())).toEqual(['b1']);
});

test('a tenant stays locked elsewhere while nothing of it waits', () => {
  const queues = new TenantQueues(limits);
  const items = [item('a', 'a1', { failFastOnLock: true }), item('a', 'a2', { failFastOnLock: true })];
  queues.add(items[0]!.made);
  queues.setLockedElsewhere('a', true);
  expect([queues.size, queues.takeLockedElsewhere()]).toEqual([0, null]);
  queues.add(items[1]!.made);
  expect(items.map(({ outcomes }) => outcomes)).toEqual([[{ lockConflict: true }], [{ lockConflict: true }]]);
});

test('a tenant that is no longer locked elsewhere is batched with others again, and nothing of it fails', () => {
  const waiting = item('a', 'a1', { failFastOnLock: true });
  const queues = new TenantQueues(limits);
  queues.add(waiting.made);
  queues.setLockedElsewhere('a', false);
  expect([waiting.outcomes, names(queues.takeMixed(0, 1, 1))]).toEqual([[], ['a1']]);
});

describe('waiting bytes', () => {
  test('are half per tenant', () => {
    const queues = filled(['a', 'a1', { bytes: 2_500 }], ['a', 'a2', { bytes: 2_500 }]);
    const more = item('a', 'a3');
    queues.add(more.made);
    expect(more.outcomes).toEqual(overloaded);
    expect(queues.size).toBe(2);
  });

  test('beyond the limit are rejected from the tenant with most, and are free then', () => {
    const queues = new TenantQueues(limits);
    const items = [
      ...[item('a', 'a1', { bytes: 2_000 }), item('a', 'a2', { bytes: 2_000 })],
      ...[item('b', 'b1', { bytes: 3_000 }), item('b', 'b2', { bytes: 1_500 })],
      ...[item('c', 'c1', { bytes: 1_500 }), item('d', 'd1'), item('e', 'e1')],
    ];
    for (const { made } of items) queues.add(made);
    expect(items.map(({ outcomes }) => outcomes)).toEqual([[], [], [], overloaded, [], [], []]);
    expect(queues.size).toBe(6);
  });
});

test.each([
  ['has most waiting', 8, 6, 6],
  ['has as much waiting as any', 7, 7, 6],
])('a full queue rejects the new item itself if its tenant %s', (_, ...counts) => {
  const queues = new TenantQueues(limits);
  const waiting = counts.flatMap((count, tenant) => Array.from({ length: count }, (__, index) => item(`t${tenant}`, `${index}`)));
  const newcomer = item('t0', 'newcomer');
  [...waiting, newcomer].forEach(({ made }) => queues.add(made));
  expect(newcomer.outcomes).toEqual(overloaded);
  expect(waiting.flatMap(({ outcomes }) => outcomes)).toEqual([]);
  expect(queues.size).toBe(20);
});

test('an item that fills a batch exactly still fits', () => {
  expect(names(filled(['a', 'a1', { bytes: 500 }], ['a', 'a2', { bytes: 500 }]).takeMixed(0, 1, 1))).toEqual(['a1', 'a2']);
  expect(names(filled(['a', 'a1', { entries: 50 }], ['a', 'a2', { entries: 50 }]).takeMixed(0, 1, 1))).toEqual(['a1', 'a2']);
});

test('a tenant that did not fit into a full batch is in the next one, of any pipeline', () => {
  const queues = filled(...['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((tenant): [string, string] => [tenant, `${tenant}1`]));
  expect(names(queues.takeMixed(0, 1, 1))).toHaveLength(6);
  expect(names(queues.takeMixed(1, 1, 1))).toEqual(['g1']);
});

test('an item that may have been sent before is not reported as not begun', () => {
  const { made, outcomes } = item('a', 'late', { retry: true, expires: 0 });
  const queues = new TenantQueues(limits);
  queues.add(made);
  expect(queues.takeMixed(0, 1, 1)).toBeNull();
  const message = 'the posting waited too long; a retry with the same key finds out';
  expect(outcomes).toEqual([{ refusal: expect.objectContaining({ reason: 'unavailable', message }) }]);
});

test('an item that expires now is not begun, nor one whose client has disconnected', () => {
  jest.spyOn(performance, 'now').mockReturnValue(1_000);
  const gone = new AbortController();
  gone.abort();
  const items = [
    item('a', 'a1', { expires: 1_000 }),
    item('b', 'b1', { signal: gone.signal }),
    item('c', 'c1', { expires: 1_000.5, signal: new AbortController().signal }),
  ];
  const queues = new TenantQueues(limits);
  for (const { made } of items) queues.add(made);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['c1']);
  expect(items.map(({ outcomes }) => outcomes)).toEqual([tooLate, tooLate, []]);
  jest.restoreAllMocks();
});

test('a tenant whose items all expired belongs to no pipeline, but one with an open batch does', () => {
  const queues = filled(['a', 'a1', { expires: 0 }]);
  expect(queues.takeMixed(0, 1, 1)).toBeNull();
  queues.add(item('a', 'a2').made);
  expect(names(queues.takeMixed(1, 1, 1))).toEqual(['a2']);
  queues.add(item('a', 'a3', { expires: 0 }).made);
  expect(queues.takeMixed(1, 1, 1)).toBeNull();
  queues.add(item('a', 'a4').made);
  expect(queues.takeMixed(0, 1, 1)).toBeNull();
  queues.release(['a']);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['a4']);
});

test('a released tenant comes after those that wait', () => {
  const queues = filled(['a', 'a1'], ['b', 'b1']);
  expect(names(queues.takeMixed(0, 2, 1))).toEqual(['a1']);
  queues.add(item('a', 'a2').made);
  queues.release(['a']);
  expect(names(queues.takeMixed(0, 2, 1))).toEqual(['b1']);
});

test('a pipeline’s share counts tenants with open batches, and is filled with those that wait', () => {
  const queues = filled(['a', 'a1', { expires: 0 }], ['b', 'b1']);
  expect(names(queues.takeMixed(0, 1, 1))).toEqual(['b1']);
  queues.release(['b']);
  for (const tenant of ['c', 'd']) queues.add(item(tenant, `${tenant}1`).made);
  expect(names(queues.takeMixed(0, 2, 1))).toEqual(['c1']);
  queues.add(item('e', 'e1').made);
  // Three tenants, c has an open batch.
  expect(names(queues.takeMixed(0, 2, 1))).toEqual(['d1', 'e1']);
});

test('takeAll removes everything that waits', () => {
  const queues = filled(['a', 'a1', { bytes: 4_000 }], ['a', 'a2', { bytes: 500 }], ['b', 'b1', { bytes: 4_000 }]);
  expect(names(queues.takeAll())).toEqual(['a1', 'a2', 'b1']);
  expect([queues.size, queues.takeAll(), queues.takeMixed(0, 1, 0)]).toEqual([0, [], null]);
  const later = [item('a', 'a3', { bytes: 4_900 }), item('b', 'b2', { bytes: 4_900 }), item('c', 'c1')];
  for (const { made } of later) queues.add(made);
  expect(later.flatMap(({ outcomes }) => outcomes)).toEqual([]);
});
