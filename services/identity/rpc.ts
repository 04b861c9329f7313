// The gRPC interface: messages to use cases.
import type { ConnectRouter } from '@connectrpc/connect';
import { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import { VaultService } from '../../proto/gen/identity/v1/vault_pb.js';
import { logFields } from '../platform/serve.ts';
import { createAccess, createKey, listKeys, revokeKey, rotateKey, verifyKey } from './api-keys.ts';
import { listAudit, listUserAudit } from './audit-reads.ts';
import { answer, forUsers } from './calls.ts';
import { entityManager } from './database.ts';
import { credentialCalls } from './credential-rpc.ts';
import * as field from './fields.ts';
import { keyMessage, sessionMessage, userMessage } from './mapping.ts';
import { memberCalls } from './member-rpc.ts';
import { oidcCalls } from './oidc/oidc-rpc.ts';
import type { Parts } from './parts.ts';
import { closeSession, refreshSession, sessionUser } from './sessions.ts';
import { memberOf, tenantUuid } from './tenant-changes.ts';
import { tenantCalls } from './tenant-rpc.ts';
import { login, register, userById } from './users.ts';
import { vaultCalls } from './vault/vault-rpc.ts';

/** The calls of `identity.v1.IdentityService` and `VaultService`. */
export function identityRoutes(parts: Parts): (router: ConnectRouter) => void {
  const { orm, pool, signer, unauthenticated, users } = parts;
  const ofUser = forUsers(users);
  return (router) => {
    router.service(VaultService, vaultCalls(parts));
    router.service(IdentityService, {
      ...credentialCalls(parts),
      ...oidcCalls(parts),
      ...tenantCalls(parts),
      ...memberCalls(parts),
      register: answer(async (request, { signal }) => ({ user: userMessage(await register(parts, request, signal)) })),
      login: answer(async (request, { signal }) => {
        const { session, user, rateLimit } = await login(parts, request, signal);
        const { window: windowSeconds, reset: resetSeconds, ...rest } = rateLimit;
        return { session: sessionMessage(session), user: userMessage(user), rateLimit: { ...rest, windowSeconds, resetSeconds } };
      }),
      refresh: answer(async (request, { signal }) => {
        const refreshToken = field.secret('refresh_token', request.refreshToken);
        const address = field.clientAddress(request.clientAddress);
        const { session, user } = await unauthenticated.run(address, signal, () => refreshSession(orm, signer, refreshToken, request));
        return { session: sessionMessage(session), user: userMessage(user) };
      }),
      logout: answer(async (request, { signal }) => {
        const refreshToken = field.secret('refresh_token', request.refreshToken);
        await unauthenticated.run(field.clientAddress(request.clientAddress), signal, () => closeSession(orm, refreshToken));
        return {};
      }),
      getKeySet: () => ({ jwks: signer.keySet }),
      verifyUser: ofUser(async (request) => {
        await sessionUser(entityManager(orm), request.userId, request.sessionId);
        return {};
      }),
      getUser: ofUser(async (request) => ({ user: userMessage(await userById(orm, request.userId)) })),
      listUserAudit: ofUser(async (request) => {
        const { rows: entries, nextCursor } = await listUserAudit(orm, request);
        return { entries, nextCursor };
      }),
      listAudit: ofUser(async (request) => {
        const { rows: entries, nextCursor } = await listAudit(orm, request);
        return { entries, nextCursor };
      }),
      createAccess: ofUser((request) => createAccess(orm, request)),
      createApiKey: ofUser(async (request) => {
        const { row, text } = await createKey(orm, request);
        return { apiKey: keyMessage(row), key: text };
      }),
      listApiKeys: ofUser(async (request) => {
        const page = await listKeys(orm, request);
        return { apiKeys: page.rows.map(keyMessage), nextCursor: page.nextCursor };
      }),
      revokeApiKey: ofUser(async (request) => {
        await revokeKey(orm, request);
        return {};
      }),
      rotateApiKey: ofUser(async (request) => {
        const { row, text, previous } = await rotateKey(orm, request, request.overlapSeconds);
        return { apiKey: keyMessage(row), key: text, previous: keyMessage(previous) };
      }),
      verifyApiKey: answer(async (request, context) => {
        const found = await verifyKey(pool, request.key);
        if (!found) return {};
        Object.assign(context.values.get(logFields), { tenant: found.tenantId, key_id: found.keyId });
        return { verified: { ...found, expiresMs: found.expiresMs ?? undefined } };
      }),
      verifyTenantMember: ofUser(async (request) => {
        const tenantId = tenantUuid(request.tenantId);
        const em = entityManager(orm, { tenant: tenantId });
        await sessionUser(em, request.userId, request.sessionId);
        const { role, tenant } = await memberOf(em, tenantId, request.userId);
        return { role, tenantStatus: tenant.status };
      }),
    });
  };
}
