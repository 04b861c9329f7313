import type { FastifyRequest } from 'fastify';
import { Registry } from 'prom-client';
import { InFlightLimit } from './limits.ts';

const requestOf = (tenantId: string) => ({ caller: { tenantId }, slot: null }) as unknown as FastifyRequest;

/** Enters a request of a tenant: the request, or the code of the error. */
function enter(limit: InFlightLimit, tenantId: string): FastifyRequest | string {
  const request = requestOf(tenantId);
  const error = limit.enter(request) ?? limit.assignTenant(request);
  if (error) limit.leave(request);
  return error?.code ?? request;
}

test('so many requests are in flight at once, and the next one is overloaded until one has left', () => {
  const limit = new InFlightLimit(2, new Registry());
  const first = enter(limit, 'a') as FastifyRequest;
  enter(limit, 'b');
  expect(enter(limit, 'c')).toBe('overloaded');
  limit.leave(first);
  expect(typeof enter(limit, 'c')).toBe('object');
});

test('a tenant has half of them, and others still theirs', () => {
  const limit = new InFlightLimit(6, new Registry());
  const own = Array.from({ length: 3 }, () => enter(limit, 'a') as FastifyRequest);
  expect(enter(limit, 'a')).toBe('overloaded');
  expect(typeof enter(limit, 'b')).toBe('object');
  limit.leave(own[0]!);
  expect(typeof enter(limit, 'a')).toBe('object');
  expect(enter(limit, 'a')).toBe('overloaded');
});

test('requests without a tenant share one half', () => {
  const limit = new InFlightLimit(4, new Registry());
  for (let count = 0; count < 2; count++) enter(limit, '');
  expect([enter(limit, ''), typeof enter(limit, 'a')]).toEqual(['overloaded', 'object']);
});

test('a tenant may have one request however small the limit is', () => {
  const limit = new InFlightLimit(1, new Registry());
  expect([typeof enter(limit, 'a'), enter(limit, 'a')]).toEqual(['object', 'overloaded']);
});

test('a request leaves once, also before its tenant is known', async () => {
  const metrics = new Registry();
  const limit = new InFlightLimit(4, metrics);
  const inFlight = async () => /^http_requests_in_flight (\d+)$/m.exec(await metrics.metrics())?.[1];
  const [known, unknown] = [enter(limit, 'a') as FastifyRequest, requestOf('a')];
  limit.enter(unknown);
  expect(await inFlight()).toBe('2');
  for (const request of [known, unknown, known, unknown]) limit.leave(request);
  expect(await inFlight()).toBe('0');
  // A client that left while its credential was checked.
  limit.assignTenant(unknown);
  expect([enter(limit, 'a'), enter(limit, 'a')].map((each) => typeof each)).toEqual(['object', 'object']);
});

test('a heavy request counts as several, also when it leaves', () => {
  const limit = new InFlightLimit(8, new Registry());
  const [heavy, light] = [requestOf('a'), requestOf('b')];
  limit.enter(heavy, 4);
  limit.assignTenant(heavy);
  expect(enter(limit, 'a')).toBe('overloaded');
  limit.enter(light, 4);
  expect(enter(limit, 'c')).toBe('overloaded');
  limit.leave(heavy);
  expect([typeof enter(limit, 'a'), typeof enter(limit, 'c')]).toEqual(['object', 'object']);
});
