// The gRPC interface: maps messages to use cases, and refusals to status codes.
import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code, type ConnectRouter, type HandlerContext } from '@connectrpc/connect';
import {
  NotifierService,
  type AttemptSchema,
  type DeliverySchema,
  type LimitSchema,
  type WebhookSchema,
} from '../../proto/gen/notifier/v1/notifier_pb.js';
import { toId } from '../platform/ids.ts';
import type { Pool } from '../platform/postgres.ts';
import { logFields } from '../platform/serve.ts';
import { SharedPool } from '../platform/shared-pool.ts';
import { type RateLimitStatus, toConnectError } from '../platform/errors.ts';
import type { Consumer } from './consumer.ts';
import { listDeliveries, readDelivery, retryDeliveries, retryDelivery, type AttemptRow, type DeliveryRow } from './deliveries.ts';
import type { DeliveryWorker } from './delivery-worker.ts';
import { deliveryOf, eventIdsOf, filterOf, integer, targetOf, tenantOf, timeOf } from './fields.ts';
import { invalid, type Reason } from './refusal.ts';
import { deletedConstraint, deleteTenant } from './tenant-deletion.ts';
import { sendTestDelivery } from './test-delivery.ts';
import { configure, notConfigured, readWebhook, remove, rotate, update, type WebhookContext, type WebhookRow } from './webhooks.ts';

const codes: Record<Reason, Code> = {
  validation_failed: Code.InvalidArgument,
  invalid_delivery_id: Code.InvalidArgument,
  webhook_not_configured: Code.NotFound,
  delivery_not_found: Code.NotFound,
  delivery_not_failed: Code.FailedPrecondition,
  webhook_disabled: Code.FailedPrecondition,
  rate_limited: Code.ResourceExhausted,
  test_failed: Code.Aborted,
  overloaded: Code.ResourceExhausted,
  unavailable: Code.Unavailable,
};

/** What the calls use. */
export interface NotifierContext extends WebhookContext {
  /** For calls, shared by the tenants. */
  pool: Pool;
  consumer: Consumer;
  worker: DeliveryWorker;
}

/** The calls of `notifier.v1.NotifierService`. */
export function notifierRoutes(context: NotifierContext): (router: ConnectRouter) => void {
  const { quotas, consumer, worker } = context;
  const shared = new SharedPool(context.pool);
  // A call of a tenant, with the tenant's share of the connections.
  const ofTenant = <Request extends { tenantId: string }, Response>(
    work: (request: Request, tenant: string, own: WebhookContext) => Promise<Response>,
  ) =>
    answer((request: Request, { signal, values }) => {
      const tenant = tenantOf(request.tenantId);
      values.get(logFields)['tenant'] = request.tenantId;
      return work(request, tenant, { ...context, pool: shared.of(tenant, signal) }).catch(refuseDeleted);
    });
  const maxAttempts = worker.options.retryDelays.length + 1;
  const deliveryMessage = (row: DeliveryRow): MessageInitShape<typeof DeliverySchema> => ({
    id: toId('wh_delivery', row.id),
    eventId: toId('evt', row.event_id),
    eventType: row.event_type,
    status: row.status,
    statusCode: row.status_code ?? undefined,
    attempts: row.attempts,
    maxAttempts,
    nextRetryMs: maybeMs(row.next_retry_ms),
    deliveredMs: maybeMs(row.delivered_ms),
    failedMs: maybeMs(row.failed_ms),
    createdMs: BigInt(row.created_ms),
    errorClass: row.error_class ?? undefined,
  });
  return (router) =>
    router.service(NotifierService, {
      ingest: answer(async ({ events, deriveUpdates }) => {
        await consumer.ingest(events, { derive: deriveUpdates });
        return { updatesDerived: deriveUpdates };
      }),
      pass: answer(async ({ stretches }) => {
        const ranges = stretches.map(({ tenantId, after, through, createdMs }) => {
          return { tenant: tenantOf(tenantId), after, through, createdMs: createdMs === 0n ? null : createdMs };
        });
        const subscribed = await consumer.pass(ranges);
        return { wantedTenantIds: subscribed.map((tenant) => toId('tenant', tenant)) };
      }),
      configureWebhook: ofTenant(async ({ url, events, secret, enabled, headers }, tenant, own) => {
        const done = await configure(own, tenant, { url, events, secret, enabled, headers });
        const { webhook, created, rateLimit } = done;
        return { webhook: webhookMessage(webhook), secret: done.secret ?? undefined, created, limit: limitMessage(rateLimit) };
      }),
      checkUrl: answer(async ({ url }) => {
        await targetOf(context.targets, url);
        return {};
      }),
      getWebhook: ofTenant(async (_, tenant, { pool }) => {
        const webhook = await readWebhook(pool, tenant);
        if (!webhook) throw notConfigured();
        return { webhook: webhookMessage(webhook) };
      }),
      updateWebhook: ofTenant(async ({ url, events, changeEvents, enabled, secret, headers, changeHeaders }, tenant, own) => {
        const done = await update(own, tenant, {
          url,
          enabled,
          secret,
          ...(changeEvents && { events }),
          ...(changeHeaders && { headers }),
        });
        return { webhook: webhookMessage(done.webhook), secret: done.secret ?? undefined };
      }),
      deleteWebhook: ofTenant(async (_, tenant, { pool }) => {
        await remove(pool, tenant);
        return {};
      }),
      rotateSecret: ofTenant(async ({ overlapSeconds }, tenant, own) => {
        const { webhook, secret } = await rotate(own, tenant, overlapSeconds);
        return { webhook: webhookMessage(webhook), secret };
      }),
      listDeliveries: ofTenant(async (request, tenant, { pool }) => {
        const filter = {
          statuses: filterOf('status', request.status),
          types: filterOf('event_type', request.eventType),
          startMs: timeOf('start_date', request.startMs),
          endMs: timeOf('end_date', request.endMs),
          eventIds: eventIdsOf(request.eventIds),
          limit: integer('limit', request.limit, 1, 100),
          offset: integer('offset', request.offset, 0, 0x7fffffff),
        };
        const { webhook, deliveries, total } = await listDeliveries(pool, tenant, filter);
        return { ...(webhook && { webhook: webhookMessage(webhook) }), deliveries: deliveries.map(deliveryMessage), total };
      }),
      getDelivery: ofTenant(async ({ deliveryId }, tenant, { pool }) => {
        const details = await readDelivery(pool, tenant, deliveryOf(deliveryId));
        return {
          delivery: deliveryMessage(details.delivery),
          payload: details.payload,
          responseBody: details.responseBody ?? undefined,
          attempts: details.attempts.map(attemptMessage),
        };
      }),
      retryDelivery: ofTenant(async ({ deliveryId }, tenant, { pool }) => {
        const { delivery, rateLimit } = await retryDelivery(pool, quotas, tenant, deliveryOf(deliveryId));
        worker.wake();
        return { delivery: deliveryMessage(delivery), limit: limitMessage(rateLimit) };
      }),
      retryDeliveries: ofTenant(async (request, tenant, { pool }) => {
        const filter = {
          types: filterOf('event_type', request.eventType),
          startMs: timeOf('start_date', request.startMs),
          endMs: timeOf('end_date', request.endMs),
        };
        const { queued, remaining, rateLimit } = await retryDeliveries(pool, quotas, tenant, filter);
        worker.wake();
        return { queued, remaining, limit: limitMessage(rateLimit) };
      }),
      deleteTenant: ofTenant(async (_, tenant, { pool }) => ({ done: await deleteTenant(pool, tenant) })),
      testWebhook: ofTenant(async ({ eventType, traceparent }, tenant, own) => {
        const { details, responseTimeMs, rateLimit } = await sendTestDelivery(own, worker, tenant, { type: eventType, traceparent });
        return { delivery: deliveryMessage(details.delivery), responseTimeMs, payload: details.payload, limit: limitMessage(rateLimit) };
      }),
    });
}

function refuseDeleted(error: unknown): never {
  const isDeleted = (error as { constraint?: unknown }).constraint === deletedConstraint;
  throw isDeleted ? invalid('tenant_id', 'deleted', 'is that of a deleted tenant') : error;
}

function answer<Request, Response>(
  work: (request: Request, context: HandlerContext) => Promise<Response>,
): (request: Request, context: HandlerContext) => Promise<Response> {
  return async (request, context) => {
    try {
      return await work(request, context);
    } catch (error) {
      throw toConnectError(error, codes, context.values.get(logFields));
    }
  };
}

function maybeMs(value: number | null): bigint | undefined {
  return value === null ? undefined : BigInt(value);
}

function webhookMessage(row: WebhookRow): MessageInitShape<typeof WebhookSchema> {
  const { url, events, enabled } = row;
  const headers = row.header_names.map((name) => ({ name }));
  return { url, events, enabled, headers, createdMs: BigInt(row.created_ms), updatedMs: BigInt(row.updated_ms) };
}

function attemptMessage(row: AttemptRow): MessageInitShape<typeof AttemptSchema> {
  return {
    number: row.number,
    startedMs: BigInt(row.started_ms),
    durationMs: row.duration_ms,
    statusCode: row.status_code ?? undefined,
    errorClass: row.error_class ?? undefined,
  };
}

function limitMessage({ policy, quota, window, remaining, reset }: RateLimitStatus): MessageInitShape<typeof LimitSchema> {
  return { policy, quota, windowSeconds: window, remaining, resetSeconds: reset };
}
