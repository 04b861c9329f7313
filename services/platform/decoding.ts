// Messages of their bytes: no more objects than is bounded, and large ones a piece at a time.
import { create, fromBinary, mergeFromBinary, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import { BinaryReader } from '@bufbuild/protobuf/wire';
import type { ConnectError } from '@connectrpc/connect';
import { inSlices, turnOf } from './large.ts';
import { makesMoreThan } from './objects.ts';

/** How messages are decoded. */
export interface Decoding {
  /** Largest message in either direction, bytes. */
  maxMessageBytes: number;
  /** The refusal of a message that is its caller's fault. */
  refused: (why: string) => ConnectError;
}

/** A message of more bytes is decoded a piece at a time, but for those on a stream of calls. */
const largeAlone = 32 << 10;
const pieceBytes = 16 << 10;

// For each so many bytes that a message may have, decoding one may make an object: 32 MiB admit a thousand postings of 200 entries.
const bytesPerObject = 160;

/** Why a message is refused that is none. */
export const undecodable = 'the message can not be decoded';

/** A message of its bytes. Throws what `refused` makes of one that can't be decoded, or holds too many others. */
export function messageOf<Type extends DescMessage>(type: Type, bytes: Uint8Array, decoding: Decoding): MessageShape<Type> {
  mustHoldFew(type, bytes, decoding);
  return readable(decoding, () => fromBinary(type, bytes));
}

/**
 * The same, a large one in turns of the event loop between which others have theirs: 200,000 entries are a quarter of a second's work. `gone`: aborted where
 * nobody waits for it any more; its reason is thrown then.
 */
export async function messageInTurns<Type extends DescMessage>(
  type: Type,
  bytes: Uint8Array,
  decoding: Decoding,
  gone: AbortSignal,
): Promise<MessageShape<Type>> {
  const turn = turnOf(bytes.length, largeAlone);
  if (!turn) return messageOf(type, bytes, decoding);
  await turn;
  gone.throwIfAborted();
  mustHoldFew(type, bytes, decoding);
  const pieces = readable(decoding, () => [...piecesOf(bytes)]);
  const message = create(type);
  await inSlices(pieces, (piece) => readable(decoding, () => mergeFromBinary(type, message, piece)), gone);
  return message;
}

function mustHoldFew(type: DescMessage, bytes: Uint8Array, decoding: Decoding): void {
  const most = Math.floor(decoding.maxMessageBytes / bytesPerObject);
  const holdsMore = readable(decoding, () => makesMoreThan(most, type, bytes));
  if (holdsMore) throw decoding.refused(`the message holds more than ${most} others`);
}

function readable<Result>({ refused }: Decoding, read: () => Result): Result {
  try {
    return read();
  } catch {
    throw refused(undecodable);
  }
}

/** A message cut between its fields, in pieces of 16 KiB or a field more. What is decoded into one message of such pieces, one behind the other, is what all of it is at once. */
export function* piecesOf(bytes: Uint8Array): Generator<Uint8Array> {
  const reader = new BinaryReader(bytes);
  let begin = 0;
  while (reader.pos < bytes.length) {
    const [number, wireType] = reader.tag();
    reader.skip(wireType, number);
    if (reader.pos - begin < pieceBytes && reader.pos < bytes.length) continue;
    yield bytes.subarray(begin, reader.pos);
    begin = reader.pos;
  }
}
