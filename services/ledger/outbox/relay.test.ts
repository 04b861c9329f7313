import { randomUUID } from 'node:crypto';
import { ConfigResourceTypes, Partitioners, type PartitionMetadata } from 'kafkajs';
import pg from 'pg';
import { Registry } from 'prom-client';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { newChildren, longTransactionTimeouts } from '../../../test/cluster.ts';
import {
  consoleConsumer,
  describeWithKafka,
  kafkaBrokers,
  messagesOf,
  newTopic,
  ownKafka,
  settingsOf,
  testClient,
  testWithJava,
  type OwnKafka,
} from '../../../test/kafka.ts';
import { until } from '../../../test/notifier.ts';
import { openProxy } from '../../../test/proxy.ts';
import { metricOf, openRelayDatabase, post, type RelayDatabase } from '../../../test/relay.ts';
import { logger } from '../../../test/writers.ts';
import { toId, toUuid } from '../../platform/ids.ts';
import type { KafkaSettings } from '../../platform/kafka-settings.ts';
import { openPool } from '../../platform/postgres.ts';
import { traceparentOf } from '../../platform/trace.ts';
import { claim } from './relay-claims.ts';
import type { EventSink } from './event-sink.ts';
import { kafkaPublisher } from './kafka-publisher.ts';
import { changeDeadLetters } from './dead-letters.ts';
import { Relay } from './relay.ts';
import type { Writer } from '../writer.ts';

let database: RelayDatabase;

beforeEach(async () => {
  database = await openRelayDatabase();
});

afterEach(() => database.end());

async function openSink(more: Partial<KafkaSettings> = {}): Promise<{ sink: EventSink; brokers: string; topic: string }> {
  const brokers = await kafkaBrokers();
  const topic = newTopic();
  return { sink: kafkaPublisher(settingsOf(brokers, topic, more), logger), brokers, topic };
}

function sinkOf(publish: EventSink['publish']): EventSink {
  return { name: 'kafka', publish, probe: () => Promise.resolve(), close: () => Promise.resolve() };
}

const place = ({ tenantId, sequence, part, id }: Event) => `${tenantId} ${sequence}.${part} ${id}`;

/** First appearances of one tenant's messages on the topic. */
function firstOf(messages: { event: Event }[], tenant: string): string[] {
  const own = messages.filter(({ event }) => event.tenantId === toId('tenant', tenant)).map(({ event }) => place(event));
  return [...new Set(own)];
}

describeWithKafka('the relay over Kafka', () => {
  testWithJava("every event is on the topic under its tenant's key, as Kafka's own console consumer reads it", async () => {
    const { sink, brokers, topic } = await openSink();
    const { writer } = database.openReplica(sink);
    const tenant = await database.newTenant();
    await post(writer, tenant);
    await database.published();
    const expected = await database.eventsOf(tenant);
    expect(expected.map(({ type }) => type)).toEqual([
      'account.created',
      'account.created',
      'transaction.posted',
      'balance.updated',
      'balance.updated',
    ]);
    const reader = newChildren().start(consoleConsumer(brokers, topic, expected.length));
    await reader.ended;
    const lines = reader
      .output()
      .split('\n')
      .filter((line) => line.includes('event-id:'));
    expect(await messagesOf(brokers, topic)).toHaveLength(expected.length);
    expect(lines).toHaveLength(expected.length);
    lines.forEach((line, index) => {
      const { id, type, traceparent } = expected[index]!;
      expect(traceparentOf(traceparent)).toBe(traceparent);
      const headers = `event-id:${id},event-type:${type},content-type:application/x-protobuf,traceparent:${traceparent}`;
      expect(line).toMatch(new RegExp(`Partition:[0-9]+\\tOffset:${index}\\t${headers}\\t${toId('tenant', tenant)}\\t`));
    });
  });

  test('two replicas publish what both write, without loss, in each tenant’s order, on the partition that every producer would choose', async () => {
    const { sink, brokers, topic } = await openSink({ partitions: 7 });
    const replicas = [sink, kafkaPublisher(settingsOf(brokers, topic, { partitions: 7 }), logger)].map((each) =>
      database.openReplica(each),
    );
    const tenants = await Promise.all(Array.from({ length: 5 }, database.newTenant));
    await Promise.all(Array.from({ length: 300 }, (_, turn) => post(replicas[turn % 2]!.writer, tenants[turn % tenants.length]!)));
    await database.published();
    const messages = await messagesOf(brokers, topic);
    for (const tenant of tenants) {
      const expected = (await database.eventsOf(tenant)).map(place);
      expect(expected).toHaveLength(2 + 60 * 3);
      expect(firstOf(messages, tenant)).toEqual(expected);
    }
    const partitionOf = Partitioners.DefaultPartitioner();
    const partitionMetadata = Array.from({ length: 7 }, (_, partitionId) => ({ partitionId, leader: 0 }) as PartitionMetadata);
    const chosen = messages.map(({ key }) => partitionOf({ topic, partitionMetadata, message: { key, value: null } }));
    expect(messages.map(({ partition }) => partition)).toEqual(chosen);
  });

  test('events that a killed process left behind are published by another', async () => {
    const dead = database.openReplica(null);
    const tenant = await database.newTenant();
    await post(dead.writer, tenant);
    await dead.end();
    const { sink, brokers, topic } = await openSink();
    database.openReplica(sink);
    await database.published();
    expect(firstOf(await messagesOf(brokers, topic), tenant)).toEqual((await database.eventsOf(tenant)).map(place));
  });

  test('an event that Kafka rejects becomes a dead letter, the rest goes on, and a redrive publishes it', async () => {
    const { sink, brokers, topic } = await openSink({ maxMessageBytes: 4_000, partitions: 1 });
    const { writer } = database.openReplica(sink);
    const [large, small] = [await database.newTenant(), await database.newTenant()];
    await Promise.all([
      post(writer, large),
      post(writer, small),
      post(writer, large, { metadata: JSON.stringify({ text: 'x'.repeat(5_000) }) }),
      post(writer, large),
      post(writer, small),
    ]);
    await database.published();
    const expected = await database.eventsOf(large);
    const rejected = expected.find(({ data }) => data.case === 'transactionPosted' && data.value.metadata.length > 5_000)!;
    const others = expected.filter((event) => event !== rejected).map(place);
    expect(firstOf(await messagesOf(brokers, topic), large)).toEqual(others);
    expect(firstOf(await messagesOf(brokers, topic), small)).toEqual((await database.eventsOf(small)).map(place));
    const deadLetters = await database.owner.query(`select tenant_id, sequence, part, event_id, reason from relay_dead_letters`);
    expect(deadLetters.rows).toEqual([
      {
        tenant_id: large,
        sequence: rejected.sequence,
        part: 0,
        event_id: toUuid('evt', rejected.id),
        reason: expect.stringContaining('MESSAGE_TOO_LARGE'),
      },
    ]);

    const admin = testClient(brokers).admin();
    await admin.connect();
    const configEntries = [{ name: 'max.message.bytes', value: '1000000' }];
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] });
    await admin.disconnect();
    await changeDeadLetters(database.owner, 'redrive', undefined);
    await until(async () => {
      const { rows } = await database.owner.query('select published_at, refusals from relay_dead_letters');
      // The broker may apply the old limit for a while.
      if (rows[0].published_at === null && rows[0].refusals > 1) await changeDeadLetters(database.owner, 'redrive', undefined);
      return rows[0].published_at;
    });
    expect(firstOf(await messagesOf(brokers, topic), large)).toEqual([...others, place(rejected)]);
  });

  let own: OwnKafka | undefined;
  afterAll(() => own?.stop());

  testWithJava('while Kafka is stalled a replica stops in time, and another publishes its events', async () => {
    const kafka = (own ??= await ownKafka());
    const topic = newTopic();
    const open = () => database.openReplica(kafkaPublisher(settingsOf(kafka.address, topic), logger));
    const { writer, end } = open();
    const tenant = await database.newTenant();
    await post(writer, tenant);
    await database.published();
    await kafka.signal('SIGSTOP');
    // Something is published while it ends.
    const others = [await database.newTenant(), await database.newTenant()];
    for (const other of others) await post(writer, other);
    const began = performance.now();
    await end();
    // A process has 25 s in all.
    expect(performance.now() - began).toBeLessThan(15_000);
    await kafka.signal('SIGCONT');
    open();
    await database.published();
    for (const each of [tenant, ...others]) {
      expect(firstOf(await messagesOf(kafka.address, topic), each)).toEqual((await database.eventsOf(each)).map(place));
    }
  });

  testWithJava('while Kafka is away postings go on, the lag shows, and everything is published when it is back', async () => {
    const kafka = (own ??= await ownKafka());
    const topic = newTopic();
    const { writer, relay, metrics } = database.openReplica(kafkaPublisher(settingsOf(kafka.address, topic), logger));
    const tenant = await database.newTenant();
    await post(writer, tenant);
    await database.published();
    expect(relay.state()).toEqual({ kafka: 'ok' });
    await kafka.stop();
    for (let turn = 0; turn < 10; turn++) await post(writer, tenant);
    while (relay.state()['kafka'] !== 'away') await new Promise((done) => setTimeout(done, 20));
    await until(async () => (await metricOf(metrics, 'ledger_relay_lag_events')) === 10);
    await until(async () => (await metricOf(metrics, 'ledger_relay_lag_seconds')) > 0);
    await kafka.start();
    await database.published();
    expect(relay.state()).toEqual({ kafka: 'ok' });
    expect(firstOf(await messagesOf(kafka.address, topic), tenant)).toEqual((await database.eventsOf(tenant)).map(place));
  });
});

test('a sink stays `away` while another replica has claimed all events, until a probe reaches it', async () => {
  const tenant = await database.newTenant();
  let away = false;
  let probes = 0;
  const answer = () => (away ? Promise.reject(new Error('away')) : Promise.resolve());
  const probe = () => answer().finally(() => probes++);
  const { writer, relay } = database.openReplica({ name: 'kafka', publish: answer, probe, close: () => Promise.resolve() });
  const is = (word: string) => relay.state()['kafka'] === word;
  await post(writer, tenant);
  await until(() => Promise.resolve(is('ok')));
  away = true;
  await post(writer, tenant);
  await until(() => Promise.resolve(is('away')));
  await until(
    async () => (await claim(database.relayed, [tenant], randomUUID(), { events: 10, bytes: 1e6, derivesEvents: false })).length > 0,
  );
  const before = probes;
  await until(() => Promise.resolve(probes > before + 1 || is('ok')));
  expect(relay.state()).toEqual({ kafka: 'away' });
  away = false;
  await until(() => Promise.resolve(is('ok')));
});

test.each([
  ['a claim', ['claim_cursors', 'commit'], 'cut after', true],
  ['a published offset', ['settle_cursors'], 'cut after', true],
  ['a published offset that was not written', ['settle_cursors'], 'cut', false],
] as const)('a replica that lost the answer about %s goes on at once, in order', async (_, statements, verdict, isOnce) => {
  const url = new URL(database.database.serviceUrl);
  const proxy = await openProxy(Number(url.port));
  url.port = String(proxy.port);
  const pool = openPool(url.href, { name: 'relay', max: 8, logger, settings: longTransactionTimeouts, flag: 'app.relay' });
  const published: Event[] = [];
  const sink = sinkOf((events) => Promise.resolve(void published.push(...events)));
  // It looks for what others have left at its start, and not again.
  const relay = new Relay({ pool, sink, pollMs: 600_000, logger, metrics: new Registry() });
  database.ends.push(
    () => proxy.close(),
    () => pool.end(),
    () => relay.close(),
  );
  const { writer } = database.openReplica(null);
  const tenant = await database.newTenant();
  relay.wake(tenant);
  await database.published();
  let seen = 0;
  const isCut = () => seen === statements.length;
  proxy.watch = (chunk) => (!isCut() && chunk.includes(statements[seen]!) && ++seen === statements.length ? verdict : 'pass');
  await post(writer, tenant);
  relay.wake(tenant);
  await until(() => Promise.resolve(isCut()));
  // No claim is to expire.
  database.keepClaims();
  await database.published();
  const expected = (await database.eventsOf(tenant)).map(place);
  expect([...new Set(published.map(place))]).toEqual(expected);
  expect(published.length).toBeLessThanOrEqual(isOnce ? expected.length : 2 * expected.length);
});

test('a locked cursor keeps other tenants waiting no longer than a claim lasts', async () => {
  const [held, other] = [await database.newTenant(), await database.newTenant()];
  const holder = new pg.Client({ connectionString: database.database.adminUrl });
  await holder.connect();
  database.ends.push(() => holder.end());
  const seen = new Set<string>();
  const publish = async (events: Event[]) => {
    for (const { tenantId } of events) seen.add(toUuid('tenant', tenantId)!);
    if (!seen.has(held) || seen.has('locked')) return;
    seen.add('locked');
    await holder.query('begin');
    await holder.query('select from relay_marks where tenant_id = $1 for update', [held]);
  };
  const { writer } = database.openReplica(sinkOf(publish));
  await until(() => Promise.resolve(seen.has('locked')));
  seen.delete(other);
  await post(writer, other);
  await until(() => Promise.resolve(seen.has(other)));
  await holder.query('rollback');
  await database.published();
});

test('without Kafka and notifier the relay is idle, and all events stay in the log', async () => {
  const { writer, relay, metrics } = database.openReplica(null);
  const tenant = await database.newTenant();
  await post(writer, tenant);
  expect(relay.state()).toEqual({ relay: 'idle: neither KAFKA_BROKERS nor NOTIFIER_ADDR is set' });
  await until(async () => (await metricOf(metrics, 'ledger_relay_lag_events')) === 3);
});

describe('without a poll', () => {
  /** A relay that polls only at its start, and what it has published since. */
  async function pollOnce(): Promise<{ relay: Relay; published: Event[][]; tenant: string; writer: Writer }> {
    const published: Event[][] = [];
    const publish = (events: Event[]) => Promise.resolve(void published.push(events));
    const tenant = await database.newTenant();
    const { writer } = database.openReplica(null);
    const relay = new Relay({ pool: database.relayed, sink: sinkOf(publish), pollMs: 3_600_000, logger, metrics: new Registry() });
    database.ends.push(() => relay.close());
    await database.published();
    published.splice(0);
    return { relay, published, tenant, writer };
  }

  test('a tenant with more events than a batch takes goes on in the next', async () => {
    const { relay, published, tenant, writer } = await pollOnce();
    await Promise.all(Array.from({ length: 600 }, () => post(writer, tenant)));
    relay.wake(tenant);
    await database.published();
    expect(published.length).toBeGreaterThan(1);
  });

  test('a tenant that another replica has claimed is tried again', async () => {
    const { relay, published, tenant, writer } = await pollOnce();
    await database.owner.query(`update relay_marks set claim_id = gen_random_uuid(), claimed_until = clock_timestamp() + interval '1 s'`);
    await post(writer, tenant);
    relay.wake(tenant);
    await database.published();
    expect(published.flat()).toHaveLength(3);
  });
});
