// Messages that have begun and not ended: what they may cost, in bytes and in time, those of all connections together.
import { constants, type ServerHttp2Stream } from 'node:http2';
import { Code, ConnectError } from '@connectrpc/connect';
import { envelopeBytes } from './envelope.ts';
import { refuse } from './errors.ts';

/** What messages may cost that have begun and not ended. */
export interface UnfinishedBounds {
  /** Of all connections together; each piece of a message costs 128 bytes beside its own. */
  bytes: number;
  /** From a call's begin to the end of its message. */
  ms: number;
}

// An object, its place in an array and its share of what it was read with: a message may come byte by byte.
const bytesPerPiece = 128;

/**
 * The bounds of a server with messages of so many bytes: eight of the largest, and not less than 32 MiB, for which small messages are many.
 * One connection alone may have 5,000 streams, each with a message on its way.
 */
export function boundsOf(maxMessageBytes: number): UnfinishedBounds {
  return { bytes: Math.min(256 << 20, Math.max(32 << 20, 8 * maxMessageBytes)), ms: 30_000 };
}

/**
 * The bounds of who has no token, apart from those of all others, whom he would shut out: 88 questions for health that came byte by byte, 2.6 MB
 * on one connection, filled 32 MiB.
 */
export function boundsOfStrangers({ bytes, ms }: UnfinishedBounds): UnfinishedBounds {
  return { bytes: Math.min(bytes, 8 << 20), ms };
}

/** A message that has begun. */
export interface UnfinishedMessage {
  /** Counts a piece of it; what speaks against it, if anything. After the end nothing is counted. */
  add(piece: { length: number }): ConnectError | undefined;
  /** Gives back what was counted. A second call does nothing. */
  end(): void;
}

/** All of them, or those of some callers. */
export class Unfinished {
  private readonly bounds: UnfinishedBounds;
  private bytes = 0;

  constructor(bounds: UnfinishedBounds) {
    this.bounds = bounds;
  }

  /** A message of at most so many bytes begins; `late` is called where it has not ended in time, and may be left out where it need not. */
  begin(most: number, late?: (refusal: ConnectError) => void): UnfinishedMessage {
    const { ms } = this.bounds;
    const refusal = () => new ConnectError(`the message has not ended within ${ms} ms`, Code.DeadlineExceeded);
    const timer = late && setTimeout(() => late(refusal()), ms);
    let [size, cost, ended] = [0, 0, false];
    return {
      add: (piece) => {
        if (ended) return undefined;
        size += piece.length;
        cost += piece.length + bytesPerPiece;
        this.bytes += piece.length + bytesPerPiece;
        if (size > envelopeBytes + most) return sentTooLarge(size - envelopeBytes, most);
        if (this.bytes <= this.bounds.bytes) return undefined;
        const message = 'too many bytes of messages that have not ended';
        return refuse(Code.ResourceExhausted, { reason: 'overloaded', message, retryAfter: 1 });
      },
      end: () => {
        if (ended) return;
        ended = true;
        clearTimeout(timer);
        this.bytes -= cost;
      },
    };
  }

  /**
   * The same body, read on as it comes: it counts until it ends, is refused or left, or until `signal` tells that its stream is no more.
   * `isTimed`: it has to end in time.
   */
  counted(body: AsyncIterable<Uint8Array>, most: number, isTimed: boolean, signal: AbortSignal): AsyncIterable<Uint8Array> {
    let pieces: Uint8Array[] = [];
    let end: { failure: Error | undefined } | undefined;
    let news = Promise.withResolvers<void>();
    const finish = (failure?: Error) => {
      if (end) return;
      end = { failure };
      if (failure !== undefined) pieces = [];
      message.end();
      news.resolve();
    };
    const message = this.begin(most, isTimed ? finish : undefined);
    const leave = () => finish(signal.reason as Error);
    if (signal.aborted) leave();
    signal.addEventListener('abort', leave, { once: true });
    const readOn = async () => {
      for await (const piece of body) {
        // What is refused is read on, and forgotten: whoever is not read keeps here what he sends.
        if (end) continue;
        const refusal = message.add(piece);
        if (refusal) finish(refusal);
        else pieces.push(piece);
        news.resolve();
      }
      finish();
    };
    readOn().catch(finish);
    const given = async function* () {
      try {
        for (;;) {
          const arrived = pieces;
          pieces = [];
          yield* arrived;
          if (pieces.length > 0) continue;
          if (end?.failure !== undefined) throw end.failure;
          if (end) return;
          await news.promise;
          news = Promise.withResolvers();
        }
      } finally {
        finish(new ConnectError('nobody reads the message any more', Code.Canceled));
      }
    };
    return given();
  }
}

/** Reads a body to its end and forgets it: where nobody reads it, what comes of it is kept until its stream is closed. */
export function forget(body: AsyncIterable<Uint8Array>): void {
  const read = async () => {
    for await (const _ of body);
  };
  // The end of the stream is the end of it.
  read().catch(() => undefined);
}

/** The refusal of a message that is larger than may be. */
export function tooLarge(size: number, most: number): ConnectError {
  return new ConnectError(`a message of ${size} bytes is larger than ${most}`, Code.ResourceExhausted);
}

/** The same, to whoever has sent it: with a reason, by which he tells it from what he may try again. */
export function sentTooLarge(size: number, most: number): ConnectError {
  return refuse(Code.ResourceExhausted, { reason: 'payload_too_large', message: tooLarge(size, most).rawMessage });
}

/** Closes a stream that has been answered, whose caller has not ended his request: it would stay, and keep the server from closing, until he did. */
export function closeAnswered(stream: ServerHttp2Stream): void {
  stream.once('wantTrailers', () => closeSoon(stream));
}

/** The same, of which all has been said. Node writes it in the next round of its loop: closed before, the stream would lose it. */
export function closeSoon(stream: ServerHttp2Stream): void {
  setImmediate(() => {
    if (stream.readableEnded) return;
    stream.resume();
    stream.close(constants.NGHTTP2_NO_ERROR);
  });
}
