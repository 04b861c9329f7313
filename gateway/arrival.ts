// How every request begins, before its route is known: its id, its place in the figures, and whether it can be read in one way alone.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from '../services/platform/telemetry.ts';
import { anonymous } from './auth.ts';
import { beginNoMore, isEnded } from './drain.ts';
import type { Load } from './load.ts';
import type { RouteCount } from './metrics.ts';
import { ApiError } from './errors.ts';

/** What the beginning of requests needs. */
export interface ArrivalParts {
  load: Load;
  logger: Logger;
  /** Counts a request until its route is known. */
  unknownRoute: RouteCount;
}

/** Begins requests. */
export class Arrival {
  private readonly parts: ArrivalParts;
  // A line a request costs a share of a core; who looks for one request asks for debug.
  private readonly debugging: boolean;

  constructor(parts: ArrivalParts) {
    this.parts = parts;
    this.debugging = parts.logger.isLevelEnabled('debug');
  }

  /** Whether a request is not to begin, as it comes behind the last answer of its connection. */
  isBehindLast({ raw: { socket } }: FastifyRequest): boolean {
    if (!isEnded(socket)) return false;
    begun(socket, () => undefined);
    return true;
  }

  /** Begins a request, and answers what speaks against it already. */
  begin(request: FastifyRequest, reply: FastifyReply): ApiError | undefined {
    const { load, unknownRoute } = this.parts;
    const started = performance.now();
    // An empty body is no body, whatever type it is said to have.
    const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
    if (coding === undefined && (length === undefined || Number(length) === 0)) delete request.headers['content-type'];
    request.caller = anonymous;
    request.count = unknownRoute;
    reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff');
    // But for what says otherwise: proxies that are told to keep answers keep those to credentials, too (which RFC 9111, section 3.5, has them not do),
    // and show one caller's to the next.
    reply.header('cache-control', 'no-store');
    load.begin();
    const end = () => {
      load.end(request);
      const answered = reply.raw.writableFinished;
      const seconds = (performance.now() - started) / 1000;
      request.count.add(answered ? reply.raw.statusCode : 0, seconds);
      if (!answered) request.clientGone?.abort();
      if (this.debugging) this.log(request, reply.raw.statusCode, answered, seconds);
    };
    const underWay = begun(request.raw.socket, end);
    reply.raw.on('close', () => {
      if (underWay.delete(end)) end();
    });
    if (isOfOneReading(request.raw)) return undefined;
    // Where its end is may be read in two ways as well.
    reply.header('connection', 'close');
    beginNoMore(request.raw.socket);
    return new ApiError('malformed_request');
  }

  private log({ count, caller, id }: FastifyRequest, status: number, answered: boolean, seconds: number): void {
    const ms = Math.round(seconds * 100_000) / 100;
    const { actor, tenantId: tenant } = caller;
    this.parts.logger.debug({ ...count.labels, status, answered, ms, actor, tenant, request_id: id }, 'request');
  }
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

// Node begins all that one read of a connection holds, a thousand requests, before it looks whether their answers are taken.
const mostPipelined = 64;
const ends = Symbol('how the requests of a connection end that are under way');

/** Notes how a request ends that begins on a connection; answers how all of those end that are under way on it. Whoever takes one out ends it. */
function begun(socket: Socket & { [ends]?: Set<() => void> }, end: () => void): Set<() => void> {
  let underWay = socket[ends];
  if (!underWay) {
    const all = (underWay = socket[ends] = new Set());
    // Node tells an answer of that only while it looks after the connection, which it gives away with a request for a tunnel or another protocol.
    socket.on('close', () => {
      for (const each of all) {
        all.delete(each);
        each();
      }
    });
  }
  underWay.add(end);
  if (underWay.size > mostPipelined) socket.destroy();
  return underWay;
}

/** The client's own id of a request, where it is sane, or a new one. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && /^[A-Za-z0-9._-]{1,128}$/.test(given) ? given : randomUUID();
}
