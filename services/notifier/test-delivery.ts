// Test deliveries: a made-up event, sent while the caller waits, and recorded like any other.
import { v7 as uuidv7 } from 'uuid';
import { sha256 } from '../platform/digest.ts';
import { toId } from '../platform/ids.ts';
import { epochMs, inTransaction } from '../platform/postgres.ts';
import { rateLimitMetadata, type RateLimitStatus } from '../platform/errors.ts';
import { ownTraceparent, traceparentOf } from '../platform/trace.ts';
import { readDelivery, type DeliveryDetails } from './deliveries.ts';
import type { DeliveryWorker } from './delivery-worker.ts';
import { testBody } from './envelope.ts';
import { keepEarlierDueTime, secretsAt, splitSecrets, type Lease } from './leases.ts';
import { admit } from './limits.ts';
import { invalid, Refusal } from './refusal.ts';
import { eventTypes } from './webhook.ts';
import { notConfigured, type WebhookContext } from './webhooks.ts';

/**
 * Sends a test event of a type (empty: `test.webhook`) to the tenant's endpoint, enabled and subscribed or not, in the trace of its request, or
 * in a new one where `traceparent` is none. Refused: `validation_failed`, `rate_limited`, `webhook_not_configured`, `test_failed` (metadata:
 * `delivery_id`, `status_code`, `error_class`).
 */
export async function sendTestDelivery(
  { pool, quotas }: WebhookContext,
  worker: DeliveryWorker,
  tenant: string,
  { type, traceparent: given }: { type: string; traceparent: string },
): Promise<{ details: DeliveryDetails; responseTimeMs: number; rateLimit: RateLimitStatus }> {
  const eventType = type === '' ? 'test.webhook' : type;
  if (!(eventTypes as readonly string[]).includes(eventType)) {
    throw invalid('event_type', 'oneof', `must be one of ${eventTypes.join(', ')}`, eventType);
  }
  const rateLimit = await admit(pool, quotas, tenant, 'tests');
  const { timeoutMs, marginMs } = worker.options;
  const lease = await inTransaction(pool, [tenant], async (client): Promise<Lease> => {
    const { rows } = await client.query<{ url: string; secrets: string; headers: string | null; ms: number }>(
      `select w.url, ${secretsAt('at')} as secrets, w.headers, ${epochMs('at')} as ms from webhooks w, clock_timestamp() as at where w.tenant_id = $1`,
      [tenant],
    );
    const [row] = rows;
    if (!row) throw notConfigured();
    const [id, eventId, leaseId] = [uuidv7(), uuidv7(), uuidv7()];
    const about = { id: toId('evt', eventId), type: eventType, createdMs: BigInt(row.ms), tenantId: toId('tenant', tenant) };
    const body = testBody(about);
    const traceparent = traceparentOf(given) ?? ownTraceparent(eventId, sha256(body));
    // Leased when it is made, so that no worker takes it; by hand, so that no other attempt follows.
    await client.query(
      `with times as (select to_timestamp($5::float8 / 1000) as started, to_timestamp(($5::float8 + $6::float8) / 1000) as until),
         made as (
           insert into deliveries (tenant_id, id, event_id, event_type, test, status, attempts, by_hand, created_at, run_at)
           select $1, $2, $3, $4, true, 'pending', 1, true, started, until from times
         ), leased as (
           insert into leases (tenant_id, delivery_id, lease_id, started_at, until) select $1, $2, $7, started, until from times
         ), body as (insert into payloads (tenant_id, event_id, body, traceparent) values ($1, $3, $8, $9))
         insert into due (tenant_id, next_at) select $1, until from times ${keepEarlierDueTime}`,
      [tenant, id, eventId, eventType, row.ms, timeoutMs + marginMs, leaseId, body, traceparent],
    );
    const [secrets, times] = [splitSecrets(row.secrets), { dueMs: row.ms, startedMs: row.ms }];
    const { url, headers } = row;
    return { tenant, id, leaseId, eventId, eventType, attempt: 1, byHand: true, ...times, url, secrets, headers, body, traceparent };
  });
  const attempt = await worker.attempt(lease, { isTest: true });
  const { errorClass = null, statusCode = null, durationMs = 0 } = attempt?.answer ?? {};
  if (!attempt || errorClass !== null) {
    const metadata = {
      delivery_id: toId('wh_delivery', lease.id),
      status_code: statusCode === null ? '' : String(statusCode),
      error_class: errorClass ?? 'timeout',
    };
    throw new Refusal('test_failed', 'Test webhook failed', { metadata: { ...metadata, ...rateLimitMetadata(rateLimit) } });
  }
  return { details: await readDelivery(pool, tenant, lease.id), responseTimeMs: durationMs, rateLimit };
}
