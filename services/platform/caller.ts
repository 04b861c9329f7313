// Calls another service over grpc-js, as a Connect transport, so that calls are typed by the generated code.
import { setTimeout as pause } from 'node:timers/promises';
import { create, toBinary, type DescMessage, type DescMethod } from '@bufbuild/protobuf';
import { Code, ConnectError, type CallOptions, type Transport } from '@connectrpc/connect';
import { Client, Metadata, connectivityState, type ChannelOptions } from '@grpc/grpc-js';
import { Histogram, type Registry } from 'prom-client';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from '../../proto/gen/google/rpc/error_details_pb.js';
import { Addresses, type Resolve } from './addresses.ts';
import { ask, listen, upload } from './calls.ts';
import { isRefusal, type RefusalInfo } from './errors.ts';
import type { Encoder } from './fast-unary.ts';
import type { TlsFiles } from './tls-files.ts';
import { channelTls } from './tls.ts';
import { SpanKind, endSpan, isTracing, rpcResult, rpcSpan, startSpan, traceparentFrom, type Span } from './tracing.ts';

/** What a caller needs. */
export interface CallerOptions {
  /** `host:port`, several for several replicas. A name stands for all its addresses, which are resolved again every 5 s. */
  addresses: string[];
  token: string;
  /** mTLS: a replica must have a certificate for the host by which it is listed. Without, nothing is encrypted. */
  tls?: TlsFiles | undefined;
  /** Largest message in either direction. A larger response fails after the service has committed. */
  maxMessageBytes: number;
  /** Methods that only read: a call that fails as `UNAVAILABLE` is tried three times. Any other is only where it was not sent. */
  retried?: DescMethod[];
  /** Used in place of `toBinary`, by request type. */
  encoders?: ReadonlyMap<DescMessage, Encoder>;
  /** Where unary calls are measured; several callers may share one. */
  metrics?: Registry;
  /** How names are resolved; by default as the system does. */
  resolve?: Resolve;
}

/** A transport to one replica. */
export interface Replica extends Transport {
  /** `ip:port`. */
  address: string;
}

/** A transport that calls the connected replicas in turn. */
export interface Caller extends Transport {
  /**
   * The replicas that are connected and answer in time, else those that are connected, else all, in the order of their addresses. The same
   * objects each time. Never empty: before an address is known it is this transport itself.
   */
  replicas(): Replica[];
  /** Ends the connections when the calls on them are answered. */
  close(): void;
}

const defaultTimeoutMs = 5_000;
const maxAttempts = 3;
// How grpc-js begins the message of a call for which it had no connection.
const unsent = 'No connection established';
// A replica that lets a call of a second or more time out is avoided for ten.
const [tellingTimeoutMs, avoidMs] = [1_000, 10_000];

interface Opened {
  replica: Replica;
  client: Client;
  state: { avoidedUntil: number };
}

/** Opens a caller. Calls time out after 5 s by default. Errors are ConnectErrors; {@link refusalOf} reads their details. */
export function openCaller(callerOptions: CallerOptions): Caller {
  const { addresses: list, token, tls, maxMessageBytes, retried = [], encoders, resolve, metrics } = callerOptions;
  const seconds = metrics && callSeconds(metrics);
  const { credentials, close: forgetCertificates } = channelTls(tls);
  const addresses = new Addresses(list, resolve);
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${token}`);
  // RFC 9218: responses are sent interleaved. By default a small one waits for the end of large ones that were requested before.
  metadata.set('priority', 'u=3, i');

  const opened = new Map<string, Opened>();
  const open = (address: string): Opened => {
    const options = channelOptions(maxMessageBytes);
    // The address is an IP address, the certificate has a name.
    if (tls) options['grpc.ssl_target_name_override'] = addresses.hostOf(address);
    const replica = openReplica(address, metadata, new Client(`dns:${address}`, credentials, options), { encoders, seconds });
    opened.set(address, replica);
    return replica;
  };
  const replicas = (): Replica[] => {
    for (const [address, { client }] of opened) {
      if (addresses.current.includes(address)) continue;
      opened.delete(address);
      client.close();
    }
    const all = addresses.current.map((address) => opened.get(address) ?? open(address));
    const connected = all.filter(({ client }) => client.getChannel().getConnectivityState(true) === connectivityState.READY);
    const prompt = connected.filter(({ state }) => state.avoidedUntil <= performance.now());
    const chosen = [prompt, connected, all].find(({ length }) => length > 0) ?? [];
    return chosen.map(({ replica }) => replica);
  };

  let turn = 0;
  const inTurn = async <Result>(
    method: DescMethod,
    signal: AbortSignal | undefined,
    timeoutMs: number,
    call: (replica: Replica, timeoutMs: number) => Promise<Result>,
  ): Promise<Result> => {
    const until = performance.now() + timeoutMs;
    if (addresses.current.length === 0)
      await Promise.race([addresses.known, pause(timeoutMs, undefined, { signal, ref: false }).catch(() => undefined)]);
    for (let attempt = 1; ; attempt++) {
      const choice = replicas();
      const replica = choice[turn++ % choice.length];
      if (!replica) throw new ConnectError('no address of the service is known', signal?.aborted ? Code.Canceled : Code.DeadlineExceeded);
      try {
        return await call(replica, until - performance.now());
      } catch (error) {
        const { code, rawMessage } = error as ConnectError;
        // Requests of a stream can't be read again.
        const isSafe = method.methodKind !== 'client_streaming' && (retried.includes(method) || rawMessage.startsWith(unsent));
        // A service that says why it is unavailable speaks for all replicas.
        if (attempt === maxAttempts || !isSafe || code !== Code.Unavailable || isRefusal(error)) throw error;
        await pause(50 * attempt);
      }
    }
  };
  const anyReplica: Replica = {
    address: '',
    unary: (method, signal, timeoutMs = defaultTimeoutMs, header, input) =>
      inTurn(method, signal, timeoutMs, (replica, leftMs) => replica.unary(method, signal, leftMs, header, input)),
    async stream(method, signal, timeoutMs = defaultTimeoutMs, header, input) {
      if (method.methodKind === 'client_streaming')
        return inTurn(method, signal, timeoutMs, (replica, leftMs) => replica.stream(method, signal, leftMs, header, input));
      const request = await onlyOf(input);
      return inTurn(method, signal, timeoutMs, (replica, leftMs) => replica.stream(method, signal, leftMs, header, only(request)));
    },
  };
  return {
    ...anyReplica,
    replicas: () => (addresses.current.length > 0 ? replicas() : [anyReplica]),
    close: () => {
      addresses.close();
      forgetCertificates();
      for (const { client } of opened.values()) client.close();
    },
  };
}

type CallSeconds = Histogram<'method' | 'code'>;

function callSeconds(metrics: Registry): CallSeconds {
  const name = 'grpc_client_seconds';
  const known = metrics.getSingleMetric(name);
  return known instanceof Histogram
    ? known
    : new Histogram({
        name,
        help: 'Duration of unary gRPC calls as their caller sees them, each attempt on its own',
        labelNames: ['method', 'code'],
        buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
        registers: [metrics],
      });
}

/** Opens the channel to one address. A call that times out makes {@link openCaller} avoid it for a while. */
function openReplica(
  address: string,
  metadata: Metadata,
  client: Client,
  { encoders, seconds }: { encoders: CallerOptions['encoders']; seconds: CallSeconds | undefined },
): Opened {
  const state = { avoidedUntil: 0 };
  const replica: Replica = {
    address,
    async unary(method, signal, timeoutMs = defaultTimeoutMs, header, input) {
      const request = create(method.input, input);
      const bytes = encoders?.get(method.input)?.(request) ?? toBinary(method.input as DescMessage, request);
      const message = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
      const sent = withHeaders(metadata, header);
      const started = performance.now();
      const span = startCall(method, sent);
      const observe = (code: string) => {
        seconds?.observe({ method: `${method.parent.typeName}/${method.name}`, code }, (performance.now() - started) / 1000);
        endSpan(span, ...rpcResult(code));
      };
      try {
        const answer = await ask(client, method, { message, metadata: sent, timeoutMs, signal });
        observe('ok');
        return { stream: false, service: method.parent, method, header: noHeaders, trailer: noHeaders, message: answer };
      } catch (error) {
        observe(codeOf(error));
        const hasTimedOut = (error as ConnectError).code === Code.DeadlineExceeded && timeoutMs >= tellingTimeoutMs;
        if (hasTimedOut) state.avoidedUntil = performance.now() + avoidMs;
        throw error;
      }
    },
    async stream(method, signal, timeoutMs = defaultTimeoutMs, header, input) {
      const answered = { stream: true as const, service: method.parent, method, header: noHeaders, trailer: noHeaders };
      const sent = withHeaders(metadata, header);
      const span = startCall(method, sent);
      try {
        if (method.methodKind === 'client_streaming') {
          const answer = await upload(client, method, input, { metadata: sent, timeoutMs, signal });
          endSpan(span, ...rpcResult('ok'));
          return { ...answered, message: only(answer) };
        }
        const message = Buffer.from(toBinary(method.input as DescMessage, create(method.input, await onlyOf(input))));
        const answers = listen(client, method, { message, metadata: sent, timeoutMs, signal });
        const first = await answers.next();
        return { ...answered, message: begunWith(first, answers, span) };
      } catch (error) {
        endCall(span, error);
        throw error;
      }
    },
  };
  return { replica, client, state };
}

async function* only<Message>(message: Message): AsyncGenerator<Message> {
  yield message;
}

/** The request of a call whose answers are streamed. */
async function onlyOf<Message>(input: AsyncIterable<Message>): Promise<Message> {
  for await (const message of input) return message;
  throw new ConnectError('a call without a request', Code.InvalidArgument);
}

async function* begunWith<Message>(
  first: IteratorResult<Message, void>,
  rest: AsyncGenerator<Message>,
  span: Span | undefined,
): AsyncGenerator<Message> {
  let code = 'ok';
  try {
    if (!first.done) yield first.value;
    yield* rest;
  } catch (error) {
    code = codeOf(error);
    throw error;
  } finally {
    endSpan(span, ...rpcResult(code));
    await rest.return(undefined);
  }
}

/** The span of a call whose headers name a parent that is recorded; the call's own span takes its place in them. */
function startCall({ parent, name }: DescMethod, headers: Metadata): Span | undefined {
  if (!isTracing()) return undefined;
  const method = `${parent.typeName}/${name}`;
  const span = startSpan(method, headers.get('traceparent')[0]?.toString(), rpcSpan(method, SpanKind.CLIENT));
  if (span) headers.set('traceparent', traceparentFrom(span));
  return span;
}

/** The code of a call's error, as in metrics. */
export const codeOf = (error: unknown): string => (error instanceof ConnectError ? Code[error.code].toLowerCase() : 'internal');

const endCall = (span: Span | undefined, error: unknown): void => endSpan(span, ...rpcResult(codeOf(error)));

function channelOptions(maxMessageBytes: number): ChannelOptions {
  return {
    'grpc.service_config_disable_resolution': 1,
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.max_send_message_length': maxMessageBytes,
    // A connection may be gone without a word: found out within 7 s, or at the deadline of a call.
    'grpc.keepalive_time_ms': 3_000,
    'grpc.keepalive_timeout_ms': 4_000,
    'grpc.keepalive_permit_without_calls': 1,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 1_000,
    // Callers share no connection: postings would wait behind large pages.
    'grpc.use_local_subchannel_pool': 1,
    // A proxy for the internet is not to see the token.
    'grpc.enable_http_proxy': 0,
    // With HTTP/2's default of 64 KiB a message of 1 MiB waits for 16 round trips.
    'grpc-node.flow_control_window': 4 << 20,
  };
}

const noHeaders = new Headers();

function withHeaders(metadata: Metadata, headers: CallOptions['headers']): Metadata {
  if (!headers) return metadata;
  const own = metadata.clone();
  // Without `Headers`, which would cost more than the copy.
  const isIterable = Symbol.iterator in (headers as object);
  const entries = isIterable ? (headers as Iterable<[string, string]>) : Object.entries(headers as Record<string, string>);
  for (const [name, value] of entries) own.set(name, value);
  return own;
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
