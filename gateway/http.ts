// Answers to what is not HTTP: the parser's errors never reach a route, and still are answered in the envelope.
import { randomUUID } from 'node:crypto';
import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Problem, type ProblemCode } from './problem.ts';

const codes: Record<string, ProblemCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** Answers a broken request and closes the connection. */
export function answerBrokenHttp(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  // Half an answer can't be mended. (Node's own handler looks there, too.)
  const begun = (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage?.headersSent === true;
  // Who was answered before his body had come, and then hangs up, has his answer.
  const hangsUp = error.code === 'HPE_INVALID_EOF_STATE' && socket.bytesWritten > 0;
  if (socket.writable && !begun && !hangsUp) {
    const problem = new Problem(codes[error.code ?? ''] ?? 'malformed_request');
    const id = randomUUID();
    const body = JSON.stringify(problem.body(id));
    socket.write(
      `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status] ?? ''}\r\nContent-Type: application/json; charset=utf-8\r\n` +
        `X-Request-Id: ${id}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    );
  }
  socket.destroySoon();
}
