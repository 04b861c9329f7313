import { jest } from '@jest/globals';
import dns from 'node:dns';
import { createServer, type AddressInfo } from 'node:net';
// @ts-expect-error -- an inner file, without types
import ConsumerGroup from 'kafkajs/src/consumer/consumerGroup.js';
// @ts-expect-error -- an inner file, without types
import Runner from 'kafkajs/src/consumer/runner.js';
import { testPort } from '../../test/house.ts';
import { settingsOf } from '../../test/kafka.ts';
import { openKafka } from './kafka.ts';
import { openLog } from './telemetry.ts';

test('clients begin at any of several brokers, so that one which says nothing does not keep all of them waiting', async () => {
  const asked = new Set<number>();
  const servers = [0, 1, 2].map((place) =>
    createServer((socket) => {
      asked.add(place);
      socket.destroy();
    }),
  );
  try {
    for (const server of servers) await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done));
    const addresses = servers.map((server) => `127.0.0.1:${(server.address() as AddressInfo).port}`);
    const firsts = new Set<number>();
    // Of so many clients none begins at one of three once in 10^8 runs.
    for (let client = 0; client < 48; client++) {
      asked.clear();
      const kafka = openKafka(settingsOf(addresses.join(), 'events'), 'test', openLog('test', 'silent'));
      const admin = kafka.admin({ retry: { retries: 0 } });
      await admin.connect().catch(() => undefined);
      await admin.disconnect().catch(() => undefined);
      for (const first of [...asked].slice(0, 1)) firsts.add(first);
    }
    expect(firsts).toEqual(new Set([0, 1, 2]));
  } finally {
    for (const server of servers) await new Promise((done) => server.close(done));
  }
});

test('a client of a name with several addresses begins at any of them, also where one takes connections and says nothing', async () => {
  const asked: string[] = [];
  const port = await testPort();
  const addresses = ['127.0.0.1', '127.0.0.2', '127.0.0.3'];
  const servers = addresses.map((address) =>
    createServer((socket) => {
      asked.push(address);
      socket.destroy();
    }).listen(port, address),
  );
  const looked = jest.spyOn(dns, 'lookup').mockImplementation(((name: string, _: object, done: (...found: unknown[]) => void) => {
    done(
      name === 'kafka.test' ? null : new Error(name),
      addresses.map((address) => ({ address, family: 4 })),
    );
  }) as typeof dns.lookup);
  try {
    const firsts = new Set<string>();
    for (let client = 0; client < 48; client++) {
      asked.length = 0;
      const admin = openKafka(settingsOf(`kafka.test:${port}`, 'events'), 'test', openLog('test', 'silent')).admin({
        retry: { retries: 0 },
      });
      await admin.connect().catch(() => undefined);
      await admin.disconnect().catch(() => undefined);
      for (const first of asked.slice(0, 1)) firsts.add(first);
    }
    expect(firsts).toEqual(new Set(addresses));
  } finally {
    looked.mockRestore();
    for (const server of servers) await new Promise((done) => server.close(done));
  }
});

test('a consumer that is stopped while its fetchers are made anew stops those as well', async () => {
  let stops = 0;
  const runner = Object.create((Runner as { prototype: object }).prototype) as { fetch: (broker: string) => Promise<unknown[]> };
  const logger = { debug: () => undefined };
  Object.assign(runner, { running: false, logger, consumerGroup: {}, fetchManager: { stop: () => Promise.resolve(void (stops += 1)) } });
  expect(await runner.fetch('1')).toEqual([]);
  expect(stops).toBe(1);
});

test('a reader whose partition has no leader asks for it again after a pause', async () => {
  let asked = 0;
  const cluster = { refreshMetadata: () => Promise.resolve(void (asked += 1)) };
  const group = Object.create((ConsumerGroup as { prototype: object }).prototype) as { recoverFromFetch: (error: Error) => Promise<void> };
  Object.assign(group, { cluster, logger: { debug: () => undefined } });
  const began = performance.now();
  await group.recoverFromFetch(Object.assign(new Error('no leader'), { name: 'KafkaJSBrokerNotFound' }));
  expect(performance.now() - began).toBeGreaterThan(450);
  expect(asked).toBe(1);
});
