// Calls another service of the house: channels to its replicas as a Connect transport, so that calls are typed by the generated code.
import { setTimeout as pause } from 'node:timers/promises';
import { create, fromBinary, isMessage, toBinary, type DescMessage, type DescMethod, type MessageShape } from '@bufbuild/protobuf';
import { Code, ConnectError, type Transport } from '@connectrpc/connect';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from '../../proto/gen/google/rpc/error_details_pb.js';
import { Channel, wasBegun } from './channel.ts';
import { turnOf } from './large.ts';
import type { RefusalInfo } from './errors.ts';
import { Replicas, type Replica, type Resolve } from './replicas.ts';
import type { Encoder } from './fast-unary.ts';

/** What a channel needs. */
export interface CallerOptions {
  /** `host:port`, several for several replicas; a name stands for all its addresses, which are looked up again every few seconds. */
  addresses: string[];
  token: string;
  /** Largest message in either direction, bytes. An answer that is larger fails after the other side has committed. */
  maxMessageBytes: number;
  /**
   * Methods that only read. One that fails as `UNAVAILABLE` is repeated twice, at another replica at once where there is one, else after a while,
   * within the call's deadline. A refusal of the service, which says why, is not. A call of any method that no replica has begun to answer is asked
   * once of another one.
   */
  retried?: DescMethod[];
  /** Methods whose calls travel together on one stream: small ones, that are asked often. */
  carried?: DescMethod[];
  /** Of requests that are encoded otherwise than by `toBinary`, by their types. */
  encoders?: ReadonlyMap<DescMessage, Encoder>;
  /** How names are looked up; by default as the system does. */
  resolve?: Resolve;
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
  const replicas = new Replicas(options.addresses, (address) => new Channel(address, options.maxMessageBytes), options.resolve);
  const own = { authorization: `Bearer ${options.token}` };
  const reads = new Set(options.retried);
  const carried = new Set(options.carried);
  // `besides`: what was asked before, in vain.
  const transport = (choose: (besides?: Replica) => Replica | undefined): Transport => ({
    async unary(method, signal, timeoutMs, header, input) {
      const until = performance.now() + (timeoutMs ?? 10_000);
      const first = choose() ?? (await inTime(replicas.lookedUp, until, signal).then(() => choose()));
      if (!first) throw new ConnectError(`no address is known of ${options.addresses.join(', ')}`, Code.Unavailable);
      const headers = header ? { ...own, ...Object.fromEntries(new Headers(header as ConstructorParameters<typeof Headers>[0])) } : own;
      const request = isMessage(input, method.input) ? input : create(method.input, input);
      const message = options.encoders?.get(method.input)?.(request) ?? toBinary(method.input as DescMessage, request);
      const path = `/${method.parent.typeName}/${method.name}`;
      const asked = { path, headers, message, isCarried: !header && carried.has(method), signal };
      for (let [attempt, replica] = [1, first]; ; attempt++) {
        try {
          const bytes = await replicas.ask(replica, { ...asked, patienceMs: until - performance.now() });
          const turn = turnOf(bytes.length);
          if (turn) await turn;
          const answer = decoded(method.output, bytes);
          return { stream: false, service: method.parent, method, header: noHeaders, trailer: noHeaders, message: answer };
        } catch (error) {
          // A replica that says itself what is wrong speaks for all: the database that it can't reach is also theirs.
          const away = error instanceof ConnectError && error.code === Code.Unavailable && !refusalOf(error);
          const isRead = reads.has(method);
          const other: Replica | undefined = away && attempt === 1 && (isRead || !wasBegun(error)) ? choose(replica) : undefined;
          const waitMs = other ? 0 : 50 * attempt * (1 + Math.random());
          if (!away || !(isRead || other) || attempt === 3 || until - performance.now() < waitMs) throw error;
          if (!other) await pause(waitMs);
          replica = other ?? replica;
        }
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

const noHeaders = new Headers();

/** Resolves with `work`, but no later than at `until`, milliseconds: then it rejects as `DEADLINE_EXCEEDED`, and as `CANCELED` when `signal` ends it. */
async function inTime(work: Promise<void>, until: number, signal: AbortSignal | undefined): Promise<void> {
  const done = new AbortController();
  const ended = signal ? AbortSignal.any([signal, done.signal]) : done.signal;
  const late = pause(until - performance.now(), undefined, { signal: ended }).then(
    () => Promise.reject(new ConnectError('no address is known in time', Code.DeadlineExceeded)),
    () => Promise.reject(new ConnectError('the caller has gone', Code.Canceled)),
  );
  await Promise.race([work, late]).finally(() => done.abort());
}

function decoded<T extends DescMessage>(type: T, bytes: Uint8Array): MessageShape<T> {
  try {
    return fromBinary(type, bytes);
  } catch (error) {
    throw new ConnectError(`the answer is no ${type.typeName}`, Code.Internal, undefined, undefined, error);
  }
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
