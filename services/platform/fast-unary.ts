// Answers plain unary gRPC calls without Connect's handler pipeline, which costs 330 µs of CPU a call.
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { create, fromBinary, toBinary, type DescMessage, type DescMethodUnary, type Message, type MessageShape } from '@bufbuild/protobuf';
import { Code, ConnectError, createContextValues, type ConnectRouter, type HandlerContext } from '@connectrpc/connect';
import { parseTimeout, setTrailerStatus } from '@connectrpc/connect/protocol-grpc';
import { refuse } from './errors.ts';

type Handler = (request: Message, context: HandlerContext) => Promise<Message>;

/** Encodes a message to the bytes that `toBinary` makes of it. */
export type Encoder = (message: Message) => Uint8Array;

/** Authenticates, runs, logs and measures a call. What it rejects with is a ConnectError. */
export type Intercept = <Result>(
  call: Pick<HandlerContext, 'service' | 'method' | 'values'>,
  header: (name: string) => string | undefined,
  run: () => Promise<Result>,
) => Promise<Result>;

/** How unary calls are answered. */
export interface FastUnaryOptions {
  /** Largest message in either direction. */
  maxMessageBytes: number;
  /** Used in place of `toBinary`, by response type. */
  encoders?: ReadonlyMap<DescMessage, Encoder> | undefined;
  intercept: Intercept;
}

interface Route {
  method: DescMethodUnary;
  handler: Handler;
  encode: Encoder;
}

const envelopeBytes = 5;
// Timers take at most 2^31 - 1 ms.
const maxTimerMs = 24 * 3600_000;
const head = { ':status': 200, 'content-type': 'application/grpc' };
// Handlers set no headers.
const unsent = new Headers();

/** Answers a request, or returns false and leaves it untouched. */
export type StreamHandler = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => boolean;

/**
 * Returns a router that notes each method, and what answers plain unary gRPC calls of them and refuses those of unknown methods.
 * Any other request is left.
 */
export function fastUnary(router: ConnectRouter, options: FastUnaryOptions): { router: ConnectRouter; handle: StreamHandler } {
  // Undefined for methods that Connect answers.
  const routes = new Map<string, Route | undefined>();
  const noting: ConnectRouter = {
    ...router,
    service(service, implementation, more) {
      for (const method of service.methods) {
        const handler = (implementation as Record<string, Handler | undefined>)[method.localName]?.bind(implementation);
        const encode = options.encoders?.get(method.output) ?? ((message: Message) => toBinary(method.output, message));
        const isFast = handler !== undefined && method.methodKind === 'unary';
        routes.set(`/${service.typeName}/${method.name}`, isFast ? { method: method as DescMethodUnary, handler, encode } : undefined);
      }
      router.service(service, implementation, more);
      return this;
    },
  };
  const handle: StreamHandler = (stream, headers) => {
    const path = headers[':path'] ?? '';
    const subtype = /^application\/grpc(?:\+(proto|json))?$/.exec(headers['content-type'] ?? '');
    if (!subtype || headers[':method'] !== 'POST') return false;
    const route = routes.get(path);
    if (!route && !routes.has(path)) fail(stream, new ConnectError(`unknown method ${path}`, Code.Unimplemented));
    else if (!route || subtype[1] === 'json' || (headers['grpc-encoding'] ?? 'identity') !== 'identity') return false;
    // An answer that can't be written must not end the process.
    else answer(route, stream, headers, options).catch(() => stream.close(constants.NGHTTP2_INTERNAL_ERROR));
    return true;
  };
  return { router: noting, handle };
}

async function answer(route: Route, stream: ServerHttp2Stream, headers: IncomingHttpHeaders, options: FastUnaryOptions): Promise<void> {
  const { method, handler, encode } = route;
  const { maxMessageBytes } = options;
  const canceling = new AbortController();
  const { signal } = canceling;
  let deadline: number | undefined;
  let timer: NodeJS.Timeout | undefined;
  const context: HandlerContext = {
    method,
    service: method.parent,
    requestMethod: 'POST',
    protocolName: 'grpc',
    url: headers[':path'] as string,
    values: createContextValues(),
    signal,
    timeoutMs: () => deadline && Math.max(0, deadline - performance.now()),
    get requestHeader() {
      return new Headers(Object.entries(headers).flatMap(([name, value]) => (name.startsWith(':') ? [] : [[name, String(value)]])));
    },
    responseHeader: unsent,
    responseTrailer: unsent,
  };
  let isAnswered = false;
  const cancel = (message: string, code: Code) => isAnswered || canceling.abort(new ConnectError(message, code));
  stream.once('close', () => cancel('the client canceled the call', Code.Canceled));
  try {
    const bytes = await options.intercept(
      context,
      (name) => headers[name] as string | undefined,
      async () => {
        const timeoutMs = timeoutOf(headers);
        if (timeoutMs !== undefined) {
          deadline = performance.now() + timeoutMs;
          timer = setTimeout(() => cancel('the deadline has passed', Code.DeadlineExceeded), Math.min(timeoutMs, maxTimerMs));
        }
        const request = decode(method.input, await receive(stream, maxMessageBytes, signal));
        signal.throwIfAborted();
        const encoded = encode(create(method.output, await handler(request, context)));
        if (encoded.length > maxMessageBytes) throw tooLarge('response', maxMessageBytes);
        return encoded;
      },
    );
    isAnswered = true;
    if (stream.destroyed) return;
    stream.respond(head, { waitForTrailers: true });
    stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(envelope(bytes));
  } catch (error) {
    isAnswered = true;
    if (!stream.destroyed) fail(stream, ConnectError.from(error));
  } finally {
    clearTimeout(timer);
  }
}

// "Trailers-Only": a client of gRPC may not retry after separate headers (gRFC A6).
function fail(stream: ServerHttp2Stream, error: ConnectError): void {
  const trailers = Object.fromEntries(setTrailerStatus(new Headers(), error));
  // grpc-js does not decode `%2C`, so only what must be is encoded.
  const message = error.rawMessage.toWellFormed().replaceAll(/[^\x20-\x24\x26-\x7e]+/g, encodeURIComponent);
  stream.respond({ ...head, ...trailers, 'grpc-message': message }, { endStream: true });
  stream.resume();
  // A client that never ends its request would keep the stream. Closed in this turn, the stream would lose the answer.
  setImmediate(() => stream.readableEnded || stream.close(constants.NGHTTP2_NO_ERROR));
}

/** How long the client waits. Throws for a deadline that is malformed or has passed. */
function timeoutOf({ 'grpc-timeout': given }: IncomingHttpHeaders): number | undefined {
  const { timeoutMs, error } = parseTimeout(typeof given === 'string' ? given : null, Infinity);
  if (error) throw error;
  if (timeoutMs !== undefined && timeoutMs <= 0) throw new ConnectError('the deadline has passed', Code.DeadlineExceeded);
  return timeoutMs;
}

function receive(stream: ServerHttp2Stream, maxMessageBytes: number, signal: AbortSignal): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let size = 0;
    stream.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > envelopeBytes + maxMessageBytes) reject(tooLarge('request', maxMessageBytes));
      else chunks.push(chunk);
    });
    stream.once('end', () => {
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
      // The listener may live until the next major collection.
      chunks = [];
    });
    signal.addEventListener('abort', () => reject(signal.reason as ConnectError), { once: true });
  });
}

function decode(type: DescMethodUnary['input'], body: Buffer): MessageShape<DescMethodUnary['input']> {
  const isOneMessage = body.length >= envelopeBytes && body[0] === 0 && body.readUInt32BE(1) === body.length - envelopeBytes;
  if (!isOneMessage) throw invalid('the request must be one uncompressed message');
  try {
    return fromBinary(type, body.subarray(envelopeBytes));
  } catch {
    throw invalid(`the request is not a ${type.typeName}`);
  }
}

function envelope(message: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(envelopeBytes + message.length);
  bytes[0] = 0;
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, envelopeBytes);
  return bytes;
}

/** The error for a malformed request. */
function invalid(message: string): ConnectError {
  return refuse(Code.InvalidArgument, { reason: 'validation_failed', message });
}

function tooLarge(what: 'request' | 'response', maxMessageBytes: number): ConnectError {
  return refuse(Code.ResourceExhausted, {
    reason: 'payload_too_large',
    message: `the ${what} is larger than ${maxMessageBytes} bytes`,
  });
}
