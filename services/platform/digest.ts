// SHA-256 of short data, three times per posting.
import { hash } from 'node:crypto';

/** The SHA-256 of bytes or of a text in UTF-8, 32 bytes. Via a binary string, because Node would allocate the buffer outside of its pool. */
export function sha256(data: string | Uint8Array): Buffer {
  return Buffer.from(hash('sha256', data, 'binary'), 'binary');
}
