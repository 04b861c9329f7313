import { refusal } from '../../test/identity.ts';
import { newTenant, startNotifier, type RunningNotifier, type TestTenant } from '../../test/notifier.ts';
import { inTransaction } from '../platform/postgres.ts';

const quotas = { 'webhook-config': 3, retries: 2, tests: 2 };
const events = ['transaction.posted'];
const url = 'http://127.0.0.1:1/';
let limited: RunningNotifier;
let replica: RunningNotifier;
let tenant: TestTenant;

beforeAll(async () => {
  limited = await startNotifier({ config: { quotas }, claims: false });
  replica = await startNotifier({ config: { quotas }, claims: false, database: limited.database });
});

afterAll(async () => {
  await replica.end();
  await limited.end();
});

beforeEach(() => {
  tenant = newTenant();
});

const attempt = (by: RunningNotifier, change = {}) => by.client.configureWebhook({ tenantId: tenant.tenantId, url, events, ...change });

test('a tenant may configure so often a minute, and gets its rate limit status', async () => {
  expect((await attempt(limited)).limit).toMatchObject({ policy: 'webhook-config', quota: 3, windowSeconds: 60, remaining: 2 });
  expect((await attempt(replica)).limit).toMatchObject({ remaining: 1 });
  expect((await attempt(limited)).limit!.resetSeconds).toBeGreaterThan(30);
  const refused = await refusal(attempt(replica));
  expect(refused).toMatchObject({
    reason: 'rate_limited',
    metadata: { policy: 'webhook-config', quota: '3', window: '60', remaining: '0' },
  });
  expect(refused.retryAfter).toBeGreaterThan(30);
  expect(refused.metadata!['reset']).toBe(String(refused.retryAfter));
  tenant = newTenant();
  expect((await attempt(limited)).limit).toMatchObject({ remaining: 2 });
});

test('however many come at once over replicas, no more than the quota pass', async () => {
  const answers = await Promise.allSettled(Array.from({ length: 12 }, (_, at) => attempt(at % 2 ? limited : replica)));
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
});

test('what is not valid is not counted, and what is refused by the limit neither', async () => {
  for (let time = 0; time < 5; time++) expect(await refusal(attempt(limited, { url: 'x' }))).toMatchObject({ reason: 'validation_failed' });
  for (let time = 0; time < 3; time++) await attempt(limited);
  for (let time = 0; time < 5; time++) expect(await refusal(attempt(limited))).toMatchObject({ reason: 'rate_limited' });
  const takenBefore = (seconds: number) =>
    inTransaction(limited.work, [tenant.tenant], (client) =>
      client.query(`update limits set taken = array(select clock_timestamp() - interval '${seconds} s' from unnest(taken))`),
    );
  const began = performance.now();
  await takenBefore(40);
  const { retryAfter } = await refusal(attempt(limited));
  expect(retryAfter).toBeLessThanOrEqual(20);
  // So many seconds less as have passed since, on however busy a machine.
  expect(retryAfter).toBeGreaterThanOrEqual(Math.ceil(20 - (performance.now() - began) / 1000));
  await takenBefore(60);
  expect((await attempt(limited)).limit).toMatchObject({ remaining: 2 });
});

test('after the clock was set back, requests at future times do not count', async () => {
  for (let time = 0; time < 3; time++) await attempt(limited);
  await inTransaction(limited.work, [tenant.tenant], (client) =>
    client.query(`update limits set taken = array(select at + interval '2 hours' from unnest(taken) as at)`),
  );
  expect((await attempt(limited)).limit).toMatchObject({ remaining: 2 });
  expect((await attempt(replica)).limit).toMatchObject({ remaining: 1 });
});

test('tests are counted, also without a webhook', async () => {
  const { tenantId } = tenant;
  const test = () => refusal(limited.client.testWebhook({ tenantId }));
  expect(await test()).toMatchObject({ reason: 'webhook_not_configured' });
  expect(await test()).toMatchObject({ reason: 'webhook_not_configured' });
  expect(await test()).toMatchObject({ reason: 'rate_limited', metadata: { policy: 'tests', quota: '2', window: '3600' } });
});
