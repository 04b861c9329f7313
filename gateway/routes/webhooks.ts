// Routes of a tenant's webhook configuration and secret.
import { ConnectError } from '@connectrpc/connect';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Webhook } from '../../proto/gen/notifier/v1/notifier_pb.js';
import type { Access } from '../auth.ts';
import { flag, object, oneOf, optional, patterned, printableSecret, secret, webhookEvents, whole } from '../fields.ts';
import { rateLimitHeaderNames } from '../openapi-headers.ts';
import { ApiError, validationError, maxErrors, apiErrorOf } from '../errors.ts';
import { record, ref } from '../records.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { rateLimitFields, webhookRecord } from '../mapping.ts';

const access: Access = { by: 'key', scope: 'webhooks:manage' };
const tag = 'Webhooks';

const url = patterned('url', '^[A-Za-z][A-Za-z0-9+.-]*://[^/\\s\\\\\\x00-\\x1f\\x7f-\\x9f][^\\s\\\\\\x00-\\x1f\\x7f-\\x9f]*$', {
  maxLength: 2048,
  description: [
    'An https address. It must not be, or resolve to, a private, loopback, link-local or otherwise special address.',
    'Credentials go into `headers`, not into the address.',
  ].join(' '),
  example: 'https://example.com/hooks/ledger',
});
const events = Type.Unsafe<string[]>({
  type: 'array',
  minItems: 1,
  maxItems: 100,
  items: oneOf(webhookEvents),
  description: 'Event types to deliver. Repeated types count once.',
  example: ['transaction.posted', 'balance.updated'],
});
const ownSecret = printableSecret(16, 255, {
  description: '16 to 255 printable characters. Replaces the old secret at once, without an overlap.',
  example: 'an-own-secret-of-32-characters-x',
});
const enabled = optional(flag);
const exampleHeaders = [{ name: 'Authorization', value: 'Bearer token-of-the-receiver' }];
// `x-secret` on all levels: a mistaken shape may contain a token too.
const headers = optional(
  Type.Unsafe<{ name: string; value: string }[]>({
    type: 'array',
    maxItems: 10,
    'x-secret': true,
    items: {
      ...object({
        name: Type.Unsafe<string>({
          type: 'string',
          minLength: 1,
          maxLength: 128,
          'x-secret': true,
          'x-published': { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
          description: 'Each name once, whatever its case.',
          example: 'Authorization',
        }),
        value: secret(1, 4096, {
          'x-published': { pattern: '^[!-~]([ -~]*[!-~])?$' },
          description: 'Printable ASCII characters without a blank at either end.',
          example: 'Bearer token-of-the-receiver',
        }),
      }),
      'x-secret': true,
    },
    description: [
      'Sent with every delivery, for receivers that expect a token. They replace all headers before; their values are never shown again.',
      'Not allowed are the headers that a delivery has already, `Host`, `Content-Length`, `Expect`, and those of the connection.',
    ].join(' '),
    example: exampleHeaders,
  }),
);

const configuration = object({
  url,
  events,
  secret: optional(ownSecret),
  enabled: optional({ ...flag, default: true } as typeof flag),
  headers,
});
const change = object({ url: optional(url), events: optional(events), secret: optional(ownSecret), enabled, headers });
const rotation = object({
  overlap_seconds: optional(
    whole(0, 2_592_000, { default: 86_400, description: 'How long deliveries are also signed with the old secret.', example: 3600 }),
  ),
});

/** A webhook as an example. */
export const exampleWebhook = {
  url: 'https://example.com/hooks/ledger',
  events: ['transaction.posted', 'balance.updated'],
  enabled: true,
  headers: [{ name: 'Authorization', value: null }],
  created_at: '2030-01-31T12:00:00.000Z',
  updated_at: '2030-01-31T12:00:00.000Z',
};
const exampleSecret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const withSecret = { schema: record({ webhook_config: ref('WebhookConfigWithSecret') }), name: 'WebhookConfig' };
const exampleWithSecret = { webhook_config: { ...exampleWebhook, secret: exampleSecret } };
const exampleWithoutSecret = { webhook_config: { ...exampleWebhook, secret: null } };

function configRecord(webhook: Webhook | undefined): Record<string, unknown> {
  if (!webhook) throw new Error('the notifier answered without a webhook');
  return webhookRecord(webhook);
}

/**
 * If a configuration is invalid, throws its errors together with the notifier's error of the URL: only the notifier can check which
 * targets are allowed. If the notifier can't be reached, throws only the errors that were found here.
 */
async function throwIfInvalid(request: FastifyRequest, notifier: Services['notifier']): Promise<void> {
  const invalid = request.validationError;
  if (!invalid) return;
  const { url: target } = (request.body ?? {}) as { url?: unknown };
  const errors = invalid instanceof ApiError ? (invalid.errors ?? []) : [];
  const [first] = errors;
  // The URL is the first field of the schema, so that its error would be the first.
  if (first === undefined || first.field === 'url' || typeof target !== 'string' || target === '') throw invalid;
  const rejected = await notifier.checkUrl({ url: target }, callOptions(request, 1_500)).then(
    () => null,
    (error: unknown) => (error instanceof ConnectError ? apiErrorOf(error, request.body) : null),
  );
  const [urlError] = rejected?.errors ?? [];
  throw urlError ? validationError([urlError, ...errors.slice(0, maxErrors - 1)]) : invalid;
}

/** `/webhooks` where it is about the configuration. */
export function webhookRoutes(app: App, { notifier }: Services): void {
  app.post(
    '/v1/tenants/:slug/webhooks',
    {
      schema: { body: configuration },
      attachValidation: true,
      config: {
        access,
        doc: {
          id: 'configureWebhook',
          tag,
          summary: 'Configure the webhook',
          description:
            'A tenant has one webhook. Another call replaces `url`, `events`, `enabled` (default true) and `headers` (default none); the secret stays unless a new one is sent. ' +
            'At most 10 requests a minute.',
          bodies: {
            usual: { url: exampleWebhook.url, events: exampleWebhook.events },
            complete: {
              url: exampleWebhook.url,
              events: ['account.created'],
              secret: 'an-own-secret-of-32-characters-x',
              enabled: false,
              headers: exampleHeaders,
            },
          },
          answers: {
            201: {
              description: 'Configured for the first time; the secret is shown only now',
              ...withSecret,
              example: exampleWithSecret,
              message: 'Webhook configured; its secret is shown only now',
              headers: rateLimitHeaderNames,
            },
            200: {
              description: 'Replaced; the secret is null unless a new one was sent',
              ...withSecret,
              example: exampleWithoutSecret,
              message: 'Webhook replaced',
              headers: rateLimitHeaderNames,
            },
          },
          errors: ['rate_limited'],
        },
      },
    },
    async (request, reply) => {
      await throwIfInvalid(request, notifier);
      const { caller, body } = request;
      const rpcRequest = {
        tenantId: caller.tenantId,
        url: body.url,
        events: body.events,
        secret: body.secret ?? undefined,
        enabled: body.enabled ?? undefined,
        headers: body.headers ?? [],
      };
      const { webhook, secret: shown = null, created, limit } = await notifier.configureWebhook(rpcRequest, callOptions(request, 15_000));
      reply.code(created ? 201 : 200).headers(rateLimitFields(limit));
      const message = created ? 'Webhook configured; its secret is shown only now' : 'Webhook replaced';
      return { success: true, data: { webhook_config: { ...configRecord(webhook), secret: shown } }, message };
    },
  );

  app.get(
    '/v1/tenants/:slug/webhooks/config',
    {
      config: {
        access,
        doc: {
          id: 'getWebhook',
          tag,
          summary: 'Read the configuration',
          answers: {
            200: {
              description: 'The configuration without its secret and the values of its headers',
              schema: record({ webhook_config: ref('WebhookConfig') }),
              example: { webhook_config: exampleWebhook },
            },
          },
          errors: ['webhook_not_configured'],
        },
      },
    },
    async (request) => {
      const { webhook } = await notifier.getWebhook({ tenantId: request.caller.tenantId }, callOptions(request, 5_000));
      return { success: true, data: { webhook_config: configRecord(webhook) } };
    },
  );

  app.post(
    '/v1/tenants/:slug/webhooks/secret/rotate',
    {
      schema: { body: rotation },
      config: {
        access,
        doc: {
          id: 'rotateWebhookSecret',
          tag,
          summary: 'Rotate the secret',
          description: [
            'During the overlap `webhook-signature` has signatures of both secrets, `X-Webhook-Signature` that of the new one.',
            'A second call makes another secret: the overlap is then with the previous one, and older ones end.',
          ].join(' '),
          bodies: { hour: { overlap_seconds: 3600 }, day: {} },
          bodyOptional: true,
          answers: {
            200: {
              description: 'The new secret, shown only now',
              ...withSecret,
              example: exampleWithSecret,
              message: 'Secret replaced; it is shown only now',
            },
          },
          errors: ['webhook_not_configured'],
        },
      },
    },
    async (request) => {
      const rpcRequest = { tenantId: request.caller.tenantId, overlapSeconds: request.body.overlap_seconds ?? undefined };
      const { webhook, secret: shown } = await notifier.rotateSecret(rpcRequest, callOptions(request, 5_000));
      const data = { webhook_config: { ...configRecord(webhook), secret: shown } };
      return { success: true, data, message: 'Secret replaced; it is shown only now' };
    },
  );

  // Both paths: where the configuration is created, and where it is read.
  changeRoutes(app, notifier, '/v1/tenants/:slug/webhooks/config', { update: 'updateWebhook', remove: 'deleteWebhook' });
  changeRoutes(app, notifier, '/v1/tenants/:slug/webhooks', { update: 'updateWebhooks', remove: 'deleteWebhooks' });
}

function changeRoutes(app: App, notifier: Services['notifier'], path: string, ids: { update: string; remove: string }): void {
  const isAlias = ids.update === 'updateWebhooks';
  app.patch(
    path,
    {
      schema: { body: change },
      attachValidation: true,
      config: {
        access,
        doc: {
          id: ids.update,
          isAlias,
          tag,
          summary: 'Change the configuration',
          description: 'Absent or null fields stay as they are. `/webhooks` and `/webhooks/config` are equivalent.',
          bodies: { off: { enabled: false }, moved: { url: 'https://example.com/hooks/new' }, token: { headers: exampleHeaders } },
          bodyOptional: true,
          answers: {
            200: {
              description: 'Changed; the secret is null unless a new one was sent',
              ...withSecret,
              example: exampleWithoutSecret,
              message: 'Webhook changed',
            },
          },
          errors: ['webhook_not_configured'],
        },
      },
    },
    async (request) => {
      await throwIfInvalid(request, notifier);
      const { caller, body } = request;
      const rpcRequest = {
        tenantId: caller.tenantId,
        url: body.url ?? undefined,
        events: body.events ?? [],
        changeEvents: body.events != null,
        secret: body.secret ?? undefined,
        enabled: body.enabled ?? undefined,
        headers: body.headers ?? [],
        changeHeaders: body.headers != null,
      };
      const { webhook, secret: shown = null } = await notifier.updateWebhook(rpcRequest, callOptions(request, 15_000));
      return { success: true, data: { webhook_config: { ...configRecord(webhook), secret: shown } }, message: 'Webhook changed' };
    },
  );

  app.delete(
    path,
    {
      config: {
        access,
        doc: {
          id: ids.remove,
          isAlias,
          tag,
          summary: 'Delete the configuration',
          description: [
            'Pending deliveries fail without being sent. A second call is rejected (`webhook_not_configured`).',
            '`/webhooks` and `/webhooks/config` are equivalent.',
          ].join(' '),
          answers: {
            200: {
              description: 'Deleted',
              schema: record({ deleted: { type: 'boolean' } }),
              name: 'WebhookDeleted',
              example: { deleted: true },
            },
          },
          errors: ['webhook_not_configured'],
        },
      },
    },
    async (request) => {
      await notifier.deleteWebhook({ tenantId: request.caller.tenantId }, callOptions(request, 5_000));
      return { success: true, data: { deleted: true } };
    },
  );
}
