import type { FastifyRequest } from 'fastify';
import { Load } from './load.ts';

const kibi = 1 << 10;
const mebi = 1 << 20;

const from = (tenantId: string) => ({ caller: { tenantId }, held: null, answerBytes: 0 }) as unknown as FastifyRequest;
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
