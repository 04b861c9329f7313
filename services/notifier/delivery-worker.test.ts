import { attemptsOf, endStarted, ingest, only, passTime, receiver, start, subscribe } from '../../test/deliveries.ts';
import { settled, until } from '../../test/notifier.ts';
import { inTransaction } from '../platform/postgres.ts';
import { standardSignature } from './webhook.ts';

afterEach(endStarted);

test('the delay of deliveries is measured, also where tenants take turns', async () => {
  const notifier = await start({ claims: false });
  const { url, count } = await receiver();
  const tenants = await Promise.all(Array.from({ length: 3 }, () => subscribe(notifier, url)));
  for (const tenant of tenants) {
    await ingest(notifier, tenant, 2);
    await inTransaction(notifier.work, [tenant.tenant], (client) =>
      client.query(`update deliveries set run_at = now() - interval '1 hour'`),
    );
  }
  notifier.worker.start();
  await count(6);
  await ingest(notifier, tenants[0]!);
  await count(7);
  const told = await notifier.metrics.getSingleMetricAsString('notifier_delivery_delay_seconds');
  expect(told).toMatch(/^notifier_delivery_delay_seconds_bucket\{le="1800"\} 1$/m);
  expect(told).toMatch(/^notifier_delivery_delay_seconds_bucket\{le="7200"\} 7$/m);
});

test('a receiver that closes the connection each time gets an event at most once more than it has attempts, and a test once', async () => {
  const notifier = await start({ config: { retryDelays: [0.5, 0.5] } });
  const hungUpOn: string[] = [];
  let bad = 'none yet';
  const { url } = await receiver(({ headers }, response) => {
    const what = headers['x-webhook-event'] === 'test.webhook' ? 'test' : String(headers['webhook-id']);
    if (what !== 'test' && what !== bad) return response.end('ok');
    hungUpOn.push(what);
    return response.socket!.destroy();
  });
  const tenant = await subscribe(notifier, url);
  const { tenantId, posting } = tenant;
  // What is hung up on comes over a connection that has answered, where the machine is not too slow for that.
  await ingest(notifier, tenant);
  await settled(notifier.client, tenantId, 1);
  await expect(notifier.client.testWebhook({ tenantId })).rejects.toThrow();
  await ingest(notifier, tenant);
  await settled(notifier.client, tenantId, 3);
  const event = posting();
  bad = event.id;
  await notifier.client.ingest({ events: [event] });
  // So does each attempt: others are answered meanwhile.
  const failed = await until(async () => {
    await ingest(notifier, tenant);
    const { deliveries } = await notifier.client.listDeliveries({ tenantId, limit: 1, status: 'failed', eventType: 'transaction.posted' });
    return deliveries[0];
  });
  expect(failed).toMatchObject({ eventId: bad, status: 'failed', attempts: 3 });
  expect(hungUpOn.filter((what) => what === 'test')).toHaveLength(1);
  expect([3, 4]).toContain(hungUpOn.filter((what) => what === bad).length);
});

describe('the schedule', () => {
  test('a delivery that fails is tried again 60 s after its first attempt and 120 s after its second, then it has failed', async () => {
    const notifier = await start({ config: { retryDelays: [60, 120] } });
    const failing = await receiver((_, response) => response.writeHead(500).end('no'));
    const tenant = await subscribe(notifier, failing.url);
    await ingest(notifier, tenant);
    const waits: number[] = [];
    for (const attempt of [1, 2]) {
      const waiting = await until(async () => {
        const delivery = await only(notifier, tenant);
        return delivery.tries.length === attempt ? delivery : null;
      });
      expect(waiting).toMatchObject({ status: 'pending', attempts: attempt, statusCode: 500, errorClass: 'http_status' });
      waits.push(Number(waiting.nextRetryMs! - waiting.tries.at(-1)!.startedMs));
      await passTime(notifier, tenant);
      notifier.worker.wake();
    }
    expect(waits).toEqual([60_000, 120_000]);
    await settled(notifier.client, tenant.tenantId, 1);
    const end = await only(notifier, tenant);
    expect(end).toMatchObject({ status: 'failed', attempts: 3, statusCode: 500 });
    expect(end.nextRetryMs).toBeUndefined();
    expect(end.failedMs).toBeDefined();
    expect(end.tries.map(({ number }) => number)).toEqual([1, 2, 3]);
    expect(attemptsOf(failing)).toEqual(['1', '2', '3']);
  });

  test('each attempt carries the same bytes, and its own time and signature', async () => {
    const notifier = await start();
    const { url, received } = await receiver((_, response, place) => response.writeHead(place < 2 ? 500 : 200).end());
    const tenant = await subscribe(notifier, url);
    await ingest(notifier, tenant);
    const [delivery] = await settled(notifier.client, tenant.tenantId, 1);
    expect(delivery).toMatchObject({ status: 'delivered', attempts: 3, statusCode: 200 });
    expect(delivery!.errorClass).toBeUndefined();
    expect(new Set(received.map(({ body }) => body)).size).toBe(1);
    for (const { headers, body } of received) {
      const signed = { id: delivery!.eventId, timestamp: Number(headers['webhook-timestamp']), body };
      expect(headers['webhook-signature']).toBe(standardSignature(tenant.secret, signed));
    }
  });
});

describe('a webhook that is gone by the time of sending', () => {
  test.each(['disabled', 'deleted'])('%s: the delivery fails without being sent', async (how) => {
    const notifier = await start({ claims: false });
    const { url, received } = await receiver();
    const tenant = await subscribe(notifier, url);
    await ingest(notifier, tenant, 3);
    const { tenantId } = tenant;
    if (how === 'disabled') await notifier.client.updateWebhook({ tenantId, enabled: false });
    else await notifier.client.deleteWebhook({ tenantId });
    notifier.worker.start();
    const deliveries = await settled(notifier.client, tenantId, 3);
    expect(deliveries).toMatchObject(Array(3).fill({ status: 'failed', errorClass: 'webhook_disabled', attempts: 1 }));
    expect(await notifier.client.getDelivery({ tenantId, deliveryId: deliveries[0]!.id })).toMatchObject({ attempts: [] });
    expect(received).toEqual([]);
    await until(async () => (await notifier.metrics.metrics()).includes('notifier_unsent_total 3\n'));
  });

  test('what was meant for a webhook that is deleted does not go to the next one, unless it is retried by hand', async () => {
    const notifier = await start({ claims: false });
    const [before, after] = [await receiver(), await receiver()];
    const tenant = await subscribe(notifier, before.url);
    await ingest(notifier, tenant, 3);
    const { tenantId } = tenant;
    await notifier.client.deleteWebhook({ tenantId });
    await notifier.client.configureWebhook({ tenantId, url: after.url, events: ['transaction.posted'], enabled: true });
    await ingest(notifier, tenant);
    notifier.worker.start();
    const deliveries = await settled(notifier.client, tenantId, 4);
    // Newest first.
    expect(deliveries.map(({ status }) => status)).toEqual(['delivered', 'failed', 'failed', 'failed']);
    expect(deliveries.slice(1)).toMatchObject(Array(3).fill({ errorClass: 'webhook_disabled', attempts: 1 }));
    await notifier.client.retryDelivery({ tenantId, deliveryId: deliveries[1]!.id });
    expect((await settled(notifier.client, tenantId, 4)).map(({ status }) => status)).toEqual([
      'delivered',
      'delivered',
      'failed',
      'failed',
    ]);
    expect([before.received.length, after.received.length]).toEqual([0, 2]);
  });

  test('a retry that was promised is not counted when it is not made', async () => {
    const notifier = await start({ config: { retryDelays: [60] } });
    const { url, received } = await receiver((_, response) => response.writeHead(500).end());
    const tenant = await subscribe(notifier, url);
    await ingest(notifier, tenant);
    await until(async () => (await only(notifier, tenant)).tries.length === 1);
    await notifier.client.updateWebhook({ tenantId: tenant.tenantId, enabled: false });
    await passTime(notifier, tenant);
    await settled(notifier.client, tenant.tenantId, 1);
    expect(await only(notifier, tenant)).toMatchObject({ status: 'failed', errorClass: 'webhook_disabled', attempts: 1, statusCode: 500 });
    expect(received).toHaveLength(1);
  });

  test('pending deliveries go where the webhook points when they are sent', async () => {
    const notifier = await start({ claims: false });
    const [before, after] = [await receiver(), await receiver()];
    const tenant = await subscribe(notifier, before.url);
    await ingest(notifier, tenant);
    await notifier.client.updateWebhook({ tenantId: tenant.tenantId, url: after.url });
    notifier.worker.start();
    await after.count(1);
    expect(before.received).toEqual([]);
  });
});

test('deliveries wait while the database refuses work, and none is lost', async () => {
  // What was leased by a statement whose answer was lost waits for the end of its lease, which is 15 s longer.
  const notifier = await start({ config: { timeoutMs: 5_000 } });
  const { url, received } = await receiver();
  const tenant = await subscribe(notifier, url);
  const kill = () =>
    notifier.work
      .query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
      .catch(() => undefined);
  for (let round = 0; round < 10; round++) {
    const batch = Array.from({ length: 10 }, () => tenant.posting());
    await Promise.all([kill(), until(() => notifier.client.ingest({ events: batch }).catch(() => null))]);
  }
  const deliveries = await settled(notifier.client, tenant.tenantId, 100);
  expect(deliveries.filter(({ status }) => status === 'delivered')).toHaveLength(100);
  expect(new Set(received.map(({ headers }) => headers['x-webhook-id'])).size).toBe(100);
});
