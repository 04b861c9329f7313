import { jest } from '@jest/globals';
import dns from 'node:dns';
import { createServer } from 'node:net';
// @ts-expect-error -- an inner file, without types
import ConsumerGroup from 'kafkajs/src/consumer/consumerGroup.js';
// @ts-expect-error -- an inner file, without types
import Runner from 'kafkajs/src/consumer/runner.js';
import { testPort } from '../../test/cluster.ts';
import { settingsOf } from '../../test/kafka.ts';
import { openKafka } from './kafka.ts';
import { openLog } from './telemetry.ts';

const addresses = ['127.0.0.1', '127.0.0.2', '127.0.0.3'];

/** At which of three brokers, that answer nobody, clients begin which are told of these. Of so many none begins at one of three once in 10^8 runs. */
async function beginnings(brokers: (port: number) => string): Promise<Set<string>> {
  const firsts = new Map<string, string>();
  const port = await testPort();
  const servers = addresses.map((address) =>
    createServer((socket) =>
      socket.once('data', (request) => {
        // Behind its length, kind, version and number stands who asks.
        const client = request.subarray(14, 14 + request.readInt16BE(12)).toString();
        if (!firsts.has(client)) firsts.set(client, address);
        socket.destroy();
      }),
    ),
  );
  try {
    for (const [place, server] of servers.entries()) await new Promise<void>((done) => void server.listen(port, addresses[place], done));
    const clients = Array.from({ length: 48 }, async (_, client) => {
      const kafka = openKafka(settingsOf(brokers(port), 'events'), `client ${client}`, openLog('test', 'silent'));
      const admin = kafka.admin({ retry: { retries: 0 } });
      await admin.connect().catch(() => undefined);
      await admin.disconnect().catch(() => undefined);
    });
    await Promise.all(clients);
    expect(firsts.size).toBe(clients.length);
    return new Set(firsts.values());
  } finally {
    for (const server of servers) await new Promise((done) => server.close(done));
  }
}

test('clients begin at any of several brokers, so that one which says nothing does not keep all of them waiting', async () => {
  expect(await beginnings((port) => addresses.map((address) => `${address}:${port}`).join())).toEqual(new Set(addresses));
});

test('so do those of a name with several addresses', async () => {
  const { lookup } = dns;
  const found = addresses.map((address) => ({ address, family: 4 }));
  // Servers, too, look up where they are to listen.
  const looked = jest.spyOn(dns, 'lookup').mockImplementation(((name: string, ...rest: [object, (...answer: unknown[]) => void]) => {
    if (name === 'kafka.test') setImmediate(() => rest[1](null, found));
    else lookup(name, ...(rest as unknown as [dns.LookupAllOptions, () => void]));
  }) as typeof dns.lookup);
  try {
    expect(await beginnings((port) => `kafka.test:${port}`)).toEqual(new Set(addresses));
  } finally {
    looked.mockRestore();
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
