// What both sides of a call write and read of gRPC on Node's HTTP/2.
import type { IncomingHttpHeaders } from 'node:http2';

/** What stands before a message: whether it is compressed, and its length. */
export const envelopeBytes = 5;

/** A message as it is sent, uncompressed. */
export function enveloped(message: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(envelopeBytes + message.length);
  bytes[0] = 0;
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, envelopeBytes);
  return bytes;
}

/** Headers as Connect reads them, without HTTP/2's own. */
export function headersOf(given: IncomingHttpHeaders): Headers {
  return new Headers(
    Object.entries(given).flatMap(([name, value]): [string, string][] =>
      name.startsWith(':') || value === undefined ? [] : [[name, Array.isArray(value) ? value.join(', ') : value]],
    ),
  );
}
