// What every request carries: its id, caller, metrics label, and a signal for a client that has gone.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { CallOptions } from '@connectrpc/connect';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from '../services/platform/telemetry.ts';
import { traceparentOf } from '../services/platform/trace.ts';
import {
  SpanKind,
  SpanStatusCode,
  endSpan,
  isTracing,
  startRequest,
  traceparentFrom,
  type Span,
  unrecorded,
} from '../services/platform/tracing.ts';
import { anonymous } from './auth.ts';
import type { InFlightLimit } from './limits.ts';
import type { RequestMetrics } from './metrics.ts';

/** The server with TypeBox schemas. */
export type App = FastifyInstance<Server, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>;

declare module 'fastify' {
  interface FastifyRequest {
    /** The pattern of the path, or `unknown` where none takes the method. */
    routeLabel: string;
    /** Aborted when the client leaves before its answer; made on demand. */
    clientGone: AbortController | null;
    /** The span of a request whose trace is recorded. */
    span: Span | undefined;
  }
}

/** What the beginning and the end of a request need. */
export interface RequestParts {
  limit: InFlightLimit;
  metrics: RequestMetrics;
  logger: Logger;
}

/** Adds the members of {@link FastifyRequest} that requests of this server carry. */
export function decorateRequests(app: App): void {
  app.decorateRequest('caller');
  app.decorateRequest('checkedMs', 0);
  app.decorateRequest('routeLabel', 'unknown');
  app.decorateRequest('clientGone', null);
  app.decorateRequest('span', undefined);
  app.decorateRequest('slot', null);
}

/** Prepares a request before its route's hooks, and ends it with its response: metrics, in-flight limit, abort, debug log. */
export function beginRequest(request: FastifyRequest, reply: FastifyReply, { limit, metrics, logger }: RequestParts): void {
  const started = performance.now();
  request.caller = anonymous;
  request.span = spanOf(request);
  // Caches, also those that ignore RFC 9111 section 3.5, must not show one client's answer to another.
  reply.headers({ 'x-request-id': request.id, 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' });
  reply.raw.once('close', () => {
    limit.leave(request);
    const { method, routeLabel: route, caller, id, span } = request;
    const answered = reply.raw.writableFinished;
    const status = answered ? reply.raw.statusCode : 0;
    const seconds = (performance.now() - started) / 1000;
    metrics.count(method, route, status, seconds);
    endRequest(request, status);
    if (!answered) request.clientGone?.abort();
    const { actor, tenantId: tenant } = caller;
    if (logger.isLevelEnabled('debug'))
      logger.debug(
        { method, route, status, ms: seconds * 1000, actor, tenant, request_id: id, ...(span && { trace_id: span.spanContext().traceId }) },
        'request',
      );
  });
}

// Probes, scrapes and pages would fill a collector with nothing.
function spanOf({ method, url, headers, id }: FastifyRequest): Span | undefined {
  if (!isTracing() || !url.startsWith('/v1/')) return undefined;
  const attributes = { 'http.request.method': method, 'ledger.request_id': id };
  return startRequest(method, headers['traceparent'], { kind: SpanKind.SERVER, attributes });
}

/** Ends the span of a request; `status` 0: its client left before the answer. */
function endRequest({ span, method, routeLabel, caller: { tenantId } }: FastifyRequest, status: number): void {
  if (!span) return;
  span.updateName(`${method} ${routeLabel}`);
  if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
  const answered = status === 0 ? { 'error.type': 'client_left' } : { 'http.response.status_code': status };
  endSpan(span, { 'http.route': routeLabel, ...answered, ...(tenantId !== '' && { 'ledger.tenant_id': tenantId }) });
}

/** The client's own id of a request where it has 1 to 128 of `A-Za-z0-9._-`, or a new one. */
export function requestIdOf(request: IncomingMessage): string {
  const requestId = request.headers['x-request-id'];
  return typeof requestId === 'string' && /^[A-Za-z0-9._-]{1,128}$/.test(requestId) ? requestId : randomUUID();
}

/** Actor, request id and trace context: what the log keeps of the request that made a change. */
export function auditContext({ caller, id, headers, span }: FastifyRequest): { actor: string; requestId: string; traceparent: string } {
  const traceparent = span ? traceparentFrom(span) : unrecorded(traceparentOf(headers['traceparent']) ?? '');
  return { actor: caller.actor, requestId: id, traceparent };
}

/** Address and `User-Agent` of a request, for identity's limits and audit log. */
export function originOf({ ip, headers }: FastifyRequest): { clientAddress: string; userAgent: string } {
  return { clientAddress: ip, userAgent: headers['user-agent'] ?? '' };
}

/** User, tenant and origin of a request: what every call of a member carries. */
export function memberCall(request: FastifyRequest): { userId: string; tenantId: string; origin: ReturnType<typeof originOf> } {
  const { actor: userId, tenantId } = request.caller;
  return { userId, tenantId, origin: originOf(request) };
}

/** Options of a gRPC call for a request: its deadline, an end when the client leaves, and the request id for the log. */
export function callOptions(request: FastifyRequest, timeoutMs: number): Required<Pick<CallOptions, 'timeoutMs' | 'signal' | 'headers'>> {
  request.clientGone ??= new AbortController();
  const { id, span } = request;
  const headers = { 'x-request-id': id, ...(span && { traceparent: traceparentFrom(span) }) };
  return { timeoutMs, signal: request.clientGone.signal, headers };
}
