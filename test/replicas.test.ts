// What clients notice of two ledger replicas: one effect per key, one replica per tenant, and what a missing identity means.
import { setTimeout as pause } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { createClient, type Client } from '@connectrpc/connect';
import { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { openCaller, refusalOf, type Caller } from '../services/platform/caller.ts';
import { withLongDeadline } from './polling.ts';
import { startCluster, type Cluster, type Tenant } from './cluster.ts';

jest.setTimeout(180_000);

let cluster: Cluster;
let caller: Caller;
let ledgers: Client<typeof LedgerService>;
let tenant: Tenant;
let key: string;
let path: string;

beforeAll(async () => {
  cluster = await startCluster({ ledgers: 2 });
  tenant = await cluster.tenant();
  caller = openCaller({ addresses: cluster.addresses.ledger, token: cluster.internalToken, maxMessageBytes: 1 << 20 });
  ledgers = createClient(LedgerService, withLongDeadline(caller));
  key = await cluster.apiKey(tenant);
  path = `/v1/tenants/${tenant.slug}`;
  await cluster.rest('POST', `${path}/accounts/setup`, { key, body: { business_type: 'wallet' } });
});

afterAll(async () => {
  caller.close();
  await cluster.stop();
});

function deposit(idempotencyKey: string | undefined, amount = '1.00') {
  return {
    ...(idempotencyKey !== undefined && { idempotency_key: idempotencyKey }),
    entries: [
      { account_code: 'SETTLEMENT-NGN', amount, side: 'debit', currency: 'NGN' },
      { account_code: 'CUSTOMER-WALLETS-NGN', amount, side: 'credit', currency: 'NGN' },
    ],
  };
}

interface Entry {
  account_code: string;
  amount: string;
  side: string;
  currency: string;
}

/** Posts without the gateway, which would send all postings of a tenant to one replica. */
async function postStraight({ idempotency_key: idempotencyKey, entries }: { idempotency_key?: string; entries: Entry[] }) {
  const lines = entries.map(({ account_code: accountCode, ...entry }) => ({ accountCode, ...entry }));
  const about = { tenantId: tenant.id, actor: 'test', requestId: 'test', idempotencyKey: idempotencyKey ?? '' };
  const posting = { ...about, entries: lines, timeoutMs: 45_000 };
  const posted = await ledgers.postTransaction({ posting }).catch((error: unknown) => refusalOf(error)?.reason ?? String(error));
  if (typeof posted === 'string') return { outcome: posted };
  return { outcome: posted.replayed ? 'replayed' : 'posted', id: posted.transaction?.transactionId };
}

/** The replica to which the gateway sends the tenant's postings. Throws where it is not one. */
async function replicaOfTenant(): Promise<string> {
  const posted = async (name: string) => {
    const text = await (await fetch(`${cluster.opsUrl(name)}/metrics`)).text();
    return Number(/^ledger_postings_total\{.*outcome="posted".*\} (\d+)$/m.exec(text)?.[1] ?? 0);
  };
  const names = ['ledger', 'ledger-2'];
  const before = await Promise.all(names.map(posted));
  for (let turn = 0; turn < 5; turn++) await post(deposit(undefined));
  const after = await Promise.all(names.map(posted));
  const grown = after.map((count, index) => count - before[index]!);
  expect(grown.toSorted()).toEqual([0, 5]);
  return names[grown.indexOf(5)]!;
}

const post = (body: unknown) => cluster.rest('POST', `${path}/transactions/double-entry`, { key, body });

test('one key sent at once to two replicas posts once, and every answer has the same transaction', async () => {
  const straight = Array.from({ length: 30 }, () => postStraight(deposit('race')));
  const through = Array.from({ length: 10 }, () => post(deposit('race')));
  const answers = [
    ...(await Promise.all(straight)),
    ...(await Promise.all(through)).map(({ status, headers, body }) => {
      const replayed = status === 200 && headers.get('idempotent-replayed') === 'true';
      return {
        outcome: status === 201 ? 'posted' : replayed ? 'replayed' : String(status),
        id: body.data.transaction.transaction_id as string,
      };
    }),
  ];
  expect(answers.filter(({ outcome }) => outcome === 'posted')).toHaveLength(1);
  expect(answers.filter(({ outcome }) => outcome === 'replayed')).toHaveLength(39);
  expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
});

test('one key with different bodies at once posts one of them and refuses the others, on two replicas too', async () => {
  const answers = await Promise.all(Array.from({ length: 20 }, (_, turn) => post(deposit('clash', `${turn + 1}.00`))));
  expect(answers.filter((answer) => answer.status === 201)).toHaveLength(1);
  expect(answers.filter((answer) => answer.status === 422 && answer.body.code === 'idempotency_key_reused')).toHaveLength(19);
  const straight = await Promise.all(Array.from({ length: 20 }, (_, turn) => postStraight(deposit('clash-2', `${turn + 1}.00`))));
  expect(straight.filter(({ outcome }) => outcome === 'posted')).toHaveLength(1);
  expect(straight.filter(({ outcome }) => outcome === 'idempotency_key_reused')).toHaveLength(19);
});

test('two hundred crossing postings over two replicas all post, and the sums are exact', async () => {
  const balance = async (code: string) =>
    Number((await cluster.rest('GET', `${path}/accounts/code/${code}/balance?currency=USD`, { key })).body.data.balance.balance);
  const transfer = (from: string, to: string) => ({
    idempotency_key: `crossing-${crypto.randomUUID()}`,
    entries: [
      { account_code: to, amount: '1.00', side: 'debit', currency: 'USD' },
      { account_code: from, amount: '1.00', side: 'credit', currency: 'USD' },
    ],
  });
  const [a, b] = ['SETTLEMENT-USD', 'OPERATING-CASH'] as const;
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, turn) => postStraight(turn % 4 === 0 ? transfer(a, b) : transfer(b, a))),
  );
  expect(answers.map(({ outcome }) => outcome).filter((outcome) => outcome !== 'posted')).toEqual([]);
  expect([await balance(a), await balance(b)]).toEqual([100, -100]);
});

test('a tenant’s postings all go to one replica, and to the other one while that is down', async () => {
  const first = await replicaOfTenant();
  await cluster.kill(first);
  expect((await post(deposit(undefined))).status).toBe(201);
  await cluster.restart(first);
  for (let again = ''; again !== first; again = await replicaOfTenant().catch(() => '')) await pause(100);
});

test('without identity a key that was not verified recently is answered 503, and works again when identity is back', async () => {
  await cluster.kill('identity');
  const status = async () => (await cluster.rest('GET', `${path}/accounts/code/SETTLEMENT-NGN/balance?currency=NGN`, { key })).status;
  for (let seen = await status(); seen !== 503; seen = await status()) {
    expect(seen).toBe(200);
    await pause(100);
  }
  const answer = await cluster.rest('GET', `${path}/accounts/code/SETTLEMENT-NGN/balance?currency=NGN`, { key });
  expect([answer.status, answer.body.code, Number(answer.headers.get('retry-after')) > 0]).toEqual([503, 'unavailable', true]);
  await cluster.restart('identity');
  for (let seen = await status(); seen !== 200; seen = await status()) await pause(100);
});

test('a revoked key stops within five seconds', async () => {
  const owner = await cluster.signUp();
  const tenant = await cluster.tenant({ person: owner });
  const revoked = await cluster.apiKey(tenant);
  const read = () => cluster.rest('GET', `/v1/tenants/${tenant.slug}/accounts`, { key: revoked });
  expect((await read()).status).toBe(200);
  const listed = await cluster.rest('GET', `/v1/tenants/${tenant.id}/api-keys`, { key: owner.token });
  const id = listed.body.data.api_keys[0].id as string;
  expect((await cluster.rest('DELETE', `/v1/tenants/${tenant.id}/api-keys/${id}`, { key: owner.token })).status).toBe(200);
  const since = performance.now();
  for (let status = 200; status !== 401; await pause(50)) {
    const asked = performance.now();
    ({ status } = await read());
    // The time of the request counts, not that of the answer.
    if (status === 200) expect(asked - since).toBeLessThan(5_000);
  }
});
