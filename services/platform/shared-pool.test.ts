import { Registry } from 'prom-client';
import { freshDatabase, longTransactionTimeouts, type FreshDatabase } from '../../test/cluster.ts';
import { inTransaction, openPool, readTenant, type Pool } from './postgres.ts';
import { SharedPool } from './shared-pool.ts';
import { openLog } from './telemetry.ts';

let database: FreshDatabase;
let pool: Pool;
beforeAll(async () => {
  database = await freshDatabase('ledger');
});
afterAll(() => database.drop());
let metrics: Registry;
beforeEach(() => {
  metrics = new Registry();
  const parts = { logger: openLog('test', 'silent'), metrics, settings: longTransactionTimeouts };
  pool = openPool(database.ownerUrl, { name: 'test', max: 4, ...parts });
});
afterEach(() => pool.end());

const never = new AbortController().signal;

test('one tenant’s transactions never use all connections, and another tenant’s call does not wait behind them', async () => {
  const shared = new SharedPool(pool);
  // Another share of the pool adds to the count of those that wait.
  new SharedPool(pool);
  const [holding, first] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let busy = 0;
  const hold = async () => {
    busy++;
    if (busy === 4) first.resolve();
    await holding.promise;
  };
  let ended = 0;
  const many = Array.from({ length: 200 }, () => inTransaction(shared.of('many', never), [], hold).finally(() => ended++));
  await readTenant(shared.of('other', never), '00000000-0000-0000-0000-000000000000', { text: 'select 1', values: [] });
  expect(pool.totalCount).toBe(4);
  // Now every connection is in use.
  const last = inTransaction(shared.of('another', never), [], hold);
  await first.promise;
  expect(busy).toBe(4);
  const shown = await metrics.metrics();
  expect(shown).toContain('postgres_pool_connections{pool="test",state="used"} 4');
  expect(shown).toContain('postgres_pool_connections_max{pool="test"} 4');
  expect(Number(/^postgres_pool_waiting\{pool="test"\} (\d+)$/m.exec(shown)?.[1])).toBeGreaterThan(150);
  // Counted when it gets the connection; on a busy machine others may go on before its next statement.
  const one = shared
    .of('one', never)
    .connect()
    .then((client) => (client.release(), ended));
  holding.resolve();
  expect(await one).toBeLessThan(20);
  await Promise.all([...many, last]);
});

test('a connection that fails, or can’t be opened, frees its slot', async () => {
  const shared = new SharedPool(pool);
  const of = () => shared.of('tenant', never);
  const failing = Array.from({ length: 20 }, () => readTenant(of(), 'no tenant', { text: 'select 1 / 0', values: [] }));
  const ends = await Promise.allSettled(failing);
  expect(ends.map(({ status }) => status)).toEqual(failing.map(() => 'rejected'));
  const away = openPool('postgres://nobody@127.0.0.1:1/nothing', { name: 'test', max: 4, logger: openLog('test', 'silent') });
  const none = new SharedPool(away);
  const calls = Array.from({ length: 20 }, () => none.of('tenant', never).connect());
  expect(await Promise.allSettled(calls)).toEqual(
    calls.map(() => ({ status: 'rejected', reason: expect.objectContaining({ code: 'ECONNREFUSED' }) })),
  );
  await away.end();
  expect(await inTransaction(of(), [], async () => 'done')).toBe('done');
});
