// For tests of delivery: notifiers, HTTP clients and receivers that end with their test, subscribed tenants, leases and results.
import type { Attempt, Delivery } from '../proto/gen/notifier/v1/notifier_pb.js';
import { Targets } from '../services/notifier/addresses.ts';
import { leaseDue, postponeIdle, type Lease, type LeaseCycle, type LeaseLimits } from '../services/notifier/leases.ts';
import { HttpClient, type HttpClientOptions } from '../services/notifier/http-client.ts';
import type { DeliveryResult } from '../services/notifier/delivery-results.ts';
import { inTransaction, type Pool } from '../services/platform/postgres.ts';
import {
  newTenant,
  startNotifier,
  startReceiver,
  testKey,
  type NotifierOptions,
  type Receiver,
  type RunningNotifier,
  type TestTenant,
} from './notifier.ts';

const stops: (() => Promise<unknown>)[] = [];

/** Ends what {@link start}, {@link receiver} and {@link httpClient} have started, the last one first: for `afterEach` or `afterAll`. */
export async function endStarted(): Promise<void> {
  for (const stop of stops.splice(0).reverse()) await stop();
}

/** A notifier until {@link endStarted}. */
export async function start(options: NotifierOptions = {}): Promise<RunningNotifier> {
  const notifier = await startNotifier(options);
  stops.push(() => notifier.end());
  return notifier;
}

/** A receiver until {@link endStarted}. */
export async function receiver(...given: Parameters<typeof startReceiver>): Promise<Receiver> {
  const started = await startReceiver(...given);
  stops.push(() => started.close());
  return started;
}

/** A client until {@link endStarted}; without options any address is allowed and requests take 20 s at most. */
export function httpClient(more: Partial<HttpClientOptions> = {}): HttpClient {
  const made = new HttpClient({ targets: new Targets(true), timeoutMs: 20_000, ...more });
  stops.push(() => made.close());
  return made;
}

/** A new tenant whose postings are delivered to an address. */
export async function subscribe({ client }: RunningNotifier, url: string): Promise<TestTenant & { secret: string }> {
  const tenant = newTenant();
  const { secret = '' } = await client.configureWebhook({ tenantId: tenant.tenantId, url, events: ['transaction.posted'] });
  return { ...tenant, secret };
}

/** Hands over a tenant's next postings. */
export async function ingest({ client }: RunningNotifier, { posting }: TestTenant, count = 1): Promise<void> {
  await client.ingest({ events: Array.from({ length: count }, () => posting()) });
}

/** Lets what a tenant waits for be due now. */
export async function passTime({ work }: RunningNotifier, { tenant }: TestTenant): Promise<void> {
  await inTransaction(work, [tenant], async (client) => {
    await client.query(`update deliveries set run_at = now() where status = 'pending'`);
    await client.query('update leases set until = now()');
    await client.query('update due set next_at = now()');
  });
}

/** A tenant's only delivery, and the attempts at it. */
export async function only({ client }: RunningNotifier, { tenantId }: TestTenant): Promise<Delivery & { tries: Attempt[] }> {
  const { deliveries } = await client.listDeliveries({ tenantId, limit: 100 });
  expect(deliveries).toHaveLength(1);
  const { delivery, attempts } = await client.getDelivery({ tenantId, deliveryId: deliveries[0]!.id });
  return { ...delivery!, tries: attempts };
}

const limits: LeaseLimits = { free: 100, perTenant: 100, keyIds: [testKey.id], leaseMs: 300_000 };

/** One cycle of a worker: leases what is due, and postpones tenants without work. Leases last longer than a test. */
export async function lease(pool: Pool, change: Partial<LeaseLimits> = {}): Promise<LeaseCycle> {
  const cycle = await leaseDue(pool, { ...limits, ...change });
  await postponeIdle(pool, cycle.idle, { ...limits, ...change });
  return cycle;
}

/** The result of an attempt; `retryAfter`: seconds until the next one. */
export function result({ tenant, id, leaseId }: Lease, status: DeliveryResult['status'], retryAfter: number | null = null): DeliveryResult {
  const errorClass = status === 'delivered' ? null : 'http_status';
  return { tenant, id, leaseId, status, statusCode: 200, errorClass, responseBody: '', durationMs: 1, retryAfter };
}

/** The attempt numbers of the requests that a receiver got, in their order. */
export function attemptsOf({ received }: Receiver): unknown[] {
  return received.map(({ headers }) => headers['x-webhook-attempt']);
}
