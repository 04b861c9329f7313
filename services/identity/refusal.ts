// What this service refuses, in its own words; rpc.ts gives each reason its gRPC code.
import { Refusal as AnyRefusal } from '../platform/errors.ts';

/** Why a call is refused; the same strings are the codes of REST. */
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

/** Thrown for what is refused by a rule; anything else that is thrown is a fault. */
export class Refusal extends AnyRefusal<Reason> {}
