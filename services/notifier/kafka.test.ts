import { create, toBinary } from '@bufbuild/protobuf';
import kafkajs, { ConfigResourceTypes, ConfigSource, type Consumer, type Kafka, type Message } from 'kafkajs';
// @ts-expect-error -- an inner file, without types
import InnerOffsetManager from 'kafkajs/src/consumer/offsetManager/index.js';
import { Registry } from 'prom-client';
import { compress } from 'snappy';
import { EventSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import {
  describeWithKafka,
  kafkaBrokers,
  newTopic,
  ownKafka,
  settingsOf,
  testClient,
  testWithJava,
  uncommitted,
  withAdmin,
} from '../../test/kafka.ts';
import { newId } from '../platform/ids.ts';
import { ensureTopic } from '../platform/kafka.ts';
import { openLog } from '../platform/telemetry.ts';
import { subscribe, type SubscribeOptions, type Subscription } from './kafka.ts';
import type { Handler, Unreadable } from './membership.ts';
import { Misplaced, type Offsets, type Reading } from './offsets.ts';

/** Which sends what a consumer commits. */
const OffsetManager = InnerOffsetManager as { prototype: { commitOffsets: (...offsets: unknown[]) => Promise<unknown> } };

const logger = openLog('test', 'silent');
let brokers: string;
let topic: string;
/** To where what reads the topic has noted it. */
let offsets: Map<number, bigint>;
const stored: Offsets = {
  read: () => Promise.resolve(new Map(offsets)),
  correct: (partition, before, place) => {
    if ((offsets.get(partition) ?? 0n) === before) offsets.set(partition, place);
    return Promise.resolve();
  },
};
let ends: (() => Promise<void>)[] = [];

/** What has been taken, and what the taking may be told to do. */
class Notes {
  readonly seen: bigint[] = [];
  readonly letters: Unreadable[] = [];
  /** Times that something was handed over. */
  turns = 0;
  readonly readings: Reading[] = [];
  /** Called before anything is noted; may throw. */
  before: (sequences: bigint[]) => Promise<void> | void = () => undefined;

  readonly take: Handler = async (events, unreadable, reading) => {
    this.turns += 1;
    this.readings.push(reading);
    const sequences = events.map(({ sequence }) => sequence);
    await this.before(sequences);
    this.seen.push(...sequences);
    this.letters.push(...unreadable);
    for (const { partition, next } of reading.parts) if (next > (offsets.get(partition) ?? 0n)) offsets.set(partition, next);
  };
}

async function until(happened: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await happened())) await new Promise((done) => setTimeout(done, 20));
}

function open({ take }: Notes, more: Partial<SubscribeOptions> = {}): Subscription & { metrics: Registry } {
  const metrics = new Registry();
  const subscription = subscribe({ kafka: testClient(brokers), topic, group: 'test', offsets: stored, logger, metrics, ...more }, take);
  let closed: Promise<void> | undefined;
  const close = () => (closed ??= subscription.close());
  ends.push(close);
  return { state: () => subscription.state(), close, metrics };
}

async function send(...values: (bigint | Buffer | null)[]): Promise<void> {
  await sendTo(undefined, ...values);
}

function eventMessage(sequence: bigint): Message {
  const event = create(EventSchema, { id: newId('evt'), tenantId: newId('tenant'), sequence, type: 'account.created' });
  return { key: 'k', value: Buffer.from(toBinary(EventSchema, event)) };
}

/** Undefined: the partition of the key, which is always the same. */
async function sendTo(partition: number | undefined, ...values: (bigint | Buffer | null)[]): Promise<void> {
  const producer = testClient(brokers).producer();
  await producer.connect();
  const messages = values.map((value) => ({
    ...(typeof value === 'bigint' ? eventMessage(value) : { key: 'k', value }),
    ...(partition !== undefined && { partition }),
  }));
  // A busy broker has not heard yet of a topic that was made just now.
  await until(() =>
    producer.send({ topic, messages }).then(
      () => true,
      (error: unknown) => {
        if (!String((error as Error).cause).includes('not the leader')) throw error;
        return false;
      },
    ),
  );
  await producer.disconnect();
}

/** How many messages of the topic the subscriptions have not committed. */
function left(): Promise<bigint> {
  return uncommitted(brokers, topic, `test.${topic}`);
}

/** A client whose consumers the test can reach. */
function watched(each: (consumer: Consumer) => void = () => undefined): { kafka: Kafka; consumers: Consumer[] } {
  const kafka = testClient(brokers);
  const consumers: Consumer[] = [];
  const make = kafka.consumer.bind(kafka);
  kafka.consumer = (config) => {
    const made = make(config);
    consumers.push(made);
    each(made);
    return made;
  };
  return { kafka, consumers };
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, place) => BigInt(from + place));

describeWithKafka("Kafka's reader", () => {
  beforeEach(async () => {
    brokers = await kafkaBrokers();
    topic = newTopic();
    offsets = new Map();
    await ensureTopic(testClient(brokers), settingsOf(brokers, topic));
    // Kafka's own start comes first.
  }, 120_000);

  afterEach(async () => {
    for (const end of ends) await end();
    ends = [];
  });

  test('the topic keeps every event, as it was sent, whatever is the default of the brokers', async () => {
    await withAdmin(brokers, async (admin) => {
      const configNames = ['cleanup.policy', 'compression.type', 'message.timestamp.type'];
      const asked = { resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames }], includeSynonyms: false };
      const entries = (await admin.describeConfigs(asked)).resources[0]?.configEntries ?? [];
      expect(entries.map(({ configName, configValue, configSource }) => [configName, configValue, configSource]).sort()).toEqual([
        ['cleanup.policy', 'delete', ConfigSource.TOPIC_CONFIG],
        ['compression.type', 'producer', ConfigSource.TOPIC_CONFIG],
        ['message.timestamp.type', 'LogAppendTime', ConfigSource.TOPIC_CONFIG],
      ]);
    });
  });

  test('a topic that is compacted is refused, until it is not; where its settings may not be seen it is taken', async () => {
    const set = (configValue: string) => {
      const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'cleanup.policy', value: configValue }] };
      return withAdmin(brokers, (admin) => admin.alterConfigs({ resources: [resource], validateOnly: false }));
    };
    const ensure = (kafka = testClient(brokers)) => ensureTopic(kafka, settingsOf(brokers, topic));
    await set('compact,delete');
    await expect(ensure()).rejects.toThrow(
      `the topic ${topic} has cleanup.policy=compact,delete, which removes all but the last event of a tenant`,
    );
    const blind = testClient(brokers);
    const admin = blind.admin();
    blind.admin = () => ({ ...admin, describeConfigs: () => Promise.reject(new Error('Topic authorization failed')) });
    await ensure(blind);
    await set('delete');
    await ensure();
  });

  test('a topic that can’t be made is told with what Kafka says of it', async () => {
    const another = { ...settingsOf(brokers, newTopic()), replication: 3 };
    await expect(ensureTopic(testClient(brokers), another)).rejects.toThrow(
      new RegExp(`^the topic ${another.topic} is not to be seen and can't be made: [^\n]*replication`, 'i'),
    );
  });

  test('a broker that has not heard of a new topic yet has not refused it', async () => {
    const another = settingsOf(brokers, newTopic());
    const kafka = testClient(brokers);
    const admin = kafka.admin();
    const unheard = Object.assign(new Error('This server does not host this topic-partition'), { type: 'UNKNOWN_TOPIC_OR_PARTITION' });
    kafka.admin = () => ({ ...admin, createTopics: (asked) => admin.createTopics(asked).then(() => Promise.reject(unheard)) });
    await ensureTopic(kafka, another);
    await withAdmin(brokers, async (seen) => until(async () => (await seen.listTopics()).includes(another.topic)));
  });

  test('hands events over in their order, commits behind them, and a later reader goes on from there', async () => {
    await send(...range(1, 500));
    const first = new Notes();
    const reader = open(first);
    await until(async () => (await left()) === 0n);
    expect(first.seen).toEqual(range(1, 500));
    expect(reader.state()).toBe('ok');
    await reader.close();
    await send(501n);
    const second = new Notes();
    open(second);
    await until(() => second.seen.length > 0);
    expect(second.seen).toEqual([501n]);
  });

  test('commits nothing before the handler is done, and hands the same events over again where it failed', async () => {
    const notes = new Notes();
    let failures = 0;
    notes.before = async () => {
      expect(await left()).toBe(10n);
      if (failures++ < 3) throw new Error('the database is away');
    };
    await send(...range(1, 10));
    open(notes);
    await until(async () => (await left()) === 0n);
    expect(notes.seen).toEqual(range(1, 10));
    expect(failures).toBe(4);
  });

  test('hands over together what several partitions have, each in its order, and the same again where that failed', async () => {
    const notes = new Notes();
    const turns: bigint[][] = [];
    notes.before = (sequences) => {
      if (turns.push(sequences) === 1) throw new Error('the database is away');
    };
    const partitions = [1_000, 2_000, 3_000].map((begin) => range(begin, begin + 299));
    for (const [partition, sequences] of partitions.entries()) await sendTo(partition, ...sequences);
    open(notes);
    await until(async () => (await left()) === 0n);
    for (const sequences of partitions) expect(notes.seen.filter((each) => sequences.includes(each))).toEqual(sequences);
    expect(notes.seen).toHaveLength(900);
    const mixed = (turn: bigint[]) => new Set(turn.map((each) => each / 1_000n)).size > 1;
    expect(turns.some(mixed)).toBe(true);
    // In hand at a time.
    expect(Math.max(...turns.map(({ length }) => length))).toBeLessThanOrEqual(400);
  });

  test('what the handler can’t take of one partition holds up no other that came with it', async () => {
    const notes = new Notes();
    let sick = true;
    notes.before = (sequences) => {
      if (sick && sequences.includes(4n)) throw new Error('its tenant is locked');
    };
    for (const sequence of range(1, 4)) await sendTo(Number(sequence) - 1, sequence);
    open(notes);
    await until(() => notes.seen.length === 3);
    expect(notes.seen.toSorted()).toEqual([1n, 2n, 3n]);
    sick = false;
    await until(async () => (await left()) === 0n);
    expect(notes.seen).toHaveLength(4);
  });

  test('keeps what is no event with its reason, and goes on', async () => {
    const notes = new Notes();
    await send(1n, Buffer.from('no protobuf'), null, Buffer.alloc(0), 2n);
    open(notes);
    await until(async () => (await left()) === 0n);
    expect(notes.seen).toEqual([1n, 2n]);
    expect(notes.letters.map(({ offset, reason }) => [offset, reason])).toEqual([
      ['1', expect.stringMatching(/^the value is no ledger.v1.Event: /)],
      ['2', 'the message has no value'],
      ['3', 'the event has no id, tenant or sequence'],
    ]);
    expect(notes.letters[0]?.value?.toString()).toBe('no protobuf');
  });

  test.each(['gzip', 'snappy', 'lz4', 'zstd'])('events that the broker has compressed with %s are read', async (name) => {
    await withAdmin(brokers, (admin) => {
      const configEntries = [{ name: 'compression.type', value: name }];
      return admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] });
    });
    await send(...range(1, 5_000));
    const notes = new Notes();
    open(notes);
    await until(() => notes.seen.length >= 5_000);
    expect(notes.seen).toEqual(range(1, 5_000));
  });

  test('events that a sender has compressed with snappy, as those do that are not in Java, are read', async () => {
    const notes = new Notes();
    open(notes);
    const snappy = kafkajs.CompressionTypes.Snappy;
    const codecs = kafkajs.CompressionCodecs as Record<number, () => object>;
    const codec = codecs[snappy]!();
    codecs[snappy] = () => ({ ...codec, compress: ({ buffer }: { buffer: Buffer }) => compress(buffer) });
    const producer = testClient(brokers).producer();
    await producer.connect();
    await producer.send({ topic, compression: snappy, messages: range(1, 50).map(eventMessage) });
    await producer.disconnect();
    await until(() => notes.seen.length >= 50);
    expect(notes.seen).toEqual(range(1, 50));
  });

  test('hands a flood of what is no event over by the hundreds, so that events do not wait for it', async () => {
    const notes = new Notes();
    await send(...Array.from({ length: 2_000 }, (_, place) => (place % 2 === 0 ? Buffer.from('no protobuf') : BigInt(place))));
    open(notes);
    await until(async () => (await left()) === 0n);
    expect([notes.seen.length, notes.letters.length]).toEqual([1_000, 1_000]);
    // Ten, if Kafka gives all of them at once.
    expect(notes.turns).toBeLessThan(100);
  });

  test('partitions that an operator adds are read soon, without a restart', async () => {
    const notes = new Notes();
    await send(1n);
    open(notes);
    await until(() => notes.seen.length > 0);
    await withAdmin(brokers, (admin) => admin.createPartitions({ topicPartitions: [{ topic, count: 6 }] }));
    // A sender that does not know the partition yet drops what is for it.
    await until(async () => {
      await sendTo(5, 2n);
      return notes.seen.includes(2n);
    });
  });

  test('nothing waits behind a transaction, as a mirror of the topic writes it', async () => {
    const notes = new Notes();
    open(notes);
    const producer = testClient(brokers).producer({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1 });
    await producer.connect();
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [eventMessage(1n)] });
    await transaction.commit();
    await until(async () => notes.seen.length > 0 && (await left()) === 0n);
    const takenBack = await producer.transaction();
    await takenBack.send({ topic, messages: [eventMessage(2n)] });
    await takenBack.abort();
    await producer.disconnect();
    await until(async () => (await left()) === 0n);
    expect(notes.seen).toEqual([1n]);
  });

  test('a consumer that stands still while messages wait is built anew', async () => {
    const { kafka, consumers } = watched();
    const notes = new Notes();
    await send(1n);
    const reader = open(notes, { kafka, watchdogSeconds: 3 });
    await until(() => notes.seen.length > 0);
    // On a busy machine it may have stood still before.
    const before = consumers.length;
    consumers.at(-1)?.pause([{ topic }]);
    // One that was fetched before the pause may still arrive.
    await until(async () => {
      await send(2n);
      return consumers.length > before;
    });
    await until(async () => (await left()) === 0n);
    // One that stood still once more is counted a second before there is another.
    const rebuilds = () => `{reason="stood still"} ${consumers.length - 1}`;
    await until(async () => (await reader.metrics.getSingleMetricAsString('notifier_consumer_rebuilds_total')).includes(rebuilds()));
    expect(new Set(notes.seen)).toEqual(new Set([1n, 2n]));
  });

  test('a consumer whose commit is never answered is built anew', async () => {
    const commit = OffsetManager.prototype.commitOffsets;
    let hung = false;
    OffsetManager.prototype.commitOffsets = function (...offsets: unknown[]) {
      if (hung) return commit.apply(this, offsets);
      hung = true;
      return new Promise(() => undefined);
    };
    try {
      await send(1n);
      open(new Notes(), { watchdogSeconds: 3 });
      await until(async () => hung && (await left()) === 0n);
    } finally {
      OffsetManager.prototype.commitOffsets = commit;
    }
  });

  test('a consumer that was left behind changes nothing of its successor’s place', async () => {
    const crashes: (() => void)[] = [];
    const { kafka, consumers } = watched((each) => {
      const on = each.on.bind(each) as (event: string, told: (of: object) => void) => () => void;
      each.on = (event: string, told: (of: never) => void) => {
        if (event === each.events.CRASH) crashes.push(() => told({ payload: { error: new Error('the test says so') } } as never));
        return on(event, told as () => void);
      };
    });
    const notes = new Notes();
    const held = Promise.withResolvers<void>();
    await send(...range(1, 3));
    const reader = open(notes, { kafka });
    await until(async () => (await left()) === 0n);
    let isHeld = false;
    notes.before = () => {
      if (isHeld) return undefined;
      isHeld = true;
      return held.promise;
    };
    await send(...range(4, 6));
    await until(() => isHeld);
    crashes[0]?.();
    await until(async () => (await left()) === 0n);
    // As a database that was restored would have it, and is not any more.
    held.reject(new Misplaced());
    await send(7n);
    await until(async () => (await left()) === 0n);
    await consumers[0]?.disconnect();
    expect(notes.seen).toEqual(range(1, 7));
    expect(await reader.metrics.getSingleMetricAsString('notifier_consumer_rewinds_total')).toMatch(/^notifier_consumer_rewinds_total 0$/m);
  });

  test('what another reader has noted of a partition meanwhile must be noted, too', async () => {
    const [first, second] = [new Notes(), new Notes()];
    await sendTo(0, ...range(1, 3));
    await sendTo(1, ...range(1, 3));
    open(first);
    await until(async () => (await left()) === 0n);
    const other = open(second);
    await until(() => other.state() === 'ok');
    for (const partition of [0, 1, 2, 3]) await sendTo(partition, ...range(4, 5));
    await until(async () => second.turns > 0 && (await left()) === 0n);
    await other.close();
    first.readings.length = 0;
    for (const partition of [0, 1, 2, 3]) await sendTo(partition, 6n);
    await until(async () => (await left()) === 0n);
    const from = new Map(first.readings.flatMap(({ parts }) => parts.map((part) => [part.partition, part.from] as const)));
    expect([from.get(0), from.get(1)]).toEqual([5n, 5n]);
  });

  test('a handler that takes long is waited for, and keeps its partitions', async () => {
    const notes = new Notes();
    let release: () => void = () => undefined;
    const held = new Promise<void>((done) => (release = done));
    let [begun, alive, made] = [0, 0, 0];
    notes.before = () => {
      [begun, made] = [Date.now(), consumers.length];
      return held;
    };
    const { kafka, consumers } = watched((consumer) => consumer.on(consumer.events.HEARTBEAT, () => (alive = Date.now())));
    await send(1n);
    const reader = open(notes, { kafka, watchdogSeconds: 3 });
    // The group forgets a member after 10 s without a sign of life, and Kafka counts as away after 15 s without one.
    await until(() => begun > 0 && alive > begun + 16_000);
    expect(reader.state()).toBe('ok');
    expect(consumers).toHaveLength(made);
    release();
    await until(async () => (await left()) === 0n);
    expect(notes.seen).toEqual([1n]);
  });

  test('messages that the topic has removed before they were noted are counted, and what is left is taken', async () => {
    await send(...range(1, 10));
    const first = open(new Notes());
    await until(async () => (await left()) === 0n);
    await first.close();
    await send(...range(11, 30));
    await withAdmin(brokers, async (admin) => {
      const [full] = (await admin.fetchTopicOffsets(topic)).filter(({ high }) => high === '30');
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: full!.partition, offset: '25' }] });
    });
    const notes = new Notes();
    const second = open(notes);
    await until(() => notes.seen.length > 0);
    expect(notes.seen).toEqual(range(26, 30));
    expect(await second.metrics.getSingleMetricAsString('notifier_consumer_lost_total')).toMatch(/^notifier_consumer_lost_total 15$/m);
  });

  test('the lag is told also while the handler can note nothing', async () => {
    const notes = new Notes();
    notes.before = () => Promise.reject(new Error('the database is away'));
    await send(1n);
    const reader = open(notes, { watchdogSeconds: 3 });
    await until(() => notes.turns > 0);
    await send(2n);
    await until(async () => /^notifier_consumer_lag 2$/m.test(await reader.metrics.getSingleMetricAsString('notifier_consumer_lag')));
    notes.before = () => undefined;
    await until(async () => (await left()) === 0n);
  });

  test('the lag is not what it was while no consumer comes to be', async () => {
    let crash: (() => void) | undefined;
    const { kafka } = watched((each) => {
      const on = each.on.bind(each) as (event: string, told: (of: object) => void) => () => void;
      each.on = (event: string, told: (of: never) => void) => {
        if (event === each.events.CRASH) crash = () => told({ payload: { error: new Error('not authorized') } } as never);
        return on(event, told as () => void);
      };
    });
    const reader = open(new Notes(), { kafka, watchdogSeconds: 3 });
    const lag = async () => (await reader.metrics.getSingleMetricAsString('notifier_consumer_lag')).split(' ').at(-1);
    await until(async () => (await lag()) === '0');
    // As where a right was taken away: what stands is ended, and each that is built fails at once.
    const consumer = kafka.consumer.bind(kafka);
    kafka.consumer = (config) => Object.assign(consumer(config), { connect: () => Promise.reject(new Error('not authorized')) });
    crash?.();
    await until(async () => (await lag()) === 'Nan');
    kafka.consumer = consumer;
    await until(async () => (await lag()) === '0');
  });

  test('finishes the batch in hand when it is closed', async () => {
    const notes = new Notes();
    let release: () => void = () => undefined;
    let begun = false;
    const held = new Promise<void>((done) => (release = done));
    notes.before = () => {
      begun = true;
      return held;
    };
    // As much again as is in hand, and more, waits for its turn.
    for (const partition of [0, 1, 2, 3]) await sendTo(partition, ...range(1, 200));
    const reader = open(notes);
    await until(() => begun);
    const closed = reader.close();
    release();
    await closed;
    expect(notes.turns).toBe(1);
    expect(notes.seen.length).toBeGreaterThan(0);
    expect(await left()).toBe(BigInt(800 - notes.seen.length));
  });

  test('two readers share the partitions, and one takes over from the other', async () => {
    const [first, second] = [new Notes(), new Notes()];
    const one = open(first);
    await until(() => one.state() === 'ok');
    const two = open(second);
    await until(() => two.state() === 'ok');
    await one.close();
    await send(...range(1, 20));
    await until(async () => (await left()) === 0n);
    expect(second.seen).toEqual(range(1, 20));
  });

  testWithJava('while Kafka is stalled it is closed in time all the same', async () => {
    const kafka = await ownKafka();
    const settings = settingsOf(kafka.address, topic);
    await ensureTopic(testClient(kafka.address), settings);
    const running = open(new Notes(), { kafka: testClient(kafka.address) });
    await until(() => running.state() === 'ok');
    await kafka.signal('SIGSTOP');
    try {
      const starting = open(new Notes(), { kafka: testClient(kafka.address) });
      const began = performance.now();
      await Promise.all([running.close(), starting.close()]);
      // A process has 25 s in all, and its deliveries 18 of them.
      expect(performance.now() - began).toBeLessThan(7_000);
    } finally {
      await kafka.signal('SIGCONT');
      await kafka.stop();
    }
  });

  test('says that it is away where no broker answers, and can be closed all the same', async () => {
    const notes = new Notes();
    const reader = open(notes, { kafka: testClient('127.0.0.1:1') });
    expect(reader.state()).toBe('away');
    await reader.close();
    expect(notes.seen).toEqual([]);
  });
});
