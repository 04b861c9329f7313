// Opaque cursors: where the next page of a list begins. Not a secret: what stands before the place tells a whole cursor of this list from a cut, a
// mistyped or another list's one.
import { sha256 } from './digest.ts';

const checkLength = 6;

/** The cursor of a place, which is bytes, in a list. */
export function encodeCursor(list: string, place: Buffer): string {
  return Buffer.concat([check(list, place), place]).toString('base64url');
}

/** The place of a cursor, null where this list did not hand it out. */
export function decodeCursor(list: string, cursor: string): Buffer | null {
  const bytes = Buffer.from(cursor, 'base64url');
  const place = bytes.subarray(checkLength);
  // The decoder passes over what is no base64url.
  return bytes.toString('base64url') === cursor && bytes.subarray(0, checkLength).equals(check(list, place)) ? place : null;
}

function check(list: string, place: Buffer): Buffer {
  return sha256(Buffer.concat([Buffer.from(`${list} `), place])).subarray(0, checkLength);
}
