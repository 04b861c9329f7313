// The reasons for which this service rejects a call; calls.ts maps each to its gRPC code.
import { Refusal as AnyRefusal } from '../platform/errors.ts';

/** Why a call is rejected; the same strings are the error codes of REST. */
export type Reason =
  | 'validation_failed'
  | 'unauthenticated'
  | 'totp_required'
  | 'forbidden'
  | 'tenant_suspended'
  | 'tenant_closed'
  | 'email_unverified'
  | 'tenant_not_found'
  | 'key_not_found'
  | 'member_not_found'
  | 'invitation_not_found'
  | 'provider_not_found'
  | 'subject_not_found'
  | 'email_taken'
  | 'slug_taken'
  | 'member_exists'
  | 'last_owner'
  | 'token_invalid'
  | 'books_frozen'
  | 'rate_limited'
  | 'overloaded'
  | 'unavailable';

/** A rejection by a rule; anything else that is thrown is an internal error. */
export class Refusal extends AnyRefusal<Reason> {}
