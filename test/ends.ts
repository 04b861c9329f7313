// How a call of gRPC ends, for tests that look at its frames.
import type { ClientHttp2Stream } from 'node:http2';

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
