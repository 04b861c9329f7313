// Events of postings on their way to the tenant's receiver, over gRPC and over Kafka, while processes are killed.
import { jest } from '@jest/globals';
import { createClient, type Client } from '@connectrpc/connect';
import type { Event } from '../proto/gen/ledger/v1/events_pb.js';
import { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../proto/gen/notifier/v1/notifier_pb.js';
import { eventBody } from '../services/notifier/envelope.ts';
import { withBalanceEvents } from '../services/platform/balance-events.ts';
import { openCaller, type Caller } from '../services/platform/caller.ts';
import { newId } from '../services/platform/ids.ts';
import { startCluster, testPort, type Cluster } from './cluster.ts';
import { describeWithKafka, kafkaBrokers, newTopic, uncommitted, withAdmin } from './kafka.ts';
import { startReceiver, until, type Receiver } from './notifier.ts';

jest.setTimeout(180_000);

const types = ['transaction.posted', 'balance.updated', 'account.created', 'account.updated'];

let cluster: Cluster;
let receiver: Receiver;
let callers: Caller[];
let ledger: Client<typeof LedgerService>;
let notifier: Client<typeof NotifierService>;

async function open(environment: Record<string, NodeJS.ProcessEnv>): Promise<void> {
  receiver = await startReceiver();
  cluster = await startCluster({ ledgers: 2, notifiers: 2, environment });
  const call = (addresses: string[]) => openCaller({ addresses, token: cluster.internalToken, maxMessageBytes: 1 << 25 });
  callers = [call(cluster.addresses.ledger), call(cluster.addresses.notifier)];
  ledger = createClient(LedgerService, callers[0]!);
  notifier = createClient(NotifierService, callers[1]!);
}

async function close(): Promise<void> {
  for (const caller of callers) caller.close();
  await cluster.stop();
  await receiver.close();
}

/** Retries, as the test's own clients need a moment to find a restarted process. */
const steadily = <Answer>(call: () => Promise<Answer>) => until(() => call().catch(() => null));

/** A tenant whose events all go to the receiver. */
async function newTenant(): Promise<string> {
  const tenantId = newId('tenant');
  await steadily(() => notifier.configureWebhook({ tenantId, url: receiver.url, events: types }));
  for (const accountCode of ['a', 'b']) await ledger.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  return tenantId;
}

/** Posts and repeats with the same key until answered. */
async function post(tenantId: string): Promise<void> {
  const entries = ['a', 'b'].map((accountCode, index) => ({
    accountCode,
    side: index === 0 ? 'debit' : 'credit',
    amount: '1.00',
    currency: 'NGN',
  }));
  const posting = { tenantId, entries, idempotencyKey: newId('txn') };
  await steadily(() => ledger.postTransaction({ posting }));
}

/** Every event of a tenant in order, with the derived ones. */
async function eventsOf(tenantId: string): Promise<Event[]> {
  const all: Event[] = [];
  for (;;) {
    const { events, hasMore } = await ledger.listEvents({ tenantId, afterSequence: all.at(-1)?.sequence ?? 0n, limit: 100 });
    all.push(...events.flatMap(withBalanceEvents));
    if (!hasMore) return all;
  }
}

const idsReceived = (tenantId: string) =>
  receiver.received
    .map(({ headers, body }) => ({ id: String(headers['x-webhook-id']), event: JSON.parse(body) as { tenant_id?: string } }))
    .filter(({ id }) => known.get(tenantId)?.has(id))
    .map(({ id }) => id);
const known = new Map<string, Set<string>>();

/** Resolves when every event of the tenant's log has arrived, and expects one delivery for each. */
async function everythingArrived(tenantId: string): Promise<void> {
  const ids = (await steadily(() => eventsOf(tenantId))).map(({ id }) => id);
  known.set(tenantId, new Set(ids));
  await until(async () => new Set(idsReceived(tenantId)).size === ids.length);
  const { total } = await steadily(() => notifier.listDeliveries({ tenantId, limit: 1 }));
  expect(Number(total)).toBe(ids.length);
}

const readiness = async () => (await (await fetch(`${cluster.opsUrl('ledger')}/readyz`)).json()) as Record<string, unknown>;

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${cluster.opsUrl('ledger')}/metrics`)).text();
  const line = text.split('\n').find((each) => each.startsWith(`${name}{`) || each.startsWith(`${name} `));
  return Number(line?.split(' ').at(-1));
}

function everyEventArrives(): void {
  test('every event of a posting arrives once, as the log has it', async () => {
    const tenantId = await newTenant();
    await post(tenantId);
    await everythingArrived(tenantId);
    const events = await eventsOf(tenantId);
    expect(events.map(({ type }) => type)).toEqual([
      'account.created',
      'account.created',
      'transaction.posted',
      'balance.updated',
      'balance.updated',
    ]);
    expect(idsReceived(tenantId).sort()).toEqual(events.map(({ id }) => id).sort());
    const bodies = new Map(receiver.received.map(({ headers, body }) => [headers['x-webhook-id'], body]));
    expect(events.map(({ id }) => bodies.get(id))).toEqual(events.map(eventBody));
  });
}

describe('over gRPC', () => {
  beforeAll(() => open({}));
  afterAll(close);
  everyEventArrives();

  test('the trace context of a request goes with all its events to the receiver, and a request without one starts a trace', async () => {
    const tenant = await cluster.tenant();
    const key = await cluster.apiKey(tenant);
    await steadily(() => notifier.configureWebhook({ tenantId: tenant.id, url: receiver.url, events: types }));
    const base = `/v1/tenants/${tenant.slug}`;
    const trace = (number: number) => `00-4bf92f3577b34da6a3ce929d0e0e473${number}-00f067aa0ba902b7-01`;
    const send = async (method: string, path: string, body: object, traceparent?: string) => {
      const headers = traceparent === undefined ? {} : { traceparent };
      const answer = await cluster.rest(method, `${base}${path}`, { key, body, headers });
      expect([method, path, answer.body.success]).toEqual([method, path, true]);
      return answer.body.data;
    };
    const account = { account_code: 'a', name: 'a', type: 'asset' };
    await send('POST', '/accounts', account, trace(1));
    await send('PATCH', '/accounts/code/a', { name: 'b' }, trace(2));
    await send('POST', '/accounts', { ...account, account_code: 'b' }, `${trace(3)}-of-no-version-0`);
    const entry = (account_code: string, side: string) => ({ account_code, side, amount: '1.00', currency: 'NGN' });
    const body = { idempotency_key: 'once', entries: [entry('a', 'debit'), entry('b', 'credit')] };
    const { transaction } = await send('POST', '/transactions/double-entry', body, trace(4));
    await send('POST', '/transactions/double-entry', body, trace(5));
    await send('POST', `/transactions/${transaction.transaction_id}/reverse`, {}, trace(6));
    await send('POST', '/transactions/double-entry', { ...body, idempotency_key: 'twice' });
    await everythingArrived(tenant.id);

    const events = await eventsOf(tenant.id);
    const traces = new Map(receiver.received.map(({ headers }) => [String(headers['x-webhook-id']), String(headers['traceparent'])]));
    expect(events.map(({ id, type }) => [type, traces.get(id)])).toEqual([
      ['account.created', trace(1)],
      ['account.updated', trace(2)],
      ['account.created', expect.any(String)],
      ...['transaction.posted', 'balance.updated', 'balance.updated'].map((type) => [type, trace(4)]),
      ...['transaction.posted', 'balance.updated', 'balance.updated'].map((type) => [type, trace(6)]),
      ...['transaction.posted', 'balance.updated', 'balance.updated'].map((type) => [type, expect.any(String)]),
    ]);
    const [second, last] = [traces.get(events[2]!.id), traces.get(events.at(-1)!.id)];
    expect(second).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    expect(last).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    expect(new Set([second, last, traces.get(events.at(-3)!.id)]).size).toBe(2);

    await send('POST', '/webhooks/test', {}, trace(7));
    expect(receiver.received.at(-1)!.headers['traceparent']).toBe(trace(7));
  });

  test('the trace context of a gRPC call stands in where its postings have none', async () => {
    const tenantId = await newTenant();
    const [one, other] = [`00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, `00-${'c'.repeat(32)}-${'d'.repeat(16)}-00`];
    const entries = ['debit', 'credit'].map((side, place) => ({ accountCode: 'ab'.charAt(place), side, amount: '1.00', currency: 'NGN' }));
    const postings = [
      { tenantId, entries, idempotencyKey: 'plain' },
      { tenantId, entries, idempotencyKey: 'own', traceparent: other },
    ];
    await steadily(() => ledger.postTransactions({ postings }, { headers: { traceparent: one } }));
    const posted = (await eventsOf(tenantId)).filter(({ type }) => type === 'transaction.posted');
    expect(posted.map(({ traceparent }) => traceparent)).toEqual([one, other]);
  });

  test('a webhook that is configured later gets the events of everything posted from then on', async () => {
    const tenantId = newId('tenant');
    for (const accountCode of ['a', 'b']) await ledger.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
    for (let turn = 0; turn < 5; turn++) await post(tenantId);
    const before = (await eventsOf(tenantId)).length;
    const { webhook } = await notifier.configureWebhook({ tenantId, url: receiver.url, events: types });
    // Older events are not delivered, and an event's time may be a little behind the database's.
    await until(() => Promise.resolve(Date.now() > Number(webhook?.createdMs) + 1000));
    for (let turn = 0; turn < 5; turn++) await post(tenantId);
    const later = (await eventsOf(tenantId)).slice(before).map(({ id }) => id);
    known.set(tenantId, new Set(later));
    await until(() => Promise.resolve(new Set(idsReceived(tenantId)).size === later.length));
    expect(Number((await notifier.listDeliveries({ tenantId, limit: 1 })).total)).toBe(later.length);
  });

  test('what was committed and not published when the ledger was killed is published after its next start', async () => {
    const tenantId = await newTenant();
    await everythingArrived(tenantId);
    // Events without a subscriber are skipped a moment later.
    await until(async () => (await metric('ledger_relay_lag_events')) === 0);
    await Promise.all([cluster.kill('notifier'), cluster.kill('notifier-2')]);
    await Promise.all(Array.from({ length: 10 }, () => post(tenantId)));
    await until(async () => (await readiness())['status'] === 'degraded');
    expect(await readiness()).toEqual({ status: 'degraded', dependencies: { postgresql: 'ok', notifier: 'away' } });
    await until(async () => (await metric('ledger_relay_lag_events')) === 10);
    expect(await metric('ledger_relay_lag_seconds')).toBeGreaterThan(0);
    await Promise.all([cluster.kill('ledger'), cluster.kill('ledger-2')]);
    await Promise.all(['ledger', 'ledger-2', 'notifier', 'notifier-2'].map((name) => cluster.restart(name)));
    await everythingArrived(tenantId);
    await until(async () => (await readiness())['status'] === 'ok');
    // An event can be delivered before its publication is recorded.
    await until(async () => (await metric('ledger_relay_lag_events')) === 0);
  });
});

test('without Kafka postings are answered, and readiness names Kafka', async () => {
  const nowhere = { KAFKA_BROKERS: `127.0.0.1:${await testPort()}` };
  const withoutKafka = await startCluster({ environment: { ledger: nowhere, notifier: nowhere } });
  try {
    const tenant = await withoutKafka.tenant();
    const key = await withoutKafka.apiKey(tenant);
    const path = `/v1/tenants/${tenant.slug}`;
    expect((await withoutKafka.rest('POST', `${path}/accounts/setup`, { key, body: { business_type: 'wallet' } })).status).toBe(201);
    const body = { account_code: 'SETTLEMENT-NGN', amount: '1.00', side: 'debit', currency: 'NGN' };
    expect((await withoutKafka.rest('POST', `${path}/transactions`, { key, body })).status).toBe(201);
    const ready = await until(async () => {
      const answer = await withoutKafka.rest('GET', '/readyz');
      const { kafka, ...others } = answer.body.dependencies;
      return kafka !== undefined && Object.values(others).every((each) => each === 'ok') ? answer : null;
    });
    const dependencies = { identity: 'ok', ledger: 'ok', notifier: 'ok', kafka: 'not serving' };
    expect([ready.status, ready.body]).toEqual([200, { status: 'degraded', dependencies }]);
  } finally {
    await withoutKafka.stop();
  }
});

describeWithKafka('over Kafka', () => {
  const topic = newTopic();
  let brokers: string;

  beforeAll(async () => {
    brokers = await kafkaBrokers();
    const environment = { KAFKA_BROKERS: brokers, KAFKA_TOPIC: topic, KAFKA_PARTITIONS: '4' };
    await open({ ledger: environment, notifier: environment });
  }, 120_000);
  afterAll(close);
  everyEventArrives();

  test('a ledger killed under load loses no event: the other one publishes what it left', async () => {
    const tenants = [await newTenant(), await newTenant(), await newTenant()];
    const posts = Array.from({ length: 150 }, (_, turn) => post(tenants[turn % 3]!));
    await Promise.race(posts);
    await cluster.kill('ledger-2');
    await Promise.all(posts);
    for (const tenantId of tenants) await everythingArrived(tenantId);
    await cluster.restart('ledger-2');
  });

  test('without a notifier postings go on, and all events arrive when it is back', async () => {
    const tenantId = await newTenant();
    await post(tenantId);
    await everythingArrived(tenantId);
    await Promise.all([cluster.kill('notifier'), cluster.kill('notifier-2')]);
    for (let turn = 0; turn < 20; turn++) await post(tenantId);
    await Promise.all([cluster.restart('notifier'), cluster.restart('notifier-2')]);
    await everythingArrived(tenantId);
  });

  test('readiness names Kafka', async () => {
    const ready = await until(async () => {
      const answer = await cluster.rest('GET', '/readyz');
      return answer.body.status === 'ok' && answer.body.dependencies.kafka !== undefined ? answer : null;
    });
    expect(ready.body.dependencies).toEqual({ identity: 'ok', ledger: 'ok', notifier: 'ok', kafka: 'ok' });
  });

  test('nothing is delivered again when the group’s offsets are reset to the beginning', async () => {
    const tenantId = await newTenant();
    for (let turn = 0; turn < 5; turn++) await post(tenantId);
    await everythingArrived(tenantId);
    await Promise.all([cluster.kill('notifier', 'SIGTERM'), cluster.kill('notifier-2', 'SIGTERM')]);
    const before = receiver.received.length;
    const groupId = `notifier.${topic}`;
    // Refused while Kafka still lists the group's members.
    await until(() =>
      withAdmin(brokers, (admin) => admin.resetOffsets({ groupId, topic, earliest: true })).then(
        () => true,
        () => null,
      ),
    );
    await Promise.all([cluster.restart('notifier'), cluster.restart('notifier-2')]);
    await until(async () => (await uncommitted(brokers, topic, groupId)) === 0n);
    // The notifiers continue from the offsets in their database.
    await post(tenantId);
    await everythingArrived(tenantId);
    expect(receiver.received).toHaveLength(before + 3);
  });
});
