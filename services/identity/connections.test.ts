// Connections to the database that break at any moment of a transaction.
import { setTimeout as pause } from 'node:timers/promises';
import type { MikroORM } from '@mikro-orm/postgresql';
import { withClient } from '../../deploy/local/databases.ts';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { newTenant, newUser, refusal, startIdentity, type RunningIdentity } from '../../test/identity.ts';
import { until } from '../../test/notifier.ts';
import { openProxy, type Proxy } from '../../test/proxy.ts';
import { newId } from '../platform/ids.ts';
import { openLog } from '../platform/telemetry.ts';
import { openOrm, entityManager } from './database.ts';

let database: FreshDatabase;
let proxy: Proxy;
let identity: RunningIdentity;
let member: string;
let tenantId: string;

beforeAll(async () => {
  database = await freshDatabase('identity', { migrated: true });
  const address = new URL(database.serviceUrl);
  proxy = await openProxy(Number(address.port));
  [address.hostname, address.port] = ['127.0.0.1', String(proxy.port)];
  identity = await startIdentity(address.href);
  member = (await newUser(identity.client)).id;
  tenantId = await newTenant(identity.client, member);
});

afterEach(() => {
  proxy.watch = () => 'pass';
});

afterAll(async () => {
  await identity.end();
  await proxy.close();
  await database.drop();
});

// The pool has five.
const cuts = 6;
const list = (userId = member) => identity.client.listApiKeys({ userId, tenantId });
const look = () => identity.client.getUser({ userId: member });

test.each([
  ['transaction', 'begins', list, 'begin', 'cut'],
  ['transaction', 'sets its row scope', list, 'set_config', 'cut'],
  ['transaction', 'is in a statement', list, 'memberships', 'cut'],
  ['transaction', 'commits', list, 'commit', 'cut'],
  ['transaction', 'waits for the answer to its commit', list, 'commit', 'cut after'],
  ['statement alone', 'waits for its answer', look, 'users', 'cut after'],
] as const)('a %s whose connection breaks while it %s frees its place in the pool', async (_, __, call, word, verdict) => {
  for (let cut = 0; cut < cuts; cut++) {
    proxy.watch = (chunk) => (chunk.includes(word) ? verdict : 'pass');
    expect(await refusal(call())).toMatchObject({ reason: 'unavailable' });
    proxy.watch = () => 'pass';
    // One that stands is left in the pool before the next breaks.
    await call();
  }
  expect((await list()).apiKeys).toEqual([]);
});

test('a rejected call whose connection breaks in the rollback frees its place in the pool', async () => {
  const otherUser = newId('user');
  for (let cut = 0; cut < cuts; cut++) {
    let seen = false;
    proxy.watch = (chunk) => {
      if (!chunk.includes('rollback')) return 'pass';
      seen = true;
      return 'cut';
    };
    expect((await refusal(list(otherUser))).reason).toBe('tenant_not_found');
    expect(seen).toBe(true);
    proxy.watch = () => 'pass';
  }
  expect((await list()).apiKeys).toEqual([]);
});

test.each([1, 2])('it is ready only where both pools are answered: of two queries number %i is cut', async (number) => {
  let asked = 0;
  proxy.watch = (chunk) => (/select 1|transaction_read_only/.test(chunk.toString('latin1')) && ++asked === number ? 'cut' : 'pass');
  expect((await identity.ready()).status).toBe(503);
  proxy.watch = () => 'pass';
  expect((await identity.ready()).status).toBe(200);
});

test.each([
  ['a statement alone', (orm: MikroORM, text: string) => entityManager(orm).execute(text)],
  ['a transaction', (orm: MikroORM, text: string) => entityManager(orm).transactional((em) => em.execute(text))],
])('a connection to a read-only database is closed: by %s', async (_, run) => {
  const fresh = await freshDatabase('identity');
  const name = new URL(fresh.ownerUrl).pathname.slice(1);
  const alter = (words: string) => withClient(database.adminUrl, (client) => client.query(`alter database "${name}" ${words}`));
  await alter('set default_transaction_read_only = on');
  const orm = await openOrm(fresh.ownerUrl, 1, openLog('test', 'silent'));
  try {
    const write = () => run(orm, 'create table notes ()');
    await run(orm, 'select 1');
    await alter('reset default_transaction_read_only');
    await expect(write()).rejects.toThrow('read-only transaction');
    await write();
    // What else is refused says nothing of the connection.
    const own = () => run(orm, 'select pg_backend_pid() as pid');
    const kept = await own();
    await expect(run(orm, 'select 1 / 0')).rejects.toThrow('division by zero');
    expect(await own()).toEqual(kept);
  } finally {
    await orm.close(true);
    await fresh.drop();
  }
});

test('a connection that comes after its caller timed out, and breaks while it is checked, frees its place', async () => {
  const way = await openProxy(Number(new URL(database.serviceUrl).port));
  const address = new URL(database.serviceUrl);
  [address.hostname, address.port] = ['127.0.0.1', String(way.port)];
  const orm = await openOrm(address.href, 1, openLog('test', 'silent'));
  const run = (statement: string) => entityManager(orm).execute(statement);
  try {
    await run('select 1');
    let asked = false;
    way.watch = (chunk) => {
      asked ||= chunk.includes('pg_sleep');
      return 'pass';
    };
    const first = run('select pg_sleep(60)').catch(() => 'broken');
    await until(() => Promise.resolve(asked));
    const second = run('select 2').then(
      () => 'answered',
      () => 'waited too long',
    );
    // Later than half of the five seconds that a caller waits: the new connection has as many from now on.
    await pause(3_000);
    way.watch = () => 'hold';
    way.cut();
    expect([await first, await second]).toEqual(['broken', 'waited too long']);
    let cut = false;
    way.watch = (chunk) => {
      if (!chunk.includes('pg_is_in_recovery')) return 'pass';
      cut = true;
      return 'cut';
    };
    way.hold(false);
    await until(() => Promise.resolve(cut));
    way.watch = () => 'pass';
    expect(await run('select 3 as answer')).toEqual([{ answer: 3 }]);
  } finally {
    way.watch = () => 'pass';
    way.cut();
    await orm.close(true);
    await way.close();
  }
});
