import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { jest } from '@jest/globals';
import { ConfigResourceTypes, Partitioners, type PartitionMetadata } from 'kafkajs';
import pg from 'pg';
import { Registry } from 'prom-client';
import { root } from '../../../deploy/local/plan.ts';
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
} from '../../../test/kafka.ts';
import { until } from '../../../test/notifier.ts';
import { openProxy } from '../../../test/proxy.ts';
import { metricOf, openRelayDatabase, post, type RelayDatabase } from '../../../test/relay.ts';
import { bareEnvironment } from '../../../test/run.ts';
import { logger } from '../../../test/writers.ts';
import { toId, toUuid } from '../../platform/ids.ts';
import type { KafkaSettings } from '../../platform/kafka-settings.ts';
import { openPool } from '../../platform/postgres.ts';
import { traceparentOf } from '../../platform/trace.ts';
import { claim } from './relay-claims.ts';
import type { EventSink } from './event-sink.ts';
import { kafkaPublisher } from './kafka-publisher.ts';
import { redrive } from './dead-letters.ts';
import { Relay } from './relay.ts';
import type { Writer } from '../writer.ts';

let books: RelayDatabase;

beforeEach(async () => {
  books = await openRelayDatabase();
});

afterEach(() => books.end());

async function openSink(more: Partial<KafkaSettings> = {}): Promise<{ sink: EventSink; brokers: string; topic: string }> {
  const brokers = await kafkaBrokers();
  const topic = newTopic();
  return { sink: kafkaPublisher(settingsOf(brokers, topic, more), logger), brokers, topic };
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
    const { writer } = books.openReplica(sink);
    const tenant = await books.newTenant();
    await post(writer, tenant);
    await books.published();
    const children = newChildren();
    const read = async (idleMs: number) => {
      const reader = children.start(consoleConsumer(brokers, topic, idleMs));
      await reader.ended;
      return reader.output().split('\n');
    };
    const expected = await books.eventsOf(tenant);
    expect(expected.map(({ type }) => type)).toEqual([
      'account.created',
      'account.created',
      'transaction.posted',
      'balance.updated',
      'balance.updated',
    ]);
    let told: string[] = [];
    // It gives up where nothing comes for so long, which a busy machine may need for the first of them.
    for (let idleMs = 5_000; told.length === 0 && idleMs <= 45_000; idleMs *= 3) {
      told = (await read(idleMs)).filter((line) => line.includes('event-id:'));
    }
    expect(told).toHaveLength(expected.length);
    told.forEach((line, index) => {
      const { id, type, traceparent } = expected[index]!;
      expect(traceparentOf(traceparent)).toBe(traceparent);
      const headers = `event-id:${id},event-type:${type},content-type:application/x-protobuf,traceparent:${traceparent}`;
      expect(line).toMatch(new RegExp(`Partition:[0-9]+\\tOffset:${index}\\t${headers}\\t${toId('tenant', tenant)}\\t`));
    });
  });

  test('the events of a tenant are on the partition that every other producer would choose for its id', async () => {
    const { sink, brokers, topic } = await openSink({ partitions: 7 });
    const { writer } = books.openReplica(sink);
    const tenants = await Promise.all(Array.from({ length: 5 }, () => books.newTenant()));
    await Promise.all(tenants.map((tenant) => post(writer, tenant)));
    await books.published();
    const messages = await messagesOf(brokers, topic);
    const partitionOf = Partitioners.DefaultPartitioner();
    const partitionMetadata = Array.from({ length: 7 }, (_, partitionId) => ({ partitionId, leader: 0 }) as PartitionMetadata);
    const chosen = messages.map(({ key }) => partitionOf({ topic, partitionMetadata, message: { key, value: null } }));
    expect(new Set(messages.map(({ key }) => key))).toEqual(new Set(tenants.map((tenant) => toId('tenant', tenant))));
    expect(messages.map(({ partition }) => partition)).toEqual(chosen);
  });

  test('two replicas publish what both write, without loss and in the order of each tenant', async () => {
    const { sink, brokers, topic } = await openSink();
    const replicas = [books.openReplica(sink), books.openReplica(kafkaPublisher(settingsOf(brokers, topic), logger))];
    const tenants = await Promise.all(Array.from({ length: 5 }, books.newTenant));
    await Promise.all(Array.from({ length: 300 }, (_, turn) => post(replicas[turn % 2]!.writer, tenants[turn % tenants.length]!)));
    await books.published();
    const messages = await messagesOf(brokers, topic);
    for (const tenant of tenants) {
      const expected = (await books.eventsOf(tenant)).map(place);
      expect(expected).toHaveLength(2 + 60 * 3);
      expect(firstOf(messages, tenant)).toEqual(expected);
    }
  });

  test('what a process has left behind is published by another one', async () => {
    const dead = books.openReplica(null);
    const tenant = await books.newTenant();
    await post(dead.writer, tenant);
    await dead.end();
    const { sink, brokers, topic } = await openSink();
    books.openReplica(sink);
    await books.published();
    expect(firstOf(await messagesOf(brokers, topic), tenant)).toEqual((await books.eventsOf(tenant)).map(place));
  });

  test('events whose publication was not noted are published again under the same ids', async () => {
    const { sink, brokers, topic } = await openSink();
    let deaths = 0;
    const dying: EventSink = {
      ...sink,
      publish: async (events) => {
        await sink.publish(events);
        if (deaths++ < 2) throw new Error('killed before the mark was raised');
      },
    };
    const { writer } = books.openReplica(dying);
    const tenant = await books.newTenant();
    await post(writer, tenant);
    await books.published();
    const messages = await messagesOf(brokers, topic);
    const expected = (await books.eventsOf(tenant)).map(place);
    expect(messages.length).toBeGreaterThan(expected.length);
    expect(firstOf(messages, tenant)).toEqual(expected);
  });

  test('a posting with 200 entries and 16 KiB of metadata passes the topic', async () => {
    const { sink, brokers, topic } = await openSink();
    const { writer } = books.openReplica(sink);
    const tenant = await books.newTenant();
    const metadata = JSON.stringify({ text: 'x'.repeat(16_384 - '{"text":""}'.length) });
    await post(writer, tenant, { legs: 100, metadata });
    await books.published();
    const found = (await messagesOf(brokers, topic)).find(({ event }) => event.type === 'transaction.posted')?.event;
    expect(found?.data.case === 'transactionPosted' && found.data.value.entries.length).toBe(200);
    expect(found).toEqual((await books.eventsOf(tenant))[2]);
  });

  test('an event that Kafka refuses becomes a dead letter, the rest goes on, and a redrive publishes it', async () => {
    const { sink, brokers, topic } = await openSink({ maxMessageBytes: 4_000, partitions: 1 });
    const { writer, metrics } = books.openReplica(sink);
    const [large, small] = [await books.newTenant(), await books.newTenant()];
    await Promise.all([
      post(writer, large),
      post(writer, small),
      post(writer, large, { metadata: JSON.stringify({ text: 'x'.repeat(5_000) }) }),
      post(writer, large),
      post(writer, small),
    ]);
    await books.published();
    const expected = await books.eventsOf(large);
    const refused = expected.find(({ data }) => data.case === 'transactionPosted' && data.value.metadata.length > 5_000)!;
    const others = expected.filter((event) => event !== refused).map(place);
    expect(firstOf(await messagesOf(brokers, topic), large)).toEqual(others);
    expect(firstOf(await messagesOf(brokers, topic), small)).toEqual((await books.eventsOf(small)).map(place));
    const letters = await books.owner.query(`select tenant_id, sequence, part, event_id, reason from relay_dead_letters`);
    expect(letters.rows).toEqual([
      {
        tenant_id: large,
        sequence: refused.sequence,
        part: 0,
        event_id: toUuid('evt', refused.id),
        reason: expect.stringContaining('MESSAGE_TOO_LARGE'),
      },
    ]);
    for (const name of ['ledger_relay_refused_total', 'ledger_relay_dead_letters'])
      await until(async () => (await metricOf(metrics, name)) === 1);

    const admin = testClient(brokers).admin();
    await admin.connect();
    const configEntries = [{ name: 'max.message.bytes', value: '1000000' }];
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] });
    await admin.disconnect();
    const environment = {
      ...bareEnvironment,
      DATABASE_URL: books.database.serviceUrl,
      MIGRATION_DATABASE_URL: books.database.ownerUrl,
    };
    const cli = spawnSync(process.execPath, ['services/ledger/audit/cli.ts', 'redrive'], { cwd: root, env: environment, encoding: 'utf8' });
    expect(cli.stdout).toMatch(/^tenant_.* transaction.posted: MESSAGE_TOO_LARGE: .*\n1 dead letter due/);
    await until(async () => {
      const { rows } = await books.owner.query('select published_at, refusals from relay_dead_letters');
      // The broker may go by the old limit for a while after it was told of the new one.
      if (rows[0].published_at === null && rows[0].refusals > 1) await redrive(books.owner, undefined, () => undefined);
      return rows[0].published_at;
    });
    expect(firstOf(await messagesOf(brokers, topic), large)).toEqual([...others, place(refused)]);
  });

  describe('two hours ahead, by the clock of this process', () => {
    const rightNow = Date.now;

    beforeEach(() => {
      Date.now = () => rightNow() + 7_200_000;
    });

    afterEach(() => {
      Date.now = rightNow;
    });

    const letters = async () => (await books.owner.query('select from relay_dead_letters')).rowCount;

    test('events are published all the same to the topic that the ledger has made', async () => {
      const { sink, brokers, topic } = await openSink();
      const { writer } = books.openReplica(sink);
      const tenant = await books.newTenant();
      await post(writer, tenant);
      await books.published();
      expect(firstOf(await messagesOf(brokers, topic), tenant)).toEqual((await books.eventsOf(tenant)).map(place));
      expect(await letters()).toBe(0);
    });

    test('events wait for the right time where the topic takes a sender’s, and are no dead letters', async () => {
      const [brokers, topic] = [await kafkaBrokers(), newTopic()];
      const admin = testClient(brokers).admin();
      await admin.connect();
      const configEntries = [{ name: 'message.timestamp.type', value: 'CreateTime' }];
      await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1, configEntries }], waitForLeaders: true });
      await admin.disconnect();
      const sink = kafkaPublisher(settingsOf(brokers, topic), logger);
      const { writer, relay } = books.openReplica(sink);
      while (relay.state()['kafka'] !== 'ok') await new Promise((done) => setTimeout(done, 20));
      const tenant = await books.newTenant();
      await post(writer, tenant);
      while (relay.state()['kafka'] !== 'away' && (await letters()) === 0) await new Promise((done) => setTimeout(done, 20));
      expect(await letters()).toBe(0);
      Date.now = rightNow;
      await books.published();
      expect(firstOf(await messagesOf(brokers, topic), tenant)).toEqual((await books.eventsOf(tenant)).map(place));
    });
  });

  testWithJava('while Kafka is stalled a replica ends in time, and what it had in hand is published by another', async () => {
    const kafka = await ownKafka();
    books.ends.push(() => kafka.stop());
    const topic = newTopic();
    const open = () => books.openReplica(kafkaPublisher(settingsOf(kafka.address, topic), logger));
    const { writer, end } = open();
    const tenant = await books.newTenant();
    await post(writer, tenant);
    await books.published();
    await kafka.signal('SIGSTOP');
    // Both of its lanes have something in hand.
    const others = [await books.newTenant(), await books.newTenant()];
    for (const other of others) await post(writer, other);
    const began = performance.now();
    await end();
    // A process has 25 s in all.
    expect(performance.now() - began).toBeLessThan(15_000);
    await kafka.signal('SIGCONT');
    open();
    await books.published();
    for (const each of [tenant, ...others]) {
      expect(firstOf(await messagesOf(kafka.address, topic), each)).toEqual((await books.eventsOf(each)).map(place));
    }
  });

  testWithJava('while Kafka is away postings go on, the lag shows, and everything is published when it is back', async () => {
    const kafka = await ownKafka();
    books.ends.push(() => kafka.stop());
    const topic = newTopic();
    const { writer, relay, metrics } = books.openReplica(kafkaPublisher(settingsOf(kafka.address, topic), logger));
    const tenant = await books.newTenant();
    await post(writer, tenant);
    await books.published();
    expect(relay.state()).toEqual({ kafka: 'ok' });
    await kafka.stop();
    for (let turn = 0; turn < 10; turn++) await post(writer, tenant);
    while (relay.state()['kafka'] !== 'away') await new Promise((done) => setTimeout(done, 20));
    await until(async () => (await metricOf(metrics, 'ledger_relay_lag_events')) === 10);
    await until(async () => (await metricOf(metrics, 'ledger_relay_lag_seconds')) > 0);
    await kafka.start();
    await books.published();
    expect(relay.state()).toEqual({ kafka: 'ok' });
    expect(firstOf(await messagesOf(kafka.address, topic), tenant)).toEqual((await books.eventsOf(tenant)).map(place));
  });
});

test('who finds all that waits in the hands of another replica says no more than he knows: the other side is still away', async () => {
  const tenant = await books.newTenant();
  let away = false;
  let probes = 0;
  const answer = () => (away ? Promise.reject(new Error('away')) : Promise.resolve());
  const probe = () => answer().finally(() => probes++);
  const { writer, relay } = books.openReplica({ name: 'kafka', publish: answer, probe, close: () => Promise.resolve() });
  const says = (word: string) => relay.state()['kafka'] === word;
  await post(writer, tenant);
  await until(() => Promise.resolve(says('ok')));
  away = true;
  await post(writer, tenant);
  await until(() => Promise.resolve(says('away')));
  await until(async () => (await claim(books.relayed, [tenant], randomUUID(), 10, 1e6)).length > 0);
  const before = probes;
  await until(() => Promise.resolve(probes > before + 1 || says('ok')));
  expect(relay.state()).toEqual({ kafka: 'away' });
  away = false;
  await until(() => Promise.resolve(says('ok')));
});

test.each([
  ['a claim that it has', ['claim_marks', 'commit'], 'cut after', 0],
  ['how far it came', ['settle_marks'], 'cut', 0],
  ['how far it came, which was written,', ['settle_marks'], 'cut after', 0],
  ['how far it came, which took longer than a claim lasts that is not renewed,', ['settle_marks'], 'cut', 10_500],
] as const)('a replica that lost the answer about %s goes on at once, and publishes nothing twice', async (_, statements, verdict, ms) => {
  const url = new URL(books.database.serviceUrl);
  const proxy = await openProxy(Number(url.port));
  url.port = String(proxy.port);
  const pool = openPool(url.href, { name: 'relay', max: 8, logger, settings: { ...longTransactionTimeouts, 'app.relay': 'on' } });
  const published: Event[] = [];
  const now = performance.now.bind(performance);
  let tookMs = 0;
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => now() + tookMs);
  books.ends.push(() => Promise.resolve(clock.mockRestore()));
  let takesMs = 0;
  const publish = (events: Event[]) => {
    tookMs += takesMs;
    return Promise.resolve(void published.push(...events));
  };
  const sink: EventSink = { name: 'kafka', publish, probe: () => Promise.resolve(), close: () => Promise.resolve() };
  // It looks for what others have left at its start, and not again.
  const relay = new Relay({ pool, sink, pollMs: 600_000, logger, metrics: new Registry() });
  books.ends.push(
    () => proxy.close(),
    () => pool.end(),
    () => relay.close(),
  );
  const { writer } = books.openReplica(null);
  const tenant = await books.newTenant();
  relay.wake(tenant);
  await books.published();
  takesMs = ms;
  let seen = 0;
  const cutOff = () => seen === statements.length;
  proxy.watch = (chunk) => (!cutOff() && chunk.includes(statements[seen]!) && ++seen === statements.length ? verdict : 'pass');
  await post(writer, tenant);
  relay.wake(tenant);
  await until(() => Promise.resolve(cutOff()));
  // Nobody is to wait for the end of the claim.
  books.keepClaims();
  await books.published();
  expect(published.map(place)).toEqual((await books.eventsOf(tenant)).map(place));
});

test('a mark that somebody holds keeps the other tenants waiting no longer than a claim lasts', async () => {
  const [held, other] = [await books.newTenant(), await books.newTenant()];
  const holder = new pg.Client({ connectionString: books.database.adminUrl });
  await holder.connect();
  books.ends.push(() => holder.end());
  const told = new Set<string>();
  const publish = async (events: Event[]) => {
    for (const { tenantId } of events) told.add(toUuid('tenant', tenantId)!);
    if (!told.has(held) || told.has('locked')) return;
    told.add('locked');
    await holder.query('begin');
    await holder.query('select from relay_marks where tenant_id = $1 for update', [held]);
  };
  const { writer } = books.openReplica({ name: 'kafka', publish, probe: () => Promise.resolve(), close: () => Promise.resolve() });
  await until(() => Promise.resolve(told.has('locked')));
  told.delete(other);
  await post(writer, other);
  await until(() => Promise.resolve(told.has(other)));
  await holder.query('rollback');
  await books.published();
});

test('without Kafka and notifier the relay says so, and keeps everything', async () => {
  const { writer, relay, metrics } = books.openReplica(null);
  const tenant = await books.newTenant();
  await post(writer, tenant);
  expect(relay.state()).toEqual({ relay: 'idle: neither KAFKA_BROKERS nor NOTIFIER_ADDR is set' });
  await until(async () => (await metricOf(metrics, 'ledger_relay_lag_events')) === 3);
});

describe('without a look for what others have left', () => {
  /** A relay that looks once, at its start; what it has published since. */
  async function alone(): Promise<{ relay: Relay; published: Event[][]; tenant: string; writer: Writer }> {
    const published: Event[][] = [];
    const publish = (events: Event[]) => Promise.resolve(void published.push(events));
    const sink: EventSink = { name: 'kafka', publish, probe: () => Promise.resolve(), close: () => Promise.resolve() };
    const tenant = await books.newTenant();
    const { writer } = books.openReplica(null);
    const relay = new Relay({ pool: books.relayed, sink, pollMs: 3_600_000, logger, metrics: new Registry() });
    books.ends.push(() => relay.close());
    await books.published();
    published.splice(0);
    return { relay, published, tenant, writer };
  }

  test('who has more than a round takes goes on in the next', async () => {
    const { relay, published, tenant, writer } = await alone();
    await Promise.all(Array.from({ length: 600 }, () => post(writer, tenant)));
    relay.wake(tenant);
    await books.published();
    expect(published.length).toBeGreaterThan(1);
  });

  test('whom another replica holds is looked at again', async () => {
    const { relay, published, tenant, writer } = await alone();
    await books.owner.query(`update relay_marks set claim_id = gen_random_uuid(), claimed_until = clock_timestamp() + interval '1 s'`);
    await post(writer, tenant);
    relay.wake(tenant);
    await books.published();
    expect(published.flat()).toHaveLength(3);
  });
});
