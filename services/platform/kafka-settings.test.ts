import { kafkaSettings } from './kafka-settings.ts';
import { Settings } from './settings.ts';

const read = (env: NodeJS.ProcessEnv) => kafkaSettings(new Settings(env));

test('without brokers events do not travel over Kafka, whatever else is set', () => {
  expect(read({})).toBeNull();
  expect(read({ KAFKA_BROKERS: '', KAFKA_SSL: 'perhaps' })).toBeNull();
});

test('brokers alone are enough', () => {
  expect(read({ KAFKA_BROKERS: 'a:9092, b:9093' })).toEqual({
    brokers: ['a:9092', 'b:9093'],
    ssl: false,
    sasl: undefined,
    topic: 'ledger.v1.Event',
    partitions: 12,
    replication: undefined,
    maxMessageBytes: 1_048_576,
  });
});

test('everything can be set', () => {
  const sasl = { KAFKA_SASL_MECHANISM: 'scram-sha-512', KAFKA_SASL_USERNAME: 'ledger', KAFKA_SASL_PASSWORD: 'secret' };
  const topic = { KAFKA_TOPIC: 'events', KAFKA_PARTITIONS: '3', KAFKA_REPLICATION: '3', KAFKA_MAX_MESSAGE_BYTES: '2000000' };
  expect(read({ KAFKA_BROKERS: 'a:9092', KAFKA_SSL: 'true', ...sasl, ...topic })).toEqual({
    brokers: ['a:9092'],
    ssl: true,
    sasl: { mechanism: 'scram-sha-512', username: 'ledger', password: 'secret' },
    topic: 'events',
    partitions: 3,
    replication: 3,
    maxMessageBytes: 2_000_000,
  });
});

test.each([
  ['KAFKA_BROKERS', 'localhost'],
  ['KAFKA_SSL', 'yes'],
  ['KAFKA_TOPIC', 'a topic'],
  ['KAFKA_TOPIC', '..'],
  ['KAFKA_PARTITIONS', '0'],
  ['KAFKA_REPLICATION', 'two'],
  ['KAFKA_MAX_MESSAGE_BYTES', '1MB'],
  ['KAFKA_SASL_MECHANISM', 'kerberos'],
  ['KAFKA_SASL_USERNAME', ''],
  ['KAFKA_SASL_PASSWORD', ''],
])('%s is not %j', (name, value) => {
  const sasl = { KAFKA_SASL_MECHANISM: 'plain', KAFKA_SASL_USERNAME: 'ledger', KAFKA_SASL_PASSWORD: 'secret' };
  expect(() => read({ KAFKA_BROKERS: 'a:9092', ...sasl, [name]: value })).toThrow(new RegExp(`^${name} `));
});

test.each(['KAFKA_SASL_USERNAME', 'KAFKA_SASL_PASSWORD'])('%s alone is half of what is needed', (name) => {
  expect(() => read({ KAFKA_BROKERS: 'a:9092', [name]: 'ledger' })).toThrow(`KAFKA_SASL_MECHANISM is not set, and ${name} is`);
});
