// The outgoing webhook request: one signed POST to a checked address, with one deadline and bounded answers.
import type { Socket } from 'node:net';
import { Agent, buildConnector, errors, type Dispatcher } from 'undici';
import { isTlsErrorCode } from '../platform/postgres-errors.ts';
import { AddressNotAllowed, LookupFailed, type Targets } from './addresses.ts';
import { errorOfStatus, type ErrorClass } from './webhook.ts';

/** Result of a request. */
export interface Answer {
  /** Null: no status was received. */
  statusCode: number | null;
  /** Null: delivered. */
  errorClass: ErrorClass | null;
  /** The beginning of the answer's body, as text that PostgreSQL can store. Null: no status was received. */
  body: string | null;
  durationMs: number;
  /** For the log only. */
  detail?: string;
}

/** A request to send. */
export interface Outgoing {
  url: string;
  headers: Record<string, string>;
  body: string | Buffer;
  /** False: use a new connection. True: an idle one may be used, and if the receiver closes it meanwhile the request is repeated once. */
  mayReuseConnection: boolean;
}

/** How requests are sent. */
export interface HttpClientOptions {
  targets: Targets;
  /** Deadline of one whole request, from the look-up to the end of the answer's body. */
  timeoutMs: number;
  /** Certificates to trust instead of the system's, PEM. */
  ca?: string;
}

/** Bytes of an answer's body that are read and kept. */
export const maxBodyBytes = 16 * 1024;
/** Bytes of an answer's headers. */
const maxHeaderBytes = 64 * 1024;

// undici counts neither blanks around header values nor chunk extensions, so all bytes of an answer are limited, too.
const maxAnswerBytes = maxHeaderBytes + maxBodyBytes;

// Node gives each of several addresses 250 ms, which one lost packet exceeds.
const addressTimeoutMs = 1_500;

/** Sends requests. Connections are kept for a short time and checked when they are opened. */
export class HttpClient {
  private readonly options: HttpClientOptions;
  private readonly reusing: Agent;
  private readonly single: Agent;
  /** Errors of idle connections that the receiver closed before it answered the next request. */
  private readonly staleErrors = new WeakSet<Error>();

  constructor(options: HttpClientOptions) {
    this.options = options;
    const { targets, timeoutMs, ca } = options;
    const open = buildConnector({
      lookup: targets.lookup,
      timeout: timeoutMs,
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: addressTimeoutMs,
      ...(ca !== undefined && { ca }),
    });
    const connect: buildConnector.connector = (to, done) =>
      open(to, (...result) => {
        const [, socket] = result;
        if (socket) limitAnswers(socket, this.staleErrors);
        done(...result);
      });
    const common = { connect, headersTimeout: 0, bodyTimeout: 0, maxHeaderSize: maxHeaderBytes };
    // An idle connection that the receiver is about to close costs a second request: most servers wait longer than this.
    this.reusing = new Agent({ ...common, keepAliveTimeout: 2_500, keepAliveMaxTimeout: 5_000, clientTtl: 60_000 });
    this.single = new Agent({ ...common, pipelining: 0 });
  }

  /** Sends one request. Null: `signal` ended it before a status was received. Never throws. */
  async send({ url, headers, body, mayReuseConnection }: Outgoing, signal?: AbortSignal): Promise<Answer | null> {
    if (signal?.aborted) return null;
    const started = performance.now();
    let exchange = new Exchange();
    let ended: Error | undefined;
    const end = (reason: string) => exchange.end((ended ??= new Error(reason)));
    const timer = setTimeout(end, this.options.timeoutMs, 'deadline');
    const stop = () => end('stopped');
    signal?.addEventListener('abort', stop, { once: true });
    let failure: unknown;
    try {
      const target = this.options.targets.parse(url);
      // The error goes to the log, and the URL may contain a secret.
      if (typeof target === 'string') throw new AddressNotAllowed('the target');
      // A literal address is connected to without a look-up.
      this.options.targets.checkLiteral(target);
      const { origin, pathname, search } = target;
      const request = { origin, path: pathname + search, method: 'POST', headers, body } as const;
      try {
        await exchange.run(mayReuseConnection ? this.reusing : this.single, request);
      } catch (error) {
        if (ended || !this.staleErrors.has(error as Error)) throw error;
        exchange = new Exchange();
        await exchange.run(this.single, request);
      }
    } catch (error) {
      failure = error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
    const durationMs = Math.round(performance.now() - started);
    const { statusCode } = exchange;
    if (statusCode !== null) return { statusCode, errorClass: errorOfStatus(statusCode), body: exchange.text, durationMs };
    if (signal?.aborted) return null;
    return { statusCode: null, errorClass: ended ? 'timeout' : errorClassOf(failure), body: null, durationMs, detail: describe(failure) };
  }

  /** Closes all connections; requests in flight fail. */
  async close(): Promise<void> {
    await Promise.all([this.reusing.destroy(), this.single.destroy()]);
  }
}

/** Limits the bytes of each answer on a connection, and notes when a kept connection ends without any byte of the next answer. */
function limitAnswers(socket: Socket, staleErrors: WeakSet<Error>): void {
  const read = socket.read.bind(socket);
  const write = socket.write.bind(socket) as (...given: unknown[]) => boolean;
  let bytes = 0;
  let isReused = false;
  socket.on('error', (error) => {
    if (isReused && bytes === 0) staleErrors.add(error);
  });
  // HTTP/1.1 without pipelining: a write begins the next exchange.
  socket.write = (...given: unknown[]) => {
    isReused ||= bytes > 0;
    bytes = 0;
    return write(...given);
  };
  socket.read = (size) => {
    if (bytes > maxAnswerBytes) {
      socket.destroy(new errors.HeadersOverflowError());
      return null;
    }
    const piece = read(size) as Buffer | null;
    bytes += piece?.length ?? 0;
    // Servers may send `100 Continue` unasked (RFC 9110, 15.2). undici fails on it, and ignores 102.
    if (piece?.subarray(0, continueLine.length).equals(continueLine)) piece[continueLine.length - 1] = '2'.charCodeAt(0);
    return piece;
  };
}

const continueLine = Buffer.from('HTTP/1.1 100');

/** One request and its answer. Implements undici's handler, because its streams cost 7 % of a delivery. */
class Exchange implements Dispatcher.DispatchHandler {
  /** Null until the answer's headers have arrived. */
  statusCode: number | null = null;
  private body = Buffer.alloc(0);
  private readonly done = Promise.withResolvers<undefined>();
  private controller: Dispatcher.DispatchController | undefined;

  /** Resolves at the end of the answer, or of what is read of it. */
  async run(agent: Agent, request: Dispatcher.DispatchOptions): Promise<void> {
    agent.dispatch(request, this);
    await this.done.promise;
  }

  /** Ends it with its connection, at once also while connecting. */
  end(reason: Error): void {
    this.done.reject(reason);
    this.controller?.abort(reason);
    this.onRequestStart = (controller) => controller.abort(reason);
  }

  get text(): string {
    // `stream`: a character that was cut is left out.
    const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(this.body, { stream: this.body.length >= maxBodyBytes });
    // PostgreSQL stores no NUL.
    return text.replaceAll('\0', '\ufffd');
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
  }

  onResponseStart(_: Dispatcher.DispatchController, statusCode: number): void {
    if (statusCode >= 200) this.statusCode = statusCode;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // Copied: a slice would keep all bytes that were read with it.
    this.body = Buffer.concat([this.body, chunk.subarray(0, maxBodyBytes - this.body.length)]);
    if (this.body.length < maxBodyBytes) return;
    this.done.resolve(undefined);
    controller.abort(new Error('the rest is not read'));
  }

  onResponseEnd(): void {
    this.done.resolve(undefined);
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.done.reject(error);
  }
}

/** Why no status was received. */
function errorClassOf(error: unknown): ErrorClass {
  if (error instanceof AddressNotAllowed) return 'address_not_allowed';
  if (error instanceof LookupFailed) return 'dns';
  const { code = '', message, cause, errors: each = [] } = error as NodeJS.ErrnoException & { errors?: unknown[] };
  if (/^(UND_ERR|HPE)_HEADERS?_OVERFLOW$/.test(code)) return 'response_too_large';
  if (/TIMEOUT|ETIMEDOUT/.test(code)) return 'timeout';
  if (isTlsErrorCode(code)) return 'tls';
  // One error for each of several addresses.
  if (each.length > 0) return errorClassOf(each[0]);
  if (cause instanceof Error) return errorClassOf(cause);
  if (code.startsWith('HPE_') || /^bad (response|upgrade)$/.test(message)) return 'protocol';
  if (/^(ECONNRESET|ECONNABORTED|EPIPE|UND_ERR_(SOCKET|DESTROYED|CLOSED))$/.test(code)) return 'reset';
  // ECONNREFUSED, EHOSTUNREACH, ENETUNREACH and whatever else keeps a connection from being opened.
  return code.startsWith('E') ? 'refused' : 'protocol';
}

/** At most 300 characters: a certificate error may list 75 KB of names. */
function describe(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return (code === undefined ? message : `${code}: ${message}`).slice(0, 300);
}
