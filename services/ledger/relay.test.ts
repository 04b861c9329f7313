import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { ConfigResourceTypes } from 'kafkajs';
import pg from 'pg';
import { Registry } from 'prom-client';
import { consoleConsumer } from '../../deploy/local/broker.ts';
import { root } from '../../deploy/local/plan.ts';
import type { Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { freshDatabase, newChildren, type FreshDatabase } from '../../test/house.ts';
import { describeWithKafka, kafkaBrokers, messagesOf, newTopic, ownKafka, settingsOf, testClient, testWithJava } from '../../test/kafka.ts';
import { until } from '../../test/notifier.ts';
import { toId, toUuid } from '../platform/ids.ts';
import type { KafkaSettings } from '../platform/kafka.ts';
import { openPool, type Pool } from '../platform/postgres.ts';
import { openLog } from '../platform/telemetry.ts';
import { traceparentOf } from '../platform/trace.ts';
import { createAccount } from './accounts.ts';
import { listEvents } from './events.ts';
import { kafkaExit } from './kafka.ts';
import { claim, leftovers, settle } from './claims.ts';
import type { Exit } from './exit.ts';
import { Relay } from './relay.ts';
import { derivedId, withUpdates } from './updates.ts';
import { orderOf } from './wire.ts';
import { Writer } from './writer.ts';

const logger = openLog('test', 'silent');
const by = { actor: 'test', requestId: 'test' };
const unspecified = { normalBalance: null, currency: null, parentCode: null, isGroup: false, description: undefined, metadata: '{}' };

let database: FreshDatabase;
let owner: pg.Client;
let pool: Pool;
let relayed: Pool;
let ends: (() => Promise<void>)[] = [];

beforeEach(async () => {
  // Its own for each test: a relay takes the events of all tenants.
  database = await freshDatabase('ledger', { migrated: true });
  owner = new pg.Client({ connectionString: database.adminUrl });
  await owner.connect();
  pool = openPool(database.serviceUrl, { name: 'test', max: 8, logger });
  relayed = openPool(database.serviceUrl, { name: 'relay', max: 8, logger, settings: { 'app.relay': 'on' } });
});

afterEach(async () => {
  for (const end of ends.reverse()) await end();
  ends = [];
  await relayed.end();
  await pool.end();
  await owner.end();
  await database.drop();
});

interface Replica {
  relay: Relay;
  writer: Writer;
  metrics: Registry;
  end: () => Promise<void>;
}

/** A writer and its relay, as each replica of the ledger has them. */
function openReplica(exit: Exit | null): Replica {
  const metrics = new Registry();
  const relay = new Relay({ pool: relayed, exit, pollMs: 50, logger, metrics });
  const bounds = { waiting: 8_000, waitingBytes: 64e6, items: 64, entries: 2_000, bytes: 2e6 };
  const committed = (tenant: string) => relay.wake(tenant);
  const writer = new Writer({ pool, lanes: 1, waiters: 1, bounds, rememberedAccounts: 1000, committed, logger, metrics });
  let ended: Promise<void> | undefined;
  const end = () => (ended ??= writer.close().then(() => relay.close()));
  ends.push(end);
  return { relay, writer, metrics, end };
}

async function openExit(more: Partial<KafkaSettings> = {}): Promise<{ exit: Exit; brokers: string; topic: string }> {
  const brokers = await kafkaBrokers();
  const topic = newTopic();
  return { exit: kafkaExit(settingsOf(brokers, topic, more), logger), brokers, topic };
}

async function newTenant(): Promise<string> {
  const tenant = randomUUID();
  for (const code of ['a', 'b'])
    await createAccount(pool, tenant, { code, name: code, type: 'asset', allowNegative: true, ...unspecified }, by);
  return tenant;
}

async function post(writer: Writer, tenant: string, more: { metadata?: string; legs?: number } = {}): Promise<void> {
  const sides = Array.from({ length: more.legs ?? 1 }, (_, leg) => (leg % 2 === 0 ? ['debit', 'credit'] : ['credit', 'debit'])).flat();
  const entries = sides.map((side, place) => ({ accountCode: place % 2 === 0 ? 'a' : 'b', side, amount: '1.00', currency: 'NGN' }));
  const posting = create(PostingSchema, { tenantId: toId('tenant', tenant), entries, metadata: more.metadata ?? '' });
  const outcome = await writer.post(orderOf(posting));
  if ('refusal' in outcome) throw outcome.refusal;
}

/** Every event that must be published of a tenant, in the order in which that must happen first. */
async function eventsOf(tenant: string): Promise<Event[]> {
  const { events } = await listEvents(pool, tenant, 0n, 10_000);
  return events.flatMap(withUpdates);
}

const place = ({ tenantId, sequence, part, id }: Event) => `${tenantId} ${sequence}.${part} ${id}`;

/** Resolves when nothing is left to publish. */
async function published(): Promise<void> {
  for (;;) {
    const { rows } = await owner.query<{ behind: number }>(
      `select count(*)::int as behind from heads h left join relay_marks m using (tenant_id)
        where m.sequence is distinct from h.sequence or m.claim_id is not null`,
    );
    if (rows[0]?.behind === 0) return;
    await new Promise((done) => setTimeout(done, 20));
  }
}

const metric = async (metrics: Registry, name: string) => (await metrics.getSingleMetric(name)?.get())?.values[0]?.value ?? 0;

/** First appearances of one tenant's messages on the topic. */
function firstOf(messages: { event: Event }[], tenant: string): string[] {
  const own = messages.filter(({ event }) => event.tenantId === toId('tenant', tenant)).map(({ event }) => place(event));
  return [...new Set(own)];
}

describeWithKafka('the relay over Kafka', () => {
  testWithJava("every event is on the topic under its tenant's key, as Kafka's own console consumer reads it", async () => {
    const { exit, brokers, topic } = await openExit();
    const { writer } = openReplica(exit);
    const tenant = await newTenant();
    await post(writer, tenant);
    await published();
    const children = newChildren();
    const reader = children.start(consoleConsumer(brokers, topic, 5_000));
    await reader.ended;
    const lines = reader.output().split('\n');
    const expected = await eventsOf(tenant);
    expect(expected.map(({ type }) => type)).toEqual([
      'account.created',
      'account.created',
      'transaction.posted',
      'balance.updated',
      'balance.updated',
    ]);
    const told = lines.filter((line) => line.includes('event-id:'));
    expect(told).toHaveLength(expected.length);
    told.forEach((line, index) => {
      const { id, type, traceparent } = expected[index]!;
      expect(traceparentOf(traceparent)).toBe(traceparent);
      const headers = `event-id:${id},event-type:${type},content-type:application/x-protobuf,traceparent:${traceparent}`;
      expect(line).toMatch(new RegExp(`Partition:[0-9]+\\tOffset:${index}\\t${headers}\\t${toId('tenant', tenant)}\\t`));
    });
  });

  test('two replicas publish what both write, without loss and in the order of each tenant', async () => {
    const { exit, brokers, topic } = await openExit();
    const replicas = [openReplica(exit), openReplica(kafkaExit(settingsOf(brokers, topic), logger))];
    const tenants = await Promise.all(Array.from({ length: 5 }, newTenant));
    await Promise.all(Array.from({ length: 300 }, (_, turn) => post(replicas[turn % 2]!.writer, tenants[turn % tenants.length]!)));
    await published();
    const messages = await messagesOf(brokers, topic);
    for (const tenant of tenants) {
      const expected = (await eventsOf(tenant)).map(place);
      expect(expected).toHaveLength(2 + 60 * 3);
      expect(firstOf(messages, tenant)).toEqual(expected);
    }
  });

  test('what a process has left behind is published by another one', async () => {
    const dead = openReplica(null);
    const tenant = await newTenant();
    await post(dead.writer, tenant);
    await dead.end();
    const { exit, brokers, topic } = await openExit();
    openReplica(exit);
    await published();
    expect(firstOf(await messagesOf(brokers, topic), tenant)).toEqual((await eventsOf(tenant)).map(place));
  });

  test('events whose publication was not noted are published again under the same ids', async () => {
    const { exit, brokers, topic } = await openExit();
    let deaths = 0;
    const dying: Exit = {
      ...exit,
      publish: async (events) => {
        await exit.publish(events);
        if (deaths++ < 2) throw new Error('killed before the mark was raised');
      },
    };
    const { writer } = openReplica(dying);
    const tenant = await newTenant();
    await post(writer, tenant);
    await published();
    const messages = await messagesOf(brokers, topic);
    const expected = (await eventsOf(tenant)).map(place);
    expect(messages.length).toBeGreaterThan(expected.length);
    expect(firstOf(messages, tenant)).toEqual(expected);
  });

  test('a posting with 200 entries and 16 KiB of metadata passes the topic', async () => {
    const { exit, brokers, topic } = await openExit();
    const { writer } = openReplica(exit);
    const tenant = await newTenant();
    const metadata = JSON.stringify({ text: 'x'.repeat(16_384 - '{"text":""}'.length) });
    await post(writer, tenant, { legs: 100, metadata });
    await published();
    const found = (await messagesOf(brokers, topic)).find(({ event }) => event.type === 'transaction.posted')?.event;
    expect(found?.data.case === 'transactionPosted' && found.data.value.entries.length).toBe(200);
    expect(found).toEqual((await eventsOf(tenant))[2]);
  });

  test('an event that Kafka refuses becomes a dead letter, the rest goes on, and a redrive publishes it', async () => {
    const { exit, brokers, topic } = await openExit({ maxMessageBytes: 4_000, partitions: 1 });
    const { writer, metrics } = openReplica(exit);
    const [large, small] = [await newTenant(), await newTenant()];
    await Promise.all([
      post(writer, large),
      post(writer, small),
      post(writer, large, { metadata: JSON.stringify({ text: 'x'.repeat(5_000) }) }),
      post(writer, large),
      post(writer, small),
    ]);
    await published();
    const expected = await eventsOf(large);
    const refused = expected.find(({ data }) => data.case === 'transactionPosted' && data.value.metadata.length > 5_000)!;
    const others = expected.filter((event) => event !== refused).map(place);
    expect(firstOf(await messagesOf(brokers, topic), large)).toEqual(others);
    expect(firstOf(await messagesOf(brokers, topic), small)).toEqual((await eventsOf(small)).map(place));
    const letters = await owner.query(`select tenant_id, sequence, part, event_id, reason from relay_dead_letters`);
    expect(letters.rows).toEqual([
      {
        tenant_id: large,
        sequence: refused.sequence,
        part: 0,
        event_id: toUuid('evt', refused.id),
        reason: expect.stringContaining('MESSAGE_TOO_LARGE'),
      },
    ]);
    expect(await metric(metrics, 'ledger_relay_refused_total')).toBe(1);
    expect(await metric(metrics, 'ledger_relay_dead_letters')).toBe(1);

    const admin = testClient(brokers).admin();
    await admin.connect();
    const configEntries = [{ name: 'max.message.bytes', value: '1000000' }];
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] });
    await admin.disconnect();
    const environment = { PATH: process.env['PATH'], DATABASE_URL: database.serviceUrl, MIGRATION_DATABASE_URL: database.ownerUrl };
    const cli = spawnSync(process.execPath, ['services/ledger/cli.ts', 'redrive'], { cwd: root, env: environment, encoding: 'utf8' });
    expect(cli.stdout).toMatch(/^tenant_.* transaction.posted: MESSAGE_TOO_LARGE: .*\n1 dead letters are due/);
    while ((await owner.query('select from relay_dead_letters where published_at is not null')).rowCount === 0) {
      await new Promise((done) => setTimeout(done, 20));
    }
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

    const letters = async () => (await owner.query('select from relay_dead_letters')).rowCount;

    test('events are published all the same to the topic that the ledger has made', async () => {
      const { exit, brokers, topic } = await openExit();
      const { writer } = openReplica(exit);
      const tenant = await newTenant();
      await post(writer, tenant);
      await published();
      expect(firstOf(await messagesOf(brokers, topic), tenant)).toEqual((await eventsOf(tenant)).map(place));
      expect(await letters()).toBe(0);
    });

    test('events wait for the right time where the topic takes a sender’s, and are no dead letters', async () => {
      const [brokers, topic] = [await kafkaBrokers(), newTopic()];
      const admin = testClient(brokers).admin();
      await admin.connect();
      const configEntries = [{ name: 'message.timestamp.type', value: 'CreateTime' }];
      await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1, configEntries }], waitForLeaders: true });
      await admin.disconnect();
      const exit = kafkaExit(settingsOf(brokers, topic), logger);
      const { writer, relay } = openReplica(exit);
      while (relay.state()['kafka'] !== 'ok') await new Promise((done) => setTimeout(done, 20));
      const tenant = await newTenant();
      await post(writer, tenant);
      while (relay.state()['kafka'] !== 'away' && (await letters()) === 0) await new Promise((done) => setTimeout(done, 20));
      expect(await letters()).toBe(0);
      Date.now = rightNow;
      await published();
      expect(firstOf(await messagesOf(brokers, topic), tenant)).toEqual((await eventsOf(tenant)).map(place));
    });
  });

  testWithJava('while Kafka is away postings go on, the lag shows, and everything is published when it is back', async () => {
    const kafka = await ownKafka();
    ends.push(() => kafka.stop());
    const topic = newTopic();
    const { writer, relay, metrics } = openReplica(kafkaExit(settingsOf(kafka.address, topic), logger));
    const tenant = await newTenant();
    await post(writer, tenant);
    await published();
    expect(relay.state()).toEqual({ kafka: 'ok' });
    await kafka.stop();
    for (let turn = 0; turn < 10; turn++) await post(writer, tenant);
    while (relay.state()['kafka'] !== 'away') await new Promise((done) => setTimeout(done, 20));
    expect(await metric(metrics, 'ledger_relay_lag_events')).toBe(10);
    expect(await metric(metrics, 'ledger_relay_lag_seconds')).toBeGreaterThan(0);
    await kafka.start();
    await published();
    expect(relay.state()).toEqual({ kafka: 'ok' });
    expect(firstOf(await messagesOf(kafka.address, topic), tenant)).toEqual((await eventsOf(tenant)).map(place));
  });
});

test('a claim that has run out raises nothing any more', async () => {
  const tenant = await newTenant();
  const [slow, next] = [randomUUID(), randomUUID()];
  expect(await claim(relayed, [tenant], slow, 10, 1e6)).toHaveLength(2);
  expect(await claim(relayed, [tenant], next, 10, 1e6)).toEqual([]);
  await owner.query(`update relay_marks set claimed_until = clock_timestamp() - interval '1 second'`);
  expect(await claim(relayed, [tenant], next, 10, 1e6)).toHaveLength(2);
  expect(await settle(relayed, next, [{ tenant, sequence: 1n }], [])).toEqual(new Set([tenant]));
  expect(await settle(relayed, slow, [{ tenant, sequence: 2n }], [])).toEqual(new Set());
  expect((await owner.query('select sequence, claim_id from relay_marks')).rows).toEqual([{ sequence: 1n, claim_id: null }]);
});

test('a claim reads one event at least, however large it is and the one before it', async () => {
  const tenant = await newTenant();
  const { writer } = openReplica(null);
  const metadata = JSON.stringify({ text: 'x'.repeat(10_000) });
  for (let turn = 0; turn < 3; turn++) await post(writer, tenant, { metadata });
  const sequences: (bigint | null)[][] = [];
  for (let last = 0n; last < 5n;) {
    const claimId = randomUUID();
    const rows = await claim(relayed, [tenant], claimId, 100, 100);
    sequences.push(rows.map(({ sequence }) => sequence));
    last = rows.at(-1)?.sequence ?? last;
    await settle(relayed, claimId, [{ tenant, sequence: last }], []);
  }
  expect(sequences).toEqual(
    [
      [1n, 2n],
      [2n, 3n],
      [3n, 4n],
      [4n, 5n],
    ].map((each) => each.map((sequence) => sequence)),
  );
});

test('a mark can not go back', async () => {
  const tenant = await newTenant();
  await claim(relayed, [tenant], tenant, 10, 1e6);
  await settle(relayed, tenant, [{ tenant, sequence: 2n }], []);
  await expect(owner.query('update relay_marks set sequence = 1')).rejects.toThrow('can not go back');
});

test('a mark is closed when its time is over and everything is published, and opened again by the next posting', async () => {
  const tenant = await newTenant();
  const open = async () => (await owner.query<{ open: boolean }>('select open_until is not null as open from relay_marks')).rows[0]?.open;
  const over = () => owner.query(`update relay_marks set open_until = clock_timestamp() - interval '1 second'`);
  await over();
  expect(await leftovers(relayed, null)).toEqual({ behind: [tenant], next: null });
  expect(await open()).toBe(true);
  await claim(relayed, [tenant], tenant, 10, 1e6);
  await settle(relayed, tenant, [{ tenant, sequence: 2n }], []);
  expect((await leftovers(relayed, null)).behind).toEqual([]);
  expect(await open()).toBe(false);
  // While a posting holds the head its mark stays open.
  await post(openReplica(null).writer, tenant);
  expect(await open()).toBe(true);
  await claim(relayed, [tenant], tenant, 10, 1e6);
  await settle(relayed, tenant, [{ tenant, sequence: 3n }], []);
  await over();
  await owner.query('begin');
  await owner.query('select from heads for update');
  await leftovers(relayed, null);
  await owner.query('rollback');
  expect(await open()).toBe(true);
  await leftovers(relayed, null);
  expect(await open()).toBe(false);
});

test('the relay sees the marks of all tenants, and of everything else only what it has claimed', async () => {
  const [mine, theirs] = [await newTenant(), await newTenant()];
  const count = async (from: Pool, table: string) => (await from.query(`select from ${table}`)).rowCount;
  expect(await count(relayed, 'relay_marks')).toBe(2);
  for (const table of ['heads', 'log', 'accounts', 'balances', 'transactions', 'entries']) expect(await count(relayed, table)).toBe(0);
  for (const table of ['relay_marks', 'relay_dead_letters']) expect(await count(pool, table)).toBe(0);
  const rows = await claim(relayed, [mine], randomUUID(), 10, 1e6);
  expect(new Set(rows.map((row) => row.tenant_id))).toEqual(new Set([mine]));
  expect(theirs).not.toBe(mine);
});

test('who finds all that waits in the hands of another replica says no more than he knows: the other side is still away', async () => {
  const tenant = await newTenant();
  let away = false;
  let probes = 0;
  const answer = () => (away ? Promise.reject(new Error('away')) : Promise.resolve());
  const probe = () => answer().finally(() => probes++);
  const { writer, relay } = openReplica({ name: 'kafka', publish: answer, probe, close: () => Promise.resolve() });
  const says = (word: string) => relay.state()['kafka'] === word;
  await post(writer, tenant);
  await until(() => Promise.resolve(says('ok')));
  away = true;
  await post(writer, tenant);
  await until(() => Promise.resolve(says('away')));
  await until(async () => (await claim(relayed, [tenant], randomUUID(), 10, 1e6)).length > 0);
  const before = probes;
  await until(() => Promise.resolve(probes > before + 1 || says('ok')));
  expect(relay.state()).toEqual({ kafka: 'away' });
  away = false;
  await until(() => Promise.resolve(says('ok')));
});

test('without Kafka and notifier the relay says so, and keeps everything', async () => {
  const { writer, relay, metrics } = openReplica(null);
  const tenant = await newTenant();
  await post(writer, tenant);
  expect(relay.state()).toEqual({ relay: 'idle: neither KAFKA_BROKERS nor NOTIFIER_ADDR is set' });
  expect(await metric(metrics, 'ledger_relay_lag_events')).toBe(3);
});

test('ids of derived events depend on nothing but the posting and the place, and are ordered like it', () => {
  const posting = '0193a5e0-0000-7abc-8def-0123456789ab';
  const ids = [1, 2, 200].map((part) => derivedId(posting, part));
  expect(new Set(ids).size).toBe(3);
  for (const id of ids) expect(id).toMatch(/^0193a5e0-0000-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(derivedId(posting, 1)).toBe(ids[0]);
});
