import { EventEmitter } from 'node:events';
import { jest } from '@jest/globals';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LargePages } from './large-pages.ts';

const kibi = 1 << 10;
const large = 256 * kibi + 1;

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

/** One that is asked of a tenant: how it fares, and its ends. */
function asked(pages: LargePages, tenantId: string, actor = 'key') {
  const request = { caller: { tenantId, actor }, leaving: null } as unknown as FastifyRequest;
  const raw = new EventEmitter();
  const fares = { state: 'waits', code: '' };
  const turn = pages.begin(request, { raw } as unknown as FastifyReply);
  turn?.then(
    () => (fares.state = 'begun'),
    (problem: { code: string }) => Object.assign(fares, { state: 'refused', code: problem.code }),
  );
  if (!turn) fares.state = 'begun at once';
  return {
    fares,
    made: (bytes: number) => pages.made(request, bytes),
    close: () => raw.emit('close'),
    leave: () => request.clientGone?.abort(),
  };
}

const settled = () => jest.advanceTimersByTimeAsync(0);

/** Pages of which a tenant has had a large one. */
function known(...tenants: string[]): LargePages {
  const pages = new LargePages();
  for (const tenant of tenants) asked(pages, tenant).made(large);
  return pages;
}

test('pages are made at once while none has been large', () => {
  const pages = new LargePages();
  const [first, second] = [asked(pages, 'a'), asked(pages, 'a')];
  first.made(large - 1);
  expect([first, second, asked(pages, 'a')].map(({ fares }) => fares.state)).toEqual(Array(3).fill('begun at once'));
});

test('from a large one on they are made one after the other, and others’ at once', async () => {
  const pages = known('a');
  const all = [asked(pages, 'a'), asked(pages, 'a'), asked(pages, 'a')];
  const states = async () => {
    await settled();
    return all.map(({ fares }) => fares.state);
  };
  expect(await states()).toEqual(['begun', 'waits', 'waits']);
  expect(asked(pages, 'b').fares.state).toBe('begun at once');
  all[0]!.made(large);
  expect(await states()).toEqual(['begun', 'begun', 'waits']);
  // Its end is told twice.
  all[0]!.close();
  expect(await states()).toEqual(['begun', 'begun', 'waits']);
  // Of one that was not answered there is nothing else.
  all[1]!.close();
  expect(await states()).toEqual(['begun', 'begun', 'begun']);
});

test('users’ own lists keep each other’s from nothing', () => {
  const pages = new LargePages();
  asked(pages, '', 'ada').made(large);
  expect(['ada', 'bob'].map((user) => asked(pages, '', user).fares.state)).toEqual(['waits', 'begun at once']);
});

test('what was large is forgotten ten seconds after the last one', () => {
  const pages = known('a', 'b');
  jest.advanceTimersByTime(9_000);
  asked(pages, 'a').made(large);
  jest.advanceTimersByTime(1_000);
  expect([asked(pages, 'a'), asked(pages, 'b')].map(({ fares }) => fares.state)).toEqual(['waits', 'begun at once']);
  jest.advanceTimersByTime(9_000);
  expect(asked(pages, 'a').fares.state).toBe('begun at once');
});

test('nothing is kept of tenants that are forgotten', () => {
  const pages = known('a', 'b');
  const { askers } = pages as unknown as { askers: Map<string, number> };
  jest.advanceTimersByTime(5_000);
  asked(pages, 'a').made(large);
  jest.advanceTimersByTime(5_000);
  asked(pages, 'c').made(large);
  expect([...askers.keys()]).toEqual(['a', 'c']);
});

test('who has waited for ten seconds is told that it is too much, and who has left waits no longer', async () => {
  const pages = known('a');
  const [first, left, second] = [asked(pages, 'a'), asked(pages, 'a'), asked(pages, 'a')];
  await settled();
  left.leave();
  await settled();
  expect(left.fares).toEqual({ state: 'refused', code: 'overloaded' });
  await jest.advanceTimersByTimeAsync(9_999);
  expect(second.fares.state).toBe('waits');
  await jest.advanceTimersByTimeAsync(1);
  expect(second.fares).toEqual({ state: 'refused', code: 'overloaded' });
  expect(first.fares.state).toBe('begun');
});
