// What the requests of each route meet before the handler: the in-flight limit, the credential, and unknown paths and methods.
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { accessCheck, recheck, type Authenticators } from './auth.ts';
import { ApiError } from './errors.ts';
import { noFields } from './fields.ts';
import type { InFlightLimit } from './limits.ts';
import { hasWordInsteadOfId } from './pages.ts';
import type { App } from './request-context.ts';
import { bodyValidator } from './validation.ts';

/** What guarding routes needs. */
export interface GuardParts {
  authenticators: Authenticators;
  limit: InFlightLimit;
}

/** Guards the routes that are registered after this call. Returns a function that adds 405 for all other methods, to be called last. */
export function guardRoutes(app: App, parts: GuardParts): () => void {
  const methods = new Map<string, Set<string>>();
  app.addHook('onRequest', (request, _reply, done) => {
    if (hasNoRoute(request)) done(new ApiError('route_not_found'));
    else done();
  });
  app.addHook('onRoute', (route) => {
    guard(route, parts);
    if (route.url === '*') return;
    const known = methods.get(route.url) ?? new Set();
    for (const method of [route.method].flat()) known.add(method);
    methods.set(route.url, known);
  });
  return () => {
    for (const [url, known] of methods) rejectOtherMethods(app, url, known);
  };
}

function guard(route: RouteOptions, { authenticators, limit }: GuardParts): void {
  const { access = { by: 'anyone' }, doc, weight } = route.config ?? {};
  const check = accessCheck(access, authenticators);
  if (route.config) route.config.check = check;
  // Health and metrics are answered also when nothing else is.
  const isOperation = doc?.tag === 'Operations';
  const enter = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void => {
    request.routeLabel = route.url;
    if (isOperation) {
      done();
      return;
    }
    request.checkedMs = performance.now();
    const error = limit.enter(request, weight) ?? check(request);
    if (error instanceof Promise) {
      // A client that has left meanwhile has given its slot back: the request must not go on.
      error.then((late) => reply.raw.destroyed || done(late ?? limit.assignTenant(request)), done);
    } else {
      done(error ?? limit.assignTenant(request));
    }
  };
  route.onRequest = [enter, ...[route.onRequest ?? []].flat()];
  const before = access.by === 'anyone' ? [] : [recheck(check)];
  const isRead = [route.method].flat().includes('GET') || route.method === 'HEAD';
  if (!isRead && !route.schema?.body && !doc?.stream) before.push(rejectBody);
  route.preValidation = [...before, ...[route.preValidation ?? []].flat()];
  // A parameter that is mistyped must not be taken for one that was left out.
  if (route.url.startsWith('/v1/')) route.schema = { querystring: noFields, ...route.schema };
}

const validateNoFields = bodyValidator(noFields);

function rejectBody({ body }: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  const verdict = validateNoFields(body);
  done(verdict !== true && 'error' in verdict ? verdict.error : undefined);
}

/** Whether a request's path has no route, or leads to one only through an empty parameter. */
export function hasNoRoute(request: FastifyRequest): boolean {
  // With CORS every path has a route for OPTIONS.
  return request.is404 || hasEmptyParameter(request.params) || (request.method === 'OPTIONS' && request.routeOptions.url === '*');
}

function hasEmptyParameter(params: unknown): boolean {
  return Object.entries(params as Record<string, string>).some(([name, value]) => value === '' && name !== '*');
}

function rejectOtherMethods(app: App, url: string, known: Set<string>): void {
  const allow = [...known].sort().join(', ');
  app.route({
    method: app.supportedMethods.filter((method) => !known.has(method)),
    url,
    // POST to a word instead of an id (`transactions/refund`) means a route of its own, which does not exist.
    onRequest: (request, _reply, done) => {
      request.routeLabel = 'unknown';
      const isUnknown = request.method === 'POST' && hasWordInsteadOfId(request.params);
      done(isUnknown ? new ApiError('route_not_found') : new ApiError('method_not_allowed', { headers: { allow } }));
    },
    handler: () => undefined,
    schema: { hide: true },
  });
}
