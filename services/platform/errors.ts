// Errors that services throw for their callers, and their form on the wire: gRPC errors with google.rpc details.
import { Code, ConnectError } from '@connectrpc/connect';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from '../../proto/gen/google/rpc/error_details_pb.js';
import { Overloaded } from './fair-semaphore.ts';
import { isLockTimeout, isTransient } from './postgres-errors.ts';

/** What an error carries next to its gRPC code. */
export interface RefusalInfo {
  /** The code that REST answers. */
  reason: string;
  message: string;
  field?: string | undefined;
  tag?: string | undefined;
  value?: string | undefined;
  /** Seconds after which to try again. */
  retryAfter?: number | undefined;
  /** More for the client; travels in the ErrorInfo. */
  metadata?: Record<string, string> | undefined;
}

/** What a service throws when a rule rejects a call; each service has its own reasons. */
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

/** The gRPC error of a refusal: google.rpc.ErrorInfo always, BadRequest where it names a field, RetryInfo where a time is known. */
export function refuse(code: Code, info: RefusalInfo): ConnectError {
  // Half of a surrogate pair, of a text that was cut, can't be encoded.
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

/** Whether a call failed for a reason that a service gave, whatever its code. */
export function isRefusal(error: unknown): boolean {
  const [info] = error instanceof ConnectError ? error.findDetails(ErrorInfoSchema) : [];
  return info !== undefined && info.reason !== 'internal';
}

/**
 * The gRPC error of whatever a use case threw: a {@link Refusal} by the service's table of codes, {@link Overloaded} and transient database errors as
 * the refusals that they mean; anything else unchanged. Adds the reason to `fields` of the call's log line.
 */
export function toConnectError<Reason extends string>(
  thrown: unknown,
  codes: Record<Reason | 'overloaded' | 'unavailable', Code>,
  fields: Record<string, unknown>,
): unknown {
  const error = thrown instanceof Overloaded ? new Refusal('overloaded', thrown.message, { retryAfter: 1 }) : thrown;
  if (error instanceof Refusal) {
    const { reason, message, details } = error as Refusal<Reason>;
    fields['reason'] = reason;
    return refuse(codes[reason], { reason, message, ...details });
  }
  if (!isTransient(error)) return error;
  fields['err'] = error;
  // A code of its own: a client that calls for many tenants can retry a part of them.
  if (isLockTimeout(error))
    return refuse(Code.Aborted, { reason: 'unavailable', message: 'another transaction has locked a row of it', retryAfter: 1 });
  return refuse(codes.unavailable, { reason: 'unavailable', message: 'the database is unavailable', retryAfter: 1 });
}

/** One client's state under a rate limit. */
export interface RateLimitStatus {
  policy: string;
  quota: number;
  /** Seconds. */
  window: number;
  remaining: number;
  /** Seconds until one more is allowed. */
  reset: number;
}

/** A rate-limit state as the metadata of a refusal. */
export function rateLimitMetadata(status: RateLimitStatus): Record<string, string> {
  return Object.fromEntries(Object.entries(status).map(([name, value]) => [name, String(value)]));
}
