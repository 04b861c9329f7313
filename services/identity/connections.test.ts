// Connections to the database that break at any moment of a transaction.
import { freshDatabase, type FreshDatabase } from '../../test/house.ts';
import { newTenant, newUser, refusal, startIdentity, type RunningIdentity } from '../../test/identity.ts';
import { openProxy, type Proxy } from '../../test/proxy.ts';
import { newId } from '../platform/ids.ts';

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
  ['transaction', 'is told whose rows it sees', list, 'set_config', 'cut'],
  ['transaction', 'is in a statement', list, 'memberships', 'cut'],
  ['transaction', 'commits', list, 'commit', 'cut'],
  ['transaction', 'waits for the answer to its commit', list, 'commit', 'cut after'],
  ['statement alone', 'waits for its answer', look, 'users', 'cut after'],
] as const)('a %s whose connection breaks while it %s takes no place in the pool for good', async (_, __, call, word, verdict) => {
  for (let cut = 0; cut < cuts; cut++) {
    proxy.watch = (chunk) => (chunk.includes(word) ? verdict : 'pass');
    expect(await refusal(call())).toMatchObject({ reason: 'unavailable' });
    proxy.watch = () => 'pass';
    // One that stands is left in the pool before the next breaks.
    await call();
  }
  expect((await list()).apiKeys).toEqual([]);
});

test('nor does one that is refused and breaks while it rolls back', async () => {
  const stranger = newId('user');
  for (let cut = 0; cut < cuts; cut++) {
    let seen = false;
    proxy.watch = (chunk) => {
      if (!chunk.includes('rollback')) return 'pass';
      seen = true;
      return 'cut';
    };
    expect((await refusal(list(stranger))).reason).toBe('tenant_not_found');
    expect(seen).toBe(true);
    proxy.watch = () => 'pass';
  }
  expect((await list()).apiKeys).toEqual([]);
});

test.each([1, 2])('it is ready only where both of its pools are answered: it asks twice, and number %i is cut', async (number) => {
  let asked = 0;
  proxy.watch = (chunk) => (/select 1|transaction_read_only/.test(chunk.toString('latin1')) && ++asked === number ? 'cut' : 'pass');
  expect((await identity.ready()).status).toBe(503);
  proxy.watch = () => 'pass';
  expect((await identity.ready()).status).toBe(200);
});
