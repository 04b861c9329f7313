import { jest } from '@jest/globals';
import type { FastifyRequest } from 'fastify';
import { Load } from './load.ts';
import type { ApiError } from './errors.ts';

const kibi = 1 << 10;
const mebi = 1 << 20;

const from = (tenantId: string) =>
  ({ caller: { tenantId }, held: null, raw: { socket: { destroy: () => undefined } } }) as unknown as FastifyRequest;
const code = (problem: { code: string } | undefined) => problem?.code ?? 'taken';

/** A request that has begun and been taken. */
function begun(load: Load, tenantId: string): FastifyRequest {
  const request = from(tenantId);
  load.begin();
  expect(code(load.take(request))).toBe('taken');
  return request;
}

test('as many requests are worked on at once as may be, and the next is refused until one has ended', () => {
  const load = new Load(2);
  const [first, second, third] = [from('a'), from('a'), from('a')];
  const entered = [first, second, third].map((each) => {
    load.begin();
    return code(load.enter(each));
  });
  expect(entered).toEqual(['taken', 'taken', 'overloaded']);
  load.end(third);
  expect([code(load.enter(from('a'))), load.requests]).toEqual(['overloaded', 2]);
  load.end(first);
  expect([code(load.enter(from('a'))), load.requests]).toEqual(['taken', 1]);
});

test('one that is refused makes room at once, and only once', () => {
  const load = new Load(2);
  const [first, second] = [from('a'), from('a')];
  for (const each of [first, second]) {
    load.begin();
    load.enter(each);
  }
  load.refuse(first);
  expect([code(load.enter(from('a'))), load.requests]).toEqual(['taken', 2]);
  load.end(first);
  expect([code(load.enter(from('a'))), load.requests]).toEqual(['overloaded', 1]);
});

test('a tenant has half of the requests, and the others still theirs', () => {
  const load = new Load(6);
  const own = [begun(load, 'a'), begun(load, 'a'), begun(load, 'a')];
  expect(code(load.take(from('a')))).toBe('overloaded');
  begun(load, 'b');
  load.end(own[0]!);
  begun(load, 'a');
  expect(code(load.take(from('a')))).toBe('overloaded');
});

test('a tenant may have one request however few there may be', () => {
  const load = new Load(1);
  begun(load, 'a');
  expect(code(load.take(from('a')))).toBe('overloaded');
});

test('a tenant’s bodies take half of the room, and those of others still find theirs', () => {
  const load = new Load(100);
  const [first, second] = [begun(load, 'a'), begun(load, 'a')];
  expect(code(load.arrive(first, 7 * mebi))).toBe('taken');
  expect(code(load.arrive(second, mebi))).toBe('taken');
  expect(code(load.arrive(second, 1))).toBe('overloaded');
  expect(code(load.arrive(begun(load, 'b'), 8 * mebi))).toBe('taken');
});

test('a body that was refused has let go of all it held', () => {
  const load = new Load(100);
  const [first, second] = [begun(load, 'a'), begun(load, 'a')];
  expect(code(load.arrive(first, 6 * mebi))).toBe('taken');
  expect(code(load.arrive(second, 2 * mebi))).toBe('taken');
  expect(code(load.arrive(second, 1))).toBe('overloaded');
  expect(code(load.arrive(first, 2 * mebi))).toBe('taken');
});

test('all tenants together have one room', () => {
  const load = new Load(100);
  const requests = ['a', 'b'].map((tenant) => begun(load, tenant));
  for (const request of requests) expect(code(load.arrive(request, 8 * mebi))).toBe('taken');
  const late = begun(load, 'c');
  expect(code(load.arrive(late, 4 * kibi))).toBe('taken');
  expect(code(load.arrive(late, 1))).toBe('overloaded');
  load.end(requests[0]!);
  expect(code(load.arrive(begun(load, 'c'), 8 * mebi))).toBe('taken');
});

test('those who have not said who they are have two mebibytes together', () => {
  const load = new Load(100);
  const [first, second] = [begun(load, ''), begun(load, '')];
  expect(code(load.arrive(first, mebi))).toBe('taken');
  expect(code(load.arrive(second, mebi))).toBe('taken');
  expect(code(load.arrive(second, 1))).toBe('overloaded');
});

test('a small body always finds room: the number of requests bounds these', () => {
  const load = new Load(100);
  expect(code(load.arrive(begun(load, 'a'), 8 * mebi))).toBe('taken');
  const small = begun(load, 'a');
  expect(code(load.arrive(small, 2 * kibi))).toBe('taken');
  expect(code(load.arrive(small, 2 * kibi))).toBe('taken');
  expect(code(load.arrive(small, 1))).toBe('overloaded');
});

test('a request that was never taken holds nothing', () => {
  const load = new Load(100);
  const request = from('a');
  load.begin();
  expect(load.arrive(request, 100 * mebi)).toBeUndefined();
  load.end(request);
  expect(load.requests).toBe(0);
  expect(code(load.arrive(begun(load, 'a'), 8 * mebi))).toBe('taken');
});

test('a request that has ended holds nothing more, and what comes late is not counted', () => {
  const load = new Load(2);
  const request = begun(load, 'a');
  load.arrive(request, 8 * mebi);
  load.end(request);
  expect(request.held).toBeNull();
  expect(load.arrive(request, 8 * mebi)).toBeUndefined();
  expect(code(load.arrive(begun(load, 'a'), 8 * mebi))).toBe('taken');
});

test('large answers that nobody reads are refused beyond what one tenant, or all, may have; small ones never', () => {
  const load = new Load(100);
  const own = [begun(load, 'a'), begun(load, 'a')];
  for (const each of own) expect(code(load.answer(each, 16 * mebi))).toBe('taken');
  expect(code(load.answer(begun(load, 'a'), 64 * kibi + 1))).toBe('overloaded');
  expect(code(load.answer(begun(load, 'a'), 64 * kibi))).toBe('taken');
  // Figures are nobody’s, and share a half, too.
  const figures = [from(''), from('')];
  for (const each of figures) {
    load.begin();
    expect(code(load.answer(each, 16 * mebi))).toBe('taken');
  }
  expect(code(load.answer(from(''), mebi))).toBe('overloaded');
  expect(code(load.answer(begun(load, 'b'), mebi))).toBe('overloaded');
  load.end(own[0]!);
  expect(code(load.answer(begun(load, 'b'), 16 * mebi))).toBe('taken');
  expect(code(load.answer(begun(load, 'a'), mebi))).toBe('overloaded');
  load.end(figures[0]!);
  expect(code(load.answer(begun(load, 'a'), mebi))).toBe('taken');
});

describe('who is slow', () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => jest.useRealTimers());

  /** A request that was let in and waits for its body. */
  function waiting(load: Load, tenantId: string, refuse: (problem: ApiError) => void = () => undefined): FastifyRequest {
    const request = from(tenantId);
    load.begin();
    expect(code(load.enter(request))).toBe('taken');
    expect(code(load.take(request))).toBe('taken');
    load.await(request, refuse);
    return request;
  }

  test('with his body gives way to another of his share after a second, once', () => {
    const load = new Load(4);
    const refused: string[] = [];
    const slow = waiting(load, '', ({ code }) => refused.push(code));
    jest.advanceTimersByTime(500);
    const later = waiting(load, '', () => refused.push('later'));
    load.arrive(slow, 2 * mebi);
    jest.advanceTimersByTime(499);
    expect(code(load.take(from('')))).toBe('overloaded');
    jest.advanceTimersByTime(1);
    const next = from('');
    expect([code(load.take(next)), refused]).toEqual(['taken', ['overloaded']]);
    expect(code(load.take(from('')))).toBe('overloaded');
    // What he held is free, and is not given back twice.
    expect(code(load.arrive(next, 2 * mebi))).toBe('taken');
    for (const each of [slow, later]) load.end(each);
    expect(code(load.take(from('')))).toBe('taken');
    expect(code(load.take(from('')))).toBe('overloaded');
    expect(refused).toEqual(['overloaded']);
  });

  test('gives no place of his to the share of another, and keeps his own once his body has come', () => {
    const load = new Load(4);
    const refuse = jest.fn();
    waiting(load, 'a', refuse);
    const own = [waiting(load, 'b'), waiting(load, 'b')];
    for (const each of own) load.arrived(each);
    jest.advanceTimersByTime(10_000);
    expect([code(load.take(from('b'))), refuse.mock.calls.length]).toEqual(['overloaded', 0]);
  });

  test('with his body gives way to whoever comes where all places are taken', () => {
    const load = new Load(4);
    const refuse = jest.fn();
    for (const tenant of ['a', 'a', 'b', 'b']) waiting(load, tenant, refuse);
    expect(code(load.enter(from('c')))).toBe('overloaded');
    jest.advanceTimersByTime(1_000);
    for (let count = 0; count < 4; count++) expect(code(load.enter(from('c')))).toBe('taken');
    expect([code(load.enter(from('c'))), refuse.mock.calls.length]).toEqual(['overloaded', 4]);
  });

  test('to read gives way after ten seconds, first he who has most to read', () => {
    const load = new Load(100);
    const cut: string[] = [];
    const asked = (tenantId: string, bytes: number) => {
      const request = begun(load, tenantId);
      request.raw.socket.destroy = () => cut.push(tenantId) as never;
      return code(load.answer(request, bytes));
    };
    expect(asked('slow', mebi)).toBe('taken');
    for (const tenant of ['a', 'a', 'b']) expect(asked(tenant, 15 * mebi)).toBe('taken');
    jest.advanceTimersByTime(9_999);
    expect(asked('b', 15 * mebi)).toBe('taken');
    expect([asked('c', 16 * mebi), cut]).toEqual(['overloaded', []]);
    jest.advanceTimersByTime(1);
    expect([asked('c', 16 * mebi), cut]).toEqual(['taken', ['a']]);
    // He himself has no more than his half, however long he takes.
    expect([asked('b', 8 * mebi), cut]).toEqual(['overloaded', ['a']]);
  });
});
