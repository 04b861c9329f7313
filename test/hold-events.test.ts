// Holds from REST to the tenant's receiver, over gRPC and over Kafka: each event once, signed, in the order of the log.
import { jest } from '@jest/globals';
import { createClient } from '@connectrpc/connect';
import type { Event } from '../proto/gen/ledger/v1/events_pb.js';
import { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { eventBody } from '../services/notifier/envelope.ts';
import { bodySignature, eventTypes, standardSignature } from '../services/notifier/webhook.ts';
import { openCaller } from '../services/platform/caller.ts';
import { withDerivedEvents } from '../services/platform/derived-events.ts';
import { startCluster, type Cluster } from './cluster.ts';
import { deposit, newWallet, type Customer } from './customer.ts';
import { describeWithKafka, kafkaBrokers, messagesOf, newTopic } from './kafka.ts';
import { startReceiver, until, type Receiver } from './notifier.ts';

jest.setTimeout(120_000);

const secret = 'the secret of every webhook here';
let cluster: Cluster;
let receiver: Receiver;
let customer: Customer;

// One delivery at a time, so that they arrive in their order.
const oneByOne = { WEBHOOK_ENDPOINT_CONCURRENCY: '1' };

async function open(kafka: NodeJS.ProcessEnv): Promise<void> {
  receiver = await startReceiver();
  cluster = await startCluster({ environment: { ledger: kafka, notifier: { ...kafka, ...oneByOne } } });
  customer = await newWallet(cluster);
  const { status } = await customer.post('webhooks', { url: receiver.url, events: eventTypes, secret });
  expect(status).toBe(201);
}

async function close(): Promise<void> {
  await cluster.stop();
  await receiver.close();
}

async function done(path: string, body?: object): Promise<any> {
  const { status, body: answer } = await customer.post(path, body);
  expect([path, status, answer.code]).toEqual([path, expect.any(Number), undefined]);
  return answer.data;
}

const hold = async (more: object): Promise<any> => (await done('holds', { ...deposit('10.00'), ...more })).hold;

/** The tenant's log from its first hold on, each row followed by what is derived from it. */
async function eventsFrom(sequence: number): Promise<Event[]> {
  const caller = openCaller({ addresses: cluster.addresses.ledger, token: cluster.internalToken, maxMessageBytes: 1 << 25 });
  try {
    const page = { tenantId: customer.tenant.id, afterSequence: BigInt(sequence - 1), limit: 100 };
    return (await createClient(LedgerService, caller).listEvents(page)).events.flatMap(withDerivedEvents);
  } finally {
    caller.close();
  }
}

const two = ['balance.updated', 'balance.updated'];
const expected = [
  ...['hold.created', ...two],
  ...['transaction.posted', ...two, 'hold.captured'],
  ...['hold.voided', ...two],
  ...['hold.created', ...two],
  ...['transaction.posted', ...two, 'hold.captured'],
  ...['hold.created', ...two],
  ...['hold.expired', ...two],
];

/** Uses holds in every way and answers their events, once the last has expired. */
async function useHolds(): Promise<Event[]> {
  const first = await hold({ description: 'Taxi' });
  await done(`holds/${first.hold_id}/capture`, { amount: '4.00', final: false });
  await done(`holds/${first.hold_id}/void`, { description: 'Too late' });
  const second = await hold({});
  await done(`holds/${second.hold_id}/capture`);
  await hold({ expires_in: 1 });
  return until(async () => {
    const events = await eventsFrom(first.sequence);
    return events.length >= expected.length ? events : null;
  });
}

/** Expects each event once, in order, with the body of the event and both signatures. */
async function expectDelivered(events: Event[]): Promise<any[]> {
  const ids = new Set(events.map(({ id }) => id));
  const own = () => receiver.received.filter(({ headers }) => ids.has(String(headers['x-webhook-id'])));
  await until(() => Promise.resolve(own().length >= events.length));
  expect(own().map(({ body }) => body)).toEqual(events.map(eventBody));
  for (const { headers, body } of own()) {
    const signed = { id: String(headers['webhook-id']), timestamp: Number(headers['webhook-timestamp']), body };
    expect([headers['x-webhook-signature'], headers['webhook-signature']]).toEqual([
      bodySignature(secret, body),
      standardSignature(secret, signed),
    ]);
    expect(headers['x-webhook-event']).toBe(JSON.parse(body).type);
  }
  return own().map(({ body }) => JSON.parse(body));
}

describe('over gRPC', () => {
  beforeAll(() => open({}));
  afterAll(close);

  test('a hold that is made, captured, voided or expires reaches the receiver as REST shows it', async () => {
    const events = await useHolds();
    expect(events.map(({ type }) => type)).toEqual(expected);
    const bodies = await expectDelivered(events);
    const of = (type: string) => bodies.filter((each) => each.type === type).map(({ data }) => data);
    const [voided, captured, expired] = (await customer.get('holds?limit=3')).holds.reverse();
    expect([voided.status, captured.status, expired.status]).toEqual(['voided', 'captured', 'expired']);
    expect(of('hold.voided')).toEqual([{ ...voided, void_description: 'Too late' }]);
    expect(of('hold.expired')).toEqual([expired]);
    const transactions = of('transaction.posted');
    expect(of('hold.captured')).toEqual([
      expect.objectContaining({ hold_id: voided.hold_id, status: 'pending', captures: 1, transaction_id: transactions[0].transaction_id }),
      { ...captured, transaction_id: transactions[1].transaction_id },
    ]);
    expect(transactions.map(({ kind, origin }) => [kind, origin.hold_id])).toEqual([
      ['capture', voided.hold_id],
      ['capture', captured.hold_id],
    ]);
    const wallet = of('balance.updated').filter(({ account_code }) => account_code === 'CUSTOMER-WALLETS-USD');
    const { hold_id } = voided;
    expect(wallet.slice(0, 3)).toMatchObject([
      { balance: '0.00', previous_balance: '0.00', pending_credits: '10.00', available: '0.00', transaction_id: null, hold_id },
      { balance: '4.00', previous_balance: '0.00', pending_credits: '6.00', transaction_id: transactions[0].transaction_id, hold_id },
      { balance: '4.00', previous_balance: '4.00', pending_credits: '0.00', transaction_id: null, hold_id },
    ]);
    expect(wallet.map(({ version }) => version)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    const last = (await customer.get('accounts/code/CUSTOMER-WALLETS-USD/balance?currency=USD')).balance;
    expect(last).toMatchObject({ balance: '14.00', pending_credits: '0.00', available: '14.00', version: 7 });
  });

  test('the audit trail has the rows, and a changed rule reaches the receiver', async () => {
    const rule = { account_code: 'CUSTOMER-WALLETS-USD', applies: 'account', currency: 'USD', side: 'debit', max_count: 5 };
    const { limit } = await done('limits', { ...rule, window: { rolling_seconds: 3600 } });
    const { events } = await customer.get('events?limit=100');
    const rows = events.filter(({ type }: any) => type.startsWith('hold.') || type === 'definition.changed');
    expect(rows.map(({ type }: any) => type)).toEqual([
      ...['hold.created', 'hold.voided', 'hold.created', 'hold.created', 'hold.expired', 'definition.changed'],
    ]);
    const changed = { kind: 'limit', id: limit.limit_id, version: 1, record: expect.objectContaining({ max_count: 5, name: null }) };
    expect(rows.at(-1).data).toEqual(changed);
    const delivered = await until(async () => receiver.received.find(({ headers }) => headers['x-webhook-id'] === rows.at(-1).id));
    expect(JSON.parse(delivered.body).data).toEqual(rows.at(-1).data);
    const [, voided] = rows;
    const body = receiver.received.find(({ headers }) => headers['x-webhook-id'] === voided.id)!.body;
    expect(JSON.parse(body).data).toEqual(voided.data);
  });
});

describeWithKafka('over Kafka', () => {
  const topic = newTopic();
  let brokers: string;

  beforeAll(async () => {
    brokers = await kafkaBrokers();
    await open({ KAFKA_BROKERS: brokers, KAFKA_TOPIC: topic, KAFKA_PARTITIONS: '4' });
  });
  afterAll(close);

  test('a consumer of the topic sees the same events in the same order as the receiver', async () => {
    const events = await useHolds();
    expect(events.map(({ type }) => type)).toEqual(expected);
    await expectDelivered(events);
    const messages = (await messagesOf(brokers, topic)).filter(({ key }) => key === customer.tenant.id);
    const consumed = messages.map(({ event }) => event).filter(({ sequence }) => sequence >= events[0]!.sequence);
    expect(consumed).toEqual(events);
  });
});
