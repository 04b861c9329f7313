// Nobody keeps others from logging in: through the door of a service, as its callers find it.
import { setTimeout as pause } from 'node:timers/promises';
import { Code, ConnectError } from '@connectrpc/connect';
import { withClient } from '../../deploy/local/databases.ts';
import type { FreshDatabase } from '../../test/cluster.ts';
import { newEmail, newTenant, newUser, password, useIdentity, type IdentityClient, type RunningIdentity } from '../../test/identity.ts';
import { refusalOf } from '../platform/caller.ts';

let database: FreshDatabase;
let identity: RunningIdentity;
let client: IdentityClient;

useIdentity((own) => ({ identity, client, database } = own));

const names = { firstName: 'Ada', lastName: 'Lovelace' };
const register = (clientAddress: string, signal?: AbortSignal) =>
  client.register({ email: newEmail(), password, ...names, clientAddress }, { ...(signal && { signal }) });

/** More calls at once than may wait, each again as soon as it is answered, or a while after it was refused, until they are stopped. */
function flood(ask: (signal: AbortSignal) => Promise<unknown>) {
  const { promise: refused, resolve: full } = Promise.withResolvers<void>();
  const reasons = new Set<string>();
  const stopped = new AbortController();
  const one = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      await ask(stopped.signal).catch(async (error: unknown) => {
        if (stopped.signal.aborted) return;
        reasons.add(`${Code[ConnectError.from(error).code]} ${refusalOf(error)?.reason}`);
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
])('while one client %s as fast as it can, others log in and register', async (_, ask) => {
  const { email } = await newUser(client);
  const { refused, stop } = flood(ask);
  await refused;
  for (let turn = 0; turn < 3; turn++) {
    await Promise.all([client.login({ email, password, clientAddress: '198.51.100.1' }), register('198.51.100.2')]);
  }
  expect(await stop()).toEqual(['ResourceExhausted overloaded']);
});

test('while one client logs in as fast as it can, others log in', async () => {
  const [busy, another] = [await newUser(client), await newUser(client)];
  const { refused, stop } = flood((signal) => client.login({ email: busy.email, password, clientAddress: '192.0.2.1' }, { signal }));
  await refused;
  for (let turn = 0; turn < 3; turn++) await client.login({ email: another.email, password, clientAddress: '198.51.100.1' });
  expect(await stop()).toEqual(['ResourceExhausted overloaded']);
});

const guess = (email: string) => client.login({ email, password: 'wrong', clientAddress: '192.0.2.1' });
const join = () => register('192.0.2.1');
const refresh = () => client.refresh({ refreshToken: 'lrt_unknown' });
const logout = () => client.logout({ refreshToken: 'lrt_unknown' });

test.each([
  ['looked up', 'access exclusive', [guess, join, refresh, logout]],
  // What is looked up first is answered.
  ['written', 'exclusive', [guess, join]],
])('unauthenticated clients that have %s leave connections for keys, users and health', async (_, mode, calls) => {
  const { id: userId, email } = await newUser(client);
  const tenantId = await newTenant(client, userId);
  const { key } = await client.createApiKey({ userId, tenantId, name: 'key', scopes: ['accounts:read'] });
  await withClient(database.adminUrl, async (admin) => {
    await admin.query(`begin; lock table login_failures, users, refresh_tokens in ${mode} mode`);
    // Each that has a connection is given up after two seconds; so many wait for one that no other call would get one within five.
    let asking = true;
    let refused = 0;
    const strangers = Array.from({ length: 120 }, async (_, place) => {
      const ask = calls[place % calls.length]!;
      while (asking) await ask(email).catch(() => refused++);
    });
    try {
      while (refused < strangers.length) {
        expect((await client.verifyApiKey({ key })).verified?.tenantId).toBe(tenantId);
        expect((await client.listTenants({ userId })).tenants).toHaveLength(1);
        expect((await identity.ready()).status).toBe(200);
        await pause(20);
      }
    } finally {
      asking = false;
      await admin.query('rollback');
      await Promise.all(strangers);
    }
  });
});

/** Begins 600 calls, and another user's after them, while a table is locked; returns how many are unanswered when the other's are answered. */
async function leftOfMany(table: string, ask: () => Promise<unknown>, other: () => Promise<unknown>): Promise<number> {
  return withClient(database.adminUrl, async (admin) => {
    await admin.query(`begin; lock table ${table} in access exclusive mode`);
    let asking = 600;
    const many = Array.from({ length: asking }, () =>
      ask()
        .catch(() => undefined)
        .finally(() => asking--),
    );
    // Calls of one connection arrive in the order in which they are made.
    const answered = other();
    await admin.query('rollback');
    await answered;
    const left = asking;
    await Promise.all(many);
    return left;
  });
}

const times = 5;

/** The most that are left of several times: one call, or its commit, may stand still while the many go on, but not each time. */
async function mostLeft(...given: Parameters<typeof leftOfMany>): Promise<number> {
  let most = 0;
  for (let tried = 0; tried < times && most <= 300; tried++) most = Math.max(most, await leftOfMany(...given));
  return most;
}

test.each([
  ['refreshes', () => client.refresh({ refreshToken: 'lrt_invented', clientAddress: '192.0.2.1' })],
  ['ends', () => client.logout({ refreshToken: 'lrt_invented', clientAddress: '192.0.2.1' })],
])('while one client %s invented sessions by the hundred, others refresh and end theirs', async (_, ask) => {
  const { email } = await newUser(client);
  const clientAddress = '198.51.100.1';
  const sessions = await Promise.all(Array.from({ length: times }, () => client.login({ email, password, clientAddress })));
  const refreshAndEnd = async () => {
    const { refreshToken } = sessions.pop()!.session!;
    const { session } = await client.refresh({ refreshToken, clientAddress });
    await client.logout({ refreshToken: session!.refreshToken, clientAddress });
  };
  expect(await mostLeft('refresh_tokens', ask, refreshAndEnd)).toBeGreaterThan(300);
});

test('while one user lists tenants by the hundred, others list theirs', async () => {
  const [busy, another] = [await newUser(client), await newUser(client)];
  const list = ({ id: userId }: typeof busy) => client.listTenants({ userId });
  const listAnother = async () => expect((await list(another)).tenants).toEqual([]);
  expect(await mostLeft('tenants', () => list(busy), listAnother)).toBeGreaterThan(300);
});
