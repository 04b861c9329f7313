// The HTTP server: options, limits and hooks that every request passes before and after its route.
import { METHODS } from 'node:http';
import { parse } from 'node:querystring';
import cors from '@fastify/cors';
import { compile } from '@fastify/proxy-addr';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import Fastify, { type FastifyRequest } from 'fastify';
import type { Registry } from 'prom-client';
import { withoutPort } from '../services/platform/forwarded.ts';
import type { Logger } from '../services/platform/telemetry.ts';
import type { Authenticators } from './auth.ts';
import { documentRoutes } from './document.ts';
import { ApiError, ErrorHandler } from './errors.ts';
import { readJson } from './json.ts';
import { InFlightLimit } from './limits.ts';
import { answerMalformed } from './malformed-http.ts';
import { RequestMetrics, countConnections } from './metrics.ts';
import { beginRequest, decorateRequests, requestIdOf, type App } from './request-context.ts';
import { guardRoutes, hasNoRoute } from './route-guards.ts';
import { bodyValidator, queryValidator, type Schema } from './validation.ts';

/** What the server needs. */
export interface AppOptions {
  authenticators: Authenticators;
  /** Registers the routes. */
  routes: (app: App) => void;
  logger: Logger;
  metrics: Registry;
  trustProxy: string[];
  corsOrigins: string[];
  maxInFlight: number;
  maxConnections: number;
  /** How long a stopping gateway leaves connections open that are idle. */
  idleCloseMs: number;
}

const maxHeaderBytes = 16_384;

// No route has a tenth of these; parsing thousands would delay others.
const maxQueryParameters = 100;

const closeTimeoutMs = 15_000;

const serverOptions = {
  logger: false,
  bodyLimit: 1 << 20,
  genReqId: requestIdOf,
  requestIdHeader: false,
  return503OnClosing: false,
  routerOptions: {
    maxParamLength: maxHeaderBytes,
    ignoreTrailingSlash: true,
    querystringParser: (text: string) => parse(text, '&', '=', { maxKeys: maxQueryParameters }),
  },
  requestTimeout: 30_000,
  keepAliveTimeout: 75_000,
  connectionTimeout: 90_000,
  http: {
    maxHeaderSize: maxHeaderBytes,
    headersTimeout: 15_000,
    connectionsCheckingInterval: 5_000,
    // Node's own answer has no body.
    requireHostHeader: false,
    // Node would take the first of two credentials, where a proxy may have checked the other. Joined, they are none.
    joinDuplicateHeaders: true,
  },
} as const;

/** Builds the server; `listen` starts it, `close` answers what is in flight first. */
export async function buildApp(options: AppOptions): Promise<App> {
  const { logger, authenticators } = options;
  const metrics = new RequestMetrics(options.metrics);
  const limit = new InFlightLimit(options.maxInFlight, options.metrics);
  const errors = new ErrorHandler(logger, (code) => metrics.countError(code));
  const answerError = (error: unknown, request: FastifyRequest, reply: Parameters<ErrorHandler['answer']>[2]) => {
    limit.leave(request);
    errors.answer(error, request, reply);
  };
  const parts = { limit, metrics, logger };
  const app: App = Fastify({
    ...serverOptions,
    trustProxy: options.trustProxy.length > 0 ? trustedBy(options.trustProxy) : false,
    clientErrorHandler: (error, socket) =>
      answerMalformed(error, socket, ({ code, status }) => {
        metrics.count('', 'malformed', status, 0);
        metrics.countError(code);
      }),
    // A path that can't be decoded: no hook has run.
    frameworkErrors: (error, request, reply) => {
      request.routeLabel = 'unknown';
      beginRequest(request, reply, parts);
      answerError(error, request, reply);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();
  app.server.maxConnections = options.maxConnections;
  countConnections(options.metrics, app.server, () => errors.warn({ connections: options.maxConnections }, 'rejecting connections'));

  decorateRequests(app);
  app.addHook('onRequest', (request, reply, done) => {
    beginRequest(request, reply, parts);
    // RFC 9112, section 3.2.
    const hasHost = request.headers.host !== undefined || request.raw.httpVersion === '1.0';
    done(hasHost ? undefined : new ApiError('malformed_request'));
  });
  app.setErrorHandler(answerError);
  closeGracefully(app, options.idleCloseMs);
  if (options.corsOrigins.length > 0) await allowOrigins(app, options.corsOrigins);
  const rejectOtherMethods = guardRoutes(app, { authenticators, limit });
  app.setValidatorCompiler<Schema>(({ schema, httpPart }) => {
    if (httpPart === 'body') {
      const validate = bodyValidator(schema);
      return (body: unknown) => validate(body);
    }
    return httpPart === 'querystring' ? queryValidator(schema) : () => true;
  });
  app.removeAllContentTypeParsers();
  // By name too, because only named types are found without parsing the header again.
  for (const type of ['application/json', '*']) {
    app.addContentTypeParser(type, { parseAs: 'buffer' }, (request, body: Buffer, done) => done(null, readJson(body, request.headers)));
  }
  app.setNotFoundHandler((request, reply) => answerError(new ApiError('route_not_found'), request, reply));
  for (const method of METHODS) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
  await documentRoutes(app);
  options.routes(app);
  await app.after();
  rejectOtherMethods();
  return app;
}

/** Whether an address of `X-Forwarded-For`, or of a connection, belongs to one of these proxies. */
function trustedBy(proxies: string[]): (address: string, hop: number) => boolean {
  const isTrusted = compile(proxies);
  return (address, hop) => isTrusted(withoutPort(address), hop);
}

/**
 * Makes `close` stop listening, announce the end in answers, close idle connections after `idleCloseMs`, and all others after 15 s: a client that
 * goes on learns from an answer that the connection ends, before it would post on a closed one.
 */
function closeGracefully(app: App, idleCloseMs: number): void {
  let closing = false;
  const { server } = app;
  app.addHook('preClose', (done) => {
    closing = true;
    // Node calls this when it stops listening.
    const closeIdle = server.closeIdleConnections.bind(server);
    server.closeIdleConnections = () => void setTimeout(closeIdle, idleCloseMs);
    setTimeout(() => server.closeAllConnections(), closeTimeoutMs).unref();
    done();
  });
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (closing) reply.header('connection', 'close');
    done();
  });
}

/** Allows calls from browsers of these origins; `*` is any. All but preflights of known routes are answered as without CORS. */
async function allowOrigins(app: App, origins: string[]): Promise<void> {
  const any = origins.includes('*');
  const plain = {
    origin: any ? '*' : origins,
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    exposedHeaders: ['X-Request-Id', 'Idempotent-Replayed', 'Retry-After', 'RateLimit-Policy', 'RateLimit'],
    maxAge: 600,
    preflight: false,
  };
  const preflight = { ...plain, preflight: true };
  const isPreflight = (request: FastifyRequest): boolean => {
    const { origin, 'access-control-request-method': method } = request.headers;
    if (request.method !== 'OPTIONS' || origin === undefined || method === undefined) return false;
    return (any || origins.includes(origin)) && !hasNoRoute(request);
  };
  await app.register(cors, { delegator: (request, done) => done(null, isPreflight(request) ? preflight : plain) });
}
