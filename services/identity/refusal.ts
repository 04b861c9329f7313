// The reasons for which this service rejects a call; rpc.ts maps each to its gRPC code.
import { Refusal as AnyRefusal } from '../platform/errors.ts';

/** Why a call is rejected; the same strings are the error codes of REST. */
export type Reason =
  | 'validation_failed'
  | 'unauthenticated'
  | 'forbidden'
  | 'tenant_not_found'
  | 'key_not_found'
  | 'email_taken'
  | 'slug_taken'
  | 'rate_limited'
  | 'overloaded'
  | 'unavailable';

/** A rejection by a rule; anything else that is thrown is an internal error. */
export class Refusal extends AnyRefusal<Reason> {}
