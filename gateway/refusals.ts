// How requests that went wrong are answered, and what of it is told in the log.
import { ConnectError } from '@connectrpc/connect';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from '../services/platform/telemetry.ts';
import { bodyLimit, isComing } from './body.ts';
import type { Load } from './load.ts';
import { ApiError, apiErrorOf, type ErrorCode } from './errors.ts';

/** Answers what went wrong. */
export class Refusals {
  private readonly load: Load;
  private readonly logger: Logger;
  private lastTold = -Infinity;

  constructor(load: Load, logger: Logger) {
    this.load = load;
    this.logger = logger;
  }

  /** Whatever was thrown for a request, as its caller is told of it. */
  problemOf(error: unknown, request: FastifyRequest): ApiError {
    if (error instanceof ApiError) return error;
    const known = error instanceof ConnectError ? apiErrorOf(error, fieldsOf(request)) : problemOfFramework(error as FastifyError, request);
    if (known) return known;
    const { method, url, caller, id } = request;
    this.logger.error(
      { err: error, request_id: id, tenant: caller.tenantId, method, path: url.split('?')[0], route: request.count.labels.route },
      'request failed',
    );
    return new ApiError('internal');
  }

  /** Answers a request with a problem. */
  answer(problem: ApiError, request: FastifyRequest, reply: FastifyReply): void {
    const { load } = this;
    if (problem.status === 503 && !reply.raw.destroyed) {
      const { method, route } = request.count.labels;
      const { caller, id } = request;
      this.tell({ code: problem.code, in_flight: load.requests, method, route, tenant: caller.tenantId, request_id: id }, 'refusing');
    }
    load.refuse(request);
    if (problem.headers) reply.headers(problem.headers);
    const send = () => void reply.code(problem.status).send(problem.body(request.id));
    // Of most requests the body has come with the head: Node has read it by then, and the connection is kept.
    if (isComing(request.raw)) setImmediate(send);
    else send();
  }

  /** A line a second at most: a flood of refusals must not become a flood of lines. */
  tell(fields: object, message: string): void {
    if (performance.now() - this.lastTold <= 1000) return;
    this.lastTold = performance.now();
    this.logger.warn(fields, message);
  }
}

/** What was sent of the fields that the route has; others mean nothing, also where they are called as a field of the house is. */
function fieldsOf({ body, query, routeOptions }: FastifyRequest): unknown {
  const { properties } = (routeOptions.schema?.body ?? {}) as { properties?: object };
  if (!properties) return query;
  const sent = Object(body ?? {}) as Record<string, unknown>;
  // Not by what was sent, which may be 75,000 others.
  const names = Object.keys(properties).filter((name) => Object.hasOwn(sent, name));
  return Object.fromEntries(names.map((name) => [name, sent[name]]));
}

const frameworkCodes: Record<string, ErrorCode> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_BAD_URL: 'route_not_found',
  // The client left in the middle of its body; nobody reads this answer.
  ECONNRESET: 'malformed_request',
};

function problemOfFramework(error: FastifyError, request: FastifyRequest): ApiError | null {
  const code = Object.hasOwn(frameworkCodes, error.code) ? frameworkCodes[error.code] : undefined;
  if (code === undefined) return null;
  // A media type that can't be parsed is refused before the length is looked at.
  const tooLarge = code === 'unsupported_media_type' && Number(request.headers['content-length']) > bodyLimit;
  return new ApiError(tooLarge ? 'payload_too_large' : code);
}
