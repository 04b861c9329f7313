// What the requests of each route meet before its handler: the bounds, their caller's credential, and paths that lead nowhere.
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { accessCheck, recheck, type Authenticators } from './auth.ts';
import { LargePages } from './large-pages.ts';
import type { Load } from './load.ts';
import type { RequestMetrics } from './metrics.ts';
import { hasWordInsteadOfId } from './pages.ts';
import { ApiError } from './errors.ts';
import type { App } from './request-context.ts';

/** What guarding routes needs. */
export interface GuardParts {
  authorities: Authenticators;
  load: Load;
  metrics: RequestMetrics;
}

/** Guards the routes that are registered from now on; answers a function that has every other method of their paths refused, to be called at last. */
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
    for (const [url, known] of methods) refuseOtherMethods(app, url, known);
  };
}

function guard(route: RouteOptions, { authorities, load, metrics }: GuardParts): void {
  const access = route.config?.access ?? { by: 'nobody' };
  const count = metrics.route([route.method].flat().join(), route.url);
  const check = accessCheck(access, authorities);
  // Health and figures are answered also when nothing else is.
  const isOperation = route.config?.doc?.tag === 'Operations';
  const enter = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void => {
    request.count = count;
    if (isOperation) {
      done();
      return;
    }
    request.checked = performance.now();
    const refusal = load.enter(request) ?? check(request);
    if (refusal instanceof Promise) {
      const go = (problem: ApiError | undefined) => {
        // A client that has left meanwhile has been taken back already: what it took now it would hold for ever.
        if (!reply.raw.destroyed) done(problem ?? load.take(request));
      };
      refusal.then(go, done);
    } else if (!reply.raw.destroyed) {
      done(refusal ?? load.take(request));
    }
  };
  route.onRequest = [enter, ...[route.onRequest ?? []].flat()];
  const again = recheck(check);
  if (access.by !== 'nobody') route.preValidation = [again, ...[route.preValidation ?? []].flat()];
  // Where no body is wanted no validator tells what was wrong with the one that came.
  if (!route.schema?.body) route.preValidation = [...[route.preValidation ?? []].flat(), refuseBadBody];
  // What is posted is answered with little more than was sent, and that is bounded already.
  const isHead = route.method === 'HEAD';
  if (!isHead && ![route.method].flat().includes('GET')) return;
  const pages = new LargePages();
  route.preHandler = (request, reply, done) => {
    const turn = pages.begin(request, reply);
    if (turn) turn.then(() => again(request, reply, done), done);
    else done();
  };
  const bound = (
    request: FastifyRequest,
    _reply: FastifyReply,
    payload: unknown,
    done: (error: Error | null, payload?: unknown) => void,
  ) => {
    // Bytes (the document, the page that shows it) are the same for all who ask for them: no copy is kept for who does not take them.
    const bytes = typeof payload === 'string' ? Buffer.byteLength(payload) : 0;
    pages.made(request, bytes);
    const problem = isHead ? undefined : load.answer(request, bytes);
    if (problem) done(problem);
    else done(null, payload);
  };
  // Before what leaves the answer to HEAD without its body.
  route.onSend = [bound, ...[route.onSend ?? []].flat()];
}

function refuseBadBody({ body }: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  if (body instanceof ApiError) done(body);
  else done();
}

/** Whether a request's path has no route, or has one for a part that is empty. */
export function hasNoRoute(request: FastifyRequest): boolean {
  // With CORS each path has a route for OPTIONS, if only this one. `routeOptions` is an object made anew each time it is asked for.
  return request.is404 || hasEmptyPart(request.params) || (request.method === 'OPTIONS' && request.routeOptions.url === '*');
}

// The router takes `/accounts/code//` for the route of an account whose code is empty.
function hasEmptyPart(params: unknown): boolean {
  const parts = params as Record<string, string>;
  for (const name in parts) if (parts[name] === '' && name !== '*') return true;
  return false;
}

function refuseOtherMethods(app: App, url: string, known: Set<string>): void {
  const allow = [...known].sort().join(', ');
  app.route({
    method: app.supportedMethods.filter((method) => !known.has(method)),
    url,
    // Before the body is read, like every refusal that does not need it. Who posts to a word where an id belongs (`transactions/batch`) means a route
    // of its own, which there is not.
    onRequest: (request, _reply, done) => {
      const isOther = request.method === 'POST' && hasWordInsteadOfId(request.params);
      done(isOther ? new ApiError('route_not_found') : new ApiError('method_not_allowed', { headers: { allow } }));
    },
    handler: () => undefined,
    schema: { hide: true },
  });
}
