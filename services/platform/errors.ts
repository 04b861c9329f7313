// A refusal, and on its way from a service to its caller: a gRPC error with google.rpc details.
import { ConnectError, type Code } from '@connectrpc/connect';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from '../../proto/gen/google/rpc/error_details_pb.js';

/** What a refused call tells its caller beside the gRPC code. */
export interface RefusalInfo {
  /** The code that REST answers. */
  reason: string;
  message: string;
  field?: string | undefined;
  tag?: string | undefined;
  value?: string | undefined;
  /** When to try again, seconds. */
  retryAfter?: number | undefined;
  /** What else the caller may use; travels in the ErrorInfo. */
  metadata?: Record<string, string> | undefined;
}

/** What a service throws where a rule refuses; each has its own reasons. */
export class Refusal<Reason extends string> extends Error {
  readonly reason: Reason;
  readonly details: Omit<RefusalInfo, 'reason' | 'message'>;

  constructor(reason: Reason, message: string, details: Omit<RefusalInfo, 'reason' | 'message'> = {}) {
    super(message);
    this.name = 'Refusal';
    this.reason = reason;
    this.details = details;
  }
}

/** A refusal as a gRPC error: google.rpc.ErrorInfo always, BadRequest where a field is to blame, RetryInfo where a time is known. */
export function refuse(code: Code, info: RefusalInfo): ConnectError {
  // Half a character, of a text that was cut, can't be encoded.
  const [message, value] = [info.message.toWellFormed(), (info.value ?? '').toWellFormed()];
  const metadata: Record<string, string> = { ...info.metadata };
  if (info.field !== undefined && info.field !== '') {
    Object.assign(metadata, { field: info.field, tag: info.tag ?? '', value });
  }
  const error = new ConnectError(message, code);
  error.details.push({ desc: ErrorInfoSchema, value: { reason: info.reason, domain: 'ledger', metadata } });
  if (metadata['field'] !== undefined) {
    const violation = { field: metadata['field'], description: message, reason: (info.tag ?? '').toUpperCase() };
    error.details.push({ desc: BadRequestSchema, value: { fieldViolations: [violation] } });
  }
  if (info.retryAfter !== undefined) {
    error.details.push({ desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(info.retryAfter), nanos: 0 } } });
  }
  return error;
}

/** Whether a call failed for a reason that lies with its caller, whatever its code. */
export function isRefusal(error: unknown): boolean {
  const [info] = error instanceof ConnectError ? error.findDetails(ErrorInfoSchema) : [];
  return info !== undefined && info.reason !== 'internal';
}
