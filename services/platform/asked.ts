// A call that another process was asked, alone or with others on one stream: how it is left, and what went wrong with it.
import {
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
} from 'node:http2';
import { Code, ConnectError } from '@connectrpc/connect';
import { validateResponse, validateTrailer } from '@connectrpc/connect/protocol-grpc';
import { headersOf } from './envelope.ts';

/** A call that was asked. */
export interface Asked {
  /** The bytes of the message that answers it. Rejects with a {@link ConnectError}, also where it is left. */
  answer: Promise<Uint8Array>;
  /** False where it has failed and the other side has not begun to answer it. */
  mayHaveBegun: () => boolean;
  /** Tells the other side that nobody waits any more. */
  leave: () => void;
}

/**
 * Headers of every call of gRPC. With this priority a piece of each answer is sent in turn (RFC 9218). Where none is said each is sent to its
 * end before a later one begins: a balance, and the question whether the other side lives, then came behind the 100 MB of pages that somebody
 * had asked for before.
 */
export const ofEachCall = { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers', priority: 'u=3, i' };

/** Headers as they are answered. */
export type AnswerHeaders = IncomingHttpHeaders & IncomingHttpStatusHeader;

// Connections that the other side ended with this code, which Node then gives to each of their streams, also to those that were begun.
const endedRefusing = new WeakSet<ClientHttp2Session>();

/** Remembers that the other side has ended a connection, with this code. */
export function noteEnd(session: ClientHttp2Session, code: number): void {
  if (code === constants.NGHTTP2_REFUSED_STREAM) endedRefusing.add(session);
}

/** False of a stream that got no number, or was refused. */
export function mayHaveBegun({ id, rstCode }: ClientHttp2Stream, session: ClientHttp2Session | undefined): boolean {
  return id !== undefined && (rstCode !== constants.NGHTTP2_REFUSED_STREAM || (session !== undefined && endedRefusing.has(session)));
}

/** Whether these are the headers and trailers of an answer that is no refusal. */
export function isAnswer(header: AnswerHeaders, trailer: IncomingHttpHeaders | undefined): boolean {
  return header[':status'] === 200 && (trailer ?? header)['grpc-status'] === '0';
}

/** What the headers and trailers of a refusal say, or what is wrong with them. */
export function failureIn(header: AnswerHeaders, trailer: IncomingHttpHeaders | undefined): unknown {
  try {
    const headers = headersOf(header);
    const { headerError } = validateResponse(Number(header[':status']), headers);
    if (headerError) return headerError;
    validateTrailer(withReadableMessage(headersOf(trailer ?? {})), withReadableMessage(headers));
  } catch (error) {
    return error;
  }
  // Details without a code pass for none.
  return new ConnectError('a refusal without a code', Code.Internal);
}

// What is not percent-encoded rightly must not take the code with it: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses
function withReadableMessage(headers: Headers): Headers {
  const message = headers.get('grpc-message') ?? '';
  try {
    decodeURIComponent(message);
  } catch {
    headers.set('grpc-message', encodeURIComponent(message));
  }
  return headers;
}
