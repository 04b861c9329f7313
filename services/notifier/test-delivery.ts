// The test delivery: a made-up event, sent while the caller waits, and recorded like any other.
import { v7 as uuidv7 } from 'uuid';
import { sha256 } from '../platform/digest.ts';
import { toId } from '../platform/ids.ts';
import { inTransaction, epochMs } from '../platform/postgres.ts';
import { rateLimitMetadata, type RateLimitStatus } from '../platform/rate-limit-status.ts';
import { ownTraceparent, traceparentOf } from '../platform/trace.ts';
import type { Lease } from './leases.ts';
import { readDelivery, type DeliveryDetails } from './deliveries.ts';
import type { DeliveryWorker } from './delivery-worker.ts';
import { readDestinations } from './destinations.ts';
import { testBody } from './envelope.ts';
import { invalid, Refusal } from './refusal.ts';
import { admit } from './limits.ts';
import { keepEarlierDueTime } from './rows.ts';
import { eventTypes } from './webhook.ts';
import { notConfigured, type WebhookContext } from './webhooks.ts';

/**
 * Sends a test event of a type (empty: `test.webhook`) to the tenant's endpoint, whether it is enabled and subscribed or not, in the trace of
 * its request, or in one of its own where `traceparent` is none. Refused: `validation_failed`, `rate_limited`, `webhook_not_configured`,
 * `test_failed` (metadata: `delivery_id`, `status_code`, `error_class`).
 */
export async function sendTestDelivery(
  { pool, quotas }: WebhookContext,
  courier: DeliveryWorker,
  tenant: string,
  { type, traceparent: given }: { type: string; traceparent: string },
): Promise<{ whole: DeliveryDetails; responseTimeMs: number; standing: RateLimitStatus }> {
  const eventType = type === '' ? 'test.webhook' : type;
  if (!(eventTypes as readonly string[]).includes(eventType)) {
    throw invalid('event_type', 'oneof', `must be one of ${eventTypes.join(', ')}`, eventType);
  }
  const standing = await admit(pool, quotas, tenant, 'tests');
  const { timeoutMs, marginMs } = courier.options;
  const claimed = await inTransaction(pool, [tenant], async (client): Promise<Lease> => {
    const destination = (await readDestinations(client, [tenant])).get(tenant);
    if (!destination) throw notConfigured();
    const { rows } = await client.query<{ ms: number }>(`select ${epochMs('clock_timestamp()')} as ms`);
    const startedMs = (rows[0] as { ms: number }).ms;
    const [id, eventId, claim] = [uuidv7(), uuidv7(), uuidv7()];
    const about = { id: toId('evt', eventId), type: eventType, createdMs: BigInt(startedMs), tenantId: toId('tenant', tenant) };
    const body = testBody(about);
    const traceparent = traceparentOf(given) ?? ownTraceparent(eventId, sha256(body));
    // By hand: whatever comes of it, no attempt follows by itself. Claimed from the beginning, so that no worker takes it.
    await client.query(
      `with made as (
         insert into deliveries (tenant_id, id, event_id, event_type, test, status, attempts, by_hand, created_at, run_at)
         values ($1, $2, $3, $4, true, 'pending', 1, true, to_timestamp($5::float8 / 1000), to_timestamp(($5::float8 + $6::float8) / 1000))
       ), claimed as (
         insert into claims (tenant_id, delivery_id, claim_id, started_at, until)
         values ($1, $2, $7, to_timestamp($5::float8 / 1000), to_timestamp(($5::float8 + $6::float8) / 1000))
         returning until
       ), body as (insert into payloads (tenant_id, event_id, body, traceparent) values ($1, $3, $8, $9))
       insert into due (tenant_id, next_at) select $1, until from claimed ${keepEarlierDueTime}`,
      [tenant, id, eventId, eventType, startedMs, timeoutMs + marginMs, claim, body, traceparent],
    );
    return {
      tenant,
      id,
      claim,
      eventId,
      eventType,
      attempt: 1,
      byHand: true,
      isBegun: false,
      dueMs: startedMs,
      startedMs,
      destination,
      body,
      traceparent,
    };
  });
  const sent = await courier.attempts.make(claimed, { awaited: true });
  const { errorClass = null, statusCode = null, durationMs = 0 } = sent?.answer ?? {};
  if (!sent || errorClass !== null) {
    const metadata = {
      delivery_id: toId('wh_delivery', claimed.id),
      status_code: statusCode === null ? '' : String(statusCode),
      error_class: errorClass ?? 'timeout',
    };
    throw new Refusal('test_failed', 'Test webhook failed', { metadata: { ...metadata, ...rateLimitMetadata(standing) } });
  }
  return { whole: await readDelivery(pool, tenant, claimed.id), responseTimeMs: durationMs, standing };
}
