// Calls that travel together on one stream of a connection, the caller's side of carried.ts: one of 600 bytes costs 40 µs there, on a stream of its
// own 120.
import { constants, type ClientHttp2Session, type ClientHttp2Stream, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2';
import { fromBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { Code, ConnectError } from '@connectrpc/connect';
import { CallService, CarryRequestSchema, CarryResponseSchema } from '../../proto/gen/platform/v1/calls_pb.js';
import { failureIn, isAnswer, mayHaveBegun, ofEachCall, type AnswerHeaders, type Asked } from './asked.ts';
import { enveloped } from './envelope.ts';
import { Messages } from './messages.ts';
import { tooLarge } from './unfinished.ts';

// More than a refusal has beside its message.
const besidesBytes = 64 << 10;

/** A call of which the answer is waited for. A table of V8's that has grown old may lead to it long after: it is empty by then. */
interface Waiting {
  resolve: ((message: Uint8Array) => void) | undefined;
  reject: ((failure: unknown) => void) | undefined;
}

/** A stream that carries calls. */
export class Carrier {
  private readonly session: ClientHttp2Session;
  readonly stream: ClientHttp2Stream;
  private readonly most: number;
  private readonly waiting = new Map<number, Waiting>();
  private last = 0;
  private header: AnswerHeaders | undefined;
  private trailer: IncomingHttpHeaders | undefined;
  private ending = false;
  private hasBegun = true;
  private hasAnswered = false;
  /** False when the other side has said that it knows of no such streams, as one of a version before does. */
  isKnown = true;

  /** `headers` are those of all its calls; `most`: the largest message in either direction, bytes. */
  constructor(session: ClientHttp2Session, headers: OutgoingHttpHeaders, most: number) {
    this.session = session;
    this.most = most;
    const path = `/${CallService.typeName}/${CallService.method.carry.name}`;
    this.stream = session.request({ ...headers, ...ofEachCall, ':path': path });
    const messages = new Messages(most + besidesBytes, (message) => this.take(message));
    this.stream
      .on('response', (given) => {
        this.header = given;
        // At once: what is asked until the stream is closed would be asked of another one in vain.
        if (given[':status'] === 200 && given['grpc-status'] === undefined) return;
        this.ending = true;
        this.isKnown = ConnectError.from(failureIn(given, undefined)).code !== Code.Unimplemented;
      })
      .on('trailers', (given: IncomingHttpHeaders) => (this.trailer = given))
      .on('data', (piece: Buffer) => {
        try {
          messages.add(piece);
        } catch {
          // Whatever it is, no answer can be told from another any more.
          this.stream.close(constants.NGHTTP2_CANCEL);
        }
      })
      .on('end', () => {
        this.ending = true;
        this.stream.end();
        if (this.trailer ?? this.header?.['grpc-status']) this.fail();
      })
      // What it was is told by the end of the stream.
      .on('error', () => undefined)
      .on('close', () => this.fail());
  }

  /** Whether it takes calls. */
  get isOpen(): boolean {
    return !this.ending && !this.stream.closed && !this.stream.destroyed;
  }

  /** Asks, of a carrier that is open; `timeoutMs` tells the other side how long the answer is waited for. */
  ask(path: string, message: Uint8Array, timeoutMs: number): Asked {
    const number = (this.last = (this.last + 1) >>> 0);
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    this.waiting.set(number, { resolve, reject });
    this.stream.write(asking(number, path, message, timeoutMs));
    return {
      answer: promise,
      mayHaveBegun: () => this.hasBegun,
      leave: () => {
        if (!this.waiting.has(number)) return;
        this.stream.write(takingBack(number));
        this.settle(number, ({ reject }) => reject?.(new ConnectError('nobody waits any more', Code.Canceled)));
      },
    };
  }

  /** Takes no more calls, and ends when those that it has are answered. A second call does nothing. */
  finish(): void {
    if (this.ending) return;
    this.ending = true;
    if (this.waiting.size === 0) this.stream.end();
  }

  private take(bytes: Buffer): void {
    this.hasAnswered = true;
    const { number, answer } = fromBinary(CarryResponseSchema, bytes);
    this.settle(number, (waiting) => {
      if (answer.case !== 'message') waiting.reject?.(failureIn(this.header ?? {}, answer.value?.trailers ?? {}));
      else if (answer.value.length > this.most) waiting.reject?.(tooLarge(answer.value.length, this.most));
      else waiting.resolve?.(answer.value);
    });
  }

  /** Ends the wait of a call, if there is one. */
  private settle(number: number, tell: (waiting: Waiting) => void): void {
    const waiting = this.waiting.get(number);
    if (!waiting) return;
    this.waiting.delete(number);
    tell(waiting);
    waiting.resolve = waiting.reject = undefined;
    if (this.ending && this.waiting.size === 0) this.stream.end();
  }

  /** No answer comes any more. */
  private fail(): void {
    this.ending = true;
    const { header, trailer, stream, session } = this;
    const isRefused = header !== undefined && !isAnswer(header, trailer);
    if (isRefused && !this.hasAnswered && ConnectError.from(failureIn(header, trailer)).code === Code.Unimplemented) this.isKnown = false;
    this.hasBegun = this.isKnown && (header !== undefined || mayHaveBegun(stream, session));
    for (const number of this.waiting.keys()) this.settle(number, ({ reject }) => reject?.(this.failure()));
  }

  /** Why a call that was asked has no answer. */
  private failure(): unknown {
    const { header, trailer, session, stream } = this;
    if (header && ((trailer ?? header)['grpc-status'] !== undefined || header[':status'] !== 200)) {
      const failure = ConnectError.from(failureIn(header, trailer), Code.Internal);
      // Who has not the token, or asks whom there is not, is told before a call is begun. What else ends a stream does not say how far each was.
      const isOfAll = header[':status'] !== 200 || failure.code === Code.Unauthenticated || failure.code === Code.Unimplemented;
      return isOfAll ? failure : new ConnectError(`the stream of calls was ended: ${failure.rawMessage}`, Code.Unavailable);
    }
    if (session.closed || session.destroyed) return new ConnectError('the connection broke', Code.Unavailable);
    return new ConnectError(`the stream of calls was reset (HTTP/2 error ${stream.rstCode})`, Code.Unavailable);
  }
}

const { number: numbered, path: at, timeoutMs: waited, message: told } = CarryRequestSchema.field;

// The message stands at the end, and is copied once: encoded with the rest it would be three times, 8 µs of 15 KB.
function asking(number: number, path: string, message: Uint8Array, timeoutMs: number): Buffer {
  const head = new BinaryWriter()
    .tag(numbered.number, WireType.Varint)
    .uint32(number)
    .tag(at.number, WireType.LengthDelimited)
    .string(path)
    .tag(waited.number, WireType.Varint)
    .uint32(Math.min(2 ** 32 - 1, Math.max(1, Math.floor(timeoutMs))))
    .tag(told.number, WireType.LengthDelimited)
    .uint32(message.length);
  return enveloped(message, head.finish());
}

function takingBack(number: number): Buffer {
  return enveloped(new BinaryWriter().tag(numbered.number, WireType.Varint).uint32(number).finish());
}
