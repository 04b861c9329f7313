import { toBinary } from '@bufbuild/protobuf';
import type { Consumer as KafkaJsConsumer, Kafka } from 'kafkajs';
import { Registry } from 'prom-client';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { withClient } from '../../deploy/local/databases.ts';
import { describeWithKafka, kafkaBrokers, newTopic, ownKafka, settingsOf, testClient, testWithJava, withAdmin } from '../../test/kafka.ts';
import { newTenant, startNotifier, until, type RunningNotifier, type TestTenant } from '../../test/notifier.ts';
import { ensureTopic } from '../platform/kafka.ts';
import { openLog } from '../platform/telemetry.ts';
import { KafkaConsumer, type KafkaConsumerOptions } from './kafka-consumer.ts';

const logger = openLog('test', 'silent');
const tables = ['inbox', 'gaps', 'late', 'deliveries', 'payloads', 'due', 'kafka_offsets'];

describeWithKafka('the Kafka consumer', () => {
  let brokers: string;
  let topic: string;
  let notifier: RunningNotifier;
  let tenant: TestTenant;
  let opened: KafkaConsumer[];

  beforeEach(async () => {
    brokers = await kafkaBrokers();
    topic = newTopic();
    await ensureTopic(testClient(brokers), settingsOf(brokers, topic));
    notifier = await startNotifier({ claims: false });
    tenant = await subscribed();
    opened = [];
  }, 120_000);

  afterEach(async () => {
    await Promise.all(opened.map((consumer) => consumer.close()));
    await notifier.end();
  });

  async function subscribed(): Promise<TestTenant> {
    const made = newTenant();
    await notifier.client.configureWebhook({ tenantId: made.tenantId, url: 'http://127.0.0.1:1/', events: ['transaction.posted'] });
    return made;
  }

  type Ingest = KafkaConsumerOptions['ingest'];
  const ingest: Ingest = (events, more) => notifier.consumer.ingest(events, more);

  function open(more: Partial<KafkaConsumerOptions> = {}): { consumer: KafkaConsumer; metrics: Registry } {
    const metrics = new Registry();
    const options = { kafka: testClient(brokers), topic, group: 'test', pool: notifier.work, logger, metrics, ingest, ...more };
    const consumer = new KafkaConsumer(options);
    opened.push(consumer);
    return { consumer, metrics };
  }

  const post = (count: number, of = tenant) => Array.from({ length: count }, () => of.posting());
  const idsOf = (events: Event[]) => events.map(({ id }) => id);

  async function send(values: (Event | Buffer | null)[], { partition = 0, to = brokers } = {}): Promise<void> {
    const producer = testClient(to).producer();
    await producer.connect();
    const messages = values.map((value) => ({
      key: 'k',
      value: value === null || Buffer.isBuffer(value) ? value : Buffer.from(toBinary(EventSchema, value)),
      partition,
    }));
    // A busy broker may not know a new topic yet.
    await until(() => producer.send({ topic, messages }).catch(() => null));
    await producer.disconnect();
  }

  /** Event ids of a tenant's deliveries in the order in which they were made. */
  async function delivered(of = tenant): Promise<string[]> {
    const { deliveries } = await notifier.client.listDeliveries({ tenantId: of.tenantId, limit: 100 });
    return deliveries.map(({ eventId }) => eventId).reverse();
  }
  const hasDelivered = (count: number, of = tenant) => until(async () => (await delivered(of)).length >= count);

  const asAdmin = (text: string) => withClient(notifier.database.adminUrl, (client) => client.query(text));
  const storedOffset = async (partition = 0) =>
    Number((await asAdmin(`select next_offset from kafka_offsets where partition = ${partition}`)).rows[0]?.next_offset ?? 0);
  const committedOffset = async () => {
    const [group] = await withAdmin(brokers, (admin) => admin.fetchOffsets({ groupId: `test.${topic}`, topics: [topic] }));
    return Number(group?.partitions.find(({ partition }) => partition === 0)?.offset);
  };
  const metric = async (metrics: Registry, name: string) => (await metrics.getSingleMetric(name)?.get())?.values[0]?.value ?? 0;

  async function backUp(): Promise<() => Promise<void>> {
    await asAdmin(['create schema backup', ...tables.map((table) => `create table backup.${table} as table ${table}`)].join(';'));
    return async () => {
      const copies = tables.flatMap((table) => [`truncate ${table}`, `insert into ${table} select * from backup.${table}`]);
      await asAdmin(['begin', ...copies, 'commit'].join(';'));
    };
  }

  /** A client whose kafkajs consumers the test can reach. */
  function spied(): { kafka: Kafka; consumers: KafkaJsConsumer[] } {
    const kafka = testClient(brokers);
    const consumers: KafkaJsConsumer[] = [];
    const make = kafka.consumer.bind(kafka);
    kafka.consumer = (config) => {
      const made = make(config);
      consumers.push(made);
      return made;
    };
    return { kafka, consumers };
  }

  test('events are consumed in their order, offsets are stored and committed, and a later consumer continues there', async () => {
    const events = post(60);
    await send(events);
    const { consumer, metrics } = open();
    await hasDelivered(60);
    expect(await delivered()).toEqual(idsOf(events));
    expect(await storedOffset()).toBe(60);
    await until(async () => (await committedOffset()) === 60);
    await until(() => Promise.resolve(consumer.state() === 'ok'));
    await consumer.close();
    const [next] = post(1) as [Event];
    await send([next]);
    const seen: Event[] = [];
    const later = open({ ingest: (some, more) => ingest(some, more).then(() => void seen.push(...some)) });
    await hasDelivered(61);
    expect(idsOf(seen)).toEqual([next.id]);
    expect([await metric(metrics, 'notifier_consumer_rewinds_total'), await metric(later.metrics, 'notifier_consumer_lost_total')]).toEqual(
      [0, 0],
    );
  });

  test('what could not be consumed is consumed again, and what was consumed although the answer was lost is not', async () => {
    const [events, next] = [post(10), post(1)];
    const attempts: string[][] = [];
    open({
      ingest: async (some, more) => {
        attempts.push(idsOf(some));
        if (attempts.length <= 2) throw new Error('the database is away');
        await ingest(some, more);
        if (attempts.length === 3) throw new Error('connection lost at the commit');
      },
    });
    await send(events);
    await hasDelivered(10);
    await send(next);
    await hasDelivered(11);
    expect(await delivered()).toEqual(idsOf([...events, ...next]));
    expect(attempts[0]).toEqual(attempts[1]);
    expect(attempts.at(-1)).toEqual(idsOf(next));
  });

  test('a partition that fails holds up no other', async () => {
    const [stuck, other] = [post(1), await subscribed()];
    let isStuck = true;
    const { consumer } = open({
      ingest: async (some, more) => {
        if (isStuck && more.moves.some(({ partition }) => partition === 0)) throw new Error('its tenant is locked');
        await ingest(some, more);
      },
    });
    await send(stuck);
    const events = post(20, other);
    for (const event of events) await send([event], { partition: 1 });
    await hasDelivered(20, other);
    expect(await delivered(other)).toEqual(idsOf(events));
    expect(await delivered()).toEqual([]);
    isStuck = false;
    await hasDelivered(1);
    await until(() => Promise.resolve(consumer.state() === 'ok'));
  });

  test('a message that is no event becomes a dead letter, and the events around it are consumed', async () => {
    const [before, after] = [post(1), post(1)];
    await send([...before, Buffer.from('no protobuf'), null, Buffer.alloc(0), ...after]);
    open();
    await hasDelivered(2);
    expect(await delivered()).toEqual(idsOf([...before, ...after]));
    const { rows } = await asAdmin('select source, value, reason from dead_letters order by source');
    expect(rows).toEqual([
      { source: `${topic}/0/1`, value: Buffer.from('no protobuf'), reason: expect.stringMatching(/^the value is not a ledger.v1.Event: /) },
      { source: `${topic}/0/2`, value: Buffer.alloc(0), reason: 'the message has no value' },
      { source: `${topic}/0/3`, value: Buffer.alloc(0), reason: 'the event has no id, tenant or sequence' },
    ]);
  });

  test('two consumers share the partitions, and one takes over from the other without loss or repetition', async () => {
    const [first, second] = [open(), open()];
    const lag = async ({ metrics }: typeof first) => metric(metrics, 'notifier_consumer_lag');
    const tenants = [tenant, await subscribed(), await subscribed(), await subscribed()];
    const events = tenants.map((each) => post(30, each));
    for (const [partition, some] of events.entries()) await send(some.slice(0, 10), { partition });
    await until(() => Promise.resolve(first.consumer.state() === 'ok' && second.consumer.state() === 'ok'));
    for (const [partition, some] of events.entries()) await send(some.slice(10, 20), { partition });
    await first.consumer.close();
    for (const [partition, some] of events.entries()) await send(some.slice(20), { partition });
    for (const [index, each] of tenants.entries()) {
      await hasDelivered(30, each);
      expect(await delivered(each)).toEqual(idsOf(events[index]!));
    }
    await until(async () => (await lag(second)) === 0);
  });

  test('a consumer that stalls while messages wait is rebuilt', async () => {
    const { kafka, consumers } = spied();
    const { metrics } = open({ kafka, watchdogSeconds: 3 });
    const events = post(2);
    await send(events.slice(0, 1));
    await hasDelivered(1);
    const before = consumers.length;
    consumers.at(-1)?.pause([{ topic }]);
    await send(events.slice(1));
    await until(() => Promise.resolve(consumers.length > before));
    await hasDelivered(2);
    expect(await metrics.getSingleMetricAsString('notifier_consumer_rebuilds_total')).toContain('{reason="stalled"}');
  });

  test('partitions that an operator adds are consumed soon, without a restart', async () => {
    await send(post(1));
    open();
    await hasDelivered(1);
    await withAdmin(brokers, (admin) => admin.createPartitions({ topicPartitions: [{ topic, count: 6 }] }));
    const added = await subscribed();
    await send(post(1, added), { partition: 5 });
    await hasDelivered(1, added);
  });

  test('transactions that were aborted leave neither lag nor a rewind', async () => {
    const { metrics } = open({ watchdogSeconds: 3 });
    await send(post(1));
    await hasDelivered(1);
    const producer = testClient(brokers).producer({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1 });
    await producer.connect();
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: ['1', '2', '3'].map((value) => ({ value, partition: 0 })) });
    await transaction.abort();
    await producer.disconnect();
    await until(async () => (await metric(metrics, 'notifier_consumer_lag')) === 0);
    await send(post(1));
    await hasDelivered(2);
    expect([await storedOffset(), await metric(metrics, 'notifier_consumer_rewinds_total')]).toEqual([6, 0]);
  });

  test('messages that the topic deleted before they were consumed are counted, and the rest is consumed', async () => {
    const events = post(30);
    await send(events.slice(0, 10));
    const first = open();
    await hasDelivered(10);
    await first.consumer.close();
    await send(events.slice(10));
    await withAdmin(brokers, async (admin) => {
      await admin.fetchTopicOffsets(topic);
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '25' }] });
    });
    const second = open();
    await hasDelivered(15);
    expect(await delivered()).toEqual(idsOf([...events.slice(0, 10), ...events.slice(25)]));
    expect(await metric(second.metrics, 'notifier_consumer_lost_total')).toBe(15);
  });

  test('after a restore of the database, what it lacks is read again with the next event', async () => {
    const { metrics } = open();
    const [before, lost, next] = [post(3), post(4), post(2)];
    await send(before);
    await hasDelivered(3);
    const restore = await backUp();
    await send(lost);
    await hasDelivered(7);
    await restore();
    await send(next.slice(0, 1));
    await hasDelivered(8);
    expect((await delivered()).toSorted()).toEqual(idsOf([...before, ...lost, ...next.slice(0, 1)]).toSorted());
    expect(await metric(metrics, 'notifier_consumer_rewinds_total')).toBe(1);
    await send(next.slice(1));
    await hasDelivered(9);
    expect(await metric(metrics, 'notifier_consumer_rewinds_total')).toBe(1);
  });

  test('after a restore and a restart, what it lacks is read again at once, also of partitions that it did not know', async () => {
    const restore = await backUp();
    const first = open();
    const lost = post(2);
    await send(lost, { partition: 1 });
    await hasDelivered(2);
    await until(async () => (await asAdmin('select from kafka_offsets where next_offset > 0')).rowCount === 1);
    await first.consumer.close();
    await restore();
    expect(await delivered()).toEqual([]);
    open();
    await hasDelivered(2);
    expect(await delivered()).toEqual(idsOf(lost));
  });

  test('a topic that was created anew is read from its beginning', async () => {
    await asAdmin(`insert into kafka_offsets (topic, partition, next_offset) values ('${topic}', 0, 1000)`);
    const events = post(2);
    await send(events);
    open();
    await hasDelivered(2);
    expect(await delivered()).toEqual(idsOf(events));
    expect(await storedOffset()).toBe(2);
  });

  test('without a reachable broker it is away, and can be closed', async () => {
    const { consumer } = open({ kafka: testClient('127.0.0.1:1') });
    expect(consumer.state()).toBe('away');
    await consumer.close();
  });

  testWithJava('it goes on after a restart of the broker, and closes in time while the broker hangs', async () => {
    const own = await ownKafka();
    try {
      await ensureTopic(testClient(own.address), settingsOf(own.address, topic));
      const { consumer } = open({ kafka: testClient(own.address) });
      const events = post(6);
      await send(events.slice(0, 3), { to: own.address });
      await hasDelivered(3);
      await own.stop();
      await own.start();
      await send(events.slice(3), { to: own.address });
      await hasDelivered(6);
      expect(await delivered()).toEqual(idsOf(events));
      await own.signal('SIGSTOP');
      const begun = performance.now();
      await consumer.close();
      expect(performance.now() - begun).toBeLessThan(7_000);
    } finally {
      await own.signal('SIGCONT');
      await own.stop();
    }
  });
});
