// How a gRPC call ends, for tests that read its frames.
import type { ClientHttp2Stream } from 'node:http2';
import { Code, ConnectError } from '@connectrpc/connect';

/** The trailers of a call; of a Trailers-Only answer its headers. */
export function trailersOf(stream: ClientHttp2Stream): Promise<Record<string, string>> {
  return new Promise((done) => {
    const onHeaders = (given: object) => {
      const trailers = Object.entries(given).filter(([name]) => ![':status', 'content-type', 'date'].includes(name));
      if ('grpc-status' in given) done(Object.fromEntries(trailers));
    };
    stream.on('response', onHeaders).on('trailers', onHeaders);
  });
}

/** The answer of a call as text, or its error's code and message. */
export async function answerOrError(call: Promise<Uint8Array>): Promise<unknown> {
  try {
    return Buffer.from(await call).toString();
  } catch (error) {
    const { code, rawMessage } = ConnectError.from(error);
    return { code: Code[code], message: rawMessage };
  }
}
