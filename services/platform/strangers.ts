// What the handlers of Connect are given to read. Who calls without the token is refused before his message is read: decoding 16 MiB that he chose
// kept a service from all else for 8 s. What others send counts until its end, as that of plain unary calls does.
import type { ConnectRouter } from '@connectrpc/connect';
import type { Admission, UnaryOptions } from './unary.ts';
import { forget } from './unfinished.ts';

/**
 * Gives the handlers an empty message in the place of one whose caller is not admitted; refusing him is left to the interceptor. Of others all
 * that they send in a call counts as unfinished until they end it, and may have as many bytes as `admit` says; it has to end in time where the
 * call has one message, and not where it has a stream of them, which may stay open for as long as its caller likes.
 */
export function boundBodies(router: ConnectRouter, admit: UnaryOptions['admit']): void {
  for (const [place, handler] of router.handlers.entries()) {
    const { methodKind } = handler.method;
    const isTimed = methodKind === 'unary' || methodKind === 'server_streaming';
    const answer = (request: Parameters<typeof handler>[0]) => {
      const sent = request.body as AsyncIterable<Uint8Array>;
      let admission: Admission;
      try {
        admission = admit(handler.service.typeName, request.header.get('authorization') ?? '');
      } catch {
        forget(sent);
        return handler({ ...request, body: emptyMessage(request.header.get('content-type') ?? '') });
      }
      const { most, unfinished } = admission;
      const body = unfinished.counted(sent, most, isTimed, request.signal);
      return handler({ ...request, body });
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
