// Takes a request's body from the connection, within what the gateway can bear.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { readInTurn } from './large-bodies.ts';
import type { Load } from './load.ts';
import { ApiError } from './errors.ts';

/** The largest body, bytes. */
export const bodyLimit = 1 << 20;

// Requests whose clients wait to hear that their body is wanted, how to answer them, and whether they want the connection kept.
const waiting = new WeakMap<IncomingMessage, { response: ServerResponse; keepAlive: boolean }>();

/** Has a client that sent `Expect: 100-continue` wait until its request has passed every check that needs no body. */
export function keepWaiting(request: IncomingMessage, response: ServerResponse): void {
  waiting.set(request, { response, keepAlive: response.shouldKeepAlive });
  // Whether he sends his body after a refusal, too, can't be told: what follows would be read as a body or as a request.
  response.shouldKeepAlive = false;
}

// What a client goes on to send whose request has been refused, in bytes and in milliseconds.
const mostForgotten = 64 << 20;
const forgettingMs = 30_000;

const answered = new WeakSet<IncomingMessage>();

/** Whether some of a request's body is still to come. */
export function isComing({ complete, headers }: IncomingMessage): boolean {
  return !complete && (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0);
}

/** Whether a request has been answered before its body had come: nothing more is said to it. */
export function isAnswered(request: IncomingMessage): boolean {
  return answered.has(request);
}

/**
 * Has the connection of a request whose body has not come end so that its client can read the answer: what he still sends is read and forgotten.
 * Closed while some of it is unread, a connection is reset, and who sends all before he reads gets that in the place of the answer.
 */
export function closeGently(request: IncomingMessage): void {
  const { socket } = request;
  answered.add(request);
  // What Node calls behind the last answer of a connection.
  socket.destroySoon = () => {
    Reflect.deleteProperty(socket, 'destroySoon');
    if (request.complete) {
      socket.destroySoon();
      return;
    }
    socket.end();
    let left = mostForgotten;
    const timer = setTimeout(() => socket.destroy(), forgettingMs);
    // Node's parser listens no more: what comes behind this request is not begun.
    socket.resume().removeAllListeners('data');
    socket
      .on('data', (chunk: Buffer) => {
        left -= chunk.length;
        if (left < 0) socket.destroy();
      })
      .once('end', () => socket.destroy())
      .once('close', () => clearTimeout(timer));
    // Where the body has filled its buffer while a check was made, Node has stopped reading, and only its parser would begin again.
    socket._read(0);
  };
}

const nothing = Buffer.alloc(0);

/** Reads a body; calls back once, with its bytes or why there are none. */
export function readBytes(request: FastifyRequest, load: Load, done: (error: Error | null, bytes: Buffer) => void): void {
  const { raw } = request;
  const chunks: Buffer[] = [];
  let length = 0;
  let ended = false;
  const end = (error: Error | null): void => {
    if (ended) return;
    ended = true;
    load.arrived(request);
    // Where the body has come nothing more comes: the listeners go with the request.
    if (error) raw.off('data', take).off('end', finish).off('error', end);
    const bytes = error ? nothing : chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    chunks.length = 0;
    done(error, bytes);
  };
  const take = (chunk: Buffer): void => {
    length += chunk.length;
    const problem = length > bodyLimit ? new ApiError('payload_too_large') : load.arrive(request, chunk.length);
    if (problem) end(problem);
    else chunks.push(chunk);
  };
  const finish = (): void => {
    load.arrived(request);
    if (raw.socket.destroyed) return;
    readInTurn(
      request.caller.tenantId,
      length,
      () => end(null),
      () => (request.clientGone ??= new AbortController()).signal,
    );
  };
  if (Number(request.headers['content-length']) > bodyLimit) {
    end(new ApiError('payload_too_large'));
    return;
  }
  const wanted = waiting.get(raw);
  if (wanted) {
    wanted.response.shouldKeepAlive = wanted.keepAlive;
    wanted.response.writeContinue();
  }
  load.await(request, end);
  raw.on('data', take).on('end', finish).on('error', end);
}
