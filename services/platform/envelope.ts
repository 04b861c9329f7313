// What both sides of a call write and read of gRPC on Node's HTTP/2.
import type { IncomingHttpHeaders } from 'node:http2';

/** What stands before a message: whether it is compressed, and its length. */
export const envelopeBytes = 5;

const nothing = new Uint8Array(0);

/** A message as it is sent, uncompressed; `head`: its first bytes, where they are not with the others. */
export function enveloped(message: Uint8Array, head = nothing): Buffer {
  const bytes = Buffer.allocUnsafe(envelopeBytes + head.length + message.length);
  bytes[0] = 0;
  bytes.writeUInt32BE(head.length + message.length, 1);
  bytes.set(head, envelopeBytes);
  bytes.set(message, envelopeBytes + head.length);
  return bytes;
}

/** The one message in an envelope that is not compressed; undefined where there is something else. */
export function unwrapped(bytes: Buffer): Buffer | undefined {
  const isOne = bytes.length >= envelopeBytes && bytes[0] === 0 && bytes.readUInt32BE(1) === bytes.length - envelopeBytes;
  return isOne ? bytes.subarray(envelopeBytes) : undefined;
}

/** Headers as Connect reads them, without HTTP/2's own. */
export function headersOf(given: IncomingHttpHeaders): Headers {
  return new Headers(
    Object.entries(given).flatMap(([name, value]): [string, string][] =>
      name.startsWith(':') || value === undefined ? [] : [[name, Array.isArray(value) ? value.join(', ') : value]],
    ),
  );
}
