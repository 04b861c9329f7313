// Pools on a network that forgets connections.
import { freshDatabase, type FreshDatabase } from '../../test/house.ts';
import { openProxy, type Proxy } from '../../test/proxy.ts';
import { inTransaction, openPool, readTenant, type Pool } from './postgres.ts';
import { openLog } from './telemetry.ts';

let database: FreshDatabase;
let proxy: Proxy;
let url: URL;

beforeAll(async () => {
  database = await freshDatabase('ledger');
  url = new URL(database.ownerUrl);
  proxy = await openProxy(Number(url.port));
  url.port = String(proxy.port);
});

afterAll(async () => {
  await proxy.close();
  await database.drop();
});

/** Works with a pool of the least patience in which this machine, however busy, answers a statement. */
async function withPool(work: (pool: Pool) => Promise<void>): Promise<void> {
  for (let patienceMs = 500; ; patienceMs *= 4) {
    const pool = openPool(url.href, { name: 'test', max: 3, logger: openLog('test', 'silent'), patienceMs });
    try {
      await work(pool);
      return;
    } catch (error) {
      if (patienceMs > 5_000) throw error;
    } finally {
      await pool.end();
    }
  }
}

test('a connection that is never answered again is given up with all others, and the next statement has a new one', () =>
  withPool(async (pool) => {
    await Promise.all(Array.from({ length: 3 }, () => pool.query('select pg_sleep(0.1)')));
    expect(pool.idleCount).toBe(3);
    proxy.forget();
    await expect(pool.query('select 1')).rejects.toThrow('timeout');
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  }));

test('a transaction whose connection is forgotten fails as a whole, with all that was sent on it', () =>
  withPool(async (pool) => {
    await inTransaction(pool, [], async (client) => {
      await client.query('select 1');
      proxy.forget();
      const sent = [client.query('select 2'), client.query('select 3')];
      const ends = await Promise.allSettled(sent);
      expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
      throw new Error('as it should');
    }).catch((error: Error) => expect(error.message).toBe('as it should'));
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  }));

test('a statement that the server refuses costs no other connection', () =>
  withPool(async (pool) => {
    await Promise.all(Array.from({ length: 3 }, () => pool.query('select pg_sleep(0.1)')));
    expect(pool.idleCount).toBe(3);
    const refused = readTenant(pool, '00000000-0000-0000-0000-000000000000', { text: 'select 1 / 0', values: [] });
    await expect(refused).rejects.toThrow('division by zero');
    expect(pool.idleCount).toBe(2);
  }));
