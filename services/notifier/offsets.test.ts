// What Kafka's group has behind it and the database lacks, as it was restored or a standby took over that was behind.
import { toBinary } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { withClient } from '../../deploy/local/databases.ts';
import { describeWithKafka, kafkaBrokers, newTopic, settingsOf, testClient, uncommitted, withAdmin } from '../../test/kafka.ts';
import { newTenant, startNotifier, until, type RunningNotifier, type TestTenant } from '../../test/notifier.ts';
import { ensureTopic } from '../platform/kafka.ts';
import { openLog } from '../platform/telemetry.ts';
import { subscribe, type Subscription } from './kafka.ts';
import { offsetsOf, type Reading } from './offsets.ts';

const logger = openLog('test', 'silent');
const tables = ['inbox', 'gaps', 'late', 'deliveries', 'payloads', 'due', 'kafka_offsets'];

describeWithKafka('a database that has gone back', () => {
  let brokers: string;
  let topic: string;
  let notifier: RunningNotifier;
  let reader: Subscription;
  let metrics: Registry;
  let tenant: TestTenant;
  let restore: () => Promise<void>;
  /** What notes a reading, and what stands in its way. */
  let around: (reading: Reading, note: () => Promise<void>) => Promise<void>;

  const owner = (...texts: string[]) =>
    withClient(notifier.database.adminUrl, async (client) => {
      for (const text of texts) await client.query(text);
    });
  const open = () => {
    metrics = new Registry();
    reader = subscribe(
      { kafka: testClient(brokers), topic, group: 'test', watchdogSeconds: 9, offsets: offsetsOf(notifier.pool, topic), logger, metrics },
      (events, _, reading) => around(reading, () => notifier.consumer.ingest(events, { reading })),
    );
  };
  const send = async (events: Event[], partition = 0) => {
    const producer = testClient(brokers).producer();
    await producer.connect();
    const messages = events.map((event) => ({ key: event.tenantId, value: Buffer.from(toBinary(EventSchema, event)), partition }));
    await producer.send({ topic, messages });
    await producer.disconnect();
  };
  const takeBack = async () => {
    const producer = testClient(brokers).producer({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1 });
    await producer.connect();
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: ['1', '2', '3'].map((value) => ({ value, partition: 0 })) });
    await transaction.abort();
    await producer.disconnect();
  };
  const post = (count: number) => Array.from({ length: count }, () => tenant.posting());
  const taken = () => until(async () => (await uncommitted(brokers, topic, `test.${topic}`)) === 0n);
  const made = async () => {
    const { deliveries } = await notifier.client.listDeliveries({ tenantId: tenant.tenantId, limit: 100 });
    return deliveries.map(({ eventId }) => eventId).toSorted();
  };
  const idsOf = (events: Event[]) => events.map(({ id }) => id).toSorted();
  const figure = async (name: 'rewinds' | 'lost') => {
    const { values } = await metrics.getSingleMetric(`notifier_consumer_${name}_total`)!.get();
    return values[0]?.value ?? 0;
  };
  const rewinds = () => figure('rewinds');
  const removeBefore = (offset: number) =>
    withAdmin(brokers, async (admin) => {
      // kafkajs knows the leaders of a topic that it was asked for before.
      await admin.fetchTopicOffsets(topic);
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(offset) }] });
    });

  beforeEach(async () => {
    brokers = await kafkaBrokers();
    topic = newTopic();
    await ensureTopic(testClient(brokers), settingsOf(brokers, topic));
    notifier = await startNotifier({ claims: false });
    tenant = newTenant();
    await notifier.client.configureWebhook({ tenantId: tenant.tenantId, url: 'http://127.0.0.1:1/', events: ['transaction.posted'] });
    around = (_, note) => note();
    open();
    restore = async () => {
      for (const table of tables) await owner(`truncate ${table}`, `insert into ${table} select * from backup.${table}`);
    };
  }, 120_000);

  afterEach(async () => {
    await reader.close();
    await notifier.end();
  });

  const backUpAnew = () => owner('drop schema backup cascade').then(backUp);
  const backUp = () => owner('create schema backup', ...tables.map((table) => `create table backup.${table} as table ${table}`));

  test('takes again what it lacks before what comes next', async () => {
    const before = post(3);
    await send(before);
    await taken();
    await backUp();
    const lost = post(4);
    await send(lost);
    await taken();
    await restore();
    const next = post(1);
    await send(next);
    await taken();
    expect(await made()).toEqual(idsOf([...before, ...lost, ...next]));
    expect(await rewinds()).toBe(1);
    // Once is enough.
    await send(post(1));
    await taken();
    expect(await rewinds()).toBe(1);
  });

  test('does so where the notifier was started anew, also of partitions of which it had nothing', async () => {
    await backUp();
    const lost = post(2);
    await send(lost, 1);
    await taken();
    await reader.close();
    await restore();
    open();
    await until(async () => (await made()).length === 2);
    expect(await made()).toEqual(idsOf(lost));
    expect(await rewinds()).toBe(1);
  });

  test('does so where all that comes next is what a transaction has taken back', async () => {
    await send(post(1));
    await taken();
    await backUp();
    const lost = post(2);
    await send(lost);
    await taken();
    const before = await made();
    await restore();
    await takeBack();
    await until(async () => (await made()).length === before.length);
    expect(await made()).toEqual(before);
    await taken();
    expect(await rewinds()).toBe(1);
  });

  test('is not taken for one where a transaction was taken back while nobody read', async () => {
    await send(post(1));
    await taken();
    await reader.close();
    await takeBack();
    open();
    await taken();
    await reader.close();
    await takeBack();
    const next = post(1);
    await send(next);
    open();
    await taken();
    expect(await rewinds()).toBe(0);
    expect(await made()).toContain(next[0]!.id);
  });

  test('takes again all of a topic that was made anew since, if it is shorter than the old one was', async () => {
    await owner(`insert into kafka_offsets (topic, partition, next_offset) values ('${topic}', 0, 1000)`);
    await backUp();
    const lost = post(2);
    await send(lost);
    await taken();
    await reader.close();
    await restore();
    open();
    await until(async () => (await made()).length === 2);
    expect(await made()).toEqual(idsOf(lost));
    await taken();
    expect(await rewinds()).toBe(1);
  });

  test('does so where the reader runs on, also where nothing comes next', async () => {
    await reader.close();
    await owner(`insert into kafka_offsets (topic, partition, next_offset) values ('${topic}', 0, 1000)`);
    await backUp();
    open();
    const lost = post(2);
    await send(lost);
    await taken();
    await restore();
    const next = post(1);
    await send(next);
    await until(async () => (await made()).length === 3);
    expect(await made()).toEqual(idsOf([...lost, ...next]));
    expect(await rewinds()).toBe(1);
    await restore();
    await until(async () => (await rewinds()) === 2 && (await made()).length === 3);
    // What was written over is of this topic.
    await backUpAnew();
    const last = post(1);
    await send(last);
    await taken();
    await restore();
    await send(post(1));
    await until(async () => (await made()).length === 5);
    expect(await made()).toContain(last[0]!.id);
    expect(await rewinds()).toBe(3);
  });

  test('of what the topic has kept no longer, counts what is lost, and takes the rest', async () => {
    await send(post(3));
    await taken();
    await backUp();
    const lost = post(4);
    await send(lost);
    await taken();
    await removeBefore(5);
    await restore();
    const next = post(1);
    await send(next);
    await until(async () => (await made()).length === 6);
    expect(await made()).toEqual(expect.arrayContaining(idsOf([...lost.slice(2), ...next])));
    await taken();
    expect([await figure('lost'), await rewinds()]).toEqual([2, 1]);
    // Where it has kept nothing of it, nothing is read again.
    await removeBefore(8);
    await restore();
    const last = post(1);
    await send(last);
    await until(async () => (await made()).length === 4);
    expect(await made()).toContain(last[0]!.id);
    await taken();
    expect([await figure('lost'), await rewinds()]).toEqual([5, 1]);
  });

  test('goes on where the topic was made anew', async () => {
    await reader.close();
    await owner(`insert into kafka_offsets (topic, partition, next_offset) values ('${topic}', 0, 1000)`);
    open();
    const events = post(2);
    await send(events);
    await taken();
    expect(await made()).toEqual(idsOf(events));
    expect(await rewinds()).toBe(0);
    await withClient(notifier.database.adminUrl, async (client) => {
      const { rows } = await client.query('select next_offset::int from kafka_offsets where partition = 0');
      expect(rows).toEqual([{ next_offset: 2 }]);
    });
  });

  test('knows nothing of a topic that was made anew under its reader', async () => {
    const before = post(5);
    await send(before);
    await taken();
    await withAdmin(brokers, (admin) => admin.deleteTopics({ topics: [topic] }));
    const succeeds = (what: () => Promise<void>) =>
      until(() =>
        what().then(
          () => true,
          () => false,
        ),
      );
    await succeeds(() => ensureTopic(testClient(brokers), settingsOf(brokers, topic)));
    const few = post(2);
    await succeeds(() => send(few));
    await until(async () => (await made()).length >= 7);
    // Before it would look by itself, and then the new topic is the longer one.
    await reader.close();
    const more = post(6);
    await send(more);
    open();
    await until(async () => (await made()).length >= 13);
    expect(await made()).toEqual(idsOf([...before, ...few, ...more]));
  });

  test('hides nothing behind marks of transactions that waited until it was back', async () => {
    await send(post(1));
    await taken();
    await backUp();
    const lost = post(3);
    await send(lost);
    await taken();
    let isAway = true;
    const seen = { marks: 0 };
    around = async (_, note) => {
      if (isAway) {
        seen.marks++;
        throw new Error('away');
      }
      await note();
    };
    await takeBack();
    await until(() => Promise.resolve(seen.marks > 0));
    await takeBack();
    await until(() => Promise.resolve(seen.marks > 3));
    await restore();
    // Nothing with an event in it is noted, as somebody holds the tenant's mark.
    await withClient(notifier.database.adminUrl, async (client) => {
      await client.query('begin; select * from inbox for update');
      isAway = false;
      await until(async () => (await rewinds()) === 1);
      await reader.close();
      await client.query('rollback');
    });
    open();
    const next = post(1);
    await send(next);
    await until(async () => (await made()).length === 5);
    expect(await made()).toEqual(expect.arrayContaining(idsOf([...lost, ...next])));
  });

  test('hides nothing behind marks that waited while another member joined', async () => {
    await reader.close();
    topic = newTopic();
    await ensureTopic(testClient(brokers), settingsOf(brokers, topic, { partitions: 1 }));
    open();
    await send(post(1));
    await taken();
    await backUp();
    let isAway = true;
    const readings: string[] = [];
    around = async ({ parts }, note) => {
      readings.push(parts.map(({ from, next }) => `${from} to ${next}`).join());
      if (isAway && parts.every(({ next }) => next === 5n)) throw new Error('away');
      await note();
    };
    await takeBack();
    await until(() => Promise.resolve(readings.length > 0));
    const lost = post(3);
    await send(lost);
    await taken();
    // Of a name that sorts behind the reader's, so that the one partition stays where it is.
    const other = testClient(brokers, 'zzzz').consumer({ groupId: `test.${topic}` });
    const joined = new Promise<void>((done) => void other.on(other.events.GROUP_JOIN, () => done()));
    await other.connect();
    await other.subscribe({ topic });
    await other.run({ autoCommit: false, eachBatch: () => Promise.resolve() });
    await joined;
    await restore();
    const before = readings.length;
    isAway = false;
    // Noted after all, or found to be missing: then it is not asked again before that.
    await until(async () => (await rewinds()) === 1 || readings.slice(before).some((each) => each.endsWith(' to 5')));
    const next = post(1);
    await send(next);
    await until(async () => (await made()).length === 5);
    await other.disconnect();
    expect(await made()).toEqual(expect.arrayContaining(idsOf([...lost, ...next])));
  });

  test('is not thought to have been, where marks are noted after what came behind them', async () => {
    const order: string[] = [];
    const noted: Reading['parts'] = [];
    around = async ({ parts }, note) => {
      const what = parts.every(({ next }) => next === 4n) ? 'marks' : 'events';
      order.push(what);
      if (what === 'marks' && !order.includes('events')) throw new Error('away');
      await note();
      noted.push(...parts);
    };
    await takeBack();
    await until(() => Promise.resolve(order.length > 0));
    const events = post(3);
    await send(events);
    await until(() => Promise.resolve(order.slice(order.indexOf('events')).includes('marks')));
    await taken();
    const next = post(1);
    await send(next);
    await until(async () => (await made()).length === 4);
    expect(await made()).toEqual(idsOf([...events, ...next]));
    expect(noted.find((part) => part.next === 8n)?.from).toBe(7n);
    expect([await offsetsOf(notifier.pool, topic).read(), await rewinds()]).toEqual([new Map([[0, 8n]]), 0]);
  });
});
