// The door of the service: messages to use cases, refusals to gRPC codes.
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
import { isAway } from '../platform/postgres.ts';
import { refuse } from '../platform/refusal.ts';
import { logFields } from '../platform/serve.ts';
import type { Consumer } from './consumer.ts';
import { listDeliveries, readDelivery, retryDelivery, type AttemptRow } from './deliveries.ts';
import type { Courier } from './delivery.ts';
import { deliveryOf, filterOf, integer, tenantOf, timeOf } from './fields.ts';
import type { Standing } from './limits.ts';
import { Refusal, type Reason } from './refusal.ts';
import type { DeliveryRow } from './rows.ts';
import { sendTest } from './trial.ts';
import { configure, notConfigured, readWebhook, remove, rotate, update, type WebhookParts, type WebhookRow } from './webhooks.ts';

const codes: Record<Reason, Code> = {
  validation_failed: Code.InvalidArgument,
  invalid_delivery_id: Code.InvalidArgument,
  webhook_not_configured: Code.NotFound,
  delivery_not_found: Code.NotFound,
  delivery_not_failed: Code.FailedPrecondition,
  webhook_disabled: Code.FailedPrecondition,
  rate_limited: Code.ResourceExhausted,
  test_failed: Code.Aborted,
  unavailable: Code.Unavailable,
};

/** What the calls work with. */
export interface NotifierParts extends WebhookParts {
  consumer: Consumer;
  courier: Courier;
}

/** The calls of `notifier.v1.NotifierService`. */
export function notifierRoutes(parts: NotifierParts): (router: ConnectRouter) => void {
  const { pool, quotas, consumer, courier } = parts;
  const maxAttempts = courier.options.retryDelays.length + 1;
  const deliveryMessage = (row: DeliveryRow): MessageInitShape<typeof DeliverySchema> => ({
    id: toId('wh_delivery', row.id),
    eventId: toId('evt', row.event_id),
    eventType: row.event_type,
    status: row.status,
    ...optional('statusCode', row.status_code),
    attempts: row.attempts,
    maxAttempts,
    ...optionalMs('nextRetryMs', row.next_retry_ms),
    ...optionalMs('deliveredMs', row.delivered_ms),
    ...optionalMs('failedMs', row.failed_ms),
    createdMs: BigInt(row.created_ms),
    ...optional('errorClass', row.error_class),
  });
  return (router) =>
    router.service(NotifierService, {
      ingest: answer(async ({ events }) => {
        await consumer.ingest(events);
        return {};
      }),
      pass: answer(async ({ stretches }) => {
        const asked = stretches.map(({ tenantId, after, through }) => ({ tenant: tenantOf(tenantId), after, through }));
        const wanted = await consumer.pass(asked);
        return { wantedTenantIds: wanted.map((tenant) => toId('tenant', tenant)) };
      }),
      configureWebhook: answer(async ({ tenantId, url, events, secret, enabled }) => {
        const done = await configure(parts, tenantOf(tenantId), { url, events, secret, enabled });
        const { webhook, created, standing } = done;
        return { webhook: webhookMessage(webhook), ...optional('secret', done.secret), created, limit: limitMessage(standing) };
      }),
      getWebhook: answer(async ({ tenantId }) => {
        const webhook = await readWebhook(pool, tenantOf(tenantId));
        if (!webhook) throw notConfigured();
        return { webhook: webhookMessage(webhook) };
      }),
      updateWebhook: answer(async ({ tenantId, url, events, changeEvents, enabled, secret }) => {
        const done = await update(parts, tenantOf(tenantId), { url, enabled, secret, ...(changeEvents && { events }) });
        return { webhook: webhookMessage(done.webhook), ...optional('secret', done.secret) };
      }),
      deleteWebhook: answer(async ({ tenantId }) => {
        await remove(pool, tenantOf(tenantId));
        return {};
      }),
      rotateSecret: answer(async ({ tenantId, overlapSeconds }) => {
        const { webhook, secret } = await rotate(parts, tenantOf(tenantId), overlapSeconds);
        return { webhook: webhookMessage(webhook), secret };
      }),
      listDeliveries: answer(async (request) => {
        const filter = {
          statuses: filterOf('status', request.status),
          types: filterOf('event_type', request.eventType),
          startMs: timeOf('start_date', request.startMs),
          endMs: timeOf('end_date', request.endMs),
          limit: integer('limit', request.limit, 1, 100),
          offset: integer('offset', request.offset, 0, 0x7fffffff),
        };
        const { webhook, deliveries, total } = await listDeliveries(pool, tenantOf(request.tenantId), filter);
        return { ...(webhook && { webhook: webhookMessage(webhook) }), deliveries: deliveries.map(deliveryMessage), total };
      }),
      getDelivery: answer(async ({ tenantId, deliveryId }) => {
        const whole = await readDelivery(pool, tenantOf(tenantId), deliveryOf(deliveryId));
        return {
          delivery: deliveryMessage(whole.delivery),
          payload: whole.payload,
          ...optional('responseBody', whole.responseBody),
          attempts: whole.attempts.map(attemptMessage),
        };
      }),
      retryDelivery: answer(async ({ tenantId, deliveryId }) => {
        const { delivery, standing } = await retryDelivery(pool, quotas, tenantOf(tenantId), deliveryOf(deliveryId));
        courier.wake();
        return { delivery: deliveryMessage(delivery), limit: limitMessage(standing) };
      }),
      testWebhook: answer(async ({ tenantId, eventType }) => {
        const { whole, responseTimeMs, standing } = await sendTest(parts, courier, tenantOf(tenantId), eventType);
        return { delivery: deliveryMessage(whole.delivery), responseTimeMs, payload: whole.payload, limit: limitMessage(standing) };
      }),
    });
}

function answer<Request, Response>(
  work: (request: Request) => Promise<Response>,
): (request: Request, context: HandlerContext) => Promise<Response> {
  return async (request, context) => {
    const fields = context.values.get(logFields);
    try {
      return await work(request);
    } catch (error) {
      if (error instanceof Refusal) {
        fields['reason'] = error.reason;
        throw refuse(codes[error.reason], { reason: error.reason, message: error.message, ...error.details });
      }
      if (isAway(error)) {
        fields['err'] = error;
        throw refuse(codes.unavailable, { reason: 'unavailable', message: 'the database is away', retryAfter: 1 });
      }
      throw error;
    }
  };
}

function optional<Name extends string, Value>(name: Name, value: Value | null): Partial<Record<Name, Value>> {
  return value === null ? {} : ({ [name]: value } as Partial<Record<Name, Value>>);
}

function optionalMs<Name extends string>(name: Name, value: number | null): Partial<Record<Name, bigint>> {
  return value === null ? {} : ({ [name]: BigInt(value) } as Partial<Record<Name, bigint>>);
}

function webhookMessage(row: WebhookRow): MessageInitShape<typeof WebhookSchema> {
  const { url, events, enabled } = row;
  return { url, events, enabled, createdMs: BigInt(row.created_ms), updatedMs: BigInt(row.updated_ms) };
}

function attemptMessage(row: AttemptRow): MessageInitShape<typeof AttemptSchema> {
  return {
    number: row.number,
    startedMs: BigInt(row.started_ms),
    durationMs: row.duration_ms,
    ...optional('statusCode', row.status_code),
    ...optional('errorClass', row.error_class),
  };
}

function limitMessage({ policy, quota, window, remaining, reset }: Standing): MessageInitShape<typeof LimitSchema> {
  return { policy, quota, windowSeconds: window, remaining, resetSeconds: reset };
}
