// What the gRPC calls share: identifiers for the log line, rejections as gRPC codes, limits by user.
import { Code, ConnectError, type HandlerContext } from '@connectrpc/connect';
import { toConnectError } from '../platform/errors.ts';
import { Overloaded, type FairSemaphore } from '../platform/fair-semaphore.ts';
import { logFields } from '../platform/serve.ts';
import { Refusal, type Reason } from './refusal.ts';

const codes: Record<Reason, Code> = {
  validation_failed: Code.InvalidArgument,
  unauthenticated: Code.Unauthenticated,
  totp_required: Code.Unauthenticated,
  forbidden: Code.PermissionDenied,
  tenant_suspended: Code.PermissionDenied,
  tenant_closed: Code.PermissionDenied,
  email_unverified: Code.PermissionDenied,
  tenant_not_found: Code.NotFound,
  key_not_found: Code.NotFound,
  member_not_found: Code.NotFound,
  invitation_not_found: Code.NotFound,
  provider_not_found: Code.NotFound,
  subject_not_found: Code.NotFound,
  email_taken: Code.AlreadyExists,
  slug_taken: Code.AlreadyExists,
  member_exists: Code.AlreadyExists,
  last_owner: Code.FailedPrecondition,
  token_invalid: Code.FailedPrecondition,
  books_frozen: Code.FailedPrecondition,
  rate_limited: Code.ResourceExhausted,
  overloaded: Code.ResourceExhausted,
  unavailable: Code.Unavailable,
};

/** A handler of a call. */
export type Handler<Request, Response> = (request: Request, context: HandlerContext) => Promise<Response>;

/** Handlers for calls of a user, whose database work is limited by that user. */
export function forUsers(users: FairSemaphore) {
  return <Request extends { userId: string }, Response>(work: (request: Request) => Promise<Response>): Handler<Request, Response> =>
    answer<Request, Response>((request, { signal }) => users.run(request.userId, signal, () => work(request)));
}

/** Characters of an identifier in a log line; a valid one has fewer. */
const maxIdLength = 100;

interface LoggedIds {
  userId?: string;
  tenantId?: string;
  keyId?: string;
}

/** A handler that logs the identifiers of its request and throws rejections as gRPC errors. */
export function answer<Request extends object, Response>(work: Handler<Request, Response>): Handler<Request, Response> {
  return async (request, context) => {
    const { userId, tenantId, keyId } = request as LoggedIds;
    // Unchecked text of a path.
    const [user, tenant, key_id] = [userId, tenantId, keyId].map((id) => id?.slice(0, maxIdLength));
    const fields = Object.assign(context.values.get(logFields), { user, tenant, key_id });
    try {
      return await work(request, context);
    } catch (error) {
      const isRejection = error instanceof Refusal || error instanceof Overloaded;
      if (context.signal.aborted && !isRejection) {
        const { reason } = context.signal as { reason: unknown };
        throw reason instanceof ConnectError ? reason : new ConnectError('the client disconnected', Code.Canceled);
      }
      throw toConnectError(error, codes, fields);
    }
  };
}
