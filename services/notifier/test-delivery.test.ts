import { endStarted, receiver, start } from '../../test/deliveries.ts';
import { refusal } from '../../test/identity.ts';
import { newTenant, startReceiver, until, type Receiver, type RunningNotifier, type TestTenant } from '../../test/notifier.ts';
import { inTransaction } from '../platform/postgres.ts';
import { bodySignature, standardSignature } from './webhook.ts';

const events = ['transaction.posted', 'account.created'];
let notifier: RunningNotifier;
let endpoint: Receiver;
let tenant: TestTenant;

beforeAll(async () => {
  endpoint = await receiver();
  notifier = await start();
});

afterAll(endStarted);

beforeEach(() => {
  tenant = newTenant();
});

const configured = (change = {}) => notifier.client.configureWebhook({ tenantId: tenant.tenantId, url: endpoint.url, events, ...change });

test('a test is sent at once and signed, though the webhook is disabled and not subscribed, and is recorded', async () => {
  const { secret = '' } = await configured({ enabled: false });
  const { tenantId } = tenant;
  const answer = await notifier.client.testWebhook({ tenantId });
  expect(answer.delivery).toMatchObject({ status: 'delivered', statusCode: 200, attempts: 1, eventType: 'test.webhook' });
  expect(answer.responseTimeMs).toBeGreaterThanOrEqual(0);
  expect(answer.limit).toMatchObject({ policy: 'tests' });
  const payload = JSON.parse(answer.payload);
  expect(payload).toMatchObject({ type: 'test.webhook', livemode: false, tenant_id: tenantId, data: { message: expect.any(String) } });
  const { headers, body } = endpoint.received.at(-1)!;
  expect(body).toBe(answer.payload);
  expect(headers['x-webhook-signature']).toBe(bodySignature(secret, body));
  const signed = { id: payload.id, timestamp: Number(headers['webhook-timestamp']), body };
  expect(headers['webhook-signature']).toBe(standardSignature(secret, signed));
  const { deliveries } = await notifier.client.listDeliveries({ tenantId, limit: 10 });
  expect(deliveries).toEqual([answer.delivery]);
});

test('a test goes in the trace of its request, or in one of its own, also when it is repeated by hand', async () => {
  const failing = await receiver((_, response) => response.writeHead(503).end());
  await configured({ url: failing.url });
  const { tenantId } = tenant;
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const told = () => failing.received.map(({ headers }) => headers['traceparent']);
  const refused = await refusal(notifier.client.testWebhook({ tenantId, traceparent }));
  await refusal(notifier.client.testWebhook({ tenantId, traceparent: 'none' }));
  await refusal(notifier.client.testWebhook({ tenantId }));
  await notifier.client.retryDelivery({ tenantId, deliveryId: refused.metadata!['delivery_id']! });
  await failing.count(4);
  const own = expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
  expect(told()).toEqual([traceparent, own, own, traceparent]);
  expect(new Set(told()).size).toBe(3);
});

test.each(['transaction.posted', 'balance.updated', 'account.created', 'account.updated', 'test.webhook'])(
  'a test may be of type %s',
  async (eventType) => {
    await configured();
    const { delivery, payload } = await notifier.client.testWebhook({ tenantId: tenant.tenantId, eventType });
    expect(delivery).toMatchObject({ eventType, status: 'delivered' });
    expect(JSON.parse(payload)).toMatchObject({ type: eventType, livemode: false });
  },
);

test('a test of another type is refused and not counted', async () => {
  const attempt = notifier.client.testWebhook({ tenantId: tenant.tenantId, eventType: 'account.deleted' });
  expect(await refusal(attempt)).toMatchObject({ reason: 'validation_failed', field: 'event_type', tag: 'oneof' });
});

test('a test that fails says how, is recorded as failed and never tried again by itself', async () => {
  const failing = await startReceiver((_, response) => response.writeHead(503).end('away'));
  await configured({ url: failing.url });
  const { tenantId } = tenant;
  const refused = await refusal(notifier.client.testWebhook({ tenantId }));
  expect(refused).toMatchObject({ reason: 'test_failed', message: 'Test webhook failed' });
  expect(refused.metadata).toMatchObject({ status_code: '503', error_class: 'http_status', policy: 'tests' });
  const deliveryId = refused.metadata!['delivery_id']!;
  const { delivery, attempts, responseBody } = await notifier.client.getDelivery({ tenantId, deliveryId });
  expect(delivery).toMatchObject({ status: 'failed', attempts: 1, statusCode: 503 });
  expect(attempts).toHaveLength(1);
  expect(responseBody).toBe('away');
  await notifier.client.retryDelivery({ tenantId, deliveryId });
  await failing.count(2);
  await until(async () => (await notifier.client.getDelivery({ tenantId, deliveryId })).delivery?.status === 'failed');
  await failing.close();
  const gone = await refusal(notifier.client.testWebhook({ tenantId }));
  expect(gone.metadata).toMatchObject({ status_code: '', error_class: 'refused' });
});

test('a test whose secret can’t be opened says so, is recorded as failed and not sent; with a new secret the next one is', async () => {
  await configured();
  const { tenantId } = tenant;
  const before = endpoint.received.length;
  await inTransaction(notifier.work, [tenant.tenant], (client) =>
    client.query(`update webhooks set secret = 'lost' || substr(secret, strpos(secret, ':'))`),
  );
  const refused = await refusal(notifier.client.testWebhook({ tenantId }));
  expect(refused).toMatchObject({ reason: 'test_failed', message: 'Test webhook failed' });
  expect(refused.metadata).toMatchObject({ status_code: '', error_class: 'secret_unreadable', policy: 'tests' });
  const { delivery, attempts } = await notifier.client.getDelivery({ tenantId, deliveryId: refused.metadata!['delivery_id']! });
  expect(delivery).toMatchObject({ status: 'failed', attempts: 1, errorClass: 'secret_unreadable' });
  expect(attempts).toHaveLength(1);
  expect(endpoint.received).toHaveLength(before);
  // Though in its overlap the lost one is to sign, too.
  const { secret } = await notifier.client.rotateSecret({ tenantId });
  expect((await notifier.client.testWebhook({ tenantId })).delivery?.status).toBe('delivered');
  const { headers, body } = endpoint.received.at(-1)!;
  const signed = { id: String(headers['webhook-id']), timestamp: Number(headers['webhook-timestamp']), body };
  expect(headers['webhook-signature']).toBe(standardSignature(secret, signed));
});

test('a test whose process died while it waited has failed, and is not sent again', async () => {
  await configured();
  await notifier.client.testWebhook({ tenantId: tenant.tenantId });
  const before = endpoint.received.length;
  await inTransaction(notifier.work, [tenant.tenant], async (client) => {
    await client.query(`update deliveries set status = 'pending', delivered_at = null, run_at = now()`);
    await client.query(`insert into leases (tenant_id, delivery_id, lease_id, started_at, until)
      select tenant_id, id, id, created_at, now() from deliveries`);
    await client.query('update due set next_at = now()');
  });
  notifier.worker.wake();
  const [delivery] = await until(async () => {
    const { deliveries } = await notifier.client.listDeliveries({ tenantId: tenant.tenantId, limit: 1, status: 'failed' });
    return deliveries.length > 0 && deliveries;
  });
  expect(delivery).toMatchObject({ errorClass: 'timeout', attempts: 1 });
  expect(endpoint.received).toHaveLength(before);
});
