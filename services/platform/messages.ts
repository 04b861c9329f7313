// The messages of a gRPC stream, of which some may come in one piece, and one in many.
import { Code } from '@connectrpc/connect';
import { envelopeBytes } from './envelope.ts';
import { refuse } from './errors.ts';
import { sentTooLarge } from './unfinished.ts';

/** Takes messages from what comes of a stream, piece by piece. One that is whole in its piece is not copied. */
export class Messages {
  private readonly most: number;
  private readonly take: (message: Buffer) => void;
  private begun: Buffer[] = [];
  /** So many bytes the one that has begun must have before it is looked at again. */
  private wanted = envelopeBytes;
  /** So many bytes have come of a message that has not ended. */
  unfinished = 0;

  /** `most`: the largest message, bytes; each is given to `take`. */
  constructor(most: number, take: (message: Buffer) => void) {
    this.most = most;
    this.take = take;
  }

  /** Gives the messages that end with this piece, and tells how many. Throws where one is compressed or too large, as soon as that is said. */
  add(piece: Buffer): number {
    this.begun.push(piece);
    this.unfinished += piece.length;
    if (this.unfinished < this.wanted) return 0;
    const bytes = this.begun.length === 1 ? piece : Buffer.concat(this.begun);
    this.forget();
    let count = 0;
    for (let at = 0; at < bytes.length; count++) {
      const end = at + this.lengthOf(bytes, at);
      if (end > bytes.length) {
        this.begun = [bytes.subarray(at)];
        this.unfinished = bytes.length - at;
        this.wanted = end - at;
        break;
      }
      this.take(bytes.subarray(at + envelopeBytes, end));
      at = end;
    }
    return count;
  }

  /** Lets go of what has not ended. */
  forget(): void {
    this.begun = [];
    this.unfinished = 0;
    this.wanted = envelopeBytes;
  }

  /** With its envelope; while that has not come, it alone. */
  private lengthOf(bytes: Buffer, at: number): number {
    if (bytes.length - at < envelopeBytes) return envelopeBytes;
    const length = bytes.readUInt32BE(at + 1);
    if (length > this.most) throw sentTooLarge(length, this.most);
    if (bytes[at] !== 0) throw compressed();
    return envelopeBytes + length;
  }
}

/** The refusal of a message that is flagged as compressed where nothing is; gRPC's rules of compression have this code for it. */
export function compressed(): Error {
  return refuse(Code.Internal, { reason: 'validation_failed', message: 'the message is compressed, and no grpc-encoding says how' });
}
