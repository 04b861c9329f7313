// Rejections of single items of a call, as the errors that a call of their own would have.
import { Code, type ConnectError } from '@connectrpc/connect';
import type { Refusal } from '../proto/gen/ledger/v1/ledger_pb.js';
import { refuse, type RefusalInfo } from '../services/platform/errors.ts';

const codes: Record<string, Code> = {
  validation_failed: Code.InvalidArgument,
  overloaded: Code.ResourceExhausted,
  unavailable: Code.Unavailable,
  internal: Code.Internal,
};

/** What an item was refused for. */
export function refusalInfo({ reason, message, field, tag, value, details }: Refusal): RefusalInfo {
  const retryAfter = reason === 'overloaded' || reason === 'unavailable' ? 1 : undefined;
  return { reason, message, field, tag, value, metadata: details, retryAfter };
}

/** The same as an error. */
export function rejection(refusal: Refusal): ConnectError {
  return refuse(codes[refusal.reason] ?? Code.FailedPrecondition, refusalInfo(refusal));
}

/** An error of the gateway itself. */
export function failure(reason: 'overloaded' | 'unavailable' | 'internal', message: string): ConnectError {
  return refuse(codes[reason] as Code, { reason, message, retryAfter: reason === 'internal' ? undefined : 1 });
}
