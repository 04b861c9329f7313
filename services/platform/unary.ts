// Unary calls of gRPC proper, which are nearly all that a service gets, without Connect's pipeline of asynchronous generators: through it a call
// cost the server 500 µs and 95 KiB, a third of which outlived its first collections; so, 200 µs and 25 KiB, of which a tenth does. Refusals are
// the same; all else (streams, compression, gRPC-Web, Connect's own protocol, JSON) is left to it, in smaller messages.
import { constants, type Http2ServerRequest, type Http2ServerResponse, type IncomingHttpHeaders } from 'node:http2';
import {
  create,
  toBinary,
  type DescMessage,
  type DescMethodUnary,
  type Message,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf';
import { Code, ConnectError, createContextValues, type ConnectRouter, type HandlerContext } from '@connectrpc/connect';
import { parseTimeout, setTrailerStatus } from '@connectrpc/connect/protocol-grpc';
import { messageInTurns, type Decoding } from './decoding.ts';
import { enveloped, envelopeBytes, headersOf } from './envelope.ts';
import { largeCall, placeOf } from './large-calls.ts';
import { compressed } from './messages.ts';
import { closeAnswered, closeSoon, sentTooLarge, tooLarge, type Unfinished } from './unfinished.ts';

type Implementation = (
  request: MessageShape<DescMethodUnary['input']>,
  context: HandlerContext,
) => Promise<MessageInitShape<DescMethodUnary['output']>>;

/** Bytes of a message, the same as `toBinary` makes of it. */
export type Encoder = (message: Message) => Uint8Array;

/** A unary method of the server. */
export interface Method {
  method: DescMethodUnary;
  answer: Implementation;
  encode: Encoder;
}

/** What a call is logged as. */
export interface LoggedCall extends Pick<HandlerContext, 'service' | 'method' | 'values'> {
  /** Its header `x-request-id`: which request of a client's it is made for. */
  requestId: string | undefined;
}

/** What is known of the server around. */
export interface UnaryOptions extends Decoding {
  maxTimeoutMs: number;
  /** Of answers that are encoded otherwise than by `toBinary`, by their types. */
  encoders?: ReadonlyMap<DescMessage, Encoder> | undefined;
  /** What a caller with this value of the header `authorization` may send to the service; throws where he may not call it. */
  admit: (service: string, authorization: string) => Admission;
  /** Runs and logs a call; what it throws is a ConnectError. */
  logged: <Result>(call: LoggedCall, run: () => Promise<Result>) => Promise<Result>;
}

/** What a caller may send. */
export interface Admission {
  /** His largest message, bytes. */
  most: number;
  /** Where his messages count until they end. */
  unfinished: Unfinished;
}

/** Answers unary calls of gRPC; false: the request is not one, and has not been touched. */
export type UnaryHandler = (request: Http2ServerRequest, response: Http2ServerResponse) => boolean;

const timedOut = 'the operation timed out';

/** The router, remembering each unary method that it is given; what answers those; and they, by their paths. */
export function unaryCalls(
  router: ConnectRouter,
  options: UnaryOptions,
): { router: ConnectRouter; handle: UnaryHandler; methods: ReadonlyMap<string, Method> } {
  const methods = new Map<string, Method>();
  const remembering: ConnectRouter = {
    ...router,
    service(service, implementation, more) {
      for (const method of service.methods) {
        const answer = (implementation as Record<string, Implementation | undefined>)[method.localName];
        if (answer && method.methodKind === 'unary') {
          const encode = options.encoders?.get(method.output) ?? ((message) => toBinary(method.output, message));
          methods.set(`/${service.typeName}/${method.name}`, {
            method: method as DescMethodUnary,
            answer: answer.bind(implementation),
            encode,
          });
        }
      }
      router.service(service, implementation, more);
      return this;
    },
  };
  const handle: UnaryHandler = (request, response) => {
    const called = methods.get(request.url);
    if (!called || !isPlain(request)) return false;
    // What can't be written is a fault of this house, and must not end the process.
    answer(called, request, response, options).catch(() => request.stream.close(constants.NGHTTP2_INTERNAL_ERROR));
    return true;
  };
  return { router: remembering, handle, methods };
}

/** Whether a request is of gRPC proper, and not compressed. */
export function isPlain({ method, headers }: Http2ServerRequest): boolean {
  const isGrpc = /^application\/grpc(\+proto)?$/.test(headers['content-type'] ?? '');
  return method === 'POST' && isGrpc && (headers['grpc-encoding'] ?? 'identity') === 'identity';
}

async function answer(called: Method, request: Http2ServerRequest, response: Http2ServerResponse, options: UnaryOptions): Promise<void> {
  const { stream, headers } = request;
  const call = new Call(called.method, request.url, headers);
  let ended: (() => void) | undefined;
  const outcome = await outcomeOf(called, call, options, async (admission) => {
    call.begin(timeoutOf(headers, options.maxTimeoutMs));
    stream.once('close', () => call.leave());
    const bytes = unwrapped(await bodyOf(request, admission, call.signal), options);
    if (bytes.length > largeCall) ended = await placeOf(request, bytes.length, admission.unfinished, call.signal);
    return messageInTurns(called.method.input, bytes, options, call.signal);
  });
  ended?.();
  if (!stream.destroyed) respond(request, response, outcome);
}

type Received = MessageShape<DescMethodUnary['input']>;

/** What a call is answered: a message's bytes, or a refusal. */
export type Outcome = { bytes: Uint8Array } | { failure: ConnectError };

/** Admits and answers a call; `received` begins it, and gives its message. */
export async function outcomeOf(
  { method, answer, encode }: Method,
  call: Call,
  options: UnaryOptions,
  received: (admission: Admission) => Received | Promise<Received>,
): Promise<Outcome> {
  try {
    const bytes = await options.logged(call, async () => {
      const admission = options.admit(method.parent.typeName, call.header.authorization ?? '');
      const message = await received(admission);
      // Who asks and takes it back at once has nothing begun.
      if (call.hasLeft) throw call.signal.reason;
      const result = create(method.output, await answer(message, call));
      const encoded = encode(result);
      if (encoded.length > options.maxMessageBytes) throw tooLarge(encoded.length, options.maxMessageBytes);
      return encoded;
    });
    return { bytes };
  } catch (error) {
    return { failure: ConnectError.from(error) };
  } finally {
    call.end();
  }
}

/** Ends a request with a message, or the trailers of a refusal, or without either where all has been said. */
export function respond(request: Http2ServerRequest, response: Http2ServerResponse, outcome: Outcome | undefined): void {
  const { stream } = request;
  const head = { 'content-type': request.headers['content-type'] as string };
  const said = outcome && 'failure' in outcome ? refusalTrailers(outcome.failure) : { 'grpc-status': '0' };
  const isInOneFrame = said['grpc-status'] !== '0' && !response.headersSent;
  if (isInOneFrame) {
    // "Trailers-Only": once headers have come a client takes the call for answered, and asks no more, whatever its policy says (gRFC A6). Written
    // before the end they would be a frame of their own.
    for (const [name, value] of Object.entries({ ...head, ...said })) response.setHeader(name, value);
  } else {
    if (!response.headersSent) response.writeHead(200, head);
    response.addTrailers(said);
  }
  if (outcome && 'bytes' in outcome) response.end(enveloped(outcome.bytes));
  else response.end();
  if (stream.readableEnded) return;
  // Whoever does not take his answer, a window of nothing is enough, would keep here what he goes on to send.
  stream.resume();
  if (isInOneFrame) closeSoon(stream);
  else closeAnswered(stream);
}

/** A call as its handler sees it. */
export class Call implements HandlerContext {
  readonly method: DescMethodUnary;
  readonly requestMethod = 'POST';
  readonly protocolName = 'grpc';
  readonly url: string;
  readonly values = createContextValues();
  /** As it came. */
  readonly header: IncomingHttpHeaders;
  private readonly aborting = new AbortController();
  private readHeader: Headers | undefined;
  private deadline: number | undefined;
  private timer: NodeJS.Timeout | undefined;
  private ended = false;
  /** Whether its caller has left. */
  hasLeft = false;

  /** `readHeader`: the same as Connect reads it, where that is known. */
  constructor(method: DescMethodUnary, url: string, header: IncomingHttpHeaders, readHeader?: Headers) {
    this.method = method;
    this.url = url;
    this.header = header;
    this.readHeader = readHeader;
  }

  get service(): DescMethodUnary['parent'] {
    return this.method.parent;
  }

  get signal(): AbortSignal {
    return this.aborting.signal;
  }

  get requestId(): string | undefined {
    return this.header['x-request-id'] as string | undefined;
  }

  get requestHeader(): Headers {
    return (this.readHeader ??= headersOf(this.header));
  }

  get responseHeader(): Headers {
    throw new Error('a unary call of gRPC has no headers of its answer');
  }

  get responseTrailer(): Headers {
    throw new Error('a unary call of gRPC has no trailers of its answer');
  }

  readonly timeoutMs = (): number | undefined => (this.deadline === undefined ? undefined : Math.max(0, this.deadline - performance.now()));

  /** Aborts the signal when the caller's deadline passes, if he has one: so many milliseconds from now. Throws where that is none. */
  begin(timeoutMs: number | undefined): void {
    if (timeoutMs === undefined) return;
    // A timer would end a call that is answered by then.
    if (timeoutMs <= 0) throw new ConnectError(timedOut, Code.DeadlineExceeded);
    this.deadline = performance.now() + timeoutMs;
    this.timer = setTimeout(() => this.abort(timedOut, Code.DeadlineExceeded), timeoutMs);
  }

  /** Aborts the signal, as its caller leaves. */
  leave(): void {
    this.hasLeft = true;
    this.abort('the caller has gone', Code.Canceled);
  }

  end(): void {
    this.ended = true;
    clearTimeout(this.timer);
  }

  // An error costs a trace of its stack: it is made only where somebody still waits, not at the end of every call.
  private abort(message: string, code: Code): void {
    if (!this.ended) this.aborting.abort(new ConnectError(message, code));
  }
}

/** How long a caller waits, milliseconds. Throws where that can't be read. */
function timeoutOf({ 'grpc-timeout': given }: IncomingHttpHeaders, maxTimeoutMs: number): number | undefined {
  const { timeoutMs, error } = parseTimeout(typeof given === 'string' ? given : null, maxTimeoutMs);
  if (error) throw error;
  return timeoutMs;
}

/** The bytes that a caller sent, to their end; `signal`: he has left, or his deadline has passed. */
function bodyOf({ stream }: Http2ServerRequest, { most, unfinished }: Admission, signal: AbortSignal): Promise<Buffer> {
  return new Promise((done, fail) => {
    let pieces: Buffer[] = [];
    let settled = false;
    // The listeners stay as long as the call, and must not keep what it came in.
    const settle = () => {
      settled = true;
      pieces = [];
      message.end();
    };
    const refuse = (error: ConnectError) => {
      if (settled) return;
      settle();
      fail(error);
    };
    const end = () => {
      if (settled) return;
      // At once: what aborts the call may come before whoever waits for the message is told.
      const whole = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
      settle();
      done(whole);
    };
    const message = unfinished.begin(most, refuse);
    stream.on('data', (piece: Buffer) => {
      // What is refused is read on, and forgotten.
      if (settled) return;
      const refusal = message.add(piece);
      if (refusal) refuse(refusal);
      else pieces.push(piece);
    });
    // It may have ended before it was taken up.
    if (stream.readableEnded) end();
    stream.once('end', end);
    signal.addEventListener('abort', () => refuse(signal.reason as ConnectError), { once: true });
  });
}

/** What is in the envelope of a body that is one message. */
function unwrapped(body: Buffer, { maxMessageBytes }: UnaryOptions): Buffer {
  if (body.length === 0) throw new ConnectError('protocol error: missing input message for unary method', Code.Unimplemented);
  if (body.length < envelopeBytes) throw new ConnectError('protocol error: incomplete envelope', Code.InvalidArgument);
  const length = body.readUInt32BE(1);
  if (length > maxMessageBytes) throw sentTooLarge(length, maxMessageBytes);
  if (body[0] !== 0) throw compressed();
  const received = body.length - envelopeBytes;
  if (received < length) throw new ConnectError(`protocol error: promised ${length} bytes, received ${received}`, Code.InvalidArgument);
  if (received > length) throw new ConnectError('protocol error: received extra input message for unary method', Code.Unimplemented);
  return body.subarray(envelopeBytes);
}

/** The trailers of a refusal. Throws where its message holds half a character. */
export function refusalTrailers(failure: ConnectError): Record<string, string> {
  const trailers = setTrailerStatus(new Headers(), failure);
  return { ...Object.fromEntries(trailers), 'grpc-message': percentEncoded(failure.rawMessage) };
}

// No more than gRPC asks for: grpc-js shows `%2C` and its like as they come, which Connect writes for a comma.
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses
function percentEncoded(text: string): string {
  return text.replaceAll(/[^\x20-\x24\x26-\x7e]+/g, encodeURIComponent);
}
