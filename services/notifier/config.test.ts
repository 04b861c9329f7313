import { randomBytes } from 'node:crypto';
import { BadSetting, Settings } from '../platform/settings.ts';
import { notifierConfig } from './config.ts';

const newKey = () => randomBytes(32).toString('base64');
const good = {
  DATABASE_URL: 'postgres://notifier:secret@127.0.0.1/notifier',
  INTERNAL_TOKEN: 'token',
  WEBHOOK_ENCRYPTION_KEY: `k1:${newKey()}`,
};
const read = (change: NodeJS.ProcessEnv = {}) => notifierConfig(new Settings({ ...good, ...change }));

test('without other words the schedule, the deadline and the limits are those of the specification', () => {
  expect(read()).toMatchObject({
    port: 50053,
    insecureTargets: false,
    retryDelays: [60, 120],
    timeoutMs: 30_000,
    quotas: { 'webhook-config': 10, retries: 5, tests: 20 },
    retentionDays: 90,
  });
});

test.each(Object.keys(good))('%s is required and named where it is missing', (name) => {
  expect(() => read({ [name]: '' })).toThrow(new BadSetting(name, 'is not set'));
});

test('several keys may be given: the first seals', () => {
  expect(read({ WEBHOOK_ENCRYPTION_KEY: `b:${newKey()}, a:${newKey()}` }).encryptionKeys.map(({ id }) => id)).toEqual(['b', 'a']);
});

test.each([
  'secret',
  newKey(),
  `k1:${randomBytes(31).toString('base64')}`,
  `k1:${newKey()},`,
  `k 1:${newKey()}`,
  `a:${newKey()},a:${newKey()}`,
])('a bad key is named without its content (%#)', (value) => {
  const attempt = () => read({ WEBHOOK_ENCRYPTION_KEY: value });
  expect(attempt).toThrow(/^WEBHOOK_ENCRYPTION_KEY (must be id:base64 of 32 bytes|names a key twice)/);
  expect(attempt).not.toThrow(new RegExp(value.slice(3, 20).replace(/[+/]/g, '.')));
});

test('insecure targets are refused in production', () => {
  expect(read({ WEBHOOK_ALLOW_INSECURE_TARGETS: 'true' }).insecureTargets).toBe(true);
  expect(() => read({ WEBHOOK_ALLOW_INSECURE_TARGETS: 'true', NODE_ENV: 'production' })).toThrow(
    /^WEBHOOK_ALLOW_INSECURE_TARGETS must not/,
  );
  expect(read({ WEBHOOK_ALLOW_INSECURE_TARGETS: 'false', NODE_ENV: 'production' }).insecureTargets).toBe(false);
});

test('delays and the deadline are seconds, with fractions if need be', () => {
  expect(read({ WEBHOOK_RETRY_DELAYS: '0, 0.5,7', WEBHOOK_TIMEOUT: '1.5' })).toMatchObject({ retryDelays: [0, 0.5, 7], timeoutMs: 1_500 });
});

test.each([
  ['WEBHOOK_RETRY_DELAYS', 'soon'],
  ['WEBHOOK_RETRY_DELAYS', '1,,2'],
  ['WEBHOOK_RETRY_DELAYS', '-1'],
  ['WEBHOOK_RETRY_DELAYS', '86401'],
  ['WEBHOOK_TIMEOUT', '0'],
  ['WEBHOOK_TIMEOUT', '301'],
  ['WEBHOOK_TIMEOUT', '1e3'],
  ['WEBHOOK_CONFIG_PER_MINUTE', '0'],
  ['WEBHOOK_CONFIG_PER_MINUTE', '100001'],
  ['WEBHOOK_RETRIES_PER_HOUR', 'many'],
  ['WEBHOOK_TESTS_PER_HOUR', '-1'],
  ['WEBHOOK_ALLOW_INSECURE_TARGETS', 'yes'],
  ['DELIVERY_RETENTION_DAYS', '0'],
  ['WEBHOOK_CONCURRENCY', '0'],
  ['WEBHOOK_ENDPOINT_CONCURRENCY', '0'],
  ['NOTIFIER_CONNECTIONS', '0'],
])('%s=%s is refused by name', (name, value) => {
  expect(() => read({ [name]: value })).toThrow(new RegExp(`^${name} `));
});
