// The HTTP server: what every request meets before and after its route.
import { randomUUID } from 'node:crypto';
import { METHODS, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import cors from '@fastify/cors';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { ConnectError, type CallOptions } from '@connectrpc/connect';
import Fastify, { type FastifyBaseLogger, type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Registry } from 'prom-client';
import type { Logger } from '../services/platform/telemetry.ts';
import { traceparentOf } from '../services/platform/trace.ts';
import { admit, checkAgain, nobody, type Authorities } from './auth.ts';
import { bodyLimit, closeGently, keepWaiting, readBytes } from './body.ts';
import { documentRoutes } from './document.ts';
import { Drain } from './drain.ts';
import { answerBrokenHttp, answerConnect, ignoreUpgrade } from './http.ts';
import { readJson } from './json.ts';
import { Load } from './load.ts';
import { RequestMetrics, countConnections, type RouteCount } from './metrics.ts';
import { hasMalformedId } from './pages.ts';
import { Problem, problemOf, type ProblemCode } from './problem.ts';
import { bodyValidator, queryValidator, type Schema } from './validation.ts';

/** The server with TypeBox schemas. */
export type App = FastifyInstance<Server, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>;

declare module 'fastify' {
  interface FastifyRequest {
    count: RouteCount;
    leaving: AbortController | null;
  }
}

/** What the server needs. */
export interface AppOptions {
  authorities: Authorities;
  /** Registers the routes. */
  routes: (app: App) => void;
  logger: Logger;
  metrics: Registry;
  trustProxy: string[];
  corsOrigins: string[];
  maxInFlight: number;
  maxConnections: number;
}

// A header field is at most this long, and so is a path: every parameter reaches its route, and is judged there in its turn.
const maxHeaderBytes = 16_384;

/** Builds the server; `listen` starts it, `close` answers what is in flight first. */
export async function buildApp(options: AppOptions): Promise<App> {
  const { logger } = options;
  // A line a request costs a share of a core; who looks for one request asks for debug.
  const debugging = logger.isLevelEnabled('debug');
  const load = new Load(options.maxInFlight);
  const drain = new Drain();
  // One line a second: a flood of refusals must not become a flood of lines.
  let lastTold = -Infinity;
  const isTimeToTell = () => {
    if (performance.now() - lastTold <= 1000) return false;
    lastTold = performance.now();
    return true;
  };
  const metrics = new RequestMetrics(options.metrics, () => load.requests);
  const unknownRoute = metrics.route('*', 'unknown');
  const malformed = metrics.route('*', 'malformed');
  const countMalformed = (status: number) => malformed.add(status, 0);
  const app: App = Fastify({
    logger: false,
    genReqId: requestIdOf,
    requestIdHeader: false,
    return503OnClosing: false,
    trustProxy: options.trustProxy.length > 0 ? options.trustProxy : false,
    routerOptions: { maxParamLength: maxHeaderBytes, ignoreTrailingSlash: true },
    // Who dribbles a request holds a connection for so long, and no memory to speak of.
    requestTimeout: 30_000,
    keepAliveTimeout: 75_000,
    connectionTimeout: 90_000,
    http: {
      ServerResponse: drain.ServerResponse,
      maxHeaderSize: maxHeaderBytes,
      headersTimeout: 15_000,
      connectionsCheckingInterval: 5_000,
      // Node's own answer has no body; see isOfOneReading.
      requireHostHeader: false,
      // Node would take the first of two credentials or media types, where whoever stands in front may have looked at the other; joined, they are none.
      joinDuplicateHeaders: true,
    },
    clientErrorHandler: (error, socket) => answerBrokenHttp(error, socket, countMalformed),
    // A path that can't be decoded: it has no route, and no hook has run.
    frameworkErrors: (error, request, reply) => {
      answerProblem(begin(request, reply) ?? translate(error, request), request, reply);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();
  app.server.maxConnections = options.maxConnections;
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    keepWaiting(request, response);
    app.server.emit('request', request, response);
  });
  // An Expect that is not understood is ignored, rather than answered with a bare 417.
  app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => app.server.emit('request', request, response));

  app.server.on('upgrade', (request: IncomingMessage, socket: Duplex, behind: Buffer) =>
    ignoreUpgrade(app.server, request, socket, behind),
  );
  app.server.on('connect', (_request: IncomingMessage, socket: Duplex) => answerConnect(socket, countMalformed));
  countConnections(options.metrics, app.server, () => {
    if (isTimeToTell()) logger.warn({ connections: options.maxConnections }, 'refusing connections');
  });

  // Set on each request: the framework shares no objects between them.
  app.decorateRequest('caller');
  app.decorateRequest('checked', 0);
  app.decorateRequest('count');
  app.decorateRequest('leaving', null);
  app.decorateRequest('isWorkedOn', false);
  app.decorateRequest('arriving', null);
  app.decorateRequest('held', null);

  /** What speaks against a request before its route is known. */
  function begin(request: FastifyRequest, reply: FastifyReply): Problem | undefined {
    const started = performance.now();
    // An empty body is no body, whatever type it is said to have.
    const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
    if (coding === undefined && (length === undefined || Number(length) === 0)) delete request.headers['content-type'];
    if (pipelined(request.raw.socket, 1) > mostPipelined) request.raw.socket.destroy();
    request.caller = nobody;
    request.count = unknownRoute;
    reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff');
    load.begin();
    reply.raw.on('close', () => {
      load.end(request);
      pipelined(request.raw.socket, -1);
      const answered = reply.raw.writableFinished;
      request.count.add(answered ? reply.raw.statusCode : 0, (performance.now() - started) / 1000);
      if (!answered) request.leaving?.abort();
      if (debugging) {
        const { labels } = request.count;
        const { actor, tenantId } = request.caller;
        const ms = Math.round((performance.now() - started) * 100) / 100;
        logger.debug({ ...labels, status: reply.raw.statusCode, answered, ms, actor, tenant: tenantId, request_id: request.id }, 'request');
      }
    });
    if (isOfOneReading(request.raw)) return undefined;
    // Where its end is may be read in two ways as well.
    reply.header('connection', 'close');
    return new Problem('malformed_request');
  }
  app.addHook('onRequest', (request, reply, done) => done(begin(request, reply)));

  // Before the first route: each keeps the handler that there is when it is made.
  app.setErrorHandler((error, request, reply) => answerProblem(translate(error, request), request, reply));
  if (options.corsOrigins.length > 0) await allowOrigins(app, options.corsOrigins);

  app.addHook('onRequest', (request, _reply, done) => {
    if (leadsNowhere(request)) done(new Problem('route_not_found'));
    else done();
  });

  const methods = new Map<string, Set<string>>();
  app.addHook('onRoute', (route) => {
    const access = route.config?.access ?? { by: 'nobody' };
    const count = metrics.route([route.method].flat().join(), route.url);
    const check = admit(access, options.authorities);
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
        const go = (problem: Problem | undefined) => {
          // A client that has left meanwhile has been taken back already: what it took now it would hold for ever.
          if (!reply.raw.destroyed) done(problem ?? load.take(request));
        };
        refusal.then(go, done);
      } else if (!reply.raw.destroyed) {
        done(refusal ?? load.take(request));
      }
    };
    route.onRequest = [enter, ...[route.onRequest ?? []].flat()];
    if (access.by !== 'nobody') route.preValidation = [checkAgain(check), ...[route.preValidation ?? []].flat()];
    // Where no body is wanted no validator tells what was wrong with the one that came.
    if (!route.schema?.body) route.preValidation = [...[route.preValidation ?? []].flat(), refuseBadBody];
    // What is posted is answered with little more than was sent, and that is bounded already.
    if ([route.method].flat().includes('GET')) {
      route.onSend = (request, _reply, payload, done) => {
        // Bytes (the document, the page that shows it) are the same for all who ask for them: no copy is kept for who does not take them.
        const problem = typeof payload === 'string' ? load.answer(request, payload.length) : undefined;
        if (problem) done(problem);
        else done(null, payload);
      };
    }
    if (route.url === '*') return;
    const known = methods.get(route.url) ?? new Set();
    for (const method of [route.method].flat()) known.add(method);
    methods.set(route.url, known);
  });

  app.setValidatorCompiler<Schema>(({ schema, httpPart }) => {
    if (httpPart === 'body') return bodyValidator(schema);
    return httpPart === 'querystring' ? queryValidator(schema) : () => true;
  });
  app.removeAllContentTypeParsers();
  // By name too, because only named types are found without parsing the header again.
  for (const type of ['application/json', '*']) {
    app.addContentTypeParser(type, (request, _payload, done) => {
      readBytes(request, load, (error, bytes) => {
        if (error) done(error);
        else done(null, readJson(bytes, request.headers));
      });
    });
  }

  function translate(error: unknown, request: FastifyRequest): Problem {
    if (error instanceof Problem) return error;
    const known = error instanceof ConnectError ? problemOf(error, fieldsOf(request)) : problemOfFramework(error as FastifyError, request);
    if (known) return known;
    const { method, url, caller, id } = request;
    logger.error(
      { err: error, request_id: id, tenant: caller.tenantId, method, path: url.split('?')[0], route: request.count.labels.route },
      'request failed',
    );
    return new Problem('internal');
  }

  function answerProblem(problem: Problem, request: FastifyRequest, reply: FastifyReply): void {
    if (problem.status === 503 && !reply.raw.destroyed && isTimeToTell()) {
      const { method, route } = request.count.labels;
      const { caller, id } = request;
      logger.warn({ code: problem.code, in_flight: load.requests, method, route, tenant: caller.tenantId, request_id: id }, 'refusing');
    }
    load.refuse(request);
    if (!request.raw.complete) closeGently(request.raw);
    if (problem.headers) reply.headers(problem.headers);
    reply.code(problem.status).send(problem.body(request.id));
  }
  app.setNotFoundHandler((request, reply) => answerProblem(new Problem('route_not_found'), request, reply));

  for (const method of METHODS) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
  await documentRoutes(app);
  options.routes(app);
  await app.after();
  for (const [url, known] of methods) refuseOtherMethods(app, url, known);
  drain.endConnections(app, load);
  return app;
}

/** Lets browsers of these origins call, `*`: of any. What is no preflight of theirs to a route is answered as if there were no CORS. */
async function allowOrigins(app: App, origins: string[]): Promise<void> {
  const any = origins.includes('*');
  const plain = {
    origin: any ? '*' : origins,
    methods: ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'],
    exposedHeaders: ['X-Request-Id', 'Idempotent-Replayed', 'Retry-After', 'RateLimit-Policy', 'RateLimit'],
    maxAge: 600,
    preflight: false,
  };
  const preflight = { ...plain, preflight: true };
  const isPreflight = (request: FastifyRequest): boolean => {
    const { origin, 'access-control-request-method': method } = request.headers;
    if (request.method !== 'OPTIONS' || origin === undefined || method === undefined) return false;
    return (any || origins.includes(origin)) && !leadsNowhere(request);
  };
  await app.register(cors, { delegator: (request, done) => done(null, isPreflight(request) ? preflight : plain) });
}

// A host by its name or address, and a port (RFC 3986, section 3.2). Of two, which Node joins with a comma and a space, whoever stands in front may
// have looked at the other.
const hostPattern = /^(\[[\w:.%~-]+\]|[\w.~!$&'()*+,;=%-]*)(:\d*)?$/;

// What another server may read otherwise: HTTP/1.1 has one host (RFC 9112, section 3.2), and chunks, which HTTP/1.0 has not (section 6.1). Of two
// codings of a body only one is undone here, and the other would be read as what was sent. And bytes of this version can't be of another.
function isOfOneReading({ httpVersion, httpVersionMajor, headers }: IncomingMessage): boolean {
  const { host, 'transfer-encoding': coding } = headers;
  const isNew = httpVersion === '1.1';
  const isHost = host === undefined ? !isNew : hostPattern.test(host);
  return httpVersionMajor === 1 && isHost && (coding === undefined || (isNew && coding.toLowerCase() === 'chunked'));
}

function refuseBadBody({ body }: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  if (body instanceof Problem) done(body);
  else done();
}

function leadsNowhere(request: FastifyRequest): boolean {
  // With CORS each path has a route for OPTIONS, if only this one. `routeOptions` is an object made anew each time it is asked for.
  return request.is404 || hasEmptyPart(request.params) || (request.method === 'OPTIONS' && request.routeOptions.url === '*');
}

// The router takes `/accounts/code//` for the route of an account whose code is empty.
function hasEmptyPart(params: unknown): boolean {
  const parts = params as Record<string, string>;
  for (const name in parts) if (parts[name] === '' && name !== '*') return true;
  return false;
}

// Node begins all that one read of a connection holds, a thousand requests, before it looks whether their answers are taken.
const mostPipelined = 64;
const underWay = Symbol('requests of a connection that are under way');

/** Counts the requests of a connection that are under way. */
function pipelined(socket: Socket & { [underWay]?: number }, change: 1 | -1): number {
  return (socket[underWay] = (socket[underWay] ?? 0) + change);
}

function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && /^[A-Za-z0-9._-]{1,128}$/.test(given) ? given : randomUUID();
}

/** Who asks, by which request and in which trace: what a change keeps of it. */
export function askedBy({ caller, id, headers }: FastifyRequest): { actor: string; requestId: string; traceparent: string } {
  return { actor: caller.actor, requestId: id, traceparent: traceparentOf(headers['traceparent']) ?? '' };
}

/** Signals that the client has left before its answer. */
export function leaving(request: FastifyRequest): AbortSignal {
  request.leaving ??= new AbortController();
  return request.leaving.signal;
}

/** How long a call for a request may take; it ends when the client leaves, and is logged under the request's id. */
export function within(request: FastifyRequest, timeoutMs: number): Required<Pick<CallOptions, 'timeoutMs' | 'signal' | 'headers'>> {
  return { timeoutMs, signal: leaving(request), headers: { 'x-request-id': request.id } };
}

/** What was sent of the fields that the route has; others mean nothing, also where they are called as a field of the house is. */
function fieldsOf({ body, query, routeOptions }: FastifyRequest): unknown {
  const { properties } = (routeOptions.schema?.body ?? {}) as { properties?: object };
  if (!properties) return query;
  return Object.fromEntries(Object.entries(body ?? {}).filter(([name]) => Object.hasOwn(properties, name)));
}

const frameworkCodes: Record<string, ProblemCode> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_BAD_URL: 'route_not_found',
  // The client left in the middle of its body; nobody reads this answer.
  ECONNRESET: 'malformed_request',
};

function problemOfFramework(error: FastifyError, request: FastifyRequest): Problem | null {
  const code = Object.hasOwn(frameworkCodes, error.code) ? frameworkCodes[error.code] : undefined;
  if (code === undefined) return null;
  // A media type that can't be parsed is refused before the length is looked at.
  const tooLarge = code === 'unsupported_media_type' && Number(request.headers['content-length']) > bodyLimit;
  return new Problem(tooLarge ? 'payload_too_large' : code);
}

function refuseOtherMethods(app: App, url: string, known: Set<string>): void {
  const allow = [...known].sort().join(', ');
  app.route({
    method: app.supportedMethods.filter((method) => !known.has(method)),
    url,
    // Before the body is read, like every refusal that does not need it. A word where an id belongs makes another path, which nobody knows.
    onRequest: (request, _reply, done) =>
      done(hasMalformedId(request.params) ? new Problem('route_not_found') : new Problem('method_not_allowed', { headers: { allow } })),
    handler: () => undefined,
    schema: { hide: true },
  });
}
