// What the handlers of Connect are given to read. Who calls without the token is refused before his message is read: decoding 16 MiB that he chose
// kept a service from all else for 8 s. What others send counts until its end, as that of plain unary calls does, and is decoded as theirs is.
import type { DescMethodUnary } from '@bufbuild/protobuf';
import { ConnectError, createContextKey, createContextValues, type ConnectRouter, type Interceptor } from '@connectrpc/connect';
import { messageOf, undecodable, type Decoding } from './decoding.ts';
import { unwrapped } from './envelope.ts';
import { compressed } from './messages.ts';
import type { Admission, UnaryOptions } from './unary.ts';
import { forget } from './unfinished.ts';

/** What a unary call was sent, or why that is refused; nothing where Connect is left to read it. */
const sent = createContextKey<{ message: ReturnType<typeof messageOf> } | { refusal: unknown } | undefined>(undefined);

/**
 * Gives the handlers an empty message in the place of one whose caller is not admitted; refusing him is left to the interceptor. Of others all
 * that they send in a call counts as unfinished until they end it, and may have as many bytes as `admit` says; it has to end in time where the
 * call has one message, and not where it has a stream of them, which may stay open for as long as its caller likes. A unary call's message in
 * binary form is decoded here, and given by {@link givingMessages}.
 */
export function boundBodies(router: ConnectRouter, admit: UnaryOptions['admit'], decoding: Decoding): void {
  for (const [place, handler] of router.handlers.entries()) {
    const { method } = handler;
    const isTimed = method.methodKind === 'unary' || method.methodKind === 'server_streaming';
    const answer = async (request: Parameters<typeof handler>[0]) => {
      const body = request.body as AsyncIterable<Uint8Array>;
      const contentType = request.header.get('content-type') ?? '';
      let admission: Admission;
      try {
        admission = admit(handler.service.typeName, request.header.get('authorization') ?? '');
      } catch {
        forget(body);
        return handler({ ...request, ...emptied(request.header, contentType) });
      }
      const { most, unfinished } = admission;
      const counted = unfinished.counted(body, most, isTimed, request.signal);
      if (method.methodKind !== 'unary' || contentType.includes('json')) return handler({ ...request, body: counted });
      const pieces: Uint8Array[] = [];
      try {
        for await (const piece of counted) pieces.push(piece);
      } catch (error) {
        return handler({ ...request, body: failing(error) });
      }
      const bytes = Buffer.concat(pieces);
      const message = isBare(contentType) ? uncompressed(bytes, request.header) : unwrapped(bytes);
      // Whatever is wrong with how it is wrapped, or compressed, Connect says.
      if (!message) return handler({ ...request, body: one(bytes) });
      const contextValues = (request.contextValues ?? createContextValues()).set(
        sent,
        decoded(method as DescMethodUnary, message, decoding),
      );
      return handler({ ...request, ...emptied(request.header, contentType), contextValues });
    };
    router.handlers[place] = Object.assign(answer, handler);
  }
}

/**
 * Gives unary calls what {@link boundBodies} has decoded, and refuses what can't be, also in a stream, and there what is compressed
 * and does not say how: connect-es calls them internal, as if they were a fault of the house.
 */
export function givingMessages(refused: UnaryOptions['refused']): Interceptor {
  return (next) => (request) => {
    if (request.stream) return next({ ...request, message: blamed(request.message, refused) });
    const given = request.contextValues.get(sent);
    if (!given) return next(request);
    if ('refusal' in given) throw given.refusal;
    return next({ ...request, message: given.message });
  };
}

function decoded(
  method: DescMethodUnary,
  bytes: Uint8Array,
  decoding: Decoding,
): { message: ReturnType<typeof messageOf> } | { refusal: unknown } {
  try {
    return { message: messageOf(method.input, bytes, decoding) };
  } catch (refusal) {
    return { refusal };
  }
}

async function* blamed<Message>(messages: AsyncIterable<Message>, refused: UnaryOptions['refused']): AsyncIterable<Message> {
  try {
    yield* messages;
  } catch (error) {
    const why = error instanceof ConnectError ? error.rawMessage : '';
    if (why.startsWith('parse binary')) throw refused(undecodable);
    throw why.startsWith('received compressed envelope') ? compressed() : error;
  }
}

/** Whether messages travel without an envelope, as those of Connect's unary calls do. */
function isBare(contentType: string): boolean {
  return /^application\/(json|proto)\b/.test(contentType);
}

/** A message without an envelope that is not compressed; undefined where it is. */
function uncompressed(bytes: Buffer, header: Headers): Buffer | undefined {
  return (header.get('content-encoding') ?? 'identity') === 'identity' ? bytes : undefined;
}

async function* one(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

async function* failing(error: unknown): AsyncIterable<Uint8Array> {
  throw error;
}

/** An empty message in the place of what came, and headers that do not tell of what came: Connect compares a length that was promised. */
function emptied(header: Headers, contentType: string): { body: AsyncIterable<Uint8Array>; header: Headers } {
  const own = new Headers(header);
  for (const name of ['content-length', 'content-encoding']) own.delete(name);
  return { body: emptyMessage(contentType), header: own };
}

/** An empty message on the wire of Connect's unary calls, or, of all others, behind five bytes: no flags, and its length. */
async function* emptyMessage(contentType: string): AsyncIterable<Uint8Array> {
  const message = new TextEncoder().encode(contentType.includes('json') ? '{}' : '');
  yield isBare(contentType) ? message : Uint8Array.of(0, 0, 0, 0, message.length, ...message);
}
