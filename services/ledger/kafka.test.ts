import { createServer, type AddressInfo, type Socket } from 'node:net';
import { create } from '@bufbuild/protobuf';
import { EventSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { until } from '../../test/asking.ts';
import { settingsOf } from '../../test/kafka.ts';
import { newId } from '../platform/ids.ts';
import { openLog } from '../platform/telemetry.ts';
import { kafkaExit } from './kafka.ts';

const int16 = (value: number) => Buffer.from([(value >> 8) & 255, value & 255]);
const int32 = (value: number) => Buffer.concat([int16(value >>> 16), int16(value)]);
const int64 = (value: number) => Buffer.concat([int32(0), int32(value)]);
const text = (value: string) => Buffer.concat([int16(value.length), Buffer.from(value)]);
const list = (items: Buffer[]) => Buffer.concat([int32(items.length), ...items]);

// Of Kafka's requests those that are needed here, by their number, in the version that is answered.
const [produce, metadata, versions, initProducerId] = [0, 3, 18, 22];
const answered = [
  [produce, 3],
  [metadata, 1],
  [versions, 0],
  [initProducerId, 0],
] as const;
const [notLeader, refused] = [6, 31];

/** What brokers are: a topic, and by partition the place of the broker that leads it. */
interface Cluster {
  topic: string;
  leaders: number[];
  ports: number[];
}

/** A broker that says where the partitions are, and answers what else it is asked with `answer`. */
async function startBroker(cluster: Cluster, answer: (request: number, body: Buffer) => Buffer) {
  const open = new Set<Socket>();
  const bodyOf = (request: number, body: Buffer): Buffer => {
    if (request === versions) return Buffer.concat([int16(0), list(answered.map(([key, at]) => Buffer.concat([key, at, at].map(int16))))]);
    if (request !== metadata) return answer(request, body);
    const noRack = int16(-1);
    const brokers = cluster.ports.map((port, place) => Buffer.concat([int32(place), text('127.0.0.1'), int32(port), noRack]));
    const partitions = cluster.leaders.map((leader, place) =>
      Buffer.concat([int16(0), int32(place), int32(leader), list([int32(leader)]), list([int32(leader)])]),
    );
    return Buffer.concat([
      list(brokers),
      int32(0),
      list([Buffer.concat([int16(0), text(cluster.topic), Buffer.alloc(1), list(partitions)])]),
    ]);
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

test('a broker that refuses a producer is not left with a connection for each time that it is tried', async () => {
  const broker = await startBroker({ topic: 'events', leaders: [], ports: [] }, () =>
    Buffer.concat([int32(0), int16(refused), Buffer.alloc(10)]),
  );
  const exit = kafkaExit(settingsOf(broker.address, 'events'), openLog('test', 'silent'));
  for (let times = 0; times < 3; times++) await expect(exit.probe()).rejects.toMatchObject({ type: 'CLUSTER_AUTHORIZATION_FAILED' });
  await until(
    () => Promise.resolve(broker.connections()),
    (count) => count === 0,
  );
  await exit.close();
  await broker.close();
});

test('what one of two brokers has not taken is taken by the other, which has taken its own part already', async () => {
  const cluster: Cluster = { topic: 'events', leaders: [0, 1], ports: [] };
  const taken = new Set<number>();
  const answerOf = (broker: number) => (request: number, body: Buffer) => {
    if (request === initProducerId) return Buffer.concat([int32(0), int16(0), int64(1), int16(0)]);
    const partitions = partitionsOf(body);
    // The second is being stopped: what it leads goes to the first.
    const isLeader = broker === 0;
    if (isLeader) for (const each of partitions) taken.add(each);
    else cluster.leaders = [0, 0];
    const error = int16(isLeader ? 0 : notLeader);
    const answers = partitions.map((each) => Buffer.concat([int32(each), error, int64(0), int64(0)]));
    return Buffer.concat([list([Buffer.concat([text(cluster.topic), list(answers)])]), int32(0)]);
  };
  const brokers = [await startBroker(cluster, answerOf(0)), await startBroker(cluster, answerOf(1))];
  const exit = kafkaExit(settingsOf(brokers.map(({ address }) => address).join(), 'events'), openLog('test', 'silent'));
  try {
    // Of so many tenants some are on either partition.
    const events = Array.from({ length: 40 }, () => create(EventSchema, { id: newId('evt'), tenantId: newId('tenant'), sequence: 1n }));
    // As the relay does.
    for (let isDone = false; !isDone;)
      isDone = await exit.publish(events).then(
        () => true,
        () => false,
      );
    expect(taken).toEqual(new Set([0, 1]));
  } finally {
    await exit.close();
    for (const each of brokers) await each.close();
  }
});
