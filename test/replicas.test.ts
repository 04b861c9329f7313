// What clients notice of two ledger replicas: one effect per key, one replica per tenant, and what a missing identity means.
import { setTimeout as pause } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { createClient, type Client } from '@connectrpc/connect';
import { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { openCaller, type Caller } from '../services/platform/caller.ts';
import { until, withLongDeadline } from './polling.ts';
import { startCluster, type Cluster, type Tenant } from './cluster.ts';

jest.setTimeout(180_000);

let cluster: Cluster;
let caller: Caller;
let ledgers: Client<typeof LedgerService>;
let tenant: Tenant;
let key: string;
let path: string;

beforeAll(async () => {
  cluster = await startCluster({ replicas: { ledger: 2 } });
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

const lines = ['debit', 'credit'].map((side) => ({
  account_code: side === 'debit' ? 'SETTLEMENT-NGN' : 'CUSTOMER-WALLETS-NGN',
  amount: '1.00',
  side,
  currency: 'NGN',
}));

const post = (more: object = {}) => cluster.rest('POST', `${path}/transactions/double-entry`, { key, body: { entries: lines, ...more } });

/** The replica to which the gateway sends the tenant's postings. Throws where it is not one. */
async function replicaOfTenant(): Promise<string> {
  const posted = async (name: string) => {
    const text = await (await fetch(`${cluster.opsUrl(name)}/metrics`)).text();
    return Number(/^ledger_postings_total\{.*outcome="posted".*\} (\d+)$/m.exec(text)?.[1] ?? 0);
  };
  const names = ['ledger', 'ledger-2'];
  const before = await Promise.all(names.map(posted));
  for (let turn = 0; turn < 5; turn++) await post();
  const after = await Promise.all(names.map(posted));
  const grown = after.map((count, index) => count - before[index]!);
  expect(grown.toSorted()).toEqual([0, 5]);
  return names[grown.indexOf(5)]!;
}

test('one key sent at once to two replicas posts once, and every answer has the same transaction', async () => {
  // Without the gateway, which sends all postings of a tenant to one replica.
  const entries = lines.map(({ account_code: accountCode, ...entry }) => ({ accountCode, ...entry }));
  const posting = { tenantId: tenant.id, idempotencyKey: 'race', entries };
  const straight = Array.from({ length: 30 }, async () => {
    const { transaction, replayed } = await ledgers.postTransaction({ posting });
    return { replayed, id: transaction?.transactionId };
  });
  const through = Array.from({ length: 10 }, async () => {
    const { status, body } = await post({ idempotency_key: 'race' });
    return { replayed: status === 200, id: body.data.transaction.transaction_id };
  });
  const answers = await Promise.all([...straight, ...through]);
  expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
  expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
});

test('a tenant’s postings all go to one replica, and to the other one while that is down', async () => {
  const first = await replicaOfTenant();
  await cluster.kill(first);
  expect((await post()).status).toBe(201);
  await cluster.restart(first);
  for (let again = ''; again !== first; again = await replicaOfTenant().catch(() => '')) await pause(100);
});

test('a hold that is due expires once within 5 s, also while a replica is killed', async () => {
  const entries = lines.map(({ account_code: accountCode, ...entry }) => ({ accountCode, ...entry }));
  const command = { command: { case: 'hold' as const, value: { entries, expiresIn: 2n } } };
  const { results } = await ledgers.submit({ tenantId: tenant.id, commands: Array.from({ length: 100 }, () => command) });
  const holds = new Map(results.map(({ hold }) => [hold!.holdId, hold!.expiresMs!]));
  await pause(Number(results[0]!.hold!.expiresMs) - Date.now());
  await cluster.kill('ledger', 'SIGKILL');
  const [survivor] = cluster.addresses.ledger.slice(1);
  const own = openCaller({ addresses: [survivor!], token: cluster.internalToken, maxMessageBytes: 1 << 20 });
  const client = createClient(LedgerService, withLongDeadline(own));
  await until(
    () => client.listHolds({ tenantId: tenant.id, status: 'pending' }),
    ({ holds: pending }) => pending.length === 0,
  );
  const { events } = await client.listEvents({ tenantId: tenant.id, afterSequence: results.at(-1)!.hold!.sequence, limit: 100 });
  own.close();
  await cluster.restart('ledger');
  const ended = events.flatMap(({ data, createdMs }) => (data.case === 'holdEnded' ? [{ id: data.value.hold!.holdId, createdMs }] : []));
  expect(ended.map(({ id }) => id).toSorted()).toEqual([...holds.keys()].toSorted());
  for (const { id, createdMs } of ended) {
    const lateMs = Number(createdMs - holds.get(id)!);
    expect(lateMs).toBeGreaterThanOrEqual(0);
    expect(lateMs).toBeLessThan(5_000);
  }
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
