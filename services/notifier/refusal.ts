// Refusals of this service by reason; rpc.ts maps each reason to a gRPC code.
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

/** Thrown where a rule refuses a call; any other error is a fault. */
export class Refusal extends AnyRefusal<Reason> {}

/** A refusal of a field; `value`: what was sent, empty for a secret. */
export function invalid(field: string, tag: string, message: string, value = ''): Refusal {
  return new Refusal('validation_failed', `${field} ${message}`, { field, tag, value: value.slice(0, 255) });
}
