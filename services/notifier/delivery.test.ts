import type { ServerResponse } from 'node:http';
import {
  newTenant,
  settled,
  startNotifier,
  startReceiver,
  until,
  type NotifierOptions,
  type Received,
  type Receiver,
  type RunningNotifier,
  type TestTenant,
} from '../../test/notifier.ts';
import { toUuid } from '../platform/ids.ts';
import { inTransaction } from '../platform/postgres.ts';
import { claimDue, type Claimed } from './claims.ts';
import { recordOutcomes, type Outcome } from './outcomes.ts';
import { bodySignature, standardSignature } from './webhook.ts';

const events = ['transaction.posted'];
const stops: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function start(options: NotifierOptions = {}): Promise<RunningNotifier> {
  const notifier = await startNotifier(options);
  stops.push(() => notifier.end());
  return notifier;
}

async function receiver(...given: Parameters<typeof startReceiver>): Promise<Receiver> {
  const started = await startReceiver(...given);
  stops.push(() => started.close());
  return started;
}

async function subscribe({ client }: RunningNotifier, url: string): Promise<TestTenant & { secret: string }> {
  const tenant = newTenant();
  const { secret = '' } = await client.configureWebhook({ tenantId: tenant.tenantId, url, events });
  return { ...tenant, secret };
}

const ingest = ({ client }: RunningNotifier, { posting }: TestTenant, count = 1) =>
  client.ingest({ events: Array.from({ length: count }, () => posting()) });

/** Lets what a tenant waits for be due now. */
async function passTime({ work }: RunningNotifier, { tenant }: TestTenant): Promise<void> {
  await inTransaction(work, [tenant], async (client) => {
    await client.query(`update deliveries set run_at = now() where status = 'pending'`);
    await client.query('update claims set until = now()');
    await client.query('update due set next_at = now()');
  });
}

async function only({ client }: RunningNotifier, { tenantId }: TestTenant) {
  const { deliveries } = await client.listDeliveries({ tenantId, limit: 100 });
  expect(deliveries).toHaveLength(1);
  const { delivery, attempts } = await client.getDelivery({ tenantId, deliveryId: deliveries[0]!.id });
  return { ...delivery!, tries: attempts };
}

const bounds = { free: 100, tenants: 100, ofTenant: () => 100, leaseMs: 60_000 };

function outcome({ tenant, id, claim }: Claimed, status: Outcome['status'], delay: number | null = null): Outcome {
  const errorClass = status === 'delivered' ? null : 'http_status';
  return { tenant, id, claim, status, statusCode: 200, errorClass, responseBody: '', durationMs: 1, delay };
}

const attemptsOf = (receiver: Receiver) => receiver.received.map(({ headers }) => headers['x-webhook-attempt']);

test('an event reaches the receiver signed, and its delivery says so', async () => {
  const notifier = await start();
  const { url, count } = await receiver((_, response) => response.end('thanks'));
  const { tenantId, posting, secret } = await subscribe(notifier, url);
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  const event = posting();
  await notifier.client.ingest({ events: [event] });
  const [{ headers, body }] = (await count(1)) as [Received];
  const [delivery] = await settled(notifier.client, tenantId, 1);
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'x-webhook-signature': bodySignature(secret, body),
    'x-webhook-id': event.id,
    'x-webhook-event': 'transaction.posted',
    'x-webhook-delivery': delivery!.id,
    'x-webhook-attempt': '1',
    'webhook-id': event.id,
    'webhook-signature': standardSignature(secret, { id: event.id, timestamp: Number(headers['webhook-timestamp']), body }),
  });
  expect(Math.abs(Number(headers['webhook-timestamp']) - Date.now() / 1000)).toBeLessThan(60);
  expect(JSON.parse(body)).toMatchObject({ id: event.id, type: 'transaction.posted', tenant_id: tenantId, livemode: true });
  expect(delivery).toMatchObject({ status: 'delivered', statusCode: 200, attempts: 1, maxAttempts: 3, eventId: event.id });
  expect(delivery!.nextRetryMs).toBeUndefined();
  const whole = await notifier.client.getDelivery({ tenantId, deliveryId: delivery!.id });
  expect(whole).toMatchObject({ payload: body, responseBody: 'thanks', attempts: [{ number: 1, statusCode: 200 }] });
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
      notifier.courier.wake();
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

  test('a retry by hand is one attempt more, at once, and fails for good', async () => {
    const notifier = await start();
    let answer = 500;
    const failing = await receiver((_, response) => response.writeHead(answer).end());
    const { tenantId, ...tenant } = await subscribe(notifier, failing.url);
    await ingest(notifier, { tenantId, ...tenant });
    const [failed] = await settled(notifier.client, tenantId, 1);
    expect(failed).toMatchObject({ status: 'failed', attempts: 3 });
    const deliveryId = failed!.id;
    const queued = await notifier.client.retryDelivery({ tenantId, deliveryId });
    expect(queued.delivery).toMatchObject({ id: deliveryId, status: 'pending', attempts: 4 });
    expect(queued.delivery!.nextRetryMs).toBeDefined();
    expect(queued.delivery!.failedMs).toBeUndefined();
    expect(await settled(notifier.client, tenantId, 1)).toMatchObject([{ status: 'failed', attempts: 4 }]);
    answer = 200;
    await notifier.client.retryDelivery({ tenantId, deliveryId });
    expect(await settled(notifier.client, tenantId, 1)).toMatchObject([{ status: 'delivered', attempts: 5 }]);
    expect(attemptsOf(failing)).toEqual(['1', '2', '3', '4', '5']);
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
    notifier.courier.start();
    const deliveries = await settled(notifier.client, tenantId, 3);
    expect(deliveries).toMatchObject(Array(3).fill({ status: 'failed', errorClass: 'webhook_disabled', attempts: 1 }));
    expect(await notifier.client.getDelivery({ tenantId, deliveryId: deliveries[0]!.id })).toMatchObject({ attempts: [] });
    expect(received).toEqual([]);
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
    notifier.courier.start();
    await after.count(1);
    expect(before.received).toEqual([]);
  });

  // Five at a time are sent of what is claimed at once; the first five answers release the next.
  async function changedWhileSent(change: Parameters<RunningNotifier['client']['updateWebhook']>[0]) {
    const notifier = await start({ config: { endpointConcurrency: 5 } });
    const held: ServerResponse[] = [];
    const before = await receiver((_, response, place) => (place < 5 || place >= 10 ? response.end() : held.push(response)));
    const tenant = await subscribe(notifier, before.url);
    await ingest(notifier, tenant, 5);
    await settled(notifier.client, tenant.tenantId, 5);
    await ingest(notifier, tenant, 20);
    await before.count(10);
    await notifier.client.updateWebhook({ ...change, tenantId: tenant.tenantId });
    // As long as what is known of a webhook may serve.
    await new Promise((done) => setTimeout(done, 100));
    held.forEach((response) => response.end());
    return { notifier, before, deliveries: () => settled(notifier.client, tenant.tenantId, 25) };
  }

  test('what is claimed already goes where the webhook points when its turn comes', async () => {
    const after = await receiver();
    const { before, deliveries } = await changedWhileSent({ url: after.url });
    expect(await deliveries()).toMatchObject(Array(25).fill({ status: 'delivered', attempts: 1 }));
    expect([before.received.length, after.received.length]).toEqual([10, 15]);
  });

  test('what is claimed already is signed with the secret of when its turn comes', async () => {
    const secret = 'a secret that was sent meanwhile';
    const { before, deliveries } = await changedWhileSent({ secret });
    await deliveries();
    const signedAnew = before.received.map(({ headers, body }) => headers['x-webhook-signature'] === bodySignature(secret, body));
    expect(signedAnew).toEqual([...Array<boolean>(10).fill(false), ...Array<boolean>(15).fill(true)]);
  });

  test('what is claimed already fails unsent where the webhook is disabled when its turn comes', async () => {
    const { before, deliveries } = await changedWhileSent({ enabled: false });
    const all = await deliveries();
    expect(all.filter(({ status }) => status === 'delivered')).toHaveLength(10);
    const unsent = all.filter(({ status }) => status === 'failed');
    expect(unsent).toMatchObject(Array(15).fill({ errorClass: 'webhook_disabled', attempts: 1 }));
    expect(before.received).toHaveLength(10);
  });
});

describe('leases', () => {
  test('what a dead worker had claimed is sent by another, as the same attempt', async () => {
    const notifier = await start({ claims: false });
    const { url, count } = await receiver();
    const tenant = await subscribe(notifier, url);
    await ingest(notifier, tenant, 2);
    const dead = await claimDue(notifier.work, { ...bounds, leaseMs: 0 });
    expect(dead.claimed).toMatchObject([{ attempt: 1 }, { attempt: 1 }]);
    notifier.courier.start();
    await count(2);
    expect(await settled(notifier.client, tenant.tenantId, 2)).toMatchObject(Array(2).fill({ status: 'delivered', attempts: 1 }));
  });

  test('what is claimed is nobody else’s while the lease holds', async () => {
    const notifier = await start({ claims: false });
    const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
    await ingest(notifier, tenant, 5);
    const rounds = await Promise.all(Array.from({ length: 4 }, () => claimDue(notifier.work, bounds)));
    const ids = rounds.flatMap(({ claimed }) => claimed.map(({ id }) => id));
    expect(ids).toHaveLength(5);
    expect(new Set(ids).size).toBe(5);
  });

  test('who finds nothing, at first and when all is delivered, is told of no work to wait for', async () => {
    const notifier = await start({ claims: false });
    expect(await claimDue(notifier.work, bounds)).toMatchObject({ claimed: [], nextMs: null });
    const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
    await ingest(notifier, tenant);
    const [claimed] = (await claimDue(notifier.work, bounds)).claimed;
    await recordOutcomes(notifier.work, [outcome(claimed!, 'delivered')]);
    await passTime(notifier, tenant);
    // The first one finds the tenant without work.
    await claimDue(notifier.work, bounds);
    expect(await claimDue(notifier.work, bounds)).toMatchObject({ claimed: [], nextMs: null });
  });

  test('a worker that comes back after its lease changes nothing', async () => {
    const notifier = await start({ claims: false });
    const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
    await ingest(notifier, tenant);
    const [stalled] = (await claimDue(notifier.work, { ...bounds, leaseMs: 0 })).claimed;
    const [successor] = (await claimDue(notifier.work, bounds)).claimed;
    expect(successor).toMatchObject({ id: stalled!.id, attempt: 1 });
    expect(await recordOutcomes(notifier.work, [outcome(stalled!, 'failed')])).toEqual(new Set());
    expect(await only(notifier, tenant)).toMatchObject({ status: 'pending', tries: [] });
    expect(await recordOutcomes(notifier.work, [outcome(successor!, 'delivered')])).toEqual(new Set([successor!.id]));
    expect(await recordOutcomes(notifier.work, [outcome(stalled!, 'pending', 0), outcome(successor!, 'failed')])).toEqual(new Set());
    expect(await only(notifier, tenant)).toMatchObject({ status: 'delivered', attempts: 1, tries: [{ number: 1 }] });
  });

  test('a claim that PostgreSQL forgot in a crash is nobody’s: its worker changes nothing, and another sends the same attempt', async () => {
    const notifier = await start({ claims: false });
    const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
    await ingest(notifier, tenant);
    const [forgotten] = (await claimDue(notifier.work, bounds)).claimed;
    await inTransaction(notifier.work, [tenant.tenant], (client) => client.query('delete from claims'));
    expect(await recordOutcomes(notifier.work, [outcome(forgotten!, 'failed')])).toEqual(new Set());
    expect(await only(notifier, tenant)).toMatchObject({ status: 'pending', attempts: 1, tries: [] });
    expect((await claimDue(notifier.work, bounds)).claimed).toMatchObject([{ id: forgotten!.id, attempt: 1 }]);
  });

  test('an answer that comes after the lease is not recorded, and its successor’s is', async () => {
    const held: ServerResponse[] = [];
    const slow = await receiver((_, response, place) => (place === 0 ? held.push(response) : response.writeHead(204).end()));
    const first = await start({ claims: false });
    const second = await start({ claims: false, database: first.database });
    const tenant = await subscribe(first, slow.url);
    await ingest(first, tenant);
    const [claimed] = (await claimDue(first.work, { ...bounds, leaseMs: 0 })).claimed;
    const stalled = first.courier.attempt(claimed!);
    await slow.count(1);
    second.courier.start();
    await settled(first.client, tenant.tenantId, 1);
    held[0]!.writeHead(500).end();
    expect(await stalled).toMatchObject({ answer: { statusCode: 500 }, recorded: false });
    expect(await only(first, tenant)).toMatchObject({ status: 'delivered', statusCode: 204, attempts: 1, tries: [{ statusCode: 204 }] });
    expect(attemptsOf(slow)).toEqual(['1', '1']);
  });

  test('a process that has stalled after its claim sends nothing', async () => {
    const notifier = await start({ claims: false });
    const { url, received } = await receiver();
    const tenant = await subscribe(notifier, url);
    await ingest(notifier, tenant);
    const [claimed] = (await claimDue(notifier.work, { ...bounds, leaseMs: 0 })).claimed;
    expect(await notifier.courier.attempt(claimed!, { claimedAt: performance.now() - 60_000 })).toBeNull();
    expect(received).toEqual([]);
    expect(await only(notifier, tenant)).toMatchObject({ status: 'pending', attempts: 1, tries: [] });
  });

  test('a stop hands back what is in flight, and it keeps its number', async () => {
    const hanging = await receiver((_, response, place) => (place < 2 ? undefined : response.end()));
    const first = await start();
    const tenant = await subscribe(first, hanging.url);
    await ingest(first, tenant, 2);
    await hanging.count(2);
    await first.courier.stop(0);
    expect((await first.client.listDeliveries({ tenantId: tenant.tenantId, limit: 10 })).deliveries).toMatchObject(
      Array(2).fill({ status: 'pending', attempts: 1 }),
    );
    await start({ database: first.database });
    expect(await settled(first.client, tenant.tenantId, 2)).toMatchObject(Array(2).fill({ status: 'delivered', attempts: 1 }));
    expect(attemptsOf(hanging)).toEqual(['1', '1', '1', '1']);
  });

  test('a stop waits for answers within its grace', async () => {
    const held: ServerResponse[] = [];
    const slow = await receiver((_, response) => held.push(response));
    const notifier = await start();
    const tenant = await subscribe(notifier, slow.url);
    await ingest(notifier, tenant);
    await slow.count(1);
    const stopped = notifier.courier.stop(30_000);
    held[0]!.end();
    await stopped;
    expect(await only(notifier, tenant)).toMatchObject({ status: 'delivered', tries: [{ number: 1 }] });
  });

  test('several replicas send each delivery once', async () => {
    const first = await start();
    for (const _ of [1, 2]) await start({ database: first.database });
    const { url, received } = await receiver();
    const tenants = await Promise.all(Array.from({ length: 6 }, () => subscribe(first, url)));
    await Promise.all(tenants.map((tenant) => ingest(first, tenant, 40)));
    for (const { tenantId } of tenants) await settled(first.client, tenantId, 40);
    expect(received).toHaveLength(240);
    expect(new Set(received.map(({ headers }) => headers['x-webhook-id'])).size).toBe(240);
  });
});

describe('fairness', () => {
  test('a receiver that hangs stops only its own tenant, and holds no more than its share', async () => {
    const notifier = await start({ config: { concurrency: 8, endpointConcurrency: 4 } });
    const [hanging, quick] = [await receiver(() => undefined), await receiver()];
    const [slow, other] = [await subscribe(notifier, hanging.url), await subscribe(notifier, quick.url)];
    await ingest(notifier, slow, 100);
    await hanging.count(4);
    await ingest(notifier, other, 100);
    await settled(notifier.client, other.tenantId, 100);
    expect(hanging.received).toHaveLength(4);
  });

  test('many that hang do not use up what all share', async () => {
    const notifier = await start({ config: { concurrency: 8, endpointConcurrency: 4, timeoutMs: 30_000 } });
    const [hanging, quick] = [await receiver(() => undefined), await receiver()];
    const slow = await Promise.all(Array.from({ length: 6 }, () => subscribe(notifier, hanging.url)));
    const other = await subscribe(notifier, quick.url);
    for (const tenant of slow) await ingest(notifier, tenant, 20);
    await hanging.count(8);
    await ingest(notifier, other, 20);
    await settled(notifier.client, other.tenantId, 20);
    expect(await hanging.count(24)).toHaveLength(24);
  });

  test('what was claimed in advance for a receiver that begins to hang goes back, in its place', async () => {
    const notifier = await start({ config: { endpointConcurrency: 2, timeoutMs: 30_000 } });
    const moody = await receiver((_, response, place) => (place < 20 ? response.end() : undefined));
    const tenant = await subscribe(notifier, moody.url);
    const posted = Array.from({ length: 60 }, () => tenant.posting());
    await notifier.client.ingest({ events: posted });
    await moody.count(22);
    const waiting = await until(async () => {
      const { rows } = await inTransaction(notifier.work, [tenant.tenant], (client) =>
        client.query<{ event_id: string; claimed: boolean }>(
          `select d.event_id, c.claim_id is not null as claimed from deliveries d left join claims c on c.delivery_id = d.id
           where d.status = 'pending' order by d.run_at, d.id`,
        ),
      );
      return rows.length === 40 && rows.filter(({ claimed }) => claimed).length === 2 && rows;
    });
    const ids = waiting.filter(({ claimed }) => !claimed).map(({ event_id }) => event_id);
    const order = posted.map(({ id }) => toUuid('evt', id));
    expect(ids).toEqual(order.filter((id) => ids.includes(id!)));
  });

  test('a test is sent though the endpoint has its share already', async () => {
    const notifier = await start({ config: { endpointConcurrency: 2 } });
    const moody = await receiver((request, response) =>
      request.headers['x-webhook-event'] === 'test.webhook' ? response.end() : undefined,
    );
    const tenant = await subscribe(notifier, moody.url);
    await ingest(notifier, tenant, 4);
    await moody.count(2);
    expect((await notifier.client.testWebhook({ tenantId: tenant.tenantId })).delivery).toMatchObject({ status: 'delivered' });
  });

  test('a test that a stop cuts has failed, and is sent by nobody else', async () => {
    const hanging = await receiver(() => undefined);
    const notifier = await start();
    const tenant = await subscribe(notifier, hanging.url);
    const refused = notifier.client.testWebhook({ tenantId: tenant.tenantId }).catch((error: unknown) => error);
    await hanging.count(1);
    await notifier.courier.stop(0);
    expect(await refused).toBeInstanceOf(Error);
    await start({ database: notifier.database });
    expect(await only(notifier, tenant)).toMatchObject({ status: 'failed', errorClass: 'timeout', attempts: 1 });
    expect(hanging.received).toHaveLength(1);
  });

  test('with more tenants than a round takes, all are served', async () => {
    const notifier = await start({ claims: false });
    const tenants = await Promise.all(Array.from({ length: 130 }, () => subscribe(notifier, 'http://127.0.0.1:1/')));
    await notifier.client.ingest({ events: tenants.flatMap(({ posting }) => [posting(), posting(), posting()]) });
    const served = new Set<string>();
    for (let round = 0; round < 2; round++) {
      for (const { tenant } of (await claimDue(notifier.work, { ...bounds, ofTenant: () => 1 })).claimed) served.add(tenant);
    }
    expect(served.size).toBe(130);
  });

  test('the share holds over replicas', async () => {
    const notifier = await start({ claims: false });
    const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
    await ingest(notifier, tenant, 20);
    const share = { ...bounds, ofTenant: () => 8 };
    const rounds = await Promise.all(Array.from({ length: 5 }, () => claimDue(notifier.work, share)));
    rounds.push(await claimDue(notifier.work, share));
    expect(rounds.flatMap(({ claimed }) => claimed)).toHaveLength(8);
  });

  test('where a round has fewer places than work, tenants take turns', async () => {
    const notifier = await start({ claims: false });
    const tenants = await Promise.all(Array.from({ length: 3 }, () => subscribe(notifier, 'http://127.0.0.1:1/')));
    for (const tenant of tenants) await ingest(notifier, tenant, 10);
    const { claimed } = await claimDue(notifier.work, { ...bounds, free: 6 });
    expect(tenants.map(({ tenant }) => claimed.filter((each) => each.tenant === tenant).length)).toEqual([2, 2, 2]);
  });

  test('a tenant whose endpoint was full is served again as soon as an attempt is recorded', async () => {
    const notifier = await start({ claims: false });
    const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
    await ingest(notifier, tenant, 5);
    const one = { ...bounds, ofTenant: () => 1 };
    for (let place = 0; place < 5; place++) {
      const { claimed } = await claimDue(notifier.work, one);
      expect(claimed).toHaveLength(1);
      expect(await claimDue(notifier.work, one)).toMatchObject({ claimed: [] });
      // Nothing to look for until the lease ends.
      expect((await claimDue(notifier.work, one)).nextMs).toBeGreaterThan(30_000);
      await recordOutcomes(notifier.work, [outcome(claimed[0]!, 'delivered')]);
    }
    expect(await claimDue(notifier.work, one)).toMatchObject({ claimed: [] });
  });

  test('so it is where others find it full in the very moment in which an attempt is recorded', async () => {
    const notifier = await start({ claims: false });
    const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
    await ingest(notifier, tenant, 100);
    const done = new Set<string>();
    const look = async () => {
      while (done.size < 100) {
        const { claimed } = await claimDue(notifier.work, { ...bounds, ofTenant: () => 1 });
        for (const { id } of claimed) done.add(id);
        if (claimed.length > 0) await recordOutcomes(notifier.work, [outcome(claimed[0]!, 'delivered')]);
      }
    };
    // One that was overlooked would wait for the end of a lease.
    await Promise.all([look(), look(), look()]);
  });

  test('deliveries are claimed in the tenant’s order', async () => {
    const notifier = await start({ claims: false });
    const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
    const posted = Array.from({ length: 12 }, () => tenant.posting());
    await notifier.client.ingest({ events: posted });
    const claimed: string[] = [];
    for (let round = 0; round < 4; round++) {
      claimed.push(...(await claimDue(notifier.work, { ...bounds, free: 3 })).claimed.map(({ eventId }) => eventId));
    }
    expect(claimed).toEqual(posted.map(({ id }) => toUuid('evt', id)));
  });
});

test('deliveries wait while the database refuses work, and none is lost', async () => {
  const notifier = await start();
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
