// The three forms of a call on a channel of grpc-js: one request, an answer that is streamed, and requests that are.
import { Readable, type Writable } from 'node:stream';
import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type DescMethod,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { findTrailerError } from '@connectrpc/connect/protocol-grpc';
import { status, type Client, type Metadata, type ServiceError, type StatusObject } from '@grpc/grpc-js';

/** A call of one request. */
export interface Question {
  message: Buffer;
  metadata: Metadata;
  timeoutMs: number;
  signal: AbortSignal | undefined;
}

/** Rejects with a ConnectError. Calls on the channel itself: the client's interceptors and stack traces cost as much again. */
export function ask<Output extends DescMessage>(
  client: Client,
  { parent, name, output }: DescMethod & { output: Output },
  { message, metadata, timeoutMs, signal }: Question,
): Promise<MessageShape<Output>> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(new ConnectError('the caller has canceled', Code.Canceled));
    const call = client.getChannel().createCall(`/${parent.typeName}/${name}`, Date.now() + timeoutMs, null, null, null);
    const cancel = () => call.cancelWithStatus(status.CANCELLED, 'the caller has canceled');
    let answer: Buffer | undefined;
    call.start(metadata, {
      onReceiveMetadata: () => undefined,
      onReceiveMessage: (bytes: Buffer) => (answer = bytes),
      onReceiveStatus: (ended) => {
        signal?.removeEventListener('abort', cancel);
        if (ended.code !== status.OK) return reject(asConnectError(ended));
        try {
          resolve(fromBinary(output, answer as Buffer));
        } catch (error) {
          reject(new ConnectError(`the answer is not a ${output.typeName}`, Code.Internal, undefined, undefined, error));
        }
      },
    });
    call.startRead();
    call.sendMessageWithContext({}, message);
    call.halfClose();
    signal?.addEventListener('abort', cancel);
  });
}

/** The messages of an answer, read as fast as they are taken; the call is canceled where that ends early. Throws ConnectErrors. */
export async function* listen<Output extends DescMessage>(
  client: Client,
  { parent, name, output }: DescMethod & { output: Output },
  { message, metadata, timeoutMs, signal }: Question,
): AsyncGenerator<MessageShape<Output>, void> {
  if (signal?.aborted) throw new ConnectError('the caller has canceled', Code.Canceled);
  const call = client.makeServerStreamRequest(
    `/${parent.typeName}/${name}`,
    (bytes: Buffer) => bytes,
    (bytes) => fromBinary(output, bytes),
    message,
    metadata,
    { deadline: Date.now() + timeoutMs },
  );
  // It may still report that it was canceled when nobody reads it any more.
  call.on('error', () => undefined);
  const cancel = () => call.cancel();
  signal?.addEventListener('abort', cancel);
  try {
    for await (const answer of call) yield answer as MessageShape<Output>;
  } catch (error) {
    throw asConnectError(error as ServiceError);
  } finally {
    signal?.removeEventListener('abort', cancel);
    cancel();
  }
}

async function* encoded<Input extends DescMessage>(type: Input, messages: AsyncIterable<MessageInitShape<Input>>): AsyncGenerator<Buffer> {
  for await (const message of messages) yield Buffer.from(toBinary(type, create(type, message)));
}

/** Sends messages as fast as they are taken; an answer before their end ends it. Rejects with a ConnectError, or with what `input` throws. */
export function upload<Input extends DescMessage, Output extends DescMessage>(
  client: Client,
  { parent, name, input: request, output }: DescMethod & { input: Input; output: Output },
  input: AsyncIterable<MessageInitShape<Input>>,
  { metadata, timeoutMs, signal }: Omit<Question, 'message'>,
): Promise<MessageShape<Output>> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(new ConnectError('the caller has canceled', Code.Canceled));
    const messages = Readable.from(encoded(request, input), { highWaterMark: 1 });
    const call = client.makeClientStreamRequest(
      `/${parent.typeName}/${name}`,
      (bytes: Buffer) => bytes,
      (bytes) => fromBinary(output, bytes),
      metadata,
      { deadline: Date.now() + timeoutMs },
      (error, answer) => {
        signal?.removeEventListener('abort', cancel);
        messages.destroy();
        if (error) reject(asConnectError(error));
        else resolve(answer as MessageShape<Output>);
      },
    );
    const cancel = () => call.cancel();
    signal?.addEventListener('abort', cancel);
    messages.on('error', (error) => {
      reject(error);
      cancel();
    });
    const sink: Writable = call;
    messages.pipe(sink);
  });
}

function asConnectError({ code, details, metadata }: Pick<StatusObject, 'code' | 'details' | 'metadata'>): ConnectError {
  const [bytes] = metadata.get('grpc-status-details-bin') as Buffer[];
  const trailers: Record<string, string> = bytes
    ? { 'grpc-status-details-bin': bytes.toString('base64') }
    : { 'grpc-status': String(code), 'grpc-message': encodeURIComponent(details.toWellFormed()) };
  return findTrailerError(new Headers(trailers)) ?? new ConnectError(details);
}
