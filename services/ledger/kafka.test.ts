import { createServer, type AddressInfo, type Socket } from 'node:net';
import { until } from '../../test/asking.ts';
import { settingsOf } from '../../test/kafka.ts';
import { openLog } from '../platform/telemetry.ts';
import { kafkaExit } from './kafka.ts';

const int16 = (value: number) => Buffer.from([value >> 8, value]);
const int32 = (value: number) => Buffer.concat([int16(value >>> 16), int16(value)]);
const text = (value: string) => Buffer.concat([int16(value.length), Buffer.from(value)]);

// Of Kafka's requests those that are needed here, by their number, in the version that is answered.
const [metadata, versions, initProducerId] = [3, 18, 22];
const answered = [
  [metadata, 1],
  [versions, 0],
  [initProducerId, 0],
] as const;
const refused = 31;

/** A broker that knows one topic and gives nobody the right to produce. */
async function startRefusing(topic: string) {
  const open = new Set<Socket>();
  const bodyOf = (request: number): Buffer => {
    if (request === versions)
      return Buffer.concat([int16(0), int32(answered.length), ...answered.flatMap(([key, at]) => [key, at, at].map(int16))]);
    if (request === initProducerId) return Buffer.concat([int32(0), int16(refused), Buffer.alloc(10)]);
    const noRack = int16(-1);
    const broker = Buffer.concat([int32(1), text('127.0.0.1'), int32(port), noRack]);
    // Without partitions.
    return Buffer.concat([int32(1), broker, int32(1), int32(1), int16(0), text(topic), Buffer.alloc(1), int32(0)]);
  };
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
    let received = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      while (received.length >= 4 && received.length >= 4 + received.readInt32BE(0)) {
        const end = 4 + received.readInt32BE(0);
        const body = bodyOf(received.readInt16BE(4));
        socket.write(Buffer.concat([int32(4 + body.length), received.subarray(8, 12), body]));
        received = received.subarray(end);
      }
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return { address: `127.0.0.1:${port}`, connections: () => open.size, close: () => new Promise((done) => server.close(done)) };
}

test('a broker that refuses a producer is not left with a connection for each time that it is tried', async () => {
  const broker = await startRefusing('events');
  const exit = kafkaExit(settingsOf(broker.address, 'events'), openLog('test', 'silent'));
  for (let times = 0; times < 3; times++) await expect(exit.probe()).rejects.toMatchObject({ type: 'CLUSTER_AUTHORIZATION_FAILED' });
  await until(
    () => Promise.resolve(broker.connections()),
    (count) => count === 0,
  );
  await exit.close();
  await broker.close();
});
