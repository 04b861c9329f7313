// What a call throws for what its use case has thrown.
import { Code } from '@connectrpc/connect';
import { isTransient, isLockTimeout } from './postgres-errors.ts';
import { Refusal, refuse } from './errors.ts';
import { Overloaded } from './fair-semaphore.ts';

/**
 * A refusal as a gRPC error, its code by the service's table; {@link Overloaded} and a database that is away, or rows that somebody else holds, as the refusals that they mean; whatever
 * else it was. `fields` of the call's log line are told the reason.
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
  // With a code of its own: whoever calls for many may ask again for a part of them.
  if (isLockTimeout(error))
    return refuse(Code.Aborted, { reason: 'unavailable', message: 'another transaction holds a row of it', retryAfter: 1 });
  return refuse(codes.unavailable, { reason: 'unavailable', message: 'the database is away', retryAfter: 1 });
}
