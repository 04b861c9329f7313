// Routes of a tenant's API keys.
import { Type } from 'typebox';
import type { ApiKey } from '../../proto/gen/identity/v1/identity_pb.js';
import { scopes } from '../../services/platform/roles.ts';
import { description, name, object, oneOf, optional, paging, whole } from '../fields.ts';
import { examplePagination, pageOf, pathId } from '../pages.ts';
import { pagination, record, ref } from '../records.ts';
import { callOptions, memberCall, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { keyRecord } from '../mapping.ts';

const exampleKey = {
  id: 'key_01jd1zq5v8e6n9w2k4m7p3r5t8',
  name: 'Payments service',
  scopes: ['transactions:write', 'balances:read'],
  description: null,
  last4: 'x9Qd',
  created_at: '2030-01-31T12:00:00.000Z',
  expires_at: null,
  revoked_at: null,
};
/** The text of a key of the examples. */
export const exampleText = 'lk_live_01jd1zq5v8e6n9w2k4m7p3r5t8_5qX0kZ7mV2cN9bA4sD6fG8hJ1lQ3wE5rT7yU9iO0pAs0bx9Qd';
const newKey = object({
  name: { ...name, example: 'Payments service' } as typeof name,
  scopes: Type.Unsafe<string[]>({
    type: 'array',
    minItems: 1,
    maxItems: 100,
    items: oneOf(scopes),
    description: 'Repeated scopes count once. `reconciliations:manage` has no routes yet.',
    example: ['transactions:write', 'balances:read'],
  }),
  description: optional(description),
  expires_at: optional(
    Type.Unsafe<string>({
      type: 'string',
      format: 'date-time',
      'x-future': true,
      description: 'In the future; never by default.',
      example: '2031-01-31T00:00:00Z',
    }),
  ),
});

function keyWithText(key: ApiKey | undefined, text: string): Record<string, unknown> {
  if (!key) throw new Error('identity answered without a key');
  return { ...keyRecord(key), key: text };
}

/** `/v1/tenants/<tenant_id>/api-keys`. */
export function keyRoutes(app: App, { identity }: Services): void {
  app.post(
    '/v1/tenants/:tenant_id/api-keys',
    {
      schema: { body: newKey },
      config: {
        access: { by: 'member', role: 'admin' },
        doc: {
          id: 'createApiKey',
          tag: 'API keys',
          summary: 'Create an API key',
          description: 'For owners and admins of the tenant. A second call creates a second key.',
          bodies: { payments: { name: 'Payments service', scopes: ['transactions:write', 'balances:read'] } },
          answers: {
            201: {
              description: 'Created',
              schema: record({ api_key: ref('ApiKeyWithSecret') }),
              example: { api_key: { ...exampleKey, key: exampleText } },
              message: 'API key created; it is shown only now',
            },
          },
        },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const { apiKey, key } = await identity.createApiKey(
        {
          ...memberCall(request),
          name: body.name,
          scopes: [...new Set(body.scopes)],
          description: body.description ?? undefined,
          expiresMs: body.expires_at == null ? undefined : BigInt(Date.parse(body.expires_at)),
        },
        callOptions(request, 5_000),
      );
      reply.code(201);
      return { success: true, data: { api_key: keyWithText(apiKey, key) }, message: 'API key created; it is shown only now' };
    },
  );

  app.get(
    '/v1/tenants/:tenant_id/api-keys',
    {
      schema: { querystring: object(paging) },
      config: {
        access: { by: 'member', role: 'viewer' },
        doc: {
          id: 'listApiKeys',
          tag: 'API keys',
          summary: 'List API keys',
          description: 'Newest first, including expired and revoked keys.',
          answers: {
            200: {
              description: 'A page of keys, without their texts',
              schema: record({ api_keys: { type: 'array', items: ref('ApiKey') }, pagination }),
              example: { api_keys: [exampleKey], pagination: examplePagination },
            },
          },
        },
      },
    },
    async (request) => {
      const { query, caller } = request;
      const { limit = 50, cursor = '' } = query;
      const rpcRequest = { userId: caller.actor, tenantId: caller.tenantId, limit, cursor };
      const { apiKeys, nextCursor } = await identity.listApiKeys(rpcRequest, callOptions(request, 5_000));
      return { success: true, data: { api_keys: apiKeys.map(keyRecord), pagination: pageOf(limit, nextCursor) } };
    },
  );

  app.delete(
    '/v1/tenants/:tenant_id/api-keys/:key_id',
    {
      config: {
        access: { by: 'member', role: 'admin' },
        doc: {
          id: 'revokeApiKey',
          tag: 'API keys',
          summary: 'Revoke an API key',
          description:
            'For owners and admins of the tenant. The key stops working everywhere within 5 seconds. A second call is answered the same.',
          answers: {
            200: {
              description: 'Revoked',
              schema: record({ id: { type: 'string' }, deleted: { type: 'boolean' } }),
              example: { id: exampleKey.id, deleted: true },
            },
          },
          errors: ['validation_failed', 'key_not_found'],
        },
      },
    },
    async (request) => {
      const { params } = request;
      const keyId = pathId('key_id', params);
      await identity.revokeApiKey({ ...memberCall(request), keyId }, callOptions(request, 5_000));
      return { success: true, data: { id: keyId, deleted: true } };
    },
  );

  app.post(
    '/v1/tenants/:tenant_id/api-keys/:key_id/rotate',
    {
      schema: {
        body: object({
          overlap_seconds: optional(
            whole(0, 2_592_000, { default: 86_400, description: 'How long the old key stays valid.', example: 3600 }),
          ),
        }),
      },
      config: {
        access: { by: 'member', role: 'admin' },
        doc: {
          id: 'rotateApiKey',
          tag: 'API keys',
          summary: 'Replace an API key',
          description: [
            'For owners and admins of the tenant. Creates a key with the same name, scopes, description and expiry. The old one expires after the overlap, if not before; without an overlap it is revoked.',
            'An expired or revoked key is not found. A second call creates another key and does not extend the old one.',
          ].join(' '),
          bodies: { hour: { overlap_seconds: 3600 }, day: {} },
          bodyOptional: true,
          answers: {
            201: {
              description: 'The new key, and the old one with its expiry',
              schema: record({ api_key: ref('ApiKeyWithSecret'), previous: ref('ApiKey') }),
              example: {
                api_key: { ...exampleKey, key: exampleText },
                previous: { ...exampleKey, expires_at: '2030-02-01T12:00:00.000Z' },
              },
              message: 'API key replaced; the new one is shown only now',
            },
          },
          errors: ['key_not_found'],
        },
      },
    },
    async (request, reply) => {
      const { body, params } = request;
      const keyId = pathId('key_id', params);
      const overlapSeconds = body.overlap_seconds ?? undefined;
      const rpcRequest = { ...memberCall(request), keyId, overlapSeconds };
      const { apiKey, key, previous } = await identity.rotateApiKey(rpcRequest, callOptions(request, 5_000));
      if (!previous) throw new Error('identity answered without the old key');
      reply.code(201);
      const data = { api_key: keyWithText(apiKey, key), previous: keyRecord(previous) };
      return { success: true, data, message: 'API key replaced; the new one is shown only now' };
    },
  );
}
