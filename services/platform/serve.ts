// A gRPC server: Fastify and Connect over h2c, the internal token, health, reflection, one log line per call, graceful shutdown.
import { timingSafeEqual } from 'node:crypto';
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerOptions,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import type { DescMessage, DescService } from '@bufbuild/protobuf';
import { Code, ConnectError, createContextKey, type ConnectRouter, type Interceptor } from '@connectrpc/connect';
import { fastifyConnectPlugin } from '@connectrpc/connect-fastify';
import { fastify } from 'fastify';
import { Histogram, type Registry } from 'prom-client';
import { Health } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { ServerReflection } from '../../proto/gen/grpc/reflection/v1/reflection_pb.js';
import { ServerReflection as ServerReflectionAlpha } from '../../proto/gen/grpc/reflection/v1alpha/reflection_pb.js';
import { measureCertificates } from './certificate-metrics.ts';
import { sha256 } from './digest.ts';
import { isRefusal, refuse } from './errors.ts';
import { fastUnary, type Encoder, type Intercept, type StreamHandler } from './fast-unary.ts';
import { openGauge } from './gauges.ts';
import { cached, serveHealth, serveOps, type Readiness } from './health.ts';
import { listening, type Lifetime, type RunningServer } from './lifetime.ts';
import { serveReflection } from './reflection.ts';
import type { CommonSettings } from './settings.ts';
import type { Logger } from './telemetry.ts';
import type { ServerTls } from './tls-files.ts';
import { serverTls } from './tls.ts';
import { takingBoth } from './tls-or-plain.ts';
import { traceparentOf } from './trace.ts';
import { SpanKind, callSpan, endSpan, isTracing, rpcResult, rpcSpan, startSpan } from './tracing.ts';

/** What a gRPC server needs. */
export interface ServeOptions {
  host: string;
  port: number;
  services: DescService[];
  routes: (router: ConnectRouter) => void;
  /** Bearer tokens that are accepted. */
  tokens: string[];
  /** mTLS; without, nothing is encrypted. */
  tls?: ServerTls | undefined;
  /** Largest message in either direction. */
  maxMessageBytes: number;
  /** Calls that one connection may have open. */
  maxStreams: number;
  /** How responses are encoded, by type, in place of `toBinary`. */
  encoders?: ReadonlyMap<DescMessage, Encoder>;
  logger: Logger;
  metrics: Registry;
  /** Answered by `grpc.health.v1`. */
  readiness: () => Promise<Readiness>;
  /** Age at which a connection is closed gracefully; 5 min by default. */
  connectionAgeMs?: number;
  /** How long calls may still take on such a connection; 1 min by default. */
  connectionGraceMs?: number;
}

/** Fields that a handler adds to its call's log line. */
export const logFields = createContextKey<Record<string, unknown>>({}, { description: 'fields of the log line' });

// gRPC clients look names up again when a connection ends.
const defaultConnectionAgeMs = 5 * 60_000;
// Longer than any unary call takes.
const defaultConnectionGraceMs = 60_000;
const shutdownMs = 5_000;
// With HTTP/2's default of 64 KiB a message of 1 MiB waits for 16 round trips.
const windowBytes = 4 << 20;

/** Starts a gRPC server. `close` answers calls in flight for at most 5 s. Throws `StartFailure` where it can't listen. */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { host, port, services, maxMessageBytes, encoders } = options;
  const isAccepted = tokenCheck(options.tokens);
  const intercept = interceptor(options, isAccepted);
  const readiness = cached(options.readiness);
  const sockets = new Set<Socket>();
  openGauge(options.metrics, 'grpc_server_connections', 'Open connections', () => sockets.size);
  let isClosing = false;
  let fast: StreamHandler = () => false;
  const app = fastify({
    http2: true,
    serverFactory: (handler) => http2Server(handler, options, sockets, (stream, headers) => fast(stream, headers)),
  });
  await app.register(fastifyConnectPlugin, {
    routes: (router) => {
      const unary = fastUnary(router, { maxMessageBytes, encoders, intercept });
      fast = unary.handle;
      options.routes(unary.router);
      serveHealth(unary.router, services, async () => ({ ...(await readiness()), ...(isClosing && { ready: false }) }), isAccepted);
      serveReflection(unary.router, [...services, Health, ServerReflection, ServerReflectionAlpha]);
    },
    interceptors: [connectInterceptor(intercept)],
    // Inside a cluster bytes are cheaper than the CPU that compresses them.
    acceptCompression: [],
    readMaxBytes: maxMessageBytes,
    writeMaxBytes: maxMessageBytes,
  });
  await listening({ variable: 'PORT', host, port }, app.listen({ host, port }));
  const close = async () => {
    isClosing = true;
    const timer = setTimeout(() => sockets.forEach((socket) => socket.destroy()), shutdownMs);
    await app.close();
    clearTimeout(timer);
  };
  return { port: (app.server.address() as AddressInfo).port, close };
}

/** Serves calls, and plain HTTP health and metrics where there is a port for them, until the lifetime ends. Throws as {@link serve}. */
export async function serveUntilEnd(
  lifetime: Lifetime,
  settings: CommonSettings,
  options: Omit<ServeOptions, 'host' | 'port' | 'tokens' | 'tls' | 'maxMessageBytes' | 'maxStreams'>,
): Promise<void> {
  const {
    host,
    port,
    opsPort,
    serverTls: tls,
    internalTokens: tokens,
    grpcMaxMessageBytes: maxMessageBytes,
    grpcMaxStreams: maxStreams,
  } = settings;
  const server = await serve({ host, port, tokens, tls, maxMessageBytes, maxStreams, ...options });
  lifetime.add('server', server.close);
  if (opsPort !== undefined) {
    const ops = await serveOps(host, opsPort, options.metrics, options.readiness);
    lifetime.add('ops', ops.close);
  }
  options.logger.info({ port: server.port }, 'listening');
}

/** An HTTP/2 server that gives `handler` what `fast` does not take, and ends connections at their age, gracefully at first. */
function http2Server(
  handler: (request: Http2ServerRequest, response: Http2ServerResponse) => void,
  options: ServeOptions,
  sockets: Set<Socket>,
  fast: StreamHandler,
): Http2Server {
  const { connectionAgeMs: ageMs = defaultConnectionAgeMs, connectionGraceMs = defaultConnectionGraceMs, tls } = options;
  const encrypted = tls && encryptedServer(options, tls, handler);
  const plain = createServer(serverSettings(options), handler);
  if (tls?.required === false) options.logger.warn('plain calls are answered too: TLS_MODE is for the time of a change');
  const listener = !encrypted ? plain : tls.required ? encrypted : takingBoth(plain, encrypted);
  for (const server of encrypted ? [plain, encrypted] : [plain]) {
    // Node's compatible request and response are made only for what Fastify handles.
    const [toHandler] = server.listeners('stream') as ((...stream: unknown[]) => void)[];
    server.removeAllListeners('stream');
    server.on('stream', (stream, headers, ...rest) => {
      // What failed is in the call's result.
      stream.on('error', () => undefined);
      if (!fast(stream, headers)) toHandler?.call(server, stream, headers, ...rest);
    });
    server.on('session', (session) => {
      session.setLocalWindowSize(windowBytes);
      const end = setTimeout(() => session.close(), ageMs * (0.9 + Math.random() * 0.2)).unref();
      session.once('close', () => clearTimeout(end));
      // Its streams report what has failed.
      session.on('error', () => undefined);
    });
  }
  listener.on('connection', (socket: Socket) => {
    sockets.add(socket);
    const end = setTimeout(() => socket.destroy(), ageMs * 1.1 + connectionGraceMs).unref();
    socket.once('close', () => (clearTimeout(end), sockets.delete(socket)));
  });
  return listener;
}

function serverSettings({ maxStreams }: ServeOptions): ServerOptions {
  return {
    // MB. With Node's default of 10, a few large responses in flight refuse all further calls of a connection.
    maxSessionMemory: 256,
    // A gateway may cancel all its calls at once: Node's default would end the connection.
    streamResetBurst: 10_000,
    streamResetRate: 1_000,
    settings: { initialWindowSize: windowBytes, maxConcurrentStreams: maxStreams, maxHeaderListSize: 65_536 },
  };
}

function encryptedServer(options: ServeOptions, tls: ServerTls, handler: Parameters<typeof createServer>[1]): Http2SecureServer {
  const certificates = serverTls(tls, (changed) => server.setSecureContext(changed));
  measureCertificates(options.metrics, tls);
  const both = { requestCert: true, rejectUnauthorized: true };
  const server = createSecureServer({ ...serverSettings(options), ...certificates.options, ...both }, handler);
  server.on('tlsClientError', ({ message }) => options.logger.warn({ reason: message }, 'a TLS connection was refused'));
  server.once('close', certificates.close);
  return server;
}

/** Checks the token, logs and measures each call. Errors that are no ConnectError are logged whole, and answered `internal error`. */
function interceptor({ logger, metrics }: ServeOptions, isAccepted: (authorization: string | undefined) => boolean): Intercept {
  const seconds = new Histogram({
    name: 'grpc_server_seconds',
    help: 'Duration of gRPC calls',
    labelNames: ['method', 'code'],
    buckets: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [metrics],
  });
  let inFlight = 0;
  openGauge(metrics, 'grpc_server_calls_in_flight', 'Calls that are not answered yet, health checks included', () => inFlight);
  return async (call, header, run) => {
    inFlight++;
    const started = performance.now();
    const { typeName } = call.service;
    const method = `${typeName}/${call.method.name}`;
    const fields: Record<string, unknown> = {};
    const requestId = header('x-request-id');
    if (requestId !== undefined) fields['request_id'] = requestId.slice(0, 128);
    call.values.set(logFields, fields);
    const span = isTracing() ? startSpan(method, traceparentOf(header('traceparent')), rpcSpan(method, SpanKind.SERVER)) : undefined;
    if (span) {
      call.values.set(callSpan, span);
      fields['trace_id'] = span.spanContext().traceId;
    }
    const done = (code: string, ms: number, error?: unknown) => {
      seconds.observe({ method, code }, ms / 1000);
      endSpan(span, ...rpcResult(code));
      const line = { method, code, ms: Math.round(ms * 100) / 100, ...fields };
      if ((code === 'unknown' || code === 'internal') && !isRefusal(error)) logger.error({ ...line, err: error }, 'call failed');
      else if (typeName.startsWith('grpc.')) logger.debug(line, 'call');
      else logger.info(line, 'call');
    };
    try {
      if (typeName !== Health.typeName && !isAccepted(header('authorization'))) throw unauthenticated();
      const result = await run();
      const ms = performance.now() - started;
      // The answer does not wait for its log line.
      setImmediate(done, 'ok', ms);
      return result;
    } catch (error) {
      const isKnown = error instanceof ConnectError;
      done(isKnown ? Code[error.code].toLowerCase() : 'internal', performance.now() - started, error);
      throw isKnown ? error : refuse(Code.Internal, { reason: 'internal', message: 'internal error' });
    } finally {
      inFlight--;
    }
  };
}

/** The same for calls that Connect answers. */
function connectInterceptor(intercept: Intercept): Interceptor {
  return (next) => (request) => {
    const call = { service: request.service, method: request.method, values: request.contextValues };
    return intercept(
      call,
      (name) => request.header.get(name) ?? undefined,
      () => next(request),
    );
  };
}

function unauthenticated(): ConnectError {
  // By the metadata the gateway tells this apart from a refused API key.
  const metadata = { credential: 'internal' };
  return refuse(Code.Unauthenticated, { reason: 'unauthenticated', message: 'internal token missing or wrong', metadata });
}

/** Checks values of the header `authorization` against the tokens. */
function tokenCheck(tokens: string[]): (authorization: string | undefined) => boolean {
  // Compared as digests: equal length, constant time.
  const accepted = tokens.map(sha256);
  return (authorization = '') => {
    // RFC 9110, section 11.1: the name of a scheme is case-insensitive.
    const token = /^bearer +(.+)$/i.exec(authorization)?.[1];
    if (token === undefined) return false;
    const digest = sha256(token);
    return accepted.some((each) => timingSafeEqual(each, digest));
  };
}
