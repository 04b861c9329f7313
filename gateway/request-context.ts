// A request as routes know it, and the server on which they are registered.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { CallOptions } from '@connectrpc/connect';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from 'fastify';
import { traceparentOf } from '../services/platform/trace.ts';
import type { RouteCount } from './metrics.ts';

/** The server with TypeBox schemas. */
export type App = FastifyInstance<Server, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>;

declare module 'fastify' {
  interface FastifyRequest {
    count: RouteCount;
    /** Aborts where the client leaves before its answer. */
    clientGone: AbortController | null;
  }
}

/** Who asks, by which request and in which trace: what a change keeps of it. */
export function auditContext({ caller, id, headers }: FastifyRequest): { actor: string; requestId: string; traceparent: string } {
  return { actor: caller.actor, requestId: id, traceparent: traceparentOf(headers['traceparent']) ?? '' };
}

/** How long a call for a request may take; it ends when the client leaves, and is logged under the request's id. */
export function callOptions(request: FastifyRequest, timeoutMs: number): Required<Pick<CallOptions, 'timeoutMs' | 'signal' | 'headers'>> {
  request.clientGone ??= new AbortController();
  return { timeoutMs, signal: request.clientGone.signal, headers: { 'x-request-id': request.id } };
}
