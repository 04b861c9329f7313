// Authentication and authorization: credential, tenant, then scope or role, all before the body is read.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isAtLeast, type Role, type Scope } from '../services/platform/roles.ts';
import type { ApiKeyCache, AuthenticatedKey } from './api-keys.ts';
import { ApiError, bearerChallenge, insufficientScope } from './errors.ts';
import type { TokenUser, TokenVerifier } from './tokens.ts';

/**
 * What a route requires: nothing, a user's token, the token of a member of the tenant with at least that role, or an API key with that scope.
 * `whileReadOnly`: also in a suspended or closed tenant; of the routes for keys all that read are.
 */
export type Access = { by: 'anyone' } | { by: 'user' } | { by: 'member'; role: Role; whileReadOnly?: true } | { by: 'key'; scope: Scope };

/** The authenticated caller. */
export interface Caller {
  /** Id of the key or the user; empty on public routes. */
  actor: string;
  /** Session of a user's token; empty for keys. */
  sessionId?: string;
  /** Id of the tenant of the path; empty where the path names none. */
  tenantId: string;
  /** Scopes of the key; a user has none. */
  scopes: ReadonlySet<string>;
}

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller;
    /** When its caller was last checked, by the monotonic clock. */
    checkedMs: number;
  }
  interface FastifyContextConfig {
    access?: Access;
    /** Set for each route; a request that lasts long checks its caller again. */
    check?: Check;
  }
}

/** What checks callers. */
export interface Authenticators {
  keys: ApiKeyCache;
  tokens: TokenVerifier;
  /** Checks that the session of a user's token has not ended; throws `unauthenticated`. */
  verifyUser: (user: TokenUser) => Promise<unknown>;
  /** The role of a user in a tenant and the state of the tenant; throws `unauthenticated`, `tenant_not_found`, `forbidden`. */
  verifyMember: (user: TokenUser, tenantId: string) => Promise<{ role: string; tenantStatus: string }>;
}

/** The caller before authentication. */
export const anonymous: Caller = { actor: '', tenantId: '', scopes: new Set() };

/** Sets the request's `caller`, or returns the error. Rejects where a credential can't be verified now. */
export type Check = (request: FastifyRequest) => ApiError | undefined | Promise<ApiError | undefined>;

/** The check for a route's access. */
export function accessCheck(access: Access, { keys, tokens, verifyUser, verifyMember }: Authenticators): Check {
  if (access.by === 'anyone') return () => undefined;
  if (access.by === 'key') {
    const { scope } = access;
    // Most calls find the key in the cache: no promise on that path.
    return (request) => {
      const text = bearer(request);
      const found = text === null ? null : keys.find(text);
      return found instanceof Promise ? found.then((key) => authorizeKey(request, key, scope)) : authorizeKey(request, found, scope);
    };
  }
  return async (request) => {
    const text = bearer(request);
    const user = text === null ? null : await tokens.userOf(text);
    if (user === null) return unauthenticated(request, isKey(text) ? 'this route takes a user’s token, not an API key' : undefined);
    let tenantId = '';
    if (access.by === 'member') {
      tenantId = (request.params as { tenant_id: string }).tenant_id;
      const { role, tenantStatus } = await verifyMember(user, tenantId);
      if (!isAtLeast(role as Role, access.role)) return new ApiError('forbidden', { message: `the role ${role} may not do this` });
      const readOnly = access.whileReadOnly ? undefined : readOnlyError(tenantStatus);
      if (readOnly) return readOnly;
    } else {
      await verifyUser(user);
    }
    request.caller = { actor: user.userId, sessionId: user.sessionId, tenantId, scopes: anonymous.scopes };
    return undefined;
  };
}

// A body may take 30 s to arrive. With the 3 s of the cache a revoked key still stops within 5 s.
const checkTtlMs = 1_000;

/** Checks a caller again whose check is older than 1 s: the key may have been revoked since, or the token have expired. */
export function recheck(check: Check): (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void {
  return (request, _reply, done) => {
    const error = performance.now() - request.checkedMs < checkTtlMs ? undefined : check(request);
    if (error instanceof Promise) error.then(done, done);
    else done(error);
  };
}

/** Why a request that lasts long has to end, if it has: its key may have been revoked, and the process may be stopping. */
export async function mustEnd(request: FastifyRequest, reply: FastifyReply, shutdown: AbortSignal): Promise<ApiError | undefined> {
  if (shutdown.aborted) return new ApiError('unavailable', { message: 'the server is stopping' });
  const { check } = request.routeOptions.config;
  const error = check && (await new Promise((done) => recheck(check)(request, reply, done)));
  return error instanceof ApiError || error === undefined ? error : new ApiError('unavailable');
}

function authorizeKey(request: FastifyRequest, key: AuthenticatedKey | null, scope: Scope): ApiError | undefined {
  if (key === null)
    return unauthenticated(
      request,
      bearer(request)?.split('.').length === 3 ? 'this route takes an API key, not a user’s token' : undefined,
    );
  if (key.slug !== (request.params as { slug: string }).slug) return new ApiError('tenant_not_found');
  if (!key.scopes.has(scope)) return missingScope(scope);
  if (key.tenantStatus !== 'active' && request.method !== 'GET' && request.method !== 'HEAD') return readOnlyError(key.tenantStatus);
  request.caller = key;
  return undefined;
}

/** The error of a change in a tenant that is suspended or closed; undefined in an active one. */
function readOnlyError(tenantStatus: string): ApiError | undefined {
  if (tenantStatus === 'suspended') return new ApiError('tenant_suspended');
  return tenantStatus === 'closed' ? new ApiError('tenant_closed') : undefined;
}

/** The error of a key that lacks a scope. */
export function missingScope(scope: Scope): ApiError {
  return new ApiError('forbidden', {
    message: `the API key lacks the scope ${scope}`,
    headers: { 'www-authenticate': `${insufficientScope}, scope="${scope}"` },
  });
}

function bearer(request: FastifyRequest): string | null {
  const header = request.headers.authorization;
  if (header === undefined) return null;
  if (header.startsWith('Bearer ') && !header.includes(' ', 7)) return header.slice(7);
  return /^bearer +([^ ]+) *$/i.exec(header)?.[1] ?? null;
}

const isKey = (text: string | null): boolean => text?.startsWith('lk_live_') === true;

/** `message`: for clients that sent a credential. */
function unauthenticated(request: FastifyRequest, message: string | undefined): ApiError {
  // RFC 6750, section 3.1: no error code for requests without a bearer credential.
  if (!/^bearer( |$)/i.test(request.headers.authorization ?? '')) return new ApiError('unauthenticated');
  return new ApiError('unauthenticated', { message, headers: { 'www-authenticate': `${bearerChallenge}, error="invalid_token"` } });
}
