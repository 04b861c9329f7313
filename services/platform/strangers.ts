// Who calls without the token is refused before his message is read: decoding 16 MiB that he chose kept a service from all else for 8 s.
import type { ConnectRouter } from '@connectrpc/connect';
import { Health } from '../../proto/gen/grpc/health/v1/health_pb.js';

/** Gives the handlers of all calls but health checks an empty message in the place of a stranger's; refusing him is left to the interceptor. */
export function readNoStrangers(router: ConnectRouter, isKnown: (authorization: string) => boolean): void {
  for (const [place, handler] of router.handlers.entries()) {
    if (handler.service.typeName === Health.typeName) continue;
    const answer = (request: Parameters<typeof handler>[0]) => {
      const stranger = !isKnown(request.header.get('authorization') ?? '');
      return handler(stranger ? { ...request, body: emptyMessage(request.header.get('content-type') ?? '') } : request);
    };
    router.handlers[place] = Object.assign(answer, handler);
  }
}

/** An empty message on the wire of Connect's unary calls, or, of all others, behind five bytes: no flags, and its length. */
async function* emptyMessage(contentType: string): AsyncIterable<Uint8Array> {
  const message = new TextEncoder().encode(contentType.includes('json') ? '{}' : '');
  const isBare = /^application\/(json|proto)\b/.test(contentType);
  yield isBare ? message : Uint8Array.of(0, 0, 0, 0, message.length, ...message);
}
