// Calls another service over grpc-js, as a Connect transport, so that calls are typed by the generated code.
import { setTimeout as pause } from 'node:timers/promises';
import { create, fromBinary, toBinary, type DescMessage, type DescMethod, type MessageShape } from '@bufbuild/protobuf';
import { Code, ConnectError, type Transport } from '@connectrpc/connect';
import { findTrailerError } from '@connectrpc/connect/protocol-grpc';
import { Client, Metadata, credentials, status, type StatusObject } from '@grpc/grpc-js';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from '../../proto/gen/google/rpc/error_details_pb.js';
import type { RefusalInfo } from './errors.ts';
import type { Encoder } from './fast-unary.ts';
import { Replicas, type Replica, type Resolve } from './replicas.ts';

/** What a caller needs. */
export interface CallerOptions {
  /** `host:port`, several for several replicas. A name stands for all its addresses, which are resolved again every 5 s. */
  addresses: string[];
  token: string;
  /** Largest message in either direction. A larger response fails after the service has committed. */
  maxMessageBytes: number;
  /** Methods that only read. Where a connection fails they are tried three times, at another replica where there is one. */
  retried?: DescMethod[];
  /** Used in place of `toBinary`, by request type. */
  encoders?: ReadonlyMap<DescMessage, Encoder>;
  /** How names are resolved; by default as the system does. */
  resolve?: Resolve;
}

/** A transport to one replica. */
export interface ReplicaTransport extends Transport {
  /** `ip:port`. */
  address: string;
}

/** A transport that calls the available replicas in turn. */
export interface Caller extends Transport {
  /** To each available replica, in the order of their addresses; where none is, to all. Never empty. The same objects each time. */
  replicas(): ReplicaTransport[];
  /** Ends the connections when the calls on them are answered. */
  close(): void;
}

const defaultTimeoutMs = 10_000;
const maxAttempts = 3;
const retryAfterMs = 50;
// A replica that lets a call time out that had a second is avoided for ten.
const [tellingTimeoutMs, avoidMs] = [1_000, 10_000];

/** Opens a caller. Calls time out after 10 s by default. Errors are ConnectErrors; {@link refusalOf} reads their details. */
export function openCaller({ addresses, token, maxMessageBytes, retried = [], encoders, resolve }: CallerOptions): Caller {
  const channelOptions = {
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.max_send_message_length': maxMessageBytes,
    // A connection may be gone without a word.
    'grpc.keepalive_time_ms': 10_000,
    'grpc.keepalive_timeout_ms': 5_000,
    'grpc.keepalive_permit_without_calls': 1,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 1_000,
    // Callers share no connection: postings would wait behind large pages.
    'grpc.use_local_subchannel_pool': 1,
    // A proxy for the internet is not to see the token.
    'grpc.enable_http_proxy': 0,
    'grpc.service_config_disable_resolution': 1,
    // With HTTP/2's default of 64 KiB a message of 1 MiB waits for 16 round trips.
    'grpc-node.flow_control_window': 4 << 20,
  };
  const replicas = new Replicas(
    addresses,
    (address) => new Client(`dns:${address}`, credentials.createInsecure(), channelOptions),
    resolve,
  );
  const reads = new Set(retried);
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${token}`);
  // RFC 9218: responses are sent interleaved. By default a small one waits for the end of large ones that were asked for before.
  metadata.set('priority', 'u=3, i');

  const transport = (choose: (previous: Replica | undefined) => Replica, attempts: (method: DescMethod) => number): Transport => ({
    async unary(method, signal, timeoutMs = defaultTimeoutMs, header, input) {
      const deadline = Date.now() + timeoutMs;
      const request = create(method.input, input);
      const bytes = encoders?.get(method.input)?.(request) ?? toBinary(method.input as DescMessage, request);
      const encoded = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
      const own = header ? withHeaders(metadata, header) : metadata;
      let replica: Replica | undefined;
      for (let attempt = 1; ; attempt++) {
        replica = choose(replica);
        try {
          const message = await ask(replica.client, method, { message: encoded, metadata: own, deadline, signal });
          replica.avoidedUntil = 0;
          return { stream: false, service: method.parent, method, header: noHeaders, trailer: noHeaders, message };
        } catch (cause) {
          const error = cause as ConnectError;
          if (error.code === Code.DeadlineExceeded && timeoutMs >= tellingTimeoutMs) replica.avoidedUntil = performance.now() + avoidMs;
          // With details it is the answer of a service that could be reached.
          const isUnreachable = error.code === Code.Unavailable && error.details.length === 0;
          if (!isUnreachable || attempt >= attempts(method)) throw error;
          await pause(retryAfterMs * attempt * (1 + Math.random()));
        }
      }
    },
    stream() {
      throw new ConnectError('streams are not supported', Code.Unimplemented);
    },
  });

  const transports = new WeakMap<Replica, ReplicaTransport>();
  const transportTo = (replica: Replica): ReplicaTransport => {
    const made = transports.get(replica) ?? {
      address: replica.address,
      ...transport(
        () => replica,
        () => 1,
      ),
    };
    transports.set(replica, made);
    return made;
  };
  return {
    ...transport(
      (previous) => replicas.next(previous),
      (method) => (reads.has(method) ? maxAttempts : 1),
    ),
    replicas: () => replicas.available().map(transportTo),
    close: () => replicas.close(),
  };
}

const noHeaders = new Headers();

function withHeaders(metadata: Metadata, header: ConstructorParameters<typeof Headers>[0]): Metadata {
  const own = metadata.clone();
  new Headers(header).forEach((value, name) => own.set(name, value));
  return own;
}

interface Question {
  message: Buffer;
  metadata: Metadata;
  /** Milliseconds since 1970. */
  deadline: number;
  signal: AbortSignal | undefined;
}

/** Rejects with a ConnectError. Calls on the channel itself: the client's interceptors and stack traces cost as much again. */
function ask<Output extends DescMessage>(
  client: Client,
  { parent, name, output }: DescMethod & { output: Output },
  { message, metadata, deadline, signal }: Question,
): Promise<MessageShape<Output>> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(new ConnectError('the caller has canceled', Code.Canceled));
    const call = client.getChannel().createCall(`/${parent.typeName}/${name}`, deadline, null, null, null);
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

function asConnectError({ code, details, metadata }: StatusObject): ConnectError {
  const [status] = metadata.get('grpc-status-details-bin') as Buffer[];
  const told = status && findTrailerError(new Headers({ 'grpc-status-details-bin': status.toString('base64') }));
  return told ?? new ConnectError(details, code as number as Code);
}

/** What a service answered when it refused a call; null where the failure was none, but a time-out or a lost connection. */
export function refusalOf(error: unknown): RefusalInfo | null {
  if (!(error instanceof ConnectError)) return null;
  const info = error.findDetails(ErrorInfoSchema)[0];
  if (!info) return null;
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  const violation = error.findDetails(BadRequestSchema)[0]?.fieldViolations[0];
  return {
    reason: info.reason,
    message: error.rawMessage,
    field: info.metadata['field'] ?? violation?.field,
    tag: info.metadata['tag'],
    value: info.metadata['value'],
    retryAfter: delay ? Number(delay.seconds) : undefined,
    metadata: info.metadata,
  };
}
