import { createServer, type AddressInfo, type Socket } from 'node:net';
import { create } from '@bufbuild/protobuf';
import { EventSchema, type Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { until } from '../../../test/polling.ts';
import { settingsOf } from '../../../test/kafka.ts';
import { newId } from '../../platform/ids.ts';
import { openLog } from '../../platform/telemetry.ts';
import { EventsDeferred } from './event-sink.ts';
import { kafkaPublisher } from './kafka-publisher.ts';

const int16 = (value: number) => Buffer.from([(value >> 8) & 255, value & 255]);
const int32 = (value: number) => Buffer.concat([int16(value >>> 16), int16(value)]);
const int64 = (value: number) => Buffer.concat([int32(0), int32(value)]);
const text = (value: string) => Buffer.concat([int16(value.length), Buffer.from(value)]);
const list = (items: Buffer[]) => Buffer.concat([int32(items.length), ...items]);

// Kafka's API keys that are answered here, with their versions.
const [produce, metadata, versions, initProducerId] = [0, 3, 18, 22];
const answered = [
  [produce, 3],
  [metadata, 1],
  [versions, 0],
  [initProducerId, 0],
] as const;
const [noLeader, notLeader, tooFewCopies, refused] = [5, 6, 19, 31];

/** Brokers with one topic; `leaders`: by partition the index of the broker that leads it, -1 for none. */
interface Cluster {
  topic: string;
  leaders: number[];
  ports: number[];
}

/** A broker that answers metadata requests, and all others with `answer`. */
async function startBroker(cluster: Cluster, answer: (request: number, body: Buffer) => Buffer) {
  const open = new Set<Socket>();
  const bodyOf = (request: number, body: Buffer): Buffer => {
    if (request === versions) return Buffer.concat([int16(0), list(answered.map(([key, at]) => Buffer.concat([key, at, at].map(int16))))]);
    if (request !== metadata) return answer(request, body);
    const noRack = int16(-1);
    const brokers = cluster.ports.map((port, place) => Buffer.concat([int32(place), text('127.0.0.1'), int32(port), noRack]));
    const topic = (name: string, leaders: number[]) => {
      const partitions = leaders.map((leader, place) => {
        const copies = list([int32(leader)]);
        return Buffer.concat([int16(leader < 0 ? noLeader : 0), int32(place), int32(leader), copies, copies]);
      });
      return Buffer.concat([int16(0), text(name), Buffer.alloc(1), list(partitions)]);
    };
    // A request without topics gets all, also one without a leader.
    const isAll = body.readInt32BE(0) < 0;
    const topics = [topic(cluster.topic, cluster.leaders), ...(isAll ? [topic('another', [-1])] : [])];
    return Buffer.concat([list(brokers), int32(0), list(topics)]);
  };
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
    let received = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      while (received.length >= 4 && received.length >= 4 + received.readInt32BE(0)) {
        const end = 4 + received.readInt32BE(0);
        const client = received.readInt16BE(12);
        const body = bodyOf(received.readInt16BE(4), received.subarray(14 + Math.max(client, 0), end));
        socket.write(Buffer.concat([int32(4 + body.length), received.subarray(8, 12), body]));
        received = received.subarray(end);
      }
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  cluster.ports.push(port);
  return { address: `127.0.0.1:${port}`, connections: () => open.size, close: () => new Promise((done) => server.close(done)) };
}

/** The partitions of a request to produce to one topic. */
function partitionsOf(body: Buffer): number[] {
  let at = 2 + Math.max(body.readInt16BE(0), 0) + 2 + 4 + 4;
  at += 2 + body.readInt16BE(at);
  const partitions: number[] = [];
  const count = body.readInt32BE(at);
  at += 4;
  while (partitions.length < count) {
    partitions.push(body.readInt32BE(at));
    at += 8 + body.readInt32BE(at + 4);
  }
  return partitions;
}

/** Answers a producer with an error code for each partition; 0 takes the messages. */
const producing = (topic: string, codeOf: (partition: number) => number) => (request: number, body: Buffer) => {
  if (request === initProducerId) return Buffer.concat([int32(0), int16(0), int64(1), int16(0)]);
  const answers = partitionsOf(body).map((each) => Buffer.concat([int32(each), int16(codeOf(each)), int64(0), int64(0)]));
  return Buffer.concat([list([Buffer.concat([text(topic), list(answers)])]), int32(0)]);
};

/** Events of many tenants: each of four partitions gets some. */
const manyTenants = () =>
  Array.from({ length: 60 }, () => create(EventSchema, { id: newId('evt'), tenantId: newId('tenant'), sequence: 1n }));

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** Opens a publisher to new brokers, one for each answer. */
async function openSink(cluster: Cluster, ...answers: Parameters<typeof startBroker>[1][]) {
  const brokers: Awaited<ReturnType<typeof startBroker>>[] = [];
  for (const answer of answers) brokers.push(await startBroker(cluster, answer));
  const sink = kafkaPublisher(settingsOf(brokers.map(({ address }) => address).join(), cluster.topic), openLog('test', 'silent'));
  ends.push(...brokers.map(({ close }) => close), sink.close);
  const failureOf = (events: Event[]) =>
    sink.publish(events).then(
      () => undefined,
      (error: unknown) => error as Error,
    );
  return { sink, brokers, failureOf };
}

const clusterOf = (...leaders: number[]): Cluster => ({ topic: 'events', leaders, ports: [] });

test('a broker that refuses a producer keeps no connection of it', async () => {
  const { sink, brokers } = await openSink(clusterOf(), () => Buffer.concat([int32(0), int16(refused), Buffer.alloc(10)]));
  for (let times = 0; times < 3; times++) await expect(sink.probe()).rejects.toMatchObject({ type: 'CLUSTER_AUTHORIZATION_FAILED' });
  await until(
    () => Promise.resolve(brokers[0]!.connections()),
    (count) => count === 0,
  );
});

test.each([
  ['has no leader', -1, 0],
  ['has too few copies', 0, tooFewCopies],
])('a partition that %s keeps only its own tenants waiting', async (_, leader, code) => {
  const cluster = clusterOf(0, leader);
  const sends = [0, 0];
  const answer = producing(cluster.topic, (partition) => {
    sends[partition]! += 1;
    return partition === 1 ? code : 0;
  });
  const { sink, failureOf } = await openSink(cluster, answer);
  await sink.probe();
  const events = manyTenants();
  const failure = await failureOf(events);
  expect(failure).toBeInstanceOf(EventsDeferred);
  const waits = ({ tenantId }: Event) => (failure as EventsDeferred).tenants!.has(tenantId);
  const [late, well] = [events.filter(waits), events.filter((event) => !waits(event))];
  expect([late.length > 0, well.length > 0]).toEqual([true, true]);
  // From now on the others are sent once.
  const [before, tried] = sends as [number, number];
  expect(before).toBeLessThanOrEqual(2);
  expect(await failureOf(events)).toMatchObject({ tenants: (failure as EventsDeferred).tenants });
  expect(await failureOf(late)).toBeInstanceOf(EventsDeferred);
  expect(await failureOf(well)).toBeUndefined();
  expect(sends[0]).toBe(before + 2);
  // The failing partition is not tried each time.
  expect(sends[1]).toBeLessThanOrEqual(tried + 1);
  cluster.leaders = [0, 0];
  code = 0;
  await until(
    () => failureOf(late),
    (error) => error === undefined,
  );
  expect(sends[0]).toBe(before + 2);
  expect(await failureOf(events)).toBeUndefined();
});

test('where all partitions fail the sink is unavailable, and no tenant is deferred', async () => {
  let code = tooFewCopies;
  const { failureOf } = await openSink(
    clusterOf(0, 0),
    producing('events', () => code),
  );
  const failure = await failureOf(manyTenants());
  expect([failure instanceof Error, failure instanceof EventsDeferred]).toEqual([true, false]);
  code = 0;
  expect(await failureOf(manyTenants())).toBeUndefined();
});

test('after a broker stops, the other takes its partition’s events, too', async () => {
  const cluster = clusterOf(0, 1);
  const taken = new Set<number>();
  const first = producing(cluster.topic, (partition) => {
    taken.add(partition);
    return 0;
  });
  // The second broker stops: its partition moves to the first.
  const second = producing(cluster.topic, () => {
    cluster.leaders = [0, 0];
    return notLeader;
  });
  const { failureOf } = await openSink(cluster, first, second);
  const events = manyTenants();
  // The relay repeats a failed publication.
  await until(
    () => failureOf(events),
    (error) => error === undefined,
  );
  expect(taken).toEqual(new Set([0, 1]));
});

test('after partitions were added events go to all of them', async () => {
  const cluster = clusterOf(0, 0);
  const sent = new Set<number>();
  let code = 0;
  const { failureOf } = await openSink(
    cluster,
    producing(cluster.topic, (partition) => {
      sent.add(partition);
      return code;
    }),
  );
  const events = manyTenants();
  expect(await failureOf(events)).toBeUndefined();
  expect(sent).toEqual(new Set([0, 1]));
  cluster.leaders = [0, 0, 0, 0];
  // The next producer reads the metadata again.
  code = tooFewCopies;
  expect(await failureOf(events)).toBeInstanceOf(Error);
  code = 0;
  sent.clear();
  expect(await failureOf(events)).toBeUndefined();
  expect(sent).toEqual(new Set([0, 1, 2, 3]));
});
