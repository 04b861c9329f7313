import { createServer, type Socket } from 'node:net';
import { ConfigResourceTypes } from 'kafkajs';
import { testPort } from '../../test/cluster.ts';
import { describeWithKafka, kafkaBrokers, newTopic, settingsOf, testClient, withAdmin } from '../../test/kafka.ts';
import { ensureTopic, openKafka } from './kafka.ts';
import { openLog } from './telemetry.ts';

test('clients start with different brokers, so that one which accepts connections and does not answer keeps only some of them waiting', async () => {
  const addresses = ['127.0.0.1', '127.0.0.2', '127.0.0.3'];
  const port = await testPort();
  const sockets: Socket[] = [];
  const reached = addresses.map(() => Promise.withResolvers<void>());
  const servers = addresses.map((_, index) => createServer((socket) => (sockets.push(socket), reached[index]?.resolve())));
  for (const [index, server] of servers.entries()) await new Promise<void>((done) => void server.listen(port, addresses[index], done));
  const settings = settingsOf(addresses.map((address) => `${address}:${port}`).join(), 'events');
  // So many that one of three brokers is missed once in 10^8 runs.
  const admins = Array.from({ length: 48 }, () => openKafka(settings, 'test', openLog('test', 'silent')).admin({ retry: { retries: 0 } }));
  const connecting = admins.map((admin) => admin.connect().catch(() => undefined));
  await Promise.all(reached.map(({ promise }) => promise));
  for (const server of servers) server.close();
  for (const socket of sockets) socket.destroy();
  await Promise.all(connecting);
  await Promise.all(admins.map((admin) => admin.disconnect()));
});

describeWithKafka('the topic', () => {
  let brokers: string;
  const setting = (topic: string, name: string, value: string) => {
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] };
    return withAdmin(brokers, (admin) => admin.alterConfigs({ resources: [resource], validateOnly: false }));
  };
  const ensure = (topic: string, more = {}) => ensureTopic(testClient(brokers), settingsOf(brokers, topic, more));

  beforeAll(async () => {
    brokers = await kafkaBrokers();
  }, 120_000);

  test('is created so that it keeps every event as it was sent, whatever the default of the brokers', async () => {
    const topic = newTopic();
    await ensure(topic);
    const configNames = ['cleanup.policy', 'compression.type', 'message.timestamp.type'];
    const query = { resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames }], includeSynonyms: false };
    const answer = await withAdmin(brokers, (admin) => admin.describeConfigs(query));
    expect(Object.fromEntries(answer.resources[0]!.configEntries.map(({ configName, configValue }) => [configName, configValue]))).toEqual({
      'cleanup.policy': 'delete',
      'compression.type': 'producer',
      'message.timestamp.type': 'LogAppendTime',
    });
  });

  test.each([
    ['cleanup.policy', 'compact,delete', "which deletes all but a tenant's last event: set it to delete"],
    ['compression.type', 'lz4', "which the notifier can't read: set it to producer"],
  ])('is refused where its %s is %s', async (name, value, why) => {
    const topic = newTopic();
    await ensure(topic);
    await setting(topic, name, value);
    await expect(ensure(topic)).rejects.toThrow(`the topic ${topic} has ${name}=${value}, ${why}`);
  });

  test('that can’t be created is an error with the answer of Kafka', async () => {
    const topic = newTopic();
    await expect(ensure(topic, { replication: 3 })).rejects.toThrow(
      new RegExp(`^the topic ${topic} can't be created: [^\n]*replication`, 'i'),
    );
  });
});
