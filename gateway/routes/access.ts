// The route that exchanges a member's login for a key to the ledger.
import { Type } from 'typebox';
import { scopes } from '../../services/platform/roles.ts';
import { object, oneOf, optional } from '../fields.ts';
import { timeOf } from '../../services/platform/ledger-records.ts';
import { record, ref } from '../records.ts';
import { callOptions, memberCall, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { exampleText } from './keys.ts';

const askedScopes = Type.Unsafe<string[]>({
  type: 'array',
  minItems: 1,
  maxItems: 100,
  items: oneOf(scopes),
  description: 'All scopes of the role by default.',
  example: ['accounts:read', 'balances:read'],
});

/** `/v1/tenants/<tenant_id>/access`. */
export function accessRoutes(app: App, { identity }: Services): void {
  app.post(
    '/v1/tenants/:tenant_id/access',
    {
      schema: { body: object({ scopes: optional(askedScopes) }) },
      config: {
        access: { by: 'member', role: 'viewer' },
        doc: {
          id: 'createAccess',
          tag: 'API keys',
          summary: 'Get an access key',
          description: [
            'For any member. Exchanges the login for an API key that is valid for one hour, acts for the user and has no scope beyond the role.',
            'It ends within 5 seconds of a change of the role, of the end of the membership, or of a new password. It is not listed with the API keys. A second call creates another.',
          ].join(' '),
          bodies: { reader: { scopes: ['accounts:read', 'balances:read'] }, all: {} },
          bodyOptional: true,
          answers: {
            201: {
              description: 'Created',
              schema: record({ access: ref('AccessKey') }),
              example: {
                access: { key: exampleText, scopes: ['accounts:read', 'balances:read'], expires_at: '2030-01-31T13:00:00.000Z' },
              },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const rpcRequest = {
        ...memberCall(request),
        sessionId: request.caller.sessionId ?? '',
        scopes: [...new Set(request.body.scopes ?? [])],
      };
      const { key, scopes: given, expiresMs } = await identity.createAccess(rpcRequest, callOptions(request, 5_000));
      reply.code(201);
      return { success: true, data: { access: { key, scopes: given, expires_at: timeOf(expiresMs) } } };
    },
  );
}
