// What this service refuses, in its own words; rpc.ts gives each reason its gRPC code.
import { Refusal as AnyRefusal } from '../platform/errors.ts';

/** Why a call is refused; the same strings are the codes of REST. */
export type Reason =
  | 'validation_failed'
  | 'invalid_delivery_id'
  | 'webhook_not_configured'
  | 'delivery_not_found'
  | 'delivery_not_failed'
  | 'webhook_disabled'
  | 'rate_limited'
  | 'test_failed'
  | 'overloaded'
  | 'unavailable';

/** Thrown for what is refused by a rule; anything else that is thrown is a fault. */
export class Refusal extends AnyRefusal<Reason> {}

/** A refusal that blames a field; `value` is what was sent, empty for a secret. */
export function invalid(field: string, tag: string, message: string, value = ''): Refusal {
  return new Refusal('validation_failed', `${field} ${message}`, { field, tag, value: value.slice(0, 255) });
}
