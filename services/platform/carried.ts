// Calls that travel together on one stream, as the house's own do that are asked often; carrier.ts is their caller's side. Each goes the way of a
// call that came alone, and one of 600 bytes costs the server 50 µs, where on a stream of its own it costs 165.
import { constants, type Http2ServerRequest, type Http2ServerResponse, type ServerHttp2Stream } from 'node:http2';
import { create, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { Code, ConnectError, createContextValues } from '@connectrpc/connect';
import { CallService, CarryRequestSchema, CarryResponseSchema, RefusalSchema } from '../../proto/gen/platform/v1/calls_pb.js';
import { messageOf } from './decoding.ts';
import { enveloped, headersOf } from './envelope.ts';
import { Messages } from './messages.ts';
import { refuse } from './errors.ts';
import { Call, isPlain, outcomeOf, refusalTrailers, respond } from './unary.ts';
import type { Admission, Method, Outcome, UnaryHandler, UnaryOptions } from './unary.ts';
import { sentTooLarge, type UnfinishedMessage } from './unfinished.ts';

// Its path and numbers.
const besidesBytes = 4096;

// Of one connection, which may have as many streams. A call that was taken back counts until its work has ended.
const mostCalls = 5_000;
const callsOf = new WeakMap<object, { count: number }>();

// Of answers that nobody takes. Their caller is not heard until he has taken them: those of the calls in work are all that may yet come.
const mostUnreadBytes = 1 << 20;

const carry = CallService.method.carry;
const path = `/${CallService.typeName}/${carry.name}`;

/** Answers streams of calls of these methods; false: the request is none, and has not been touched. */
export function carriedCalls(methods: ReadonlyMap<string, Method>, options: UnaryOptions): UnaryHandler {
  return (request, response) => {
    if (request.url !== path || !isPlain(request)) return false;
    // What can't be written is a fault of this house, and must not end the process.
    answer(methods, request, response, options).catch(() => request.stream.close(constants.NGHTTP2_INTERNAL_ERROR));
    return true;
  };
}

async function answer(
  methods: ReadonlyMap<string, Method>,
  request: Http2ServerRequest,
  response: Http2ServerResponse,
  options: UnaryOptions,
): Promise<void> {
  const { stream, headers } = request;
  let outcome: Outcome | undefined;
  try {
    const requestId = headers['x-request-id'] as string | undefined;
    // A line when it begins, and another one where it fails: it lasts as long as its connection, which is no figure of a call.
    const logged = <Result>(run: () => Promise<Result>) =>
      options.logged({ service: CallService, method: carry, values: createContextValues(), requestId }, run);
    const admission = await logged(async () => options.admit(CallService.typeName, headers.authorization ?? ''));
    response.writeHead(200, { 'content-type': headers['content-type'] });
    await new Carriage(request, methods, admission, options).end.catch((error: unknown) => logged(() => Promise.reject(error as Error)));
  } catch (error) {
    outcome = { failure: ConnectError.from(error) };
  }
  if (!stream.destroyed) respond(request, response, outcome);
}

/** A stream of calls. */
class Carriage {
  private readonly request: Http2ServerRequest;
  private readonly stream: ServerHttp2Stream;
  private readonly header: Headers;
  private readonly methods: ReadonlyMap<string, Method>;
  private readonly admission: Admission;
  private readonly options: UnaryOptions;
  private readonly messages: Messages;
  /** What has come of one that has not ended. */
  private part: UnfinishedMessage | undefined;
  /** Those being answered. A table of V8's that has grown old may lead to one long after: the box is empty by then. */
  private readonly calls = new Map<number, { call: Call | undefined }>();
  /** With those of other such streams of the connection. */
  private readonly inWork: { count: number };
  private readonly ending = Promise.withResolvers<void>();
  private isOver = false;
  /** Resolves when the caller has ended his side and all that he asked is answered; rejects with what ends it before. */
  readonly end = this.ending.promise;

  constructor(request: Http2ServerRequest, methods: ReadonlyMap<string, Method>, admission: Admission, options: UnaryOptions) {
    this.request = request;
    this.stream = request.stream;
    this.header = headersOf(request.headers);
    this.methods = methods;
    this.admission = admission;
    // Who may open such a stream may make any call on it, so his token is not hashed again for each.
    this.options = { ...options, admit: () => admission };
    const session = this.stream.session ?? this.stream;
    this.inWork = callsOf.get(session) ?? { count: 0 };
    callsOf.set(session, this.inWork);
    this.messages = new Messages(admission.most + besidesBytes, (message) => this.take(message));
    this.stream
      .on('data', (piece: Buffer) => this.read(piece))
      .once('end', () => {
        if (this.part) this.fail(new ConnectError('protocol error: the last message has not ended', Code.InvalidArgument));
        this.endAnswered();
      })
      .once('close', () => this.fail(new ConnectError('the caller has gone', Code.Canceled)));
    if (this.stream.readableEnded) this.endAnswered();
  }

  private read(piece: Buffer): void {
    // What is refused is read on, and forgotten.
    if (this.isOver) return;
    try {
      const ended = this.messages.add(piece);
      const { unfinished } = this.messages;
      if (ended > 0) this.endPart();
      if (unfinished === 0) return;
      const fresh = !this.part;
      this.part ??= this.admission.unfinished.begin(this.admission.most + besidesBytes, (late) => this.fail(late));
      const refusal = this.part.add(fresh ? piece.subarray(piece.length - unfinished) : piece);
      if (refusal) this.fail(refusal);
    } catch (error) {
      this.fail(error);
    }
  }

  private endPart(): void {
    this.part?.end();
    this.part = undefined;
  }

  private take(bytes: Buffer): void {
    // One that came with what ended the stream.
    if (this.isOver) return;
    const { options } = this;
    const asked = messageOf(CarryRequestSchema, bytes, options);
    const { number } = asked;
    if (asked.path === '') {
      this.calls.get(number)?.call?.leave();
      return;
    }
    if (this.calls.has(number)) throw options.refused(`the number ${number} is in use`);
    const called = this.methods.get(asked.path);
    if (!called) this.write(number, { failure: new ConnectError('there is no such unary method', Code.Unimplemented) });
    else if (this.inWork.count >= mostCalls) this.write(number, { failure: tooMany() });
    else void this.answer(called, asked);
  }

  private async answer(called: Method, asked: { number: number; path: string; timeoutMs: number; message: Uint8Array }): Promise<void> {
    const { options } = this;
    const { number, timeoutMs } = asked;
    const call = new Call(called.method, asked.path, this.request.headers, this.header);
    const box: { call: Call | undefined } = { call };
    this.calls.set(number, box);
    this.inWork.count++;
    const outcome = await outcomeOf(called, call, options, ({ most }) => {
      call.begin(timeoutMs === 0 ? undefined : Math.min(timeoutMs, options.maxTimeoutMs));
      const { message } = asked;
      // What it came in is not kept while it is worked on.
      asked.message = nothing;
      if (message.length > most) throw sentTooLarge(message.length, most);
      return messageOf(called.method.input, message, options);
    });
    this.calls.delete(number);
    this.inWork.count--;
    box.call = undefined;
    if (!call.hasLeft) this.write(number, outcome);
    if (this.stream.readableEnded) this.endAnswered();
  }

  private write(number: number, outcome: Outcome): void {
    const { stream } = this;
    if (this.isOver || stream.destroyed) return;
    stream.write('bytes' in outcome ? answering(number, outcome.bytes) : refusing(number, outcome.failure));
    if (stream.writableLength < mostUnreadBytes || stream.isPaused()) return;
    stream.pause();
    stream.once('drain', () => stream.resume());
  }

  private endAnswered(): void {
    if (this.calls.size === 0) this.finish(() => this.ending.resolve());
  }

  private fail(error: unknown): void {
    this.finish(() => this.ending.reject(error));
    for (const { call } of this.calls.values()) call?.leave();
  }

  private finish(tell: () => void): void {
    this.isOver = true;
    this.messages.forget();
    this.endPart();
    tell();
  }
}

const nothing = new Uint8Array(0);

function tooMany(): ConnectError {
  return refuse(Code.ResourceExhausted, { reason: 'overloaded', message: `${mostCalls} calls are in work`, retryAfter: 1 });
}

const { number: numbered, message: told } = CarryResponseSchema.field;

// The message stands at the end, and is copied once: encoded with the rest it would be three times, 8 µs of 15 KB.
function answering(number: number, message: Uint8Array): Buffer {
  const head = new BinaryWriter()
    .tag(numbered.number, WireType.Varint)
    .uint32(number)
    .tag(told.number, WireType.LengthDelimited)
    .uint32(message.length);
  return enveloped(message, head.finish());
}

function refusing(number: number, failure: ConnectError): Buffer {
  const refusal = create(RefusalSchema, { trailers: trailersOf(failure) });
  return enveloped(toBinary(CarryResponseSchema, create(CarryResponseSchema, { number, answer: { case: 'refusal', value: refusal } })));
}

// What can't be written, such as half a character, is a fault of this house, and ends no other call.
function trailersOf(failure: ConnectError): Record<string, string> {
  try {
    return refusalTrailers(failure);
  } catch {
    return refusalTrailers(new ConnectError('the refusal can not be written', Code.Internal));
  }
}
