import { endStarted, receiver, start } from '../../test/deliveries.ts';
import { refusal } from '../../test/identity.ts';
import { newTenant, until, type Receiver, type RunningNotifier, type TestTenant } from '../../test/notifier.ts';
import { inTransaction } from '../platform/postgres.ts';
import { standardSignature } from './webhook.ts';

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
