import pg from 'pg';
import { openLog } from '../platform/telemetry.ts';
import { Endpoints } from './endpoints.ts';

test('an endpoint that has not answered quickly has an eighth of its places where half of all is taken, one at the least', () => {
  const of = (perTenant: number) => new Endpoints({ pool: new pg.Pool(), logger: openLog('test', 'silent'), perTenant });
  const some = of(32);
  expect([false, true].map((isCrowded) => some.claimable('t', isCrowded))).toEqual([32, 4]);
  const endpoint = some.of('t');
  endpoint.quick = true;
  expect([false, true].map((isCrowded) => some.claimable('t', isCrowded))).toEqual([256, 256]);
  some.slowDown(endpoint);
  expect(some.claimable('t', true)).toBe(4);
  expect(of(3).claimable('t', true)).toBe(1);
});
