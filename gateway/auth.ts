// Who may call a route: the credential, then the tenant, then scope or role; all before a byte of the body is read.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ApiKeyCache, AuthenticatedKey } from './api-keys.ts';
import { ApiError, bearerChallenge, insufficientScope } from './errors.ts';
import type { TokenVerifier } from './tokens.ts';

/** What an API key may be allowed to do. */
export const scopes = [
  'accounts:read',
  'accounts:write',
  'balances:read',
  'transactions:read',
  'transactions:write',
  'webhooks:manage',
  'reports:read',
] as const;

/** One of the scopes. */
export type Scope = (typeof scopes)[number];

/** What a route asks of its caller: nothing, a user's token, that of a tenant's member (with that role), an API key with that scope. */
export type Access = { by: 'anyone' } | { by: 'user' } | { by: 'member'; role: 'owner' | 'any' } | { by: 'key'; scope: Scope };

/** Who calls. */
export interface Caller {
  /** Id of the key or the user; empty where nobody has to say who he is. */
  actor: string;
  /** Id of the tenant of the path; empty where the path names none. */
  tenantId: string;
  /** Scopes of the key; a user has none. */
  scopes: ReadonlySet<string>;
}

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller;
    /** When its caller was checked, by the monotonic clock. */
    checkedMs: number;
  }
  interface FastifyContextConfig {
    access?: Access;
  }
}

/** What is asked to check a caller. */
export interface Authenticators {
  keys: ApiKeyCache;
  tokens: TokenVerifier;
  /** The role of a user in a tenant; throws `tenant_not_found`. */
  memberRole: (userId: string, tenantId: string) => Promise<string>;
}

/** Who a caller is before he has said so. */
export const anonymous: Caller = { actor: '', tenantId: '', scopes: new Set() };

/** Lets a request pass, and sets its `caller`, or answers why not. Rejects where nobody can tell. */
export type Check = (request: FastifyRequest) => ApiError | undefined | Promise<ApiError | undefined>;

/** The check that lets only such callers pass. */
export function accessCheck(access: Access, { keys, tokens, memberRole }: Authenticators): Check {
  if (access.by === 'anyone') return () => undefined;
  if (access.by === 'key') {
    const { scope } = access;
    // Most calls find the key in memory: no promise on that path.
    return (request) => {
      const text = bearer(request);
      const found = text === null ? null : keys.find(text);
      return found instanceof Promise ? found.then((key) => authorizeKey(request, key, scope)) : authorizeKey(request, found, scope);
    };
  }
  return async (request) => {
    const text = bearer(request);
    const userId = text === null ? null : await tokens.userOf(text);
    if (userId === null) return unauthenticated(request, isKey(text) ? 'this route takes a user’s token, not an API key' : undefined);
    let tenantId = '';
    if (access.by === 'member') {
      tenantId = (request.params as { tenant_id: string }).tenant_id;
      const role = await memberRole(userId, tenantId);
      if (access.role !== 'any' && role !== access.role)
        return new ApiError('forbidden', { message: `only the ${access.role} may do this` });
    }
    request.caller = { actor: userId, tenantId, scopes: anonymous.scopes };
    return undefined;
  };
}

// A body may take half a minute to come, and the turn of a large page ten seconds. With the three seconds for which it is known, a revoked key is dead
// within five.
const checkHoldsMs = 1_000;

/** Checks a caller once more who was let in a while ago, and answers a refusal: meanwhile his key may have been revoked, or his token have expired. */
export function recheck(check: Check): (request: FastifyRequest, reply: FastifyReply, done: (refusal?: Error) => void) => void {
  return (request, _reply, done) => {
    const refusal = performance.now() - request.checkedMs < checkHoldsMs ? undefined : check(request);
    if (refusal instanceof Promise) refusal.then(done, done);
    else done(refusal);
  };
}

function authorizeKey(request: FastifyRequest, key: AuthenticatedKey | null, scope: Scope): ApiError | undefined {
  if (key === null)
    return unauthenticated(
      request,
      bearer(request)?.split('.').length === 3 ? 'this route takes an API key, not a user’s token' : undefined,
    );
  if (key.slug !== (request.params as { slug: string }).slug) return new ApiError('tenant_not_found');
  if (!key.scopes.has(scope)) return missingScope(scope);
  request.caller = key;
  return undefined;
}

/** The refusal of a key that lacks a scope. */
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

/** `message`: what is said to those who sent a credential. */
function unauthenticated(request: FastifyRequest, message: string | undefined): ApiError {
  // The reason is named only to those who sent a credential of this kind (RFC 6750, section 3.1).
  if (!/^bearer( |$)/i.test(request.headers.authorization ?? '')) return new ApiError('unauthenticated');
  return new ApiError('unauthenticated', { message, headers: { 'www-authenticate': `${bearerChallenge}, error="invalid_token"` } });
}
