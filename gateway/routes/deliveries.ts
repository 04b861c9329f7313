// Routes of webhook deliveries: list, read, manual retries, test.
import { ConnectError } from '@connectrpc/connect';
import type { FastifyRequest } from 'fastify';
import { Type, type Static } from 'typebox';
import type { Access } from '../auth.ts';
import { deliveryStatuses, idOf, object, oneOf, optional, pageLimit, period, webhookEvents, whole } from '../fields.ts';
import { rateLimitHeaderNames } from '../openapi-headers.ts';
import { pathDelivery, periodOf } from '../pages.ts';
import { record, ref } from '../records.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { exampleBodies } from '../webhook-examples.ts';
import { refusalOf } from '../../services/platform/caller.ts';
import { withDerivedEvents } from '../../services/platform/derived-events.ts';
import { toId } from '../../services/platform/ids.ts';
import { timeOf } from '../../services/platform/ledger-records.ts';
import { attemptRecord, deliveryRecord, envelope, rateLimitFields, webhookRecord } from '../mapping.ts';
import { exampleWebhook } from './webhooks.ts';

const access: Access = { by: 'key', scope: 'webhooks:manage' };
const tag = 'Webhooks';

// A receiver may use its whole time-out. Idle connections are closed after 90 s.
const testTimeoutMs = 85_000;

const filters = object({
  limit: pageLimit,
  offset: Type.Optional(whole(0, 2_147_483_647, { default: 0, description: 'Deliveries to skip.' })),
  event_type: Type.Optional(oneOf(webhookEvents, { example: 'transaction.posted' })),
  status: Type.Optional(oneOf(deliveryStatuses, { example: 'failed' })),
  event_id: Type.Optional(idOf('evt', 'Only those of this event.')),
  transaction_id: Type.Optional(
    idOf('txn', 'Only those of this transaction: of its event, the balances that it updated, and the hold that it captured.'),
  ),
  ...period,
});
const retryFilters = object({
  event_type: optional(oneOf(webhookEvents, { example: 'transaction.posted' })),
  start_date: optional(period.start_date),
  end_date: optional(period.end_date),
});

const exampleDelivery = {
  id: 'wh_delivery_01jd1zq5v8e6n9w2k4m7p3r5t8',
  event_id: 'evt_01jd1zq5v8e6n9w2k4m7p3r5t8',
  event_type: 'transaction.posted',
  status: 'delivered',
  status_code: 200,
  error_class: null,
  attempts: 1,
  max_attempts: 3,
  next_retry_at: null,
  delivered_at: '2030-01-31T12:00:00.120Z',
  created_at: '2030-01-31T12:00:00.000Z',
};
const orNothing = (error: unknown): { transaction?: undefined } => {
  if (error instanceof ConnectError && refusalOf(error)?.reason === 'transaction_not_found') return {};
  throw error;
};

// Of no event: where a filter can match none.
const noEvent = toId('evt', '00000000-0000-0000-0000-000000000000');

/** `/webhooks` as far as it is about deliveries. */
export function deliveryRoutes(app: App, { notifier, ledger }: Services): void {
  const eventIdsOf = async (request: FastifyRequest<{ Querystring: Static<typeof filters> }>): Promise<string[]> => {
    const { event_id, transaction_id: transactionId } = request.query;
    if (transactionId === undefined) return event_id === undefined ? [] : [event_id];
    const { tenantId } = request.caller;
    const options = callOptions(request, 5_000);
    const { transaction } = await ledger.getTransaction({ tenantId, transactionId }, options).catch(orNothing);
    if (!transaction) return [noEvent];
    const { events } = await ledger.listEvents({ tenantId, afterSequence: transaction.sequence - 1n, limit: 1 }, options);
    const ids = events.flatMap(withDerivedEvents).map(({ id }) => id);
    return event_id === undefined ? ids : [ids.includes(event_id) ? event_id : noEvent];
  };

  app.get(
    '/v1/tenants/:slug/webhooks',
    {
      schema: { querystring: filters },
      config: {
        access,
        doc: {
          id: 'listDeliveries',
          tag,
          summary: 'List deliveries',
          description: 'Newest first, with the configuration (null: none).',
          answers: {
            200: {
              description: 'A page of deliveries, and their total number',
              schema: record({
                webhook_config: { anyOf: [ref('WebhookConfig'), { type: 'null' }] },
                deliveries: { type: 'array', items: ref('WebhookDelivery') },
                pagination: record({
                  total: { type: 'integer' },
                  limit: { type: 'integer' },
                  offset: { type: 'integer' },
                  has_more: { type: 'boolean' },
                }),
              }),
              example: {
                webhook_config: exampleWebhook,
                deliveries: [exampleDelivery],
                pagination: { total: 1, limit: 50, offset: 0, has_more: false },
              },
            },
          },
        },
      },
    },
    async (request) => {
      const { caller, query } = request;
      const { limit = 50, offset = 0 } = query;
      const found = await notifier.listDeliveries(
        {
          tenantId: caller.tenantId,
          eventType: query.event_type,
          status: query.status,
          ...periodOf(query),
          eventIds: await eventIdsOf(request),
          limit,
          offset,
        },
        callOptions(request, 5_000),
      );
      const total = Number(found.total);
      const data = {
        webhook_config: found.webhook ? webhookRecord(found.webhook) : null,
        deliveries: found.deliveries.map(deliveryRecord),
        pagination: { total, limit, offset, has_more: offset + found.deliveries.length < total },
      };
      return { success: true, data };
    },
  );

  app.post(
    '/v1/tenants/:slug/webhooks/test',
    {
      schema: {
        body: object({
          event_type: optional(oneOf(webhookEvents, { description: 'Default `test.webhook`.', example: 'test.webhook' })),
        }),
      },
      config: {
        access,
        doc: {
          id: 'testWebhook',
          tag,
          summary: 'Send a test delivery',
          description:
            'Sent at once, even if the webhook is disabled or not subscribed. Recorded, and not retried automatically. ' +
            'Each call sends another one. At most 20 requests an hour.',
          bodies: { usual: { event_type: 'test.webhook' }, nothing: {} },
          bodyOptional: true,
          answers: {
            200: {
              description: 'The receiver accepted it',
              schema: record({
                delivery_id: { type: 'string' },
                status: { type: 'string', const: 'delivered' },
                status_code: { type: 'integer' },
                response_time_ms: { type: 'integer' },
                test_payload: ref('TestEvent'),
              }),
              example: {
                delivery_id: exampleDelivery.id,
                status: 'delivered',
                status_code: 200,
                response_time_ms: 120,
                test_payload: exampleBodies['test.webhook'],
              },
              headers: rateLimitHeaderNames,
            },
          },
          errors: ['rate_limited', 'webhook_not_configured', 'test_failed'],
          rateLimitHeadersOn: [502],
        },
      },
    },
    async (request, reply) => {
      const { traceparent } = auditContext(request);
      const rpcRequest = { tenantId: request.caller.tenantId, eventType: request.body.event_type ?? '', traceparent };
      const { delivery, responseTimeMs, payload, limit } = await notifier.testWebhook(rpcRequest, callOptions(request, testTimeoutMs));
      if (!delivery) throw new Error('the notifier answered without a delivery');
      const { id, status, statusCode = null } = delivery;
      const fields = { delivery_id: id, status, status_code: statusCode, response_time_ms: responseTimeMs };
      reply.headers(rateLimitFields(limit));
      return envelope(reply, `${JSON.stringify(fields).slice(1, -1)},"test_payload":${payload}`);
    },
  );

  app.post(
    '/v1/tenants/:slug/webhooks/retry',
    {
      schema: { body: retryFilters },
      config: {
        access,
        doc: {
          id: 'retryDeliveries',
          tag,
          summary: 'Retry failed deliveries',
          description: [
            'One attempt of each failed delivery that matches the filters, the oldest first, up to 1,000 in one request. Dates filter by `created_at`.',
            'A delivery whose attempt fails is failed again. Repeat the request while `remaining` is not 0.',
            'Counts as one of the 5 retries an hour.',
          ].join(' '),
          bodies: { all: {}, some: { event_type: 'transaction.posted', start_date: '2030-01-01', end_date: '2030-02-01' } },
          bodyOptional: true,
          answers: {
            202: {
              description: 'Queued',
              schema: record({
                queued: { type: 'integer', description: 'Deliveries queued now.' },
                remaining: { type: 'integer', description: 'Failed deliveries that match and were not queued.' },
              }),
              example: { queued: 1000, remaining: 240 },
              headers: rateLimitHeaderNames,
            },
          },
          errors: ['rate_limited', 'webhook_disabled'],
        },
      },
    },
    async (request, reply) => {
      const { caller, body } = request;
      const rpcRequest = { tenantId: caller.tenantId, eventType: body.event_type ?? undefined, ...periodOf(body) };
      const { queued, remaining, limit } = await notifier.retryDeliveries(rpcRequest, callOptions(request, 15_000));
      reply.code(202).headers(rateLimitFields(limit));
      return { success: true, data: { queued, remaining: Number(remaining) } };
    },
  );

  app.get(
    '/v1/tenants/:slug/webhooks/:delivery_id',
    {
      config: {
        access,
        doc: {
          id: 'getDelivery',
          tag,
          summary: 'Read a delivery',
          description: 'With the payload, the receiver’s last answer, and every attempt.',
          answers: {
            200: {
              description: 'The delivery',
              schema: record({ delivery: ref('WebhookDeliveryDetail') }),
              example: {
                delivery: {
                  ...exampleDelivery,
                  payload: exampleBodies['transaction.posted'],
                  response_body: 'ok',
                  attempt_history: [
                    { number: 1, started_at: '2030-01-31T12:00:00.010Z', duration_ms: 110, status_code: 200, error_class: null },
                  ],
                },
              },
            },
          },
          errors: ['invalid_delivery_id', 'delivery_not_found'],
        },
      },
    },
    async (request, reply) => {
      const rpcRequest = { tenantId: request.caller.tenantId, deliveryId: pathDelivery(request.params) };
      const { delivery, payload, responseBody = null, attempts } = await notifier.getDelivery(rpcRequest, callOptions(request, 5_000));
      if (!delivery) throw new Error('the notifier answered without a delivery');
      const fields = { ...deliveryRecord(delivery), response_body: responseBody, attempt_history: attempts.map(attemptRecord) };
      // As it was sent: parsing would change numbers that a double cannot represent.
      return envelope(reply, `"delivery":${JSON.stringify(fields).slice(0, -1)},"payload":${payload}}`);
    },
  );

  app.post(
    '/v1/tenants/:slug/webhooks/:delivery_id/retry',
    {
      config: {
        access,
        doc: {
          id: 'retryDelivery',
          tag,
          summary: 'Retry a failed delivery',
          description:
            'One attempt, at once. If it fails, the delivery is failed again. A second call before that is rejected (`delivery_not_failed`). ' +
            'At most 5 requests an hour.',
          answers: {
            202: {
              description: 'Queued',
              schema: record({
                message: { type: 'string' },
                delivery_id: { type: 'string' },
                attempts: { type: 'integer' },
                next_retry_at: { type: 'string', format: 'date-time', description: 'When the attempt is due.' },
              }),
              example: {
                message: 'Webhook delivery queued for retry',
                delivery_id: exampleDelivery.id,
                attempts: 4,
                next_retry_at: '2030-01-31T12:10:00.000Z',
              },
              headers: rateLimitHeaderNames,
            },
          },
          errors: ['invalid_delivery_id', 'rate_limited', 'delivery_not_found', 'delivery_not_failed', 'webhook_disabled'],
        },
      },
    },
    async (request, reply) => {
      const rpcRequest = { tenantId: request.caller.tenantId, deliveryId: pathDelivery(request.params) };
      const { delivery, limit } = await notifier.retryDelivery(rpcRequest, callOptions(request, 5_000));
      if (delivery?.nextRetryMs === undefined) throw new Error('the notifier answered without a time');
      const { id, attempts, nextRetryMs } = delivery;
      reply.code(202).headers(rateLimitFields(limit));
      const message = 'Webhook delivery queued for retry';
      return { success: true, data: { message, delivery_id: id, attempts, next_retry_at: timeOf(nextRetryMs) } };
    },
  );
}
