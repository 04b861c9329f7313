// Routes of a user's tenants.
import { businessType, description, flag, name, object, optional, paging, slug } from '../fields.ts';
import { examplePagination, pageOf } from '../pages.ts';
import { pagination, record, ref } from '../records.ts';
import { callOptions, memberCall, originOf, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { tenantRecord } from '../mapping.ts';

/** A tenant of the examples. */
export const exampleTenant = {
  id: 'tenant_01jd1zq5v8e6n9w2k4m7p3r5t8',
  name: 'Acme Payments',
  slug: 'acme',
  business_type: 'wallet',
  description: null,
  status: 'active',
  role: 'owner',
  require_totp: false,
  created_at: '2030-01-31T12:00:00.000Z',
  delete_at: null,
};

/** Answers of several routes. */
export const tenantAnswer = { name: 'Tenant', schema: record({ tenant: ref('Tenant') }) };

/** `/v1/tenants`. */
export function tenantRoutes(app: App, { identity }: Services): void {
  app.post(
    '/v1/tenants',
    {
      schema: { body: object({ name, slug, business_type: businessType, description: optional(description) }) },
      config: {
        access: { by: 'user' },
        doc: {
          id: 'createTenant',
          tag: 'Tenants',
          summary: 'Create a tenant',
          description:
            'The caller becomes its owner. A second call with the same slug is rejected (`slug_taken`). There is no test mode: create a tenant for tests.',
          bodies: { wallet: { name: 'Acme Payments', slug: 'acme', business_type: 'wallet' } },
          answers: {
            201: {
              description: 'Created',
              ...tenantAnswer,
              example: { tenant: exampleTenant },
              message: 'Tenant created',
            },
          },
          errors: ['slug_taken'],
        },
      },
    },
    async (request, reply) => {
      const { body, caller } = request;
      const { tenant } = await identity.createTenant(
        {
          userId: caller.actor,
          name: body.name,
          slug: body.slug,
          businessType: body.business_type,
          description: body.description ?? undefined,
          origin: originOf(request),
        },
        callOptions(request, 5_000),
      );
      if (!tenant) throw new Error('identity answered without a tenant');
      reply.code(201);
      return { success: true, data: { tenant: tenantRecord(tenant) }, message: 'Tenant created' };
    },
  );

  app.patch(
    '/v1/tenants/:tenant_id',
    {
      schema: { body: object({ require_totp: flag }) },
      config: {
        access: { by: 'member', role: 'owner' },
        doc: {
          id: 'updateTenant',
          tag: 'Tenants',
          summary: 'Require a second factor',
          description:
            'For owners that have a second factor. Members without one are then rejected (`forbidden`) on every route of the tenant until they turn one on, and their access keys end within 5 seconds. API keys stay. A second call changes nothing.',
          bodies: { require: { require_totp: true } },
          answers: {
            200: {
              description: 'Changed',
              ...tenantAnswer,
              example: { tenant: { ...exampleTenant, require_totp: true } },
              message: 'Tenant changed',
            },
          },
        },
      },
    },
    async (request) => {
      const given = { ...memberCall(request), requireTotp: request.body.require_totp };
      const { tenant } = await identity.updateTenant(given, callOptions(request, 5_000));
      if (!tenant) throw new Error('identity answered without a tenant');
      return { success: true, data: { tenant: tenantRecord(tenant) }, message: 'Tenant changed' };
    },
  );

  app.get(
    '/v1/tenants',
    {
      schema: { querystring: object(paging) },
      config: {
        access: { by: 'user' },
        doc: {
          id: 'listTenants',
          tag: 'Tenants',
          summary: 'List my tenants',
          description: 'Every tenant of which the caller is a member, with its role there; newest first.',
          answers: {
            200: {
              description: 'A page of tenants',
              schema: record({ tenants: { type: 'array', items: ref('Tenant') }, pagination }),
              example: { tenants: [exampleTenant], pagination: examplePagination },
            },
          },
        },
      },
    },
    async (request) => {
      const { query, caller } = request;
      const { limit = 50, cursor = '' } = query;
      const { tenants, nextCursor } = await identity.listTenants({ userId: caller.actor, limit, cursor }, callOptions(request, 5_000));
      return { success: true, data: { tenants: tenants.map(tenantRecord), pagination: pageOf(limit, nextCursor) } };
    },
  );
}
