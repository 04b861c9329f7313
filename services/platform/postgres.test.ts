// Pools on a network that forgets connections.
import { freshDatabase, type FreshDatabase } from '../../test/house.ts';
import { openProxy, type Proxy } from '../../test/proxy.ts';
import { textArray } from './arrays.ts';
import { inTransaction, openPool, readTenant, type Pool } from './postgres.ts';
import { openLog } from './telemetry.ts';

let database: FreshDatabase;
let proxy: Proxy;
let pool: Pool;

beforeAll(async () => {
  database = await freshDatabase('ledger');
  const url = new URL(database.ownerUrl);
  proxy = await openProxy(Number(url.port));
  url.port = String(proxy.port);
  pool = openPool(url.href, { name: 'test', max: 3, logger: openLog('test', 'silent'), patienceMs: 500 });
});

afterAll(async () => {
  await pool.end();
  await proxy.close();
  await database.drop();
});

test('a connection that is never answered again is given up with all others, and the next statement has a new one', async () => {
  await Promise.all(Array.from({ length: 3 }, () => pool.query('select pg_sleep(0.1)')));
  expect(pool.idleCount).toBe(3);
  proxy.forget();
  await expect(pool.query('select 1')).rejects.toThrow('timeout');
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
});

test('a transaction whose connection is forgotten fails as a whole, with all that was sent on it', async () => {
  await inTransaction(pool, [], async (client) => {
    await client.query('select 1');
    proxy.forget();
    const sent = [client.query('select 2'), client.query('select 3')];
    const ends = await Promise.allSettled(sent);
    expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    throw new Error('as it should');
  }).catch((error: Error) => expect(error.message).toBe('as it should'));
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
});

test.each([[[]], [[null]], [['']], [['plain', '', null, 'NULL', '{a,"b"}\\']], [[null, 'größer', '€', '', '\u{1f4b6}', null]]])(
  'an array of text reaches the database as it is: %j',
  async (values) => {
    expect((await pool.query('select $1::text[] as told', [textArray(values)])).rows).toEqual([{ told: values }]);
  },
);

test('a statement that the server refuses costs no other connection', async () => {
  await Promise.all(Array.from({ length: 3 }, () => pool.query('select pg_sleep(0.1)')));
  expect(pool.idleCount).toBe(3);
  const refused = readTenant(pool, '00000000-0000-0000-0000-000000000000', { text: 'select 1 / 0', values: [] });
  await expect(refused).rejects.toThrow('division by zero');
  expect(pool.idleCount).toBe(2);
});
