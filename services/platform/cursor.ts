// Opaque cursors of lists: a position with a checksum that detects a truncated cursor or one of another list.
import { sha256 } from './digest.ts';

const checkLength = 6;

/** The cursor of a position in a list. */
export function encodeCursor(list: string, position: Buffer): string {
  return Buffer.concat([check(list, position), position]).toString('base64url');
}

/** The position of a cursor, or null where it is not of this list. */
export function decodeCursor(list: string, cursor: string): Buffer | null {
  const bytes = Buffer.from(cursor, 'base64url');
  const position = bytes.subarray(checkLength);
  // The decoder ignores characters that are not base64url.
  return bytes.toString('base64url') === cursor && bytes.subarray(0, checkLength).equals(check(list, position)) ? position : null;
}

function check(list: string, position: Buffer): Buffer {
  return sha256(Buffer.concat([Buffer.from(`${list} `), position])).subarray(0, checkLength);
}
