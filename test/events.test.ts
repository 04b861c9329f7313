// Events of postings on their way to the tenant's receiver, over gRPC and over Kafka, also while a deployment switches between them.
import { jest } from '@jest/globals';
import { createClient, type Client } from '@connectrpc/connect';
import type { Event } from '../proto/gen/ledger/v1/events_pb.js';
import { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../proto/gen/notifier/v1/notifier_pb.js';
import { eventBody } from '../services/notifier/envelope.ts';
import { withDerivedEvents } from '../services/platform/derived-events.ts';
import { openCaller, type Caller } from '../services/platform/caller.ts';
import { newId } from '../services/platform/ids.ts';
import { startCluster, testPort, type Cluster } from './cluster.ts';
import { describeWithKafka, kafkaBrokers, newTopic, uncommitted } from './kafka.ts';
import { startReceiver, until, type Receiver } from './notifier.ts';
import { sharedCluster } from './shared-cluster.ts';

jest.setTimeout(180_000);

const types = ['transaction.posted', 'balance.updated', 'account.created', 'account.updated'];

let cluster: Cluster;
let receiver: Receiver;
let callers: Caller[];
let ledger: Client<typeof LedgerService>;
let notifier: Client<typeof NotifierService>;

async function open(start: () => Promise<Cluster>): Promise<void> {
  receiver = await startReceiver();
  cluster = await start();
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

const entries = ['debit', 'credit'].map((side, place) => ({ accountCode: 'ab'.charAt(place), side, amount: '1.00', currency: 'NGN' }));

/** Posts and repeats with the same key until answered. */
async function post(tenantId: string): Promise<void> {
  const posting = { tenantId, entries, idempotencyKey: newId('txn') };
  await steadily(() => ledger.postTransaction({ posting }));
}

/** Every event of a tenant in order, with the derived ones. */
async function eventsOf(tenantId: string): Promise<Event[]> {
  const all: Event[] = [];
  for (;;) {
    const { events, hasMore } = await ledger.listEvents({ tenantId, afterSequence: all.at(-1)?.sequence ?? 0n, limit: 100 });
    all.push(...events.flatMap(withDerivedEvents));
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
  beforeAll(() => open(sharedCluster));
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
    const dependencies = { identity: 'ok', ledger: 'ok', auditor: 'ok', notifier: 'ok', kafka: 'not serving' };
    expect([ready.status, ready.body]).toEqual([200, { status: 'degraded', dependencies }]);
  } finally {
    await withoutKafka.stop();
  }
});

// In order: a deployment that switches from gRPC to Kafka and back, in the order of the Kafka page.
describeWithKafka('between gRPC and Kafka', () => {
  const topic = newTopic();
  let kafka: NodeJS.ProcessEnv & { KAFKA_BROKERS: string };

  beforeAll(async () => {
    kafka = { KAFKA_BROKERS: await kafkaBrokers(), KAFKA_TOPIC: topic, KAFKA_PARTITIONS: '4' };
    await open(() => startCluster({ replicas: { ledger: 2, notifier: 2 } }));
  });
  afterAll(close);

  /** Posts all the while, to several tenants; afterwards every event has arrived. */
  async function underLoad(work: () => Promise<unknown>): Promise<void> {
    const tenants = [await newTenant(), await newTenant()];
    const over = new AbortController();
    const posting = tenants.map(async (tenantId) => {
      while (!over.signal.aborted) await post(tenantId);
    });
    await work().finally(() => over.abort());
    await Promise.all(posting);
    for (const tenantId of tenants) await everythingArrived(tenantId);
  }

  async function restart(service: string, environment: NodeJS.ProcessEnv): Promise<void> {
    for (const name of [service, `${service}-2`]) await cluster.restart(name, environment);
  }

  /** A figure of both notifiers, added up. */
  async function figure(name: RegExp): Promise<number> {
    const urls = ['notifier', 'notifier-2'].map((each) => `${cluster.opsUrl(each)}/metrics`);
    const texts = await Promise.all(urls.map(async (url) => (await fetch(url)).text()));
    const lines = texts.flatMap((text) => text.split('\n').filter((line) => name.test(line)));
    return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }

  test('a deployment switches to Kafka under load, one process after the other, without losing an event', () =>
    underLoad(async () => {
      await restart('notifier', kafka);
      await restart('ledger', kafka);
      await until(async () => (await figure(/^notifier_events_total\{.*"consumed"/)) > 0);
    }));

  everyEventArrives();

  test('readiness names Kafka', async () => {
    const ready = await until(async () => {
      const answer = await cluster.rest('GET', '/readyz');
      return answer.body.status === 'ok' && answer.body.dependencies.kafka !== undefined ? answer : null;
    });
    expect(ready.body.dependencies).toEqual({ identity: 'ok', ledger: 'ok', auditor: 'ok', notifier: 'ok', kafka: 'ok' });
  });

  test('a ledger and a notifier that are killed under load lose no event', () =>
    underLoad(async () => {
      for (const name of ['ledger-2', 'notifier-2']) await cluster.kill(name);
      for (const name of ['ledger-2', 'notifier-2']) await cluster.restart(name);
    }));

  test('it switches back under load, without losing an event', () =>
    underLoad(async () => {
      await restart('ledger', { KAFKA_BROKERS: '' });
      // The figure is some seconds old: it may be from before the last messages.
      await until(async () => (await uncommitted(kafka.KAFKA_BROKERS, topic, `notifier.${topic}`)) === 0n);
      await until(async () => (await figure(/^notifier_consumer_lag[{ ]/)) === 0);
      await restart('notifier', { KAFKA_BROKERS: '' });
    }));
});
