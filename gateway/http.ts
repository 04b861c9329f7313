// Answers to what never reaches a route, the parser's errors and requests for a tunnel, in the envelope like all others.
import { randomUUID } from 'node:crypto';
import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { Problem, type ProblemCode } from './problem.ts';

const codes: Record<string, ProblemCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** Answers a broken request and closes the connection. `count` is told the status where it belongs to no request that is counted anyway. */
export function answerBrokenHttp(error: Error & { code?: string }, socket: Socket, count: (status: number) => void): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  // Half an answer can't be mended. (Node's own handler looks there, too.) And where a posting has come whole, what is broken came after it: this
  // is not its answer, and it may be posted.
  const answer = underWay(socket);
  const isWhole = answer?.req.complete === true && answer.req.method !== 'GET';
  const begun = answer?.headersSent === true || isWhole;
  // Who was answered before his body had come, and then hangs up, has his answer.
  const hangsUp = error.code === 'HPE_INVALID_EOF_STATE' && socket.bytesWritten > 0;
  if (socket.writable && !begun && !hangsUp) {
    const problem = new Problem(codes[error.code ?? ''] ?? 'malformed_request');
    if (!answer) count(problem.status);
    socket.write(textOf(problem));
  }
  socket.destroySoon();
}

/** Answers a request for a tunnel, which Node would drop without a word: it is to another server, so there is no such route. */
export function answerConnect(socket: Duplex, count: (status: number) => void): void {
  socket.on('error', () => undefined);
  // What came before on this connection would get this answer.
  if (underWay(socket)) {
    socket.destroy();
    return;
  }
  const problem = new Problem('route_not_found');
  count(problem.status);
  socket.end(textOf(problem), () => socket.destroy());
}

function underWay(socket: Duplex): ServerResponse | null | undefined {
  return (socket as Duplex & { _httpMessage?: ServerResponse | null })._httpMessage;
}

function textOf(problem: Problem): string {
  const id = randomUUID();
  const body = JSON.stringify(problem.body(id));
  return (
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status] ?? ''}\r\nContent-Type: application/json; charset=utf-8\r\n` +
    `X-Request-Id: ${id}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`
  );
}
