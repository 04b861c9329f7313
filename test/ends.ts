// How a call of gRPC ends, for tests that look at its frames.
import type { ClientHttp2Stream } from 'node:http2';
import { Code, ConnectError } from '@connectrpc/connect';

/** What is said at a call's end: its trailers, or what stands in their place where the answer is one frame. */
export function endOf(stream: ClientHttp2Stream): Promise<Record<string, string>> {
  return new Promise((done) => {
    const say = (given: object) => {
      const said = Object.entries(given).filter(([name]) => ![':status', 'content-type', 'date'].includes(name));
      if ('grpc-status' in given) done(Object.fromEntries(said));
    };
    stream.on('response', say).on('trailers', say);
  });
}

/** What a call was answered, as text, or refused with. */
export async function said(call: Promise<Uint8Array>): Promise<unknown> {
  try {
    return Buffer.from(await call).toString();
  } catch (error) {
    const { code, rawMessage } = ConnectError.from(error);
    return { code: Code[code], message: rawMessage };
  }
}
