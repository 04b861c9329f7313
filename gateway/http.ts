// What Node's parser has no request for, or not the whole: its errors and requests for a tunnel, which are answered in the envelope like all others,
// and wishes for another protocol.
import { randomUUID } from 'node:crypto';
import { STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { isAnswered } from './body.ts';
import { ApiError, type ErrorCode } from './errors.ts';

const codes: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

// Connections that end behind the answers to what came whole. What comes on them meanwhile, Node's parser finds broken as well.
const ending = new WeakSet<Duplex>();

/** Answers a broken request and closes the connection. `count` is told the status where it belongs to no request that is counted anyway. */
export function answerBrokenHttp(error: Error & { code?: string }, socket: Socket, count: (status: number) => void): void {
  if (error.code === 'ECONNRESET' || socket.destroyed || ending.has(socket)) return;
  // Bytes behind a request that was said to be the last: nobody's, and that one's answer ends the connection.
  if (error.code === 'HPE_CLOSED_CONNECTION') return;
  const { parser } = socket as Socket & { parser?: { incoming: IncomingMessage | null } | null };
  if (parser?.incoming && isAnswered(parser.incoming)) {
    // Its answer may wait for those of what came before.
    behindAnswers(socket, () => socket.destroySoon());
    return;
  }
  // Who was answered before his body had come, and then hangs up, has his answer.
  const hangsUp = error.code === 'HPE_INVALID_EOF_STATE' && socket.bytesWritten > 0;
  const problem = new ApiError(codes[error.code ?? ''] ?? 'malformed_request');
  const isBehind = isUnderWay(socket);
  behindAnswers(socket, () => {
    // Bytes behind the last whole request, as of a body whose length was counted in characters, wait for no answer.
    const isAwaited = !isBehind || underWay(socket);
    if (socket.writable && isAwaited && !hangsUp) {
      if (!underWay(socket)) count(problem.status);
      socket.write(textOf(problem));
    }
    socket.destroySoon();
  });
}

/** Answers a request for a tunnel, which Node would drop without a word: it is to another server, so there is no such route. */
export function answerConnect(socket: Duplex, count: (status: number) => void): void {
  socket.on('error', () => undefined);
  behindAnswers(socket, () => {
    if (!socket.writable) return;
    const problem = new ApiError('route_not_found');
    count(problem.status);
    socket.end(textOf(problem), () => socket.destroy());
  });
}

/** Calls `then` once every request is answered that has come whole, which may have been posted; half an answer can't be mended, either. */
function behindAnswers(socket: Duplex, then: () => void): void {
  ending.add(socket);
  // Node has the answer that is written next there, and looks there itself.
  if (isUnderWay(socket)) underWay(socket)?.once('close', () => behindAnswers(socket, then));
  else then();
}

function isUnderWay(socket: Duplex): boolean {
  const answer = underWay(socket);
  return socket.writable && answer?.writableFinished === false && (answer.req.complete || answer.headersSent);
}

/**
 * Has a request that wishes for another protocol read once more without the wish, as no other is spoken here (RFC 9110, section 7.8). Node's parser
 * ends with such a request, and drops what it has read behind it: the next answer was taken for that of a request which was lost, and the rest of a
 * body for a request. `behind` is all that was read behind its headers.
 */
export function ignoreUpgrade(server: Server, request: IncomingMessage, socket: Duplex, behind: Buffer): void {
  const fail = () => socket.destroy();
  socket.once('error', fail);
  const readAgain = () => {
    const before = underWay(socket);
    // Node has an order of answers for each parser.
    if (before) {
      before.once('close', readAgain);
      return;
    }
    socket.removeListener('error', fail);
    if (socket.destroyed || socket.writableEnded) return;
    const { method = '', url = '', httpVersion, rawHeaders } = request;
    let head = `${method} ${url} HTTP/${httpVersion}\r\n`;
    for (let place = 0; place < rawHeaders.length; place += 2) {
      const name = rawHeaders[place] as string;
      if (name.toLowerCase() !== 'upgrade') head += `${name}: ${rawHeaders[place + 1] ?? ''}\r\n`;
    }
    socket.unshift(Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), behind]));
    server.emit('connection', socket);
  };
  readAgain();
}

function underWay(socket: Duplex): ServerResponse | null | undefined {
  return (socket as Duplex & { _httpMessage?: ServerResponse | null })._httpMessage;
}

function textOf(problem: ApiError): string {
  const id = randomUUID();
  const body = JSON.stringify(problem.body(id));
  return (
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status] ?? ''}\r\nContent-Type: application/json; charset=utf-8\r\n` +
    `X-Request-Id: ${id}\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n` +
    `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`
  );
}
