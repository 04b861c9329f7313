// Refusals and failures of the ledger's database as gRPC errors.
import type { DescService } from '@bufbuild/protobuf';
import { Code, type ConnectError, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import { refuse } from '../platform/errors.ts';
import { Overloaded } from '../platform/fair-semaphore.ts';
import { isLockTimeout, isTransient } from '../platform/postgres-errors.ts';
import { logFields } from '../platform/serve.ts';
import { Refusal, type Reason } from './accounting.ts';
import { invalid } from './fields.ts';
import { deletedConstraint } from './tenant-deletion.ts';

/** The gRPC code of each reason: NOT_FOUND where the request's own resource is unknown, FAILED_PRECONDITION for a rule. */
const codes: Record<Reason, Code> = {
  validation_failed: Code.InvalidArgument,
  account_not_found: Code.FailedPrecondition,
  transaction_not_found: Code.NotFound,
  hold_not_found: Code.NotFound,
  limit_not_found: Code.NotFound,
  job_not_found: Code.NotFound,
  account_code_taken: Code.AlreadyExists,
  chart_exists: Code.AlreadyExists,
  version_conflict: Code.Aborted,
  account_not_empty: Code.FailedPrecondition,
  parent_invalid: Code.FailedPrecondition,
  already_reversed: Code.FailedPrecondition,
  unbalanced: Code.FailedPrecondition,
  insufficient_funds: Code.FailedPrecondition,
  account_closed: Code.FailedPrecondition,
  account_is_group: Code.FailedPrecondition,
  account_is_system: Code.FailedPrecondition,
  currency_not_allowed: Code.FailedPrecondition,
  balance_overflow: Code.FailedPrecondition,
  too_late: Code.FailedPrecondition,
  effective_at_out_of_range: Code.FailedPrecondition,
  effective_before_original: Code.FailedPrecondition,
  future_dated: Code.FailedPrecondition,
  period_closed: Code.FailedPrecondition,
  index_building: Code.FailedPrecondition,
  filter_not_found: Code.NotFound,
  period_not_over: Code.FailedPrecondition,
  period_final: Code.FailedPrecondition,
  condition_failed: Code.FailedPrecondition,
  account_blocked: Code.FailedPrecondition,
  limit_exceeded: Code.FailedPrecondition,
  too_many: Code.FailedPrecondition,
  hold_ended: Code.FailedPrecondition,
  hold_exceeded: Code.FailedPrecondition,
  reversal_exceeded: Code.FailedPrecondition,
  entries_mismatch: Code.FailedPrecondition,
  idempotency_key_reused: Code.FailedPrecondition,
  too_large: Code.FailedPrecondition,
  report_too_large: Code.FailedPrecondition,
  job_not_finished: Code.FailedPrecondition,
  event_not_found: Code.NotFound,
  tile_not_found: Code.NotFound,
  books_frozen: Code.FailedPrecondition,
  books_not_empty: Code.FailedPrecondition,
  import_invalid: Code.FailedPrecondition,
  overloaded: Code.ResourceExhausted,
  unavailable: Code.Unavailable,
  internal: Code.Internal,
};

/** A request that names a tenant and the request of the client. */
export interface Named {
  tenantId: string;
  requestId: string;
}

/** A log line's fields for a request, cut, because a malformed id may be as long as a message. */
export function namesOf({ tenantId, requestId = '' }: Partial<Named>): Record<string, string> {
  return {
    ...(tenantId !== undefined && { tenant: tenantId.slice(0, 100) }),
    ...(requestId !== '' && { request_id: requestId.slice(0, 128) }),
  };
}

/** A refusal as a gRPC error. A resource that the request itself names, without a field to blame, is NOT_FOUND. */
function asConnectError({ reason, message, blame }: Refusal): ConnectError {
  const code = reason === 'account_not_found' && !blame ? Code.NotFound : codes[reason];
  const retryAfter = reason === 'overloaded' || reason === 'unavailable' ? 1 : undefined;
  return refuse(code, { reason, message, ...blame, metadata: blame?.details, retryAfter });
}

// An unreachable database and a locked head are worth a retry. Everything else that is no refusal stays an internal error.
function translate(error: unknown): unknown {
  if (error instanceof Refusal) return asConnectError(error);
  if (error instanceof Overloaded) return asConnectError(new Refusal('overloaded', error.message));
  if ((error as { constraint?: unknown }).constraint === deletedConstraint)
    return asConnectError(invalid('tenant_id', 'deleted', '', 'tenant_id is that of a deleted tenant'));
  if (!isTransient(error)) return error;
  const message = isLockTimeout(error) ? 'the ledger is locked; nothing was changed' : 'the database is unreachable';
  return asConnectError(new Refusal('unavailable', message));
}

/** Handlers that log whose request it is and answer refusals as gRPC errors. `check` throws for calls that are not available. */
export function withErrors<Service extends DescService>(
  service: Service,
  handlers: Partial<ServiceImpl<Service>>,
  check: (name: string, request: object) => unknown = () => undefined,
): Partial<ServiceImpl<Service>> {
  type Handler = (request: Partial<Named>, context: HandlerContext) => Promise<unknown>;
  type StreamHandler = (request: Partial<Named>, context: HandlerContext) => AsyncIterable<unknown>;
  const noted = (request: Partial<Named>, context: HandlerContext) => Object.assign(context.values.get(logFields), namesOf(request));
  const wrap = (name: string, handler: Handler): Handler => {
    return async (request, context) => {
      noted(request, context);
      try {
        check(name, request);
        return await handler(request, context);
      } catch (error) {
        throw translate(error);
      }
    };
  };
  const wrapStream = (handler: StreamHandler): StreamHandler => {
    return async function* (request, context) {
      noted(request, context);
      try {
        for await (const answer of handler(request, context)) {
          // Connect would complain of a client that has left.
          context.signal.throwIfAborted();
          yield answer;
        }
      } catch (error) {
        throw translate(error);
      }
    };
  };
  const isStream = (name: string) => service.method[name]?.methodKind === 'server_streaming';
  const wrapped = ([name, handler]: [string, unknown]) => [
    name,
    isStream(name) ? wrapStream(handler as StreamHandler) : wrap(name, handler as Handler),
  ];
  return Object.fromEntries(Object.entries(handlers).map(wrapped)) as Partial<ServiceImpl<Service>>;
}
