// Answers what Node's HTTP parser rejects, in the error envelope, and closes the connection.
import { randomUUID } from 'node:crypto';
import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ApiError, type ErrorCode } from './errors.ts';

const codes: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** Connections of requests whose body may take any time, as long as it does not stall. */
export const longUploads = new WeakSet<Socket>();

/** Fastify's `clientErrorHandler`. `count` is called with the error that it answers. */
export function answerMalformed(failure: Error & { code?: string }, socket: Socket, count: (error: ApiError) => void): void {
  // Node reports it once for a request, and keeps the connection.
  if (failure.code === 'ERR_HTTP_REQUEST_TIMEOUT' && longUploads.has(socket)) return;
  if (failure.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  // Node keeps the response that is written next here. An answer to a whole request goes first: it may have posted.
  const { _httpMessage: pending } = socket as Socket & { _httpMessage?: ServerResponse | null };
  if (pending && !pending.writableFinished && (pending.req.complete || pending.headersSent)) {
    pending.once('close', () => socket.destroySoon());
    return;
  }
  const error = new ApiError(codes[failure.code ?? ''] ?? 'malformed_request');
  const id = randomUUID();
  const body = JSON.stringify(error.body(id));
  count(error);
  socket.write(
    `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ''}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `X-Request-Id: ${id}\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
  socket.destroySoon();
}
