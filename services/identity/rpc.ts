// The gRPC interface: messages to use cases, rejections to gRPC codes.
import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError, type ConnectRouter, type HandlerContext } from '@connectrpc/connect';
import {
  IdentityService,
  type ApiKeySchema,
  type SessionSchema,
  type TenantSchema,
  type UserSchema,
} from '../../proto/gen/identity/v1/identity_pb.js';
import { toId } from '../platform/ids.ts';
import { logFields } from '../platform/serve.ts';
import { toConnectError } from '../platform/errors.ts';
import { Overloaded, type FairSemaphore } from '../platform/fair-semaphore.ts';
import { entityManager } from './database.ts';
import * as field from './fields.ts';
import { createKey, expiryOf, listKeys, revokeKey, rotateKey, verifyKey } from './api-keys.ts';
import { Refusal, type Reason } from './refusal.ts';
import type { ApiKeyRow, TenantRow, UserRow } from './entities.ts';
import { closeSession, refreshSession, type Session } from './sessions.ts';
import { createTenant, listTenants, roleOf, tenantUuid } from './tenants.ts';
import { login, register, userById, type LoginParts } from './users.ts';

const codes: Record<Reason, Code> = {
  validation_failed: Code.InvalidArgument,
  unauthenticated: Code.Unauthenticated,
  forbidden: Code.PermissionDenied,
  tenant_not_found: Code.NotFound,
  key_not_found: Code.NotFound,
  email_taken: Code.AlreadyExists,
  slug_taken: Code.AlreadyExists,
  rate_limited: Code.ResourceExhausted,
  overloaded: Code.ResourceExhausted,
  unavailable: Code.Unavailable,
};

/** What the calls need. */
export interface IdentityParts extends LoginParts {
  users: FairSemaphore;
}

/** The calls of `identity.v1.IdentityService`. */
export function identityRoutes(parts: IdentityParts): (router: ConnectRouter) => void {
  const { orm, pool, signer, unauthenticated, users } = parts;
  const ofUser = <Request extends { userId: string }, Response>(work: (request: Request) => Promise<Response>) =>
    answer<Request, Response>((request, { signal }) => users.run(request.userId, signal, () => work(request)));
  return (router) =>
    router.service(IdentityService, {
      register: answer(async (request, { signal }) => ({ user: userMessage(await register(parts, request, signal)) })),
      login: answer(async (request, { signal }) => {
        const { session, user, rateLimit } = await login(parts, request, signal);
        const { window: windowSeconds, reset: resetSeconds, ...rest } = rateLimit;
        return { session: sessionMessage(session), user: userMessage(user), rateLimit: { ...rest, windowSeconds, resetSeconds } };
      }),
      refresh: answer(async (request, { signal }) => {
        const refreshToken = field.secret('refresh_token', request.refreshToken);
        const address = field.clientAddress(request.clientAddress);
        const { session, user } = await unauthenticated.run(address, signal, () => refreshSession(orm, signer, refreshToken));
        return { session: sessionMessage(session), user: userMessage(user) };
      }),
      logout: answer(async (request, { signal }) => {
        const refreshToken = field.secret('refresh_token', request.refreshToken);
        await unauthenticated.run(field.clientAddress(request.clientAddress), signal, () => closeSession(orm, refreshToken));
        return {};
      }),
      getKeySet: () => ({ jwks: signer.keySet }),
      getUser: ofUser(async (request) => ({ user: userMessage(await userById(orm, request.userId)) })),
      createTenant: ofUser(async (request) => ({ tenant: tenantMessage(await createTenant(orm, request)) })),
      listTenants: ofUser(async (request) => {
        const page = await listTenants(orm, request.userId, request.limit, request.cursor);
        return { tenants: page.rows.map(tenantMessage), nextCursor: page.nextCursor };
      }),
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
        const tenant = tenantUuid(request.tenantId);
        return { role: await roleOf(entityManager(orm, { tenant }), tenant, request.userId) };
      }),
    });
}

/** Characters of an identifier in a log line; a valid one has fewer. */
const maxIdLength = 100;

interface LoggedIds {
  userId?: string;
  tenantId?: string;
  keyId?: string;
}

function answer<Request extends object, Response>(
  work: (request: Request, context: HandlerContext) => Promise<Response>,
): (request: Request, context: HandlerContext) => Promise<Response> {
  return async (request, context) => {
    const { userId, tenantId, keyId } = request as LoggedIds;
    // Unchecked text of a path.
    const [user, tenant, key_id] = [userId, tenantId, keyId].map((id) => id?.slice(0, maxIdLength));
    const fields = Object.assign(context.values.get(logFields), { user, tenant, key_id });
    try {
      return await work(request, context);
    } catch (error) {
      const isRejection = error instanceof Refusal || error instanceof Overloaded;
      if (context.signal.aborted && !isRejection) {
        const { reason } = context.signal as { reason: unknown };
        throw reason instanceof ConnectError ? reason : new ConnectError('the client disconnected', Code.Canceled);
      }
      throw toConnectError(error, codes, fields);
    }
  };
}

function ms(time: Date): bigint {
  return BigInt(time.getTime());
}

function maybeMs(time: Date | null): bigint | undefined {
  return time === null ? undefined : ms(time);
}

function userMessage(user: UserRow): MessageInitShape<typeof UserSchema> {
  const { email, firstName, lastName, status } = user;
  return { id: toId('user', user.id), email, firstName, lastName, status, createdMs: ms(user.createdAt) };
}

function sessionMessage(session: Session): MessageInitShape<typeof SessionSchema> {
  return { token: session.token, expiresMs: BigInt(session.expiresMs), refreshToken: session.refreshToken };
}

function tenantMessage(tenant: TenantRow): MessageInitShape<typeof TenantSchema> {
  const { name, slug, businessType, status } = tenant;
  return {
    id: toId('tenant', tenant.tenantId),
    name,
    slug,
    businessType,
    description: tenant.description ?? undefined,
    status,
    createdMs: ms(tenant.createdAt),
  };
}

function keyMessage(key: ApiKeyRow): MessageInitShape<typeof ApiKeySchema> {
  const { name, scopes, last4 } = key;
  return {
    id: toId('key', key.id),
    name,
    scopes,
    description: key.description ?? undefined,
    last4,
    createdMs: ms(key.createdAt),
    expiresMs: maybeMs(expiryOf(key)),
    revokedMs: maybeMs(key.revokedAt),
  };
}
