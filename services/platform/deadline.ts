// How long a caller wants to wait, where that is longer than any work takes.
import type { IncomingHttpHeaders } from 'node:http';
import { parseTimeout } from '@connectrpc/connect/protocol-grpc';

/**
 * Shortens a caller's deadline to `maxTimeoutMs`, in the headers of gRPC and of Connect's own protocol: it is no fault to be patient, and
 * connect-es refuses whoever is more so. What is no deadline is left to be refused.
 */
export function shortenDeadline(headers: IncomingHttpHeaders, maxTimeoutMs: number): void {
  const { 'grpc-timeout': ofGrpc, 'connect-timeout-ms': ofConnect } = headers;
  if (typeof ofGrpc === 'string' && (parseTimeout(ofGrpc, Infinity).timeoutMs ?? 0) > maxTimeoutMs) {
    headers['grpc-timeout'] = `${maxTimeoutMs}m`;
  }
  if (typeof ofConnect === 'string' && /^\d{1,10}$/.test(ofConnect) && Number(ofConnect) > maxTimeoutMs) {
    headers['connect-timeout-ms'] = String(maxTimeoutMs);
  }
}
