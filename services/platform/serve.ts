// A gRPC service as this house runs it: Connect over h2c (gRPC, gRPC-Web and Connect callers), the internal token, health, reflection, one log
// line a call, draining.
import { timingSafeEqual } from 'node:crypto';
import type { DescMessage, DescService } from '@bufbuild/protobuf';
import { Code, ConnectError, createContextKey, type ConnectRouter } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { Histogram, type Registry } from 'prom-client';
import { Health } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { ServerReflection } from '../../proto/gen/grpc/reflection/v1/reflection_pb.js';
import { ServerReflection as ServerReflectionAlpha } from '../../proto/gen/grpc/reflection/v1alpha/reflection_pb.js';
import { CallService } from '../../proto/gen/platform/v1/calls_pb.js';
import { carriedCalls } from './carried.ts';
import { shortenDeadline } from './deadline.ts';
import { sha256 } from './digest.ts';
import { mostBytesOfHealthCheck, cached, serveHealth, serveOps, type Readiness } from './health.ts';
import type { Lifetime, RunningServer } from './lifetime.ts';
import { serveReflection } from './reflection.ts';
import { isRefusal, refuse } from './errors.ts';
import { listenBounded, type NodeHandler } from './sessions.ts';
import type { CommonSettings } from './settings.ts';
import { boundBodies, givingMessages } from './strangers.ts';
import type { Logger } from './telemetry.ts';
import { unaryCalls, type Admission, type Encoder, type UnaryHandler, type UnaryOptions } from './unary.ts';
import { boundsOf, boundsOfStrangers, closeAnswered, Unfinished, type UnfinishedBounds } from './unfinished.ts';

/** What a gRPC server needs. */
export interface ServeOptions {
  host: string;
  port: number;
  services: DescService[];
  routes: (router: ConnectRouter) => void;
  /** Bearer tokens that are accepted. */
  tokens: string[];
  /** Largest message in either direction, bytes; what comes otherwise than by a plain unary call of gRPC is at most 1 MiB, a stream in all. */
  maxMessageBytes: number;
  /** What messages may cost that have begun and not ended; eight of the largest, 32 to 256 MiB, and 30 s unless given; without the token 8 MiB. */
  unfinished?: UnfinishedBounds;
  /** Of answers that are encoded otherwise than by `toBinary`, by their types. */
  encoders?: ReadonlyMap<DescMessage, Encoder>;
  logger: Logger;
  metrics: Registry;
  /** Asked by `grpc.health.v1`. */
  readiness: () => Promise<Readiness>;
}

// A caller may set any deadline; the work itself is bounded by its own time-outs.
const maxTimeoutMs = 24 * 3600_000;

// The largest message to a service that is no plain unary gRPC, such as gRPC-Web or JSON: of JSON and streams Connect decodes whatever comes, half
// a second a MiB of empty objects.
const mostBytesElsewhere = 1 << 20;

/** Starts a gRPC server; `close` answers calls in flight, for 5 s at most. Throws {@link StartFailure} where it can't listen. */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { logger } = options;
  const isAccepted = tokenCheck(options.tokens);
  let draining = false;
  const readiness = cached(options.readiness);
  const logged = callLog(logger, options.metrics);
  const { maxMessageBytes } = options;
  const mostElsewhere = Math.min(maxMessageBytes, mostBytesElsewhere);
  const admit = admission(isAccepted, maxMessageBytes, options.unfinished ?? boundsOf(maxMessageBytes));
  let ours: UnaryHandler = () => false;
  const others = connectNodeAdapter({
    routes: (router) => {
      const own = { maxMessageBytes, maxTimeoutMs, encoders: options.encoders, admit, logged, refused };
      const calls = unaryCalls(router, own);
      const carry = carriedCalls(calls.methods, own);
      ours = (request, response) => calls.handle(request, response) || carry(request, response);
      options.routes(calls.router);
      const drained = async () => ({ ...(await readiness()), ...(draining && { ready: false }) });
      serveHealth(calls.router, options.services, drained, isAccepted);
      serveReflection(calls.router, [...options.services, CallService, Health, ServerReflection, ServerReflectionAlpha]);
      const bounded: UnaryOptions['admit'] = (service, authorization) => {
        const { most, unfinished } = admit(service, authorization);
        return { most: Math.min(most, mostElsewhere), unfinished };
      };
      boundBodies(router, bounded, { maxMessageBytes, refused });
    },
    interceptors: [
      (next) => (request) => {
        const requestId = request.header.get('x-request-id') ?? undefined;
        return logged({ ...request, values: request.contextValues, requestId }, () => next(request));
      },
      (next) => (request) => {
        admit(request.service.typeName, request.header.get('authorization') ?? '');
        return next(request);
      },
      givingMessages(refused),
    ],
    // Inside a cluster bytes are cheaper than the cores that would squeeze them: gzip of answers took 4 % of a busy ledger.
    acceptCompression: [],
    fallback: (request, response) => {
      request.resume();
      response.writeHead(404);
      response.end();
    },
    readMaxBytes: mostElsewhere,
    writeMaxBytes: maxMessageBytes,
    maxTimeoutMs,
  });
  const handler: NodeHandler = (request, response) => {
    shortenDeadline(request.headers, maxTimeoutMs);
    if (ours(request, response)) return;
    closeAnswered(request.stream);
    // Who is refused for how he compresses is told what is taken (gRPC's compression.md); the library leaves it out where that is nothing.
    if ((request.headers['grpc-encoding'] ?? 'identity') !== 'identity') response.setHeader('grpc-accept-encoding', 'identity');
    others(request, response);
  };
  const { port, close } = await listenBounded(handler, { ...options, isKnown: isAccepted });
  return {
    port,
    close: () => {
      draining = true;
      return close();
    },
  };
}

/** Answers calls, and on a port of its own, where there is one, what operators ask, until the lifetime ends. Throws as {@link serve}. */
export async function serveUntilEnd(
  lifetime: Lifetime,
  { host, port, opsPort, internalTokens }: CommonSettings,
  options: Omit<ServeOptions, 'host' | 'port' | 'tokens'>,
): Promise<void> {
  const served = await serve({ host, port, tokens: internalTokens, ...options });
  lifetime.add('server', served.close);
  if (opsPort !== undefined) {
    const ops = await serveOps(host, opsPort, options.metrics, options.readiness);
    lifetime.add('ops', ops.close);
  }
  options.logger.info({ port: served.port }, 'listening');
}

/** Fields that a handler adds to its call's log line. */
export const logFields = createContextKey<Record<string, unknown>>({}, { description: 'fields of the log line' });

function callLog(logger: Logger, metrics: Registry): UnaryOptions['logged'] {
  const seconds = new Histogram({
    name: 'grpc_server_seconds',
    help: 'Duration of gRPC calls',
    labelNames: ['method', 'code'],
    buckets: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [metrics],
  });
  // Whoever has no token writes one line a second, however often he asks: 15,000 streams were as many lines. The figures count each.
  let strangerTold = -Infinity;
  const isQuiet = (code: string, { typeName }: DescService) => {
    if (typeName.startsWith('grpc.')) return true;
    if (code !== 'unauthenticated') return false;
    const now = performance.now();
    if (now - strangerTold < 1_000) return true;
    strangerTold = now;
    return false;
  };
  return async (call, run) => {
    const started = performance.now();
    const fields: Record<string, unknown> = call.requestId === undefined ? {} : { request_id: call.requestId.slice(0, 128) };
    call.values.set(logFields, fields);
    const method = `${call.service.typeName}/${call.method.name}`;
    const done = (code: string, ms: number, error?: unknown) => {
      seconds.observe({ method, code }, ms / 1000);
      const line = { method, code, ms: Math.round(ms * 100) / 100, ...fields };
      if ((code === 'unknown' || code === 'internal') && !isRefusal(error)) logger.error({ ...line, err: error }, 'call failed');
      else if (isQuiet(code, call.service)) logger.debug(line, 'call');
      else logger.info(line, 'call');
    };
    try {
      const result = await run();
      // Behind the answer, which is not to wait for its line.
      const ms = performance.now() - started;
      setImmediate(() => done('ok', ms));
      return result;
    } catch (error) {
      // What is not a refusal tells the caller nothing, and is logged whole.
      const known = error instanceof ConnectError;
      done(known ? Code[error.code].toLowerCase() : 'internal', performance.now() - started, error);
      throw known ? error : refuse(Code.Internal, { reason: 'internal', message: 'internal error' });
    }
  };
}

/** Tells whether a value of the header `authorization` holds one of the tokens. */
function tokenCheck(tokens: string[]): (authorization: string) => boolean {
  // Compared as digests: equal length, constant time.
  const accepted = tokens.map(sha256);
  return (authorization) => {
    // RFC 9110, section 11.1: the name of a scheme is case-insensitive.
    const given = /^bearer +(.+)$/i.exec(authorization)?.[1];
    if (given === undefined) return false;
    const hashed = sha256(given);
    return accepted.some((each) => timingSafeEqual(each, hashed));
  };
}

function admission(
  isAccepted: (authorization: string) => boolean,
  maxMessageBytes: number,
  bounds: UnfinishedBounds,
): UnaryOptions['admit'] {
  const known: Admission = { most: maxMessageBytes, unfinished: new Unfinished(bounds) };
  const strangers: Admission = {
    most: Math.min(maxMessageBytes, mostBytesOfHealthCheck),
    unfinished: new Unfinished(boundsOfStrangers(bounds)),
  };
  return (service, authorization) => {
    if (isAccepted(authorization)) return known;
    if (service === Health.typeName) return strangers;
    // The gateway tells this refusal of itself from that of a user by the metadata.
    const metadata = { credential: 'internal' };
    throw refuse(Code.Unauthenticated, { reason: 'unauthenticated', message: 'internal token missing or wrong', metadata });
  };
}

function refused(message: string): ConnectError {
  return refuse(Code.InvalidArgument, { reason: 'validation_failed', message });
}
