// Nobody keeps others from logging in: through the door of a service, as its callers find it.
import { setTimeout as pause } from 'node:timers/promises';
import { freshDatabase, type FreshDatabase } from '../../test/house.ts';
import { newEmail, newUser, password, startIdentity, type RunningIdentity } from '../../test/identity.ts';
import { refusalOf } from '../platform/caller.ts';

let database: FreshDatabase;
let identity: RunningIdentity;
let client: RunningIdentity['client'];

beforeAll(async () => {
  database = await freshDatabase('identity', { migrated: true });
  identity = await startIdentity(database.serviceUrl);
  client = identity.client;
});

afterAll(async () => {
  await identity.end();
  await database.drop();
});

const names = { firstName: 'Ada', lastName: 'Lovelace' };
const register = (clientAddress: string, signal?: AbortSignal) =>
  client.register({ email: newEmail(), password, ...names, clientAddress }, { ...(signal && { signal }) });

/** More calls at once than may wait, each again as soon as it is answered, or a while after it was refused, until they are stopped. */
function flood(ask: (signal: AbortSignal) => Promise<unknown>) {
  const { promise: refused, resolve: full } = Promise.withResolvers<void>();
  const reasons = new Set<string | undefined>();
  const stopped = new AbortController();
  const one = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      await ask(stopped.signal).catch(async (error: unknown) => {
        if (stopped.signal.aborted) return;
        reasons.add(refusalOf(error)?.reason);
        full();
        await pause(100);
      });
    }
  };
  const all = Promise.all(Array.from({ length: 300 }, one));
  return {
    refused,
    /** Answers why anything was refused. */
    stop: async () => {
      stopped.abort();
      await all;
      return [...reasons];
    },
  };
}

test.each([
  ['registers', (signal: AbortSignal) => register('192.0.2.1', signal)],
  [
    'registers from a network of IPv6',
    (signal: AbortSignal) => register(`2001:db8::${Math.floor(Math.random() * 65_536).toString(16)}`, signal),
  ],
])('while somebody %s as fast as he can, others log in and register', async (_, ask) => {
  const { email } = await newUser(client);
  const { refused, stop } = flood(ask);
  await refused;
  for (let turn = 0; turn < 3; turn++) {
    await Promise.all([client.login({ email, password, clientAddress: '198.51.100.1' }), register('198.51.100.2')]);
  }
  expect(await stop()).toEqual(['overloaded']);
});

test('while somebody logs in as fast as he can, others log in', async () => {
  const [his, another] = [await newUser(client), await newUser(client)];
  const { refused, stop } = flood((signal) => client.login({ email: his.email, password, clientAddress: '192.0.2.1' }, { signal }));
  await refused;
  for (let turn = 0; turn < 3; turn++) await client.login({ email: another.email, password, clientAddress: '198.51.100.1' });
  expect(await stop()).toEqual(['overloaded']);
});
