// The one outgoing request: a signed POST to an address that was judged, with one deadline over everything, and an answer read up to a cap.
import { isIPv4, type Socket } from 'node:net';
import { Agent, buildConnector, type Dispatcher } from 'undici';
import { areDescriptorsLeft, mostDescriptors } from '../platform/descriptors.ts';
import { isTlsErrorCode } from '../platform/tls.ts';
import { AddressNotAllowed, type Targets } from './addresses.ts';
import { errorOfStatus, type ErrorClass } from './webhook.ts';

/** What became of a request. */
export interface Answer {
  /** The answer's status, null where there was none. */
  statusCode: number | null;
  /** Null: it has arrived. */
  errorClass: ErrorClass | null;
  /** What was read of the answer, as text that PostgreSQL can store. */
  body: string | null;
  durationMs: number;
  /** For the log only. */
  detail?: string;
}

/** A request that never left this machine: it says nothing of its receiver. */
export class Unsent extends Error {}

/** What is sent. */
export interface Outgoing {
  url: string;
  headers: Record<string, string>;
  body: string | Buffer;
  /** Whether it is sent once more where a connection that was kept ends just then: the receiver may have had it all the same. */
  onceMore: boolean;
}

/** How requests are made. */
export interface HttpClientOptions {
  targets: Targets;
  /** For one whole attempt, from the look-up to the end of the answer's body. */
  timeoutMs: number;
  /** Certificates to trust instead of the system's, PEM. */
  ca?: string;
  /** Connections that are kept without a request, of all receivers, beside those that a burst leaves until the next request. */
  mostIdle?: number;
}

/** Answers are read up to here, bytes; then the connection is closed. */
export const maxBodyBytes = 64 * 1024;

// All bytes of an answer. undici counts the names and values of headers and what is body, and nothing round them, but keeps whatever it has read
// with them: blanks before each value, or an extension of each chunk, made 1 GiB of one answer in seconds. (64 KiB in chunks of one byte each
// come as 384 KiB.)
const mostBytes = 8 * maxBodyBytes;

// Of each line of a head, and of what follows a body, undici makes objects of 200 bytes, however few it has: it counted 16 KiB where it held
// 3.5 MiB, of each of 64 answers. A body may have three lines a byte, where each byte is a chunk. An answer before the answer (1xx), as a receiver that
// works sends one a second, has as many of its own.
const mostLines = 300;
const linesOfByte = 3;
/** So much is given to undici at a time, bytes, and what it has made of that is looked at in between. */
const pieceBytes = 2_048;

// Of several addresses each but the last is given so long to connect, milliseconds, which is enough where a packet is lost. (With Node's 250 one was
// given up that is further away, and where the next was of a family that does not get through, so was its receiver, each time.)
const addressMs = 1_500;

/** A timer that is later by more tells that the process stood still, milliseconds; then so long is left for what waits in its sockets. */
const lateMs = 1_000;

/**
 * So long connections are kept, milliseconds: a busy one would last for ever, also where the receiver's name leads elsewhere by now, or he has a new
 * certificate. (undici's own `clientTtl` goes over all connections of a host for each request, and again for each that it has given up and that is
 * still busy: with a thousand that hang a request to the same host cost 7 ms.)
 */
const keptMs = 60_000;

/**
 * So many may be kept without a request, of all receivers: they take descriptors and memory as others do, and a receiver may have them kept for half a
 * minute. (One tenant who changed his webhook's address three times a second left 1,024 descriptors to nobody; without that limit 5,000 took 500 MiB.)
 */
const mostIdleOfAll = Math.min(2_000, Math.floor(mostDescriptors() / 8));

/** Connections that are kept. */
interface Kept {
  agent: Agent;
  since: number;
  /** Its connections, and whether each is without a request. */
  open: Map<Socket, () => boolean>;
  /** Requests. (undici's `close()` waits for them, and for ever where a certificate was of another name.) */
  underWay: number;
}

/** Sends requests over connections that it keeps for a while. */
export class HttpClient {
  private readonly options: HttpClientOptions;
  private readonly open: () => Kept;
  private kept: Kept;
  /** Those before, with requests that are still under way. */
  private readonly leaving = new Set<Kept>();
  /** Opens a connection for each request. */
  private readonly single: Agent;
  /** How connections ended that the receiver closed while a request was on its way to him. */
  private readonly closed = new WeakSet<Error>();

  constructor(options: HttpClientOptions) {
    this.options = options;
    const { targets, timeoutMs, ca } = options;
    const connect = buildConnector({
      lookup: targets.lookup,
      timeout: timeoutMs,
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: addressMs,
      ...(ca !== undefined && { ca }),
    });
    const made = (open?: Kept['open']) => ({
      connect: ((to, done) =>
        connect(to, (...outcome) => {
          const [, socket] = outcome;
          if (socket) {
            open?.set(socket, watch(socket, this.closed));
            socket.once('close', () => open?.delete(socket));
          }
          done(...outcome);
        })) satisfies buildConnector.connector,
      // The deadline is one, and ours.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: 16_384,
    });
    // Shorter than what servers usually wait: what is sent on a connection that the server is closing is sent twice.
    this.open = () => {
      const open: Kept['open'] = new Map();
      const agent = new Agent({ ...made(open), keepAliveTimeout: 2_500, keepAliveMaxTimeout: 30_000 });
      return { agent, since: performance.now(), open, underWay: 0 };
    };
    this.kept = this.open();
    this.single = new Agent({ ...made(), pipelining: 0 });
  }

  /**
   * Sends one request and tells what came of it; null where `signal` ended it first. Where a receiver closes a connection that was kept, just when
   * the request is sent, it is sent once more over a new one, if it may be. Throws {@link Unsent} alone.
   */
  async send({ url, headers, body, onceMore }: Outgoing, signal?: AbortSignal): Promise<Answer | null> {
    const started = performance.now();
    let exchange: Exchange | undefined;
    let ended: Error | undefined;
    const end = (reason: string) => {
      ended ??= new Error(reason);
      exchange?.end(ended);
    };
    const expire = () => end('deadline');
    const due = performance.now() + this.options.timeoutMs;
    let timer = setTimeout(() => {
      // A process that stood still runs its timers before it reads what came meanwhile. Once: it may stand still again and again.
      if (performance.now() - due > lateMs) timer = setTimeout(expire, lateMs);
      else setImmediate(expire);
    }, this.options.timeoutMs);
    const stop = () => end('stopped');
    signal?.addEventListener('abort', stop, { once: true });
    const done = (answer: Omit<Answer, 'durationMs'>): Answer => ({ ...answer, durationMs: Math.round(performance.now() - started) });
    try {
      const target = this.options.targets.parse(url);
      // Not its text, which may hold secrets, and goes to the log.
      if (typeof target === 'string') throw new AddressNotAllowed('the target');
      // A look-up is made for names only.
      this.options.targets.checkLiteral(target);
      const { origin, pathname, search } = target;
      const ask = (agent: Agent) => {
        exchange = new Exchange();
        agent.dispatch({ origin, path: pathname + search, method: 'POST', headers, body }, exchange);
        return exchange.answered;
      };
      // What may not go once more takes no connection that its receiver may be closing just now: of a retry by hand he would have seen nothing.
      const first = onceMore ? this.overKept(ask) : ask(this.single);
      const { statusCode, text } = await first.catch((error: unknown) => {
        if (ended || !onceMore || !this.closed.has(error as Error)) throw error;
        return ask(this.single);
      });
      return done({ statusCode, errorClass: errorOfStatus(statusCode), body: text });
    } catch (error) {
      if (signal?.aborted) return null;
      // Whoever looks a name up is not told that there was no descriptor for it.
      if (!ended && (isOfThisMachine(error) || !areDescriptorsLeft())) throw new Unsent(detailOf(error), { cause: error });
      const errorClass = ended ? 'timeout' : classOf(error);
      return done({ statusCode: exchange?.statusCode ?? null, errorClass, body: null, detail: detailOf(error) });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
  }

  /** Closes all connections. */
  async close(): Promise<void> {
    const agents = [this.kept, ...this.leaving].map(({ agent }) => agent);
    await Promise.all([this.single, ...agents].map((agent) => agent.destroy()));
  }

  private async overKept<Answered>(ask: (agent: Agent) => Promise<Answered>): Promise<Answered> {
    const { mostIdle = mostIdleOfAll } = this.options;
    if (performance.now() - this.kept.since > keptMs || (this.kept.open.size > mostIdle && countIdle(this.kept) > mostIdle)) {
      const before = this.kept;
      this.kept = this.open();
      if (before.underWay > 0) {
        this.leaving.add(before);
        endIdle(before);
      } else void before.agent.destroy();
    }
    const { kept } = this;
    kept.underWay++;
    try {
      return await ask(kept.agent);
    } finally {
      kept.underWay--;
      if (kept.underWay === 0 && this.leaving.delete(kept)) void kept.agent.destroy();
      // Others of it may hang, and have it kept for as long.
      else if (this.leaving.has(kept)) endIdle(kept);
    }
  }
}

function countIdle({ open }: Kept): number {
  let count = 0;
  for (const isIdle of open.values()) if (isIdle()) count++;
  return count;
}

function endIdle({ open }: Kept): void {
  for (const [socket, isIdle] of open) if (isIdle()) socket.destroy();
}

/**
 * What closes a connection within so long of a request, milliseconds, has mostly not seen it: it was idle for longer than its server waits. Whoever
 * closes it later may have worked on the request.
 */
const unseenMs = 2_000;

// What is read counts from one request to the next: undici has one at a time on a connection. `closed` gets the end of one that has answered
// before and says nothing to what was just sent. Answers a look whether it has a request.
function watch(socket: Socket, closed: WeakSet<Error>): () => boolean {
  const read = socket.read.bind(socket);
  const write = socket.write.bind(socket) as (...given: unknown[]) => boolean;
  const heads = new Heads();
  let exchange: Exchange | undefined;
  let bytes = 0;
  let lines = 0;
  let interim = 0;
  let kept = false;
  let sentAt = 0;
  socket.on('error', (error) => {
    if (kept && bytes === 0 && performance.now() - sentAt < unseenMs) closed.add(error);
  });
  socket.write = (...given: unknown[]) => {
    kept ||= bytes > 0;
    bytes = 0;
    lines = 0;
    interim = 0;
    exchange = begun;
    sentAt = performance.now();
    heads.begin();
    return write(...given);
  };
  socket.read = (size) => {
    // Node's own, which asks for more and takes nothing.
    if (size === 0) return read(size) as null;
    if (exchange && exchange.interim !== interim) [interim, lines] = [exchange.interim, 0];
    const isLong = bytes > mostBytes;
    if (isLong || lines > mostLines + linesOfByte * (exchange?.size ?? 0)) {
      const most = isLong ? `${mostBytes} bytes of an answer` : `${mostLines} lines of an answer beside its body`;
      socket.destroy(new Error(`more than ${most}`));
      return null;
    }
    const piece = read(socket.readableLength > pieceBytes ? pieceBytes : undefined) as Buffer | null;
    if (!piece) return null;
    heads.takeContinue(piece);
    bytes += piece.length;
    for (let at = piece.indexOf(newline); at >= 0; at = piece.indexOf(newline, at + 1)) lines++;
    return piece;
  };
  // Without an exchange it never had one: undici makes another connection where an exchange is broken off, for a request that may have gone elsewhere.
  return () => exchange?.isOver ?? true;
}

const newline = 0x0a;
const carriageReturn = 0x0d;
const zero = 0x30;
/** What the head of an interim answer begins with; two more figures follow. */
const interimHead = Buffer.from('HTTP/1.1 1');

// Some servers and proxies say `100 Continue` to whoever posts, each of them by itself, and nobody may fail of that (RFC 9110, section 15.2).
// undici closes the connection for it, but takes the other interim answers, and 102 says as little.
class Heads {
  /** Bytes of a status line that have come, up to its number. */
  private read = 0;
  private place: 'status' | 'headers' | 'answer' = 'status';
  private isContinue = false;
  private isLineEmpty = false;

  /** A request is sent: what comes next is the head of an answer. */
  begin(): void {
    this.place = 'status';
    this.read = 0;
    this.isContinue = true;
  }

  /** Makes each 100 that comes before the answer a 102, in place; a piece may end anywhere. */
  takeContinue(piece: Buffer): void {
    for (let at = 0; at < piece.length && this.place !== 'answer'; at++) {
      const byte = piece[at] as number;
      if (this.place === 'status') {
        if (this.read < interimHead.length) {
          if (byte !== interimHead[this.read]) this.place = 'answer';
        } else {
          this.isContinue &&= byte === zero;
          if (this.read > interimHead.length) {
            if (this.isContinue) piece[at] = '2'.charCodeAt(0);
            this.place = 'headers';
            this.isLineEmpty = false;
          }
        }
        this.read++;
      } else if (byte === newline) {
        if (this.isLineEmpty) this.begin();
        this.isLineEmpty = true;
      } else if (byte !== carriageReturn) {
        this.isLineEmpty = false;
      }
    }
  }
}

/** The last one whose request was begun: what is written in the same turn is of it. */
let begun: Exchange | undefined;
const begin = (exchange: Exchange) => (begun = exchange);

// They end with their headers, whatever those say (RFC 9112, section 6.3). For undici one that says a length then lacks so many bytes.
const bodiless = new Set([204, 304]);

/**
 * One request and its answer, of which no more is read than is kept. As undici tells of them, without its stream between: that was 7 % of what a
 * delivery takes.
 */
class Exchange implements Dispatcher.DispatchHandler {
  /** Null before the answer's head has come. */
  statusCode: number | null = null;
  /** Answers before the answer that have come. */
  interim = 0;
  /** Nothing more comes of it. */
  isOver = false;
  private readonly whole = Promise.withResolvers<{ statusCode: number; text: string }>();
  private room = Buffer.alloc(0);
  /** Bytes of the body that are kept: one more than are read, at most. */
  size = 0;
  private ended: Error | undefined;
  private controller: Dispatcher.DispatchController | undefined;

  /** Rejects with what prevented an answer, or its end. */
  get answered(): Promise<{ statusCode: number; text: string }> {
    return this.whole.promise;
  }

  /** Ends it with its connection; at once also while that is made, of which undici does not let go, be it a handshake that nobody answers. */
  end(reason: Error): void {
    this.ended ??= reason;
    this.whole.reject(reason);
    this.controller?.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    begin(this);
    if (this.ended) controller.abort(this.ended);
  }

  onResponseStart(_: Dispatcher.DispatchController, statusCode: number): void {
    if (statusCode < 200) {
      this.interim++;
      return;
    }
    this.statusCode = statusCode;
    if (bodiless.has(statusCode)) this.whole.resolve({ statusCode, text: '' });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // Copied: a piece holds on to all that was read with it, and pieces of a byte each are objects of a hundred (7 MiB an answer).
    const most = Math.min(this.size + chunk.length, maxBodyBytes + 1);
    if (most > this.room.length) {
      const room = Buffer.allocUnsafe(Math.min(Math.max(most, 2 * this.room.length), maxBodyBytes + 1));
      this.room.copy(room, 0, 0, this.size);
      this.room = room;
    }
    this.size += chunk.copy(this.room, this.size);
    if (this.size < maxBodyBytes) return;
    this.onResponseEnd();
    controller.abort(new Error('as much as is read'));
  }

  onResponseEnd(): void {
    this.isOver = true;
    this.whole.resolve({ statusCode: this.statusCode as number, text: textOf(this.room.subarray(0, this.size)) });
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.whole.reject(error);
  }
}

// What an answer begins with is told, a byte order mark too.
const decoding = { ignoreBOM: true };
const decoder = new TextDecoder('utf-8', decoding);

function textOf(body: Buffer): string {
  const bytes = body.subarray(0, maxBodyBytes);
  // `stream`: a character that the cut went through is left out.
  const isCut = body.length >= maxBodyBytes;
  const text = isCut ? new TextDecoder('utf-8', decoding).decode(bytes, { stream: true }) : decoder.decode(bytes);
  // PostgreSQL stores no NUL.
  return text.replaceAll('\0', '\ufffd');
}

interface Failure {
  code?: string;
  address?: string;
  message?: string;
  cause?: unknown;
  errors?: unknown[];
}

// Descriptors, memory or ports that have run out. By IPv6, which this machine may not have, no address to call from is the target's matter: it would
// be put off for ever.
function isOfThisMachine(error: unknown): boolean {
  const { code = '', address = '', cause, errors = [] } = error as Failure;
  if (/^(EMFILE|ENFILE|ENOBUFS|ENOMEM)$/.test(code) || (code === 'EADDRNOTAVAIL' && isIPv4(address))) return true;
  return cause instanceof Error ? isOfThisMachine(cause) : errors.length > 0 && errors.every(isOfThisMachine);
}

function classOf(error: unknown): ErrorClass {
  for (let each = error as Failure | undefined; each; each = each.cause as Failure | undefined) {
    if (each instanceof AddressNotAllowed) return 'blocked_address';
    const { code = '', errors = [] } = each;
    if (/TIMEOUT|ETIMEDOUT/.test(code)) return 'timeout';
    if (isTlsErrorCode(code)) return 'tls_error';
    // Of several addresses, each with a failure of its own.
    if (errors.length > 0) return classOf(errors[0]);
  }
  return 'connection_failed';
}

// Cut: what a certificate says of its names, for one, may be 75 KB.
function detailOf(error: unknown): string {
  const { code, message = String(error) } = error as Failure;
  return (code === undefined ? message : `${code}: ${message}`).slice(0, 300);
}
