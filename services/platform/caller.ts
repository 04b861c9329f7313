// Calls another service of the house: a @grpc/grpc-js channel as a Connect transport, so that calls are typed by the generated code.
// (Connect's own Node transport keeps one connection and so one replica, and measured 1.6k unary calls/s where this one does 4.1k.)
import { create, fromBinary, isMessage, toBinary, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import { Code, ConnectError, type Transport } from '@connectrpc/connect';
import { Client, Metadata, credentials, type ServiceError } from '@grpc/grpc-js';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from '../../proto/gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../proto/gen/google/rpc/status_pb.js';
import type { RefusalInfo } from './refusal.ts';
import { Replicas, type Replica } from './replicas.ts';

/** What a channel needs. */
export interface CallerOptions {
  /** `host:port`, several for several replicas; a name stands for all its addresses, which are looked up again every few seconds. */
  addresses: string[];
  token: string;
  /** Largest message in either direction, bytes; grpc-js receives 4 MiB by default and fails after the other side has committed. */
  maxMessageBytes: number;
  /**
   * Full names of services (`ledger.v1.LedgerService`) with their methods that only read. One that fails as `UNAVAILABLE` is repeated: by gRPC at
   * the same replica where that has not answered at all, then once at another one where there is one; all within the call's deadline. A refusal
   * of the service, which says why, is not repeated.
   */
  retried: { service: string; methods: string[] }[];
}

/** A transport to one replica. */
export interface Line extends Transport {
  /** `ip:port`. */
  address: string;
}

/** A transport with an end. It asks whichever replica has the fewest calls in flight. */
export interface Caller extends Transport {
  /** To those of the replicas not known to be away, where all are, to all; in the order of their addresses. Never empty. */
  lines(): Line[];
  close(): void;
}

/**
 * Opens a channel to a service. A call without a deadline of its own gets 10 s. Errors are ConnectErrors; `refusalOf` reads what the
 * service said.
 */
export function openCaller(options: CallerOptions): Caller {
  const serviceConfig = JSON.stringify({
    // Of one address; unlike the default policy it connects again by itself.
    loadBalancingConfig: [{ round_robin: {} }],
    methodConfig: options.retried.map(({ service, methods }) => ({
      name: methods.map((method) => ({ service, method })),
      retryPolicy: {
        maxAttempts: 3,
        initialBackoff: '0.05s',
        maxBackoff: '0.5s',
        backoffMultiplier: 2,
        retryableStatusCodes: ['UNAVAILABLE'],
      },
    })),
  });
  const open = (address: string) =>
    new Client(`dns:///${address}`, credentials.createInsecure(), {
      'grpc.service_config': serviceConfig,
      'grpc.keepalive_time_ms': 10_000,
      'grpc.keepalive_timeout_ms': 5_000,
      'grpc.keepalive_permit_without_calls': 1,
      'grpc.max_receive_message_length': options.maxMessageBytes,
      'grpc.max_send_message_length': options.maxMessageBytes,
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 500,
      'grpc-node.flow_control_window': 4 * 1024 * 1024,
      // Two channels to one address would share a connection, and with it its flow-control window.
      'grpc.use_local_subchannel_pool': 1,
      // What `http_proxy` names is for the world outside; it would be sent these calls, and the token.
      'grpc.enable_http_proxy': 0,
      // Nobody asks for its figures, and to count took a tenth of a call of 21 postings.
      'grpc.enable_channelz': 0,
    });
  const replicas = new Replicas(options.addresses, open);
  const authorization = `Bearer ${options.token}`;
  const reads = new Set(options.retried.flatMap(({ service, methods }) => methods.map((method) => `${service}/${method}`)));
  // `besides`: what was asked before, in vain.
  const transport = (choose: (besides?: Replica) => Replica | undefined): Transport => ({
    async unary(method, signal, timeoutMs, header, input) {
      await replicas.lookedUp;
      const replica = choose();
      if (!replica) throw new ConnectError(`no address is known of ${options.addresses.join(', ')}`, Code.Unavailable);
      const metadata = new Metadata();
      metadata.set('authorization', authorization);
      if (header) new Headers(header as ConstructorParameters<typeof Headers>[0]).forEach((value, key) => metadata.set(key, value));
      const bytes = Buffer.from(
        toBinary(method.input as DescMessage, isMessage(input, method.input) ? input : create(method.input, input)),
      );
      const name = `${method.parent.typeName}/${method.name}`;
      const ask = async (asked: Replica, patience: number) => {
        const ended = replicas.begin(asked, patience);
        const answer = await call(asked.client, name, pack(bytes), metadata, patience, signal, ended);
        const message = decode(method.output, answer);
        return { stream: false as const, service: method.parent, method, header: noHeaders, trailer: noHeaders, message };
      };
      const patience = timeoutMs ?? 10_000;
      const until = performance.now() + patience;
      try {
        return await ask(replica, patience);
      } catch (error) {
        // A replica that says itself what is wrong speaks for all: the database that it can't reach is also theirs.
        const away = error instanceof ConnectError && error.code === Code.Unavailable && !refusalOf(error);
        const other = reads.has(name) && away ? choose(replica) : undefined;
        if (!other) throw error;
        return await ask(other, until - performance.now());
      }
    },
    stream() {
      throw new ConnectError('this house calls no streaming methods', Code.Unimplemented);
    },
  });
  const anywhere = transport((besides) => replicas.next(besides));
  const lines = new WeakMap<Replica, Line>();
  const lineTo = (replica: Replica): Line => {
    const line = lines.get(replica) ?? { address: replica.address, ...transport((besides) => (besides ? undefined : replica)) };
    lines.set(replica, line);
    return line;
  };
  return {
    ...anywhere,
    lines: () => {
      const available = replicas.available();
      // Without any address a call says so.
      return available.length > 0 ? available.map(lineTo) : [{ address: '', ...anywhere }];
    },
    close: () => replicas.close(),
  };
}

// What grpc-js is given and gives is in its hands until V8 next collects old objects, seconds later under load: parcels that are empty by then.
// With messages and bytes themselves a gateway's young generation grew, and half of the time that its collection took was theirs.
interface Parcel {
  bytes: Buffer;
}
const nothing = Buffer.alloc(0);
const pack = (bytes: Buffer): Parcel => ({ bytes });
const unpack = (parcel: Parcel): Buffer => {
  const { bytes } = parcel;
  parcel.bytes = nothing;
  return bytes;
};
const noHeaders = new Headers();

// Not within the transport: what its closures see would be in grpc-js's hands, too.
function call(
  client: Client,
  name: string,
  request: Parcel,
  metadata: Metadata,
  patience: number,
  signal: AbortSignal | undefined,
  ended: (error: ServiceError | null) => void,
): Promise<Parcel> {
  return new Promise((resolve, reject) => {
    const asking = client.makeUnaryRequest(
      `/${name}`,
      unpack,
      pack,
      request,
      metadata,
      { deadline: Date.now() + patience },
      (error, answer) => {
        ended(error);
        if (error || !answer) reject(asConnectError(error));
        else resolve(answer);
      },
    );
    if (signal?.aborted) asking.cancel();
    else signal?.addEventListener('abort', () => asking.cancel(), { once: true });
  });
}

function decode<T extends DescMessage>(type: T, answer: Parcel): MessageShape<T> {
  try {
    return fromBinary(type, unpack(answer));
  } catch (error) {
    throw new ConnectError(`the answer is no ${type.typeName}`, Code.Internal, undefined, undefined, error);
  }
}

function asConnectError(error: ServiceError | null): ConnectError {
  if (!error) return new ConnectError('empty answer', Code.Internal);
  const details = error.metadata.get('grpc-status-details-bin')[0];
  const status = details instanceof Buffer ? fromBinary(StatusSchema, details) : undefined;
  // The message of the header is percent-encoded, and grpc-js leaves commas so ("100%2C not 7"); the status has it as it was written.
  // Both count as the gRPC specification does.
  // A connection that breaks while it is written to (EPIPE) is told as a fault of this process; it is the other side's end.
  const broken =
    (error.code as unknown) === Code.Internal &&
    /^Received RST_STREAM with code \d+ triggered by internal client error/.test(error.details);
  const code: unknown = broken ? Code.Unavailable : error.code;
  const known = new ConnectError(status?.message || error.details || error.message, code as Code);
  if (status) {
    for (const any of status.details) {
      known.details.push({ type: any.typeUrl.slice(any.typeUrl.lastIndexOf('/') + 1), value: any.value });
    }
  }
  return known;
}

/** What a service said when it refused, or null where the failure was not a refusal (a time-out, a lost connection). */
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
