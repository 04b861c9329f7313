// The HTTP server: what every request meets before and after its route, put together.
import { METHODS, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import cors from '@fastify/cors';
import { compile } from '@fastify/proxy-addr';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import Fastify, { type FastifyRequest } from 'fastify';
import type { Registry } from 'prom-client';
import { withoutPort } from '../services/platform/forwarded.ts';
import type { Logger } from '../services/platform/telemetry.ts';
import { Arrival, requestIdOf } from './arrival.ts';
import type { Authenticators } from './auth.ts';
import { isComing, keepWaiting, readBytes } from './body.ts';
import { documentRoutes } from './document.ts';
import { Drain, endIdle } from './drain.ts';
import { guardRoutes, hasNoRoute } from './route-guards.ts';
import { answerBrokenHttp, answerConnect, ignoreUpgrade } from './http.ts';
import { readJson } from './json.ts';
import { Load } from './load.ts';
import { RequestMetrics, countConnections } from './metrics.ts';
import { ApiError } from './errors.ts';
import { Refusals } from './refusals.ts';
import type { App } from './request-context.ts';
import { bodyValidator, queryValidator, type Schema } from './validation.ts';

/** What the server needs. */
export interface AppOptions {
  authorities: Authenticators;
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

// No route has a tenth of these. Thousands took milliseconds to read, twice where there is no such path, before anybody had said who he is: 64 connections
// of them made others' postings 24 times as slow.
const mostParameters = 100;

function withoutRest(url: string): string {
  for (let at = -1, count = 1; ; count++) {
    at = url.indexOf('&', at + 1);
    if (at < 0) return url;
    if (count === mostParameters) return url.slice(0, at);
  }
}

const serverOptions = {
  logger: false,
  genReqId: requestIdOf,
  requestIdHeader: false,
  return503OnClosing: false,
  routerOptions: { maxParamLength: maxHeaderBytes, ignoreTrailingSlash: true },
  // Not by a parser of its own: what leads to no path is read by Fastify's all the same.
  rewriteUrl: ({ url = '' }: IncomingMessage) => withoutRest(url),
  // Who dribbles a request holds a connection for so long, and no memory to speak of.
  requestTimeout: 30_000,
  keepAliveTimeout: 75_000,
  connectionTimeout: 90_000,
  http: {
    maxHeaderSize: maxHeaderBytes,
    headersTimeout: 15_000,
    connectionsCheckingInterval: 5_000,
    // Node's own answer has no body; see isOfOneReading.
    requireHostHeader: false,
    // Node would take the first of two credentials or media types, where whoever stands in front may have looked at the other; joined, they are none.
    joinDuplicateHeaders: true,
  },
} as const;

/** Builds the server; `listen` starts it, `close` answers what is in flight first. */
export async function buildApp(options: AppOptions): Promise<App> {
  const { logger, authorities } = options;
  const load = new Load(options.maxInFlight);
  const drain = new Drain();
  const metrics = new RequestMetrics(options.metrics, () => load.requests);
  const refusals = new Refusals(load, logger);
  const arrival = new Arrival({ load, logger, unknownRoute: metrics.route('*', 'unknown') });
  const malformed = metrics.route('*', 'malformed');
  const countMalformed = (status: number) => malformed.add(status, 0);
  const app: App = Fastify({
    ...serverOptions,
    http: { ...serverOptions.http, ServerResponse: drain.ServerResponse },
    trustProxy: options.trustProxy.length > 0 ? believing(options.trustProxy) : false,
    clientErrorHandler: (error, socket) => answerBrokenHttp(error, socket, countMalformed),
    // A path that can't be decoded: it has no route, and no hook has run.
    frameworkErrors: (error, request, reply) => {
      refusals.answer(arrival.begin(request, reply) ?? refusals.problemOf(error, request), request, reply);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();
  answerNode(app.server, countMalformed);
  app.server.maxConnections = options.maxConnections;
  endIdle(app.server);
  countConnections(options.metrics, app.server, () => refusals.tell({ connections: options.maxConnections }, 'refusing connections'));

  // Set on each request: the framework shares no objects between them.
  app.decorateRequest('caller');
  app.decorateRequest('checked', 0);
  app.decorateRequest('count');
  app.decorateRequest('leaving', null);
  app.decorateRequest('isWorkedOn', false);
  app.decorateRequest('arriving', null);
  app.decorateRequest('held', null);
  app.addHook('onRequest', (request, reply, done) => {
    if (arrival.isBehindLast(request)) return;
    const problem = arrival.begin(request, reply);
    // A body that nobody reads may have come with the head, and Node has read it by then: an answer at once would end the connection, see Drain.
    if (['GET', 'HEAD'].includes(request.method) && isComing(request.raw)) setImmediate(done, problem);
    else done(problem);
  });
  // Before the first route: each keeps the handler that there is when it is made.
  app.setErrorHandler((error, request, reply) => refusals.answer(refusals.problemOf(error, request), request, reply));
  if (options.corsOrigins.length > 0) await allowOrigins(app, options.corsOrigins);
  const refuseOtherMethods = guardRoutes(app, { authorities, load, metrics });
  readBodies(app, load);
  app.setNotFoundHandler((request, reply) => refusals.answer(new ApiError('route_not_found'), request, reply));
  for (const method of METHODS) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
  await documentRoutes(app);
  options.routes(app);
  await app.after();
  refuseOtherMethods();
  drain.endConnections(app, load);
  return app;
}

/** Whether an address of `X-Forwarded-For`, or of a connection, is one of these proxies'. */
function believing(proxies: string[]): (address: string, hop: number) => boolean {
  const isTrusted = compile(proxies);
  return (address, hop) => isTrusted(withoutPort(address), hop);
}

/** Answers what Node would answer by itself, or not at all. */
function answerNode(server: Server, countMalformed: (status: number) => void): void {
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    keepWaiting(request, response);
    server.emit('request', request, response);
  });
  // An Expect that is not understood is ignored, rather than answered with a bare 417.
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => server.emit('request', request, response));
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, behind: Buffer) => ignoreUpgrade(server, request, socket, behind));
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => answerConnect(socket, countMalformed));
}

/** Has bodies read within the bounds, and checked against the routes' schemas. */
function readBodies(app: App, load: Load): void {
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
    return (any || origins.includes(origin)) && !hasNoRoute(request);
  };
  await app.register(cors, { delegator: (request, done) => done(null, isPreflight(request) ? preflight : plain) });
}
