// A gRPC service as this house runs it: Connect over h2c (gRPC, gRPC-Web and Connect callers), the internal token, health, reflection, one log
// line a call, draining; and plain HTTP health and metrics for kubelet and Prometheus.
import { hash, timingSafeEqual } from 'node:crypto';
import { createServer as createHttpServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { createRegistry, toBinary, type DescFile, type DescService } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError, createContextKey, type ConnectRouter } from '@connectrpc/connect';
import { setTrailerStatus } from '@connectrpc/connect/protocol-grpc';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { Histogram, type Registry } from 'prom-client';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from '../../proto/gen/google/rpc/error_details_pb.js';
import { Health, HealthCheckResponse_ServingStatus as Serving } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { ServerReflection } from '../../proto/gen/grpc/reflection/v1/reflection_pb.js';
import { ServerReflection as ServerReflectionAlpha } from '../../proto/gen/grpc/reflection/v1alpha/reflection_pb.js';
import { shortenDeadline } from './deadline.ts';
import { listening } from './lifetime.ts';
import { listenBounded, type NodeHandler } from './sessions.ts';
import { readNoStrangers } from './strangers.ts';
import type { Logger } from './telemetry.ts';
import { unaryCalls, type UnaryHandler, type UnaryOptions } from './unary.ts';

/** Whether a process can do its work, and what each of its dependencies says. */
export interface Readiness {
  ready: boolean;
  /** `ok`, `degraded`, or what is wrong, by dependency. */
  dependencies: Record<string, string>;
}

/** What a gRPC server needs. */
export interface ServeOptions {
  host: string;
  port: number;
  services: DescService[];
  routes: (router: ConnectRouter) => void;
  /** Bearer tokens that are accepted. */
  tokens: string[];
  /** Largest message in either direction, bytes; what comes otherwise than by a plain unary call of gRPC is at most 1 MiB. */
  maxMessageBytes: number;
  logger: Logger;
  metrics: Registry;
  /** Asked by `grpc.health.v1`. */
  readiness: () => Promise<Readiness>;
}

/** A running server. */
export interface Served {
  port: number;
  /** Answers calls in flight, for 5 s at most, then closes. */
  close: () => Promise<void>;
}

// A caller may set any deadline; the work itself is bounded by its own time-outs.
const maxTimeoutMs = 24 * 3600_000;

// The largest message to a service that is no plain unary gRPC, such as gRPC-Web or JSON: Connect decodes whatever comes, half a second a MiB of
// empty objects.
const mostBytesElsewhere = 1 << 20;

/** Starts a gRPC server. Throws {@link StartFailure} where it can't listen. */
export async function serve(options: ServeOptions): Promise<Served> {
  const { logger } = options;
  const isAccepted = tokenCheck(options.tokens);
  let draining = false;
  const readiness = together(options.readiness);
  const logged = callLog(logger, options.metrics);
  const admit = refuseStrangers(isAccepted);
  const { maxMessageBytes } = options;
  let unary: UnaryHandler = () => false;
  const others = connectNodeAdapter({
    routes: (router) => {
      const calls = unaryCalls(router, { maxMessageBytes, maxTimeoutMs, admit, logged, refused });
      unary = calls.handle;
      options.routes(calls.router);
      health(calls.router, options.services, async () => ({ ...(await readiness()), ...(draining && { ready: false }) }));
      reflection(calls.router, [...options.services, Health, ServerReflection, ServerReflectionAlpha]);
      blameCallers(router);
      readNoStrangers(router, isAccepted);
    },
    interceptors: [
      (next) => (request) => logged({ ...request, values: request.contextValues }, () => next(request)),
      (next) => (request) => {
        admit(request.service.typeName, request.header.get('authorization') ?? '');
        return next(request);
      },
    ],
    // Inside a cluster bytes are cheaper than the cores that would squeeze them: gzip of answers took 4 % of a busy ledger.
    acceptCompression: [],
    readMaxBytes: Math.min(maxMessageBytes, mostBytesElsewhere),
    writeMaxBytes: maxMessageBytes,
    maxTimeoutMs,
  });
  const handler: NodeHandler = (request, response) => {
    shortenDeadline(request.headers, maxTimeoutMs);
    if (!unary(request, response)) others(request, response);
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

// Who has sent half a request, or reads no answer, would keep a process from ending for a minute.
const opsClosingMs = 1_000;

/** Answers `/healthz`, `/readyz` and `/metrics` as plain HTTP/1.1; `close` waits up to 1 s for what is under way. */
export async function serveOps(host: string, port: number, metrics: Registry, readiness: () => Promise<Readiness>): Promise<Served> {
  const server: Server = createHttpServer((request, response) => {
    const answer = (status: number, type: string, body: string) => {
      response.writeHead(status, { 'content-type': type });
      response.end(request.method === 'HEAD' ? undefined : body);
    };
    const path = request.url?.split('?')[0];
    if (path === '/healthz') answer(200, 'application/json', '{"status":"ok"}');
    else if (path === '/readyz') {
      readiness().then(
        (state) => answer(state.ready ? 200 : 503, 'application/json', readinessBody(state)),
        () => answer(503, 'application/json', '{"status":"unavailable"}'),
      );
    } else if (path === '/metrics') {
      metrics.metrics().then(
        (text) => answer(200, metrics.contentType, text),
        () => answer(500, 'text/plain', 'no metrics'),
      );
    } else answer(404, 'application/json', '{"status":"not found"}');
  });
  const place = { variable: 'OPS_PORT', host, port } as const;
  await listening(place, new Promise<void>((done, fail) => server.once('error', fail).listen(port, host, done)));
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      const closed = new Promise<void>((done) => server.close(() => done()));
      server.closeIdleConnections();
      const cut = setTimeout(() => server.closeAllConnections(), opsClosingMs);
      await closed;
      clearTimeout(cut);
    },
  };
}

/** The body of `/readyz`: `ok`, `degraded` (ready, but a dependency is not well) or `unavailable`. */
export function readinessBody(state: Readiness): string {
  const well = Object.values(state.dependencies).every((each) => each === 'ok');
  return JSON.stringify({ status: state.ready ? (well ? 'ok' : 'degraded') : 'unavailable', dependencies: state.dependencies });
}

/** What a refused call tells its caller beside the gRPC code. */
export interface RefusalInfo {
  /** The code that REST answers. */
  reason: string;
  message: string;
  field?: string | undefined;
  tag?: string | undefined;
  value?: string | undefined;
  /** When to try again, seconds. */
  retryAfter?: number | undefined;
  /** What else the caller may use; travels in the ErrorInfo. */
  metadata?: Record<string, string> | undefined;
}

/** A refusal as a gRPC error: google.rpc.ErrorInfo always, BadRequest where a field is to blame, RetryInfo where a time is known. */
export function refuse(code: Code, info: RefusalInfo): ConnectError {
  // Half a character, of a text that was cut, can't be encoded.
  const [message, value] = [info.message.toWellFormed(), (info.value ?? '').toWellFormed()];
  const metadata: Record<string, string> = { ...info.metadata };
  if (info.field !== undefined && info.field !== '') {
    Object.assign(metadata, { field: info.field, tag: info.tag ?? '', value });
  }
  const error = new ConnectError(message, code);
  error.details.push({ desc: ErrorInfoSchema, value: { reason: info.reason, domain: 'ledger', metadata } });
  if (metadata['field'] !== undefined) {
    const violation = { field: metadata['field'], description: message, reason: (info.tag ?? '').toUpperCase() };
    error.details.push({ desc: BadRequestSchema, value: { fieldViolations: [violation] } });
  }
  if (info.retryAfter !== undefined) {
    error.details.push({ desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(info.retryAfter), nanos: 0 } } });
  }
  return error;
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
  return async (call, run) => {
    const started = performance.now();
    const fields: Record<string, unknown> = {};
    call.values.set(logFields, fields);
    const method = `${call.service.typeName}/${call.method.name}`;
    const done = (code: string, error?: unknown) => {
      const ms = performance.now() - started;
      seconds.observe({ method, code }, ms / 1000);
      const line = { method, code, ms: Math.round(ms * 100) / 100, ...fields };
      if ((code === 'unknown' || code === 'internal') && !isRefusal(error)) logger.error({ ...line, err: error }, 'call failed');
      else if (call.service.typeName.startsWith('grpc.')) logger.debug(line, 'call');
      else logger.info(line, 'call');
    };
    try {
      const result = await run();
      done('ok');
      return result;
    } catch (error) {
      // What is not a refusal tells the caller nothing, and is logged whole.
      const known = error instanceof ConnectError;
      done(known ? Code[error.code].toLowerCase() : 'internal', error);
      throw known ? error : refuse(Code.Internal, { reason: 'internal', message: 'internal error' });
    }
  };
}

/** Tells whether a value of the header `authorization` holds one of the tokens. */
function tokenCheck(tokens: string[]): (authorization: string) => boolean {
  // Compared as digests: equal length, constant time.
  const digest = (text: string) => hash('sha256', text, 'buffer');
  const accepted = tokens.map(digest);
  return (authorization) => {
    // RFC 9110, section 11.1: the name of a scheme is case-insensitive.
    const given = /^bearer +(.+)$/i.exec(authorization)?.[1];
    if (given === undefined) return false;
    const hashed = digest(given);
    return accepted.some((each) => timingSafeEqual(each, hashed));
  };
}

function refuseStrangers(isAccepted: (authorization: string) => boolean): UnaryOptions['admit'] {
  return (service, authorization) => {
    if (service === Health.typeName || isAccepted(authorization)) return;
    // The gateway tells this refusal of itself from that of a user by the metadata.
    const metadata = { credential: 'internal' };
    throw refuse(Code.Unauthenticated, { reason: 'unauthenticated', message: 'internal token missing or wrong', metadata });
  };
}

/** Whether a call failed for a reason that lies with its caller, whatever its code. */
function isRefusal(error: unknown): boolean {
  const [info] = error instanceof ConnectError ? error.findDetails(ErrorInfoSchema) : [];
  return info !== undefined && info.reason !== 'internal';
}

function refused(message: string, code = Code.InvalidArgument): ConnectError {
  return refuse(code, { reason: 'validation_failed', message });
}

/** What can't be decoded is its caller's fault; connect-es calls it internal, before any interceptor is asked. */
function blameCallers(router: ConnectRouter): void {
  for (const [place, handler] of router.handlers.entries()) {
    const answer = async (request: Parameters<typeof handler>[0]) => {
      const response = await handler(request);
      const trailer = response.trailer;
      const said = trailer?.get('grpc-status') === String(Code.Internal) ? (trailer.get('grpc-message') ?? '') : '';
      if (trailer && said.startsWith('parse%20binary')) setTrailerStatus(trailer, refused('the message can not be decoded'));
      return response;
    };
    router.handlers[place] = Object.assign(answer, handler);
  }
}

/** Asks once for all who ask meanwhile: anybody may ask for health, and the answer costs a round trip to the database. */
function together<Answer>(ask: () => Promise<Answer>): () => Promise<Answer> {
  let asked: Promise<Answer> | undefined;
  return () => (asked ??= ask().finally(() => (asked = undefined)));
}

// connect-es has no health service of its own. Beside the services it tells of each dependency under its name, `kafka` for example.
function health(router: ConnectRouter, services: DescService[], readiness: () => Promise<Readiness>): void {
  const names = new Set(['', ...services.map((service) => service.typeName)]);
  const status = async (name: string) => {
    const { ready, dependencies } = await readiness().catch(() => ({ ready: false, dependencies: {} }));
    const known = new Map<string, boolean>(Object.entries(dependencies).map(([each, says]) => [each, says === 'ok']));
    const well = names.has(name) ? ready : known.get(name);
    return well === undefined ? Serving.SERVICE_UNKNOWN : well ? Serving.SERVING : Serving.NOT_SERVING;
  };
  router.service(Health, {
    async check(request) {
      const found = await status(request.service);
      if (found === Serving.SERVICE_UNKNOWN) throw new ConnectError('unknown service', Code.NotFound);
      return { status: found };
    },
    async *watch(request, context) {
      let last: Serving | undefined;
      while (!context.signal.aborted) {
        const now = await status(request.service);
        if (now !== last) yield { status: now };
        last = now;
        await pause(1000, undefined, { signal: context.signal }).catch(() => undefined);
      }
    },
    ...('list' in Health.method
      ? {
          async list() {
            const now = await status('');
            return { statuses: Object.fromEntries([...names].map((name) => [name, { status: now }])) };
          },
        }
      : {}),
  });
}

// connect-es has no reflection either; v1 and v1alpha differ only in their package.
function reflection(router: ConnectRouter, services: DescService[]): void {
  const files = new Map<string, DescFile>();
  const collect = (file: DescFile) => {
    if (files.has(file.proto.name)) return;
    files.set(file.proto.name, file);
    file.dependencies.forEach(collect);
  };
  services.forEach((service) => collect(service.file));
  // No service names them, and without them grpcurl shows the details of a refusal as base64.
  collect(ErrorInfoSchema.file);
  const registry = createRegistry(...files.values());
  const withDependencies = (file: DescFile, seen = new Set<DescFile>()): Uint8Array[] => {
    if (seen.has(file)) return [];
    seen.add(file);
    return [toBinary(FileDescriptorProtoSchema, file.proto), ...file.dependencies.flatMap((each) => withDependencies(each, seen))];
  };
  const ofSymbol = (symbol: string): DescFile | undefined => {
    const found = registry.get(symbol);
    if (found) return found.file;
    // A method is named after its service, a field or enum value after its message.
    const parent = symbol.slice(0, symbol.lastIndexOf('.'));
    return parent !== '' ? registry.get(parent)?.file : undefined;
  };
  for (const service of [ServerReflection, ServerReflectionAlpha]) {
    router.service(service as typeof ServerReflection, {
      async *serverReflectionInfo(requests) {
        for await (const originalRequest of requests) {
          const asked = originalRequest.messageRequest;
          const base = { validHost: originalRequest.host, originalRequest };
          const answerFile = (file: DescFile | undefined) =>
            file
              ? { case: 'fileDescriptorResponse' as const, value: { fileDescriptorProto: withDependencies(file) } }
              : { case: 'errorResponse' as const, value: { errorCode: Code.NotFound as number, errorMessage: 'not found' } };
          if (asked.case === 'listServices') {
            const named = services.map((each) => ({ name: each.typeName }));
            yield { ...base, messageResponse: { case: 'listServicesResponse', value: { service: named } } };
          } else if (asked.case === 'fileByFilename') yield { ...base, messageResponse: answerFile(files.get(asked.value)) };
          else if (asked.case === 'fileContainingSymbol') yield { ...base, messageResponse: answerFile(ofSymbol(asked.value)) };
          else if (asked.case === 'allExtensionNumbersOfType') {
            const value = { baseTypeName: asked.value, extensionNumber: [] };
            yield { ...base, messageResponse: { case: 'allExtensionNumbersResponse', value } };
          } else yield { ...base, messageResponse: answerFile(undefined) };
        }
      },
    });
  }
}
