// Unary calls of gRPC to one address, the caller's side of unary.ts: streams of Node's HTTP/2, on one connection at a time. Connect's client runs a
// call through asynchronous generators and does 1.6k calls/s where grpc-js does 4.1k, and that takes its calls through filters and timers: so a
// posting costs the gateway a tenth less than with grpc-js at 64 and 256 connections, and a quarter less at one.
import {
  connect,
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { Code, ConnectError } from '@connectrpc/connect';
import { failureIn, isAnswer, mayHaveBegun, noteEnd, ofEachCall, type AnswerHeaders, type Asked } from './asked.ts';
import { Carrier } from './carrier.ts';
import { enveloped, envelopeBytes, unwrapped } from './envelope.ts';
const windowBytes = 4 << 20;
import { tooLarge } from './unfinished.ts';

/** What is asked. */
export interface Question {
  /** `/package.Service/Method`. */
  path: string;
  /** Beside those of gRPC itself. */
  headers: OutgoingHttpHeaders;
  message: Uint8Array;
  /** Whether it travels with others on one stream, as small ones do that are asked often; its `headers` are then those of all of them. */
  isCarried?: boolean;
  /** So long the answer is waited for, milliseconds. */
  patienceMs: number;
  signal: AbortSignal | undefined;
}

// So often a connection is asked whether it lives, and so long it may take to say so: half of it may be gone without a word.
const pingEveryMs = 10_000;
const pingMs = 5_000;
// Within the deadline of most calls: one that reads may still ask another replica.
const connectMs = 5_000;
// Of calls that travel together. A side that stands still behind a proxy that does not, or a slow link, had the whole of them kept here.
const mostUnsentBytes = 1 << 20;
/** So long after a connection failed no other one is begun, milliseconds: whoever is refused asks again at once. */
const pauseMs = 100;

// An error of a class of its own would pass for any other: Connect's `instanceof` looks at the name.
const neverBegun = new WeakSet<object>();

/** False where a call has failed that the other side has not begun to answer: it may be asked elsewhere, whatever it does. */
export function wasBegun(failure: unknown): boolean {
  return !neverBegun.has(Object(failure) as object);
}

/** Calls to one address. */
export class Channel {
  private readonly address: string;
  private readonly most: number;
  private session: ClientHttp2Session | undefined;
  private readonly carriers = new WeakMap<ClientHttp2Session, Carrier>();
  /** Resolves when there is a connection, or can't be. */
  private made: Promise<unknown> | undefined;
  private pausedUntil = -Infinity;
  /** Why there is no connection. */
  private failure: Error | undefined = new Error('none was asked for');
  private closing = false;

  /** `address`: `ip:port`; `most`: the largest message in either direction, bytes. */
  constructor(address: string, most: number) {
    this.address = address;
    this.most = most;
  }

  /** True while there is a connection on which the other side has said something; where there is none, one is begun. */
  get isAvailable(): boolean {
    this.connected();
    return !this.failure;
  }

  /**
   * Asks, and answers with the bytes of the message that comes back. Rejects with what the service says, or as `UNAVAILABLE` where there is no
   * connection or it breaks, `DEADLINE_EXCEEDED` or `CANCELED` where nobody waits any more, `RESOURCE_EXHAUSTED` where a message is too large. What
   * the other side has refused to begin, as one does that ends the connection, or could not be begun on it, is asked once more.
   */
  call(question: Question): Promise<Uint8Array> {
    const { message, patienceMs, signal } = question;
    if (message.length > this.most) return Promise.reject(tooLarge(message.length, this.most));
    return new Promise<Uint8Array>((resolve, reject) => {
      let asked: Asked | undefined;
      const isBegun = () => asked?.mayHaveBegun() === true;
      let until = performance.now() + patienceMs;
      const giveUp = (error: ConnectError) => {
        until = -Infinity;
        reject(error);
        asked?.leave();
      };
      const leave = () => giveUp(new ConnectError('the caller has gone', Code.Canceled));
      const late = () => giveUp(new ConnectError(`no answer within ${Math.round(patienceMs)} ms`, Code.DeadlineExceeded));
      if (signal?.aborted) {
        leave();
        return;
      }
      // A process that stood still runs its timers before it reads what came meanwhile.
      const timer = setTimeout(() => setImmediate(late), patienceMs);
      signal?.addEventListener('abort', leave);
      const ask = async () => {
        const session = await this.connection();
        const leftMs = until - performance.now();
        // The other side would take what comes now for what somebody waits for.
        if (leftMs <= 0) throw new ConnectError('nobody waits any more', Code.DeadlineExceeded);
        asked = this.ask(session, question, leftMs);
        return asked.answer;
      };
      const again = async (error: unknown) => {
        if (!asked || isBegun()) throw error;
        // Who refuses because he ends the connection says so right behind.
        await new Promise(setImmediate);
        return ask();
      };
      ask()
        .catch(again)
        .then(resolve, (error: unknown) => {
          const failure = ConnectError.from(error, Code.Internal);
          if (!isBegun()) neverBegun.add(failure);
          reject(failure);
        })
        .finally(() => {
          clearTimeout(timer);
          signal?.removeEventListener('abort', leave);
        });
    });
  }

  /** Ends the connection when the calls on it have been answered. A second call does nothing. */
  close(): void {
    this.closing = true;
    if (this.session) this.end(this.session);
  }

  private ask(session: ClientHttp2Session, question: Question, leftMs: number): Asked {
    const { path, headers, message, isCarried } = question;
    const carrier = isCarried === true ? this.carrierOn(session, headers) : undefined;
    if (carrier) return carrier.ask(path, message, leftMs);
    const stream = session.request({ ...headers, ...ofEachCall, ':path': path, 'grpc-timeout': timeout(leftMs) });
    stream.end(enveloped(message));
    this.endWithoutNumber(session, stream);
    return {
      answer: answerOf(stream, this.most),
      mayHaveBegun: () => mayHaveBegun(stream, session),
      leave: () => stream.close(constants.NGHTTP2_CANCEL),
    };
  }

  /** What carries the calls of a connection; undefined where the other side knows of no such thing. */
  private carrierOn(session: ClientHttp2Session, headers: OutgoingHttpHeaders): Carrier | undefined {
    const known = this.carriers.get(session);
    if (known?.isKnown === false) return undefined;
    // Who has much that is not sent yet asks by streams that are reset: what nobody waits for any more then goes.
    if (known?.isOpen === true) return known.stream.writableLength > mostUnsentBytes ? undefined : known;
    const carrier = new Carrier(session, headers, this.most);
    this.carriers.set(session, carrier);
    this.endWithoutNumber(session, carrier.stream);
    return carrier;
  }

  // After 2^30 calls a connection has no number left for another, and would go on like that. The house's services end theirs long before; what
  // stands between in a cluster may keep one for months.
  private endWithoutNumber(session: ClientHttp2Session, stream: ClientHttp2Stream): void {
    if (stream.id === undefined) this.end(session);
  }

  /** Ends a connection when the calls on it have been answered. */
  private end(session: ClientHttp2Session): void {
    this.carriers.get(session)?.finish();
    session.close();
  }

  private async connection(): Promise<ClientHttp2Session> {
    const session = this.connected();
    if (session) await this.made;
    if (session && !session.closed && !session.destroyed) return session;
    throw new ConnectError(`no connection to ${this.address}: ${this.failure?.message ?? 'it is closed'}`, Code.Unavailable);
  }

  /** The connection, which may still be in the making; one is begun where there is none, unless the last one has just failed. */
  private connected(): ClientHttp2Session | undefined {
    if (this.session && !this.session.closed && !this.session.destroyed) return this.session;
    // Its event `close` comes later, and finds another one in its place.
    if (this.session) this.failure ??= new Error('the other side ended it');
    if (this.closing || performance.now() < this.pausedUntil) return undefined;
    return (this.session = this.begin());
  }

  private begin(): ClientHttp2Session {
    const session = connect(`http://${this.address}`, {
      // Node's 10 MB a session are less than a few large answers on their way.
      maxSessionMemory: 1000,
      settings: { initialWindowSize: windowBytes, enablePush: false },
    });
    const end = (why: string) => session.destroy(new Error(why));
    let late = setTimeout(() => end(`none within ${connectMs} ms`), connectMs);
    const pinging = setInterval(() => {
      if (session.destroyed) return;
      late = setTimeout(() => end(`it was silent for ${pingMs} ms`), pingMs);
      session.ping(() => clearTimeout(late));
    }, pingEveryMs).unref();
    this.made = new Promise((resolve) => session.once('remoteSettings', resolve).once('close', resolve));
    let failure: Error | undefined = new Error('it was cut');
    // Not when it is connected: that is whoever listens, also for a process that stands still.
    session.once('remoteSettings', () => {
      clearTimeout(late);
      // It is said, too, of one that was closed meanwhile.
      if (session.destroyed) return;
      session.setLocalWindowSize(windowBytes);
      this.failure = undefined;
    });
    session.once('goaway', (code: number) => {
      failure = undefined;
      noteEnd(session, code);
      this.end(session);
    });
    session.on('error', (error: Error) => (failure = error));
    session.once('close', () => {
      clearTimeout(late);
      clearInterval(pinging);
      // Another one may have taken its place.
      if (this.session !== session) return;
      if (failure) this.pausedUntil = performance.now() + pauseMs;
      this.failure = failure ?? new Error('the other side ended it');
    });
    return session;
  }
}

// In gRPC's header a number has at most eight digits: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#requests
function timeout(ms: number): string {
  const whole = Math.max(1, Math.floor(ms));
  return whole < 1e8 ? `${whole}m` : `${Math.min(99_999_999, Math.floor(whole / 1000))}S`;
}

/** The bytes of the message that a stream answers with. Rejects with a {@link ConnectError}. */
function answerOf(stream: ClientHttp2Stream, most: number): Promise<Uint8Array> {
  const { session } = stream;
  return new Promise((resolve, reject) => {
    // A stream and its listeners outlive the call until V8 next collects old objects, seconds later under load: what they hold is empty by then.
    let waiting: { resolve: typeof resolve; reject: typeof reject } | undefined = { resolve, reject };
    let header: AnswerHeaders | undefined;
    let trailer: IncomingHttpHeaders | undefined;
    let pieces: Buffer[] = [];
    let size = 0;
    const settle = (message: () => Uint8Array) => {
      try {
        waiting?.resolve(message());
      } catch (error) {
        waiting?.reject(error);
      }
      waiting = header = trailer = undefined;
      pieces = [];
    };
    stream.on('response', (given) => (header = given));
    stream.on('trailers', (given: IncomingHttpHeaders) => (trailer = given));
    stream.on('data', (piece: Buffer) => {
      size += piece.length;
      if (size <= envelopeBytes + most) {
        if (waiting) pieces.push(piece);
        return;
      }
      settle(() => {
        throw tooLarge(size - envelopeBytes, most);
      });
      stream.close(constants.NGHTTP2_CANCEL);
    });
    stream.on('end', () => {
      if ((trailer ?? header)?.['grpc-status'] !== undefined) settle(() => messageOf(header ?? {}, trailer, pieces));
      // Answered before it was heard to the end.
      if (!waiting && !stream.writableFinished) stream.close(constants.NGHTTP2_CANCEL);
    });
    // What it was is told by the end of the stream.
    stream.on('error', () => undefined);
    stream.on('close', () => {
      settle(() => {
        if (!session || session.closed || session.destroyed) throw new ConnectError('the connection broke', Code.Unavailable);
        const { rstCode } = stream;
        if (!header || rstCode !== constants.NGHTTP2_NO_ERROR)
          throw new ConnectError(`the call was reset (HTTP/2 error ${rstCode})`, codes[rstCode] ?? Code.Internal);
        return messageOf(header, trailer, pieces);
      });
    });
  });
}

// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#errors
const codes: Record<number, Code> = {
  [constants.NGHTTP2_REFUSED_STREAM]: Code.Unavailable,
  [constants.NGHTTP2_CANCEL]: Code.Canceled,
  [constants.NGHTTP2_ENHANCE_YOUR_CALM]: Code.ResourceExhausted,
  [constants.NGHTTP2_INADEQUATE_SECURITY]: Code.PermissionDenied,
};

function messageOf(header: AnswerHeaders, trailer: IncomingHttpHeaders | undefined, pieces: Buffer[]): Uint8Array {
  if (!isAnswer(header, trailer)) throw failureIn(header, trailer);
  const message = unwrapped(pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces));
  if (!message) throw new ConnectError('the answer is not one message, uncompressed', Code.Internal);
  return message;
}
