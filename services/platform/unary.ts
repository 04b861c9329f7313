// Unary calls of gRPC proper, which are nearly all that a service gets, without Connect's pipeline of asynchronous generators: through it a call
// cost the server 500 µs and 95 KiB, a third of which outlived its first collections; so, 200 µs and 25 KiB, of which a tenth does. Refusals are
// the same; all else (streams, compression, gRPC-Web, Connect's own protocol, JSON) is left to it, in smaller messages.
import { constants, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type DescMethodUnary,
  type Message,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf';
import { Code, ConnectError, createContextValues, type ConnectRouter, type HandlerContext } from '@connectrpc/connect';
import { parseTimeout, setTrailerStatus } from '@connectrpc/connect/protocol-grpc';
import { enveloped, envelopeBytes, headersOf } from './envelope.ts';
import { makesMoreThan } from './objects.ts';
import { closeAnswered, tooLarge, type Unfinished } from './unfinished.ts';

type Implementation = (
  request: MessageShape<DescMethodUnary['input']>,
  context: HandlerContext,
) => Promise<MessageInitShape<DescMethodUnary['output']>>;

/** Bytes of a message, the same as `toBinary` makes of it. */
export type Encoder = (message: Message) => Uint8Array;

interface Method {
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
export interface UnaryOptions {
  /** Largest message in either direction, bytes. */
  maxMessageBytes: number;
  maxTimeoutMs: number;
  /** Of answers that are encoded otherwise than by `toBinary`, by their types. */
  encoders?: ReadonlyMap<DescMessage, Encoder> | undefined;
  /** What a caller with this value of the header `authorization` may send to the service; throws where he may not call it. */
  admit: (service: string, authorization: string) => Admission;
  /** Runs and logs a call; what it throws is a ConnectError. */
  logged: <Result>(call: LoggedCall, run: () => Promise<Result>) => Promise<Result>;
  /** The refusal of a message that is its caller's fault; `InvalidArgument` unless another code is given. */
  refused: (why: string, code?: Code) => ConnectError;
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

// For each so many bytes that a message may have, decoding one may make an object: 32 MiB admit a thousand postings of 200 entries.
const bytesPerObject = 160;

/** The router, remembering each unary method that it is given; and what answers those. */
export function unaryCalls(router: ConnectRouter, options: UnaryOptions): { router: ConnectRouter; handle: UnaryHandler } {
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
    const { headers } = request;
    const called = request.method === 'POST' ? methods.get(request.url) : undefined;
    if (
      !called ||
      !/^application\/grpc(\+proto)?$/.test(headers['content-type'] ?? '') ||
      (headers['grpc-encoding'] ?? 'identity') !== 'identity'
    ) {
      return false;
    }
    // What can't be written is a fault of this house, and must not end the process.
    answer(called, request, response, options).catch(() => request.stream.close(constants.NGHTTP2_INTERNAL_ERROR));
    return true;
  };
  return { router: remembering, handle };
}

async function answer(called: Method, request: Http2ServerRequest, response: Http2ServerResponse, options: UnaryOptions): Promise<void> {
  const { method } = called;
  const call = new Call(request, method);
  let bytes: Uint8Array | undefined;
  let failure: ConnectError | undefined;
  try {
    bytes = await options.logged(call, async () => {
      const admission = options.admit(method.parent.typeName, request.headers.authorization ?? '');
      call.begin(options.maxTimeoutMs);
      const body = await bodyOf(request, admission, call.signal);
      const message = decoded(method, body, options);
      const result = create(method.output, await called.answer(message, call));
      return encoded(called.encode(result), options.maxMessageBytes);
    });
  } catch (error) {
    failure = ConnectError.from(error);
  }
  call.end();
  if (request.stream.destroyed) return;
  response.writeHead(200, { 'content-type': request.headers['content-type'] });
  response.addTrailers(failure ? refusalTrailers(failure) : { 'grpc-status': '0' });
  if (bytes) response.end(bytes);
  else response.end();
  if (request.stream.readableEnded) return;
  // Whoever does not take his answer, a window of nothing is enough, would keep here what he goes on to send.
  request.stream.resume();
  closeAnswered(request.stream);
}

/** A call as its handler sees it. */
class Call implements HandlerContext {
  readonly method: DescMethodUnary;
  readonly requestMethod = 'POST';
  readonly protocolName = 'grpc';
  readonly url: string;
  readonly values = createContextValues();
  private readonly request: Http2ServerRequest;
  private readonly aborting = new AbortController();
  private header: Headers | undefined;
  private deadline: number | undefined;
  private timer: NodeJS.Timeout | undefined;
  private ended = false;

  constructor(request: Http2ServerRequest, method: DescMethodUnary) {
    this.request = request;
    this.method = method;
    this.url = request.url;
  }

  get service(): DescMethodUnary['parent'] {
    return this.method.parent;
  }

  get signal(): AbortSignal {
    return this.aborting.signal;
  }

  get requestId(): string | undefined {
    return this.request.headers['x-request-id'] as string | undefined;
  }

  get requestHeader(): Headers {
    return (this.header ??= headersOf(this.request.headers));
  }

  get responseHeader(): Headers {
    throw new Error('a unary call of gRPC has no headers of its answer');
  }

  get responseTrailer(): Headers {
    throw new Error('a unary call of gRPC has no trailers of its answer');
  }

  readonly timeoutMs = (): number | undefined => (this.deadline === undefined ? undefined : Math.max(0, this.deadline - performance.now()));

  /** Aborts the signal when the caller's deadline passes, or when he leaves. Throws where his deadline can't be read. */
  begin(maxTimeoutMs: number): void {
    const given = this.request.headers['grpc-timeout'];
    const { timeoutMs, error } = parseTimeout(typeof given === 'string' ? given : null, maxTimeoutMs);
    if (error) throw error;
    if (timeoutMs !== undefined) {
      this.deadline = performance.now() + timeoutMs;
      this.timer = setTimeout(() => this.abort('the operation timed out', Code.DeadlineExceeded), timeoutMs);
    }
    this.request.stream.once('close', () => this.abort('the caller has gone', Code.Canceled));
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

function decoded(method: DescMethodUnary, body: Buffer, options: UnaryOptions): MessageShape<DescMethodUnary['input']> {
  const { maxMessageBytes, refused } = options;
  if (body.length === 0) throw new ConnectError('protocol error: missing input message for unary method', Code.Unimplemented);
  if (body.length < envelopeBytes) throw new ConnectError('protocol error: incomplete envelope', Code.InvalidArgument);
  const length = body.readUInt32BE(1);
  if (length > maxMessageBytes) throw tooLarge(length, maxMessageBytes);
  // gRPC's rules of compression have this code for it.
  if (body[0] !== 0) throw refused('the message is compressed, and no grpc-encoding says how', Code.Internal);
  const received = body.length - envelopeBytes;
  if (received < length) throw new ConnectError(`protocol error: promised ${length} bytes, received ${received}`, Code.InvalidArgument);
  if (received > length) throw new ConnectError('protocol error: received extra input message for unary method', Code.Unimplemented);
  return messageOf(method, body.subarray(envelopeBytes), options);
}

/** A message of its bytes. Throws what `refused` makes of one that can't be decoded, or holds too many others. */
export function messageOf(
  method: DescMethodUnary,
  bytes: Uint8Array,
  { maxMessageBytes, refused }: Pick<UnaryOptions, 'maxMessageBytes' | 'refused'>,
): MessageShape<DescMethodUnary['input']> {
  const mostObjects = Math.floor(maxMessageBytes / bytesPerObject);
  try {
    if (!makesMoreThan(mostObjects, method.input, bytes)) return fromBinary(method.input, bytes);
  } catch {
    throw refused(undecodable);
  }
  throw refused(`the message holds more than ${mostObjects} others`);
}

/** Why a message is refused that is none. */
export const undecodable = 'the message can not be decoded';

function refusalTrailers(failure: ConnectError): Record<string, string> {
  const trailers = setTrailerStatus(new Headers(), failure);
  return { ...Object.fromEntries(trailers), 'grpc-message': percentEncoded(failure.rawMessage) };
}

// No more than gRPC asks for: grpc-js shows `%2C` and its like as they come, which Connect writes for a comma.
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses
function percentEncoded(text: string): string {
  return text.replaceAll(/[^\x20-\x24\x26-\x7e]+/g, encodeURIComponent);
}

function encoded(message: Uint8Array, maxMessageBytes: number): Uint8Array {
  if (message.length > maxMessageBytes) throw tooLarge(message.length, maxMessageBytes);
  return enveloped(message);
}
