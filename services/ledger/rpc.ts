// The ledger's gRPC interface: messages are validated, posted by the writer and answered; refusals become gRPC errors.
import { create } from '@bufbuild/protobuf';
import { Code, type ConnectError, type ConnectRouter, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import { LedgerService, PostingResultSchema, type PostingResult } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { refuse } from '../platform/errors.ts';
import { Overloaded } from '../platform/fair-semaphore.ts';
import type { Pool } from '../platform/postgres.ts';
import { isTransient, isLockTimeout } from '../platform/postgres-errors.ts';
import { logFields } from '../platform/serve.ts';
import { Refusal, type Reason } from './accounting.ts';
import { booksHandlers } from './books-rpc.ts';
import { chartAndReads } from './chart-rpc.ts';
import { validateReversal } from './commands.ts';
import { definitionHandlers } from './definitions-rpc.ts';
import { invalid } from './fields.ts';
import { validatePosting, withTraceparent, type ValidatedPosting } from './mapping.ts';
import { refuseNewCalls, refuseNewFields, type IsEnabled } from './feature-switch.ts';
import type { Outcome } from './queue.ts';
import { checkAnswerSize, maxCommands, refusalMessage, submitHandler, tooMany } from './submit-rpc.ts';
import { tenantCalls } from './tenant-calls.ts';
import { deletedConstraint, deletionHandlers } from './tenant-deletion.ts';
import type { Writer } from './writer.ts';

/** The gRPC code of each reason: NOT_FOUND where the request's own resource is unknown, FAILED_PRECONDITION for a rule. */
const codes: Record<Reason, Code> = {
  validation_failed: Code.InvalidArgument,
  account_not_found: Code.FailedPrecondition,
  transaction_not_found: Code.NotFound,
  hold_not_found: Code.NotFound,
  limit_not_found: Code.NotFound,
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
  overloaded: Code.ResourceExhausted,
  unavailable: Code.Unavailable,
  internal: Code.Internal,
};

/** What the RPCs of the ledger need. */
export interface LedgerDependencies {
  writer: Writer;
  reads: Pool;
  /** Largest message in either direction, bytes. */
  maxMessageBytes: number;
  /** Called after the commit with each tenant (UUID) whose chart has changed. */
  committed: (tenant: string) => void;
  /** Whether a feature may be used. */
  isEnabled: IsEnabled;
}

type Handlers = Partial<ServiceImpl<typeof LedgerService>>;

/** The RPCs of the ledger. */
export function ledgerRoutes(dependencies: LedgerDependencies): (router: ConnectRouter) => void {
  const { reads, committed, isEnabled } = dependencies;
  const postings = postingHandlers(dependencies);
  const calls = tenantCalls(reads, committed);
  const handlers = {
    ...postings,
    ...chartAndReads(calls),
    ...definitionHandlers(calls),
    ...deletionHandlers(calls),
    ...booksHandlers(calls),
  };
  return (router) => router.service(LedgerService, withErrors(handlers, isEnabled));
}

function postingHandlers({ writer, maxMessageBytes, isEnabled }: LedgerDependencies): Handlers {
  // A malformed posting is refused alone, not the whole call.
  const validated = <Message extends Named & { $typeName: string }>(message: Message, validate: (message: Message) => ValidatedPosting) => {
    try {
      refuseNewFields(message, isEnabled);
      return validate(message);
    } catch (error) {
      return writer.rejectInvalid(error, message);
    }
  };
  const postOne = async (posting: ValidatedPosting | Refusal, context: HandlerContext) => {
    if (posting instanceof Refusal) throw posting;
    const outcome = await writer.post(posting, waitOf(context));
    if ('refusal' in outcome) throw outcome.refusal;
    if (!('result' in outcome) || outcome.result.outcome.case !== 'transaction') throw new Error('a posting without a transaction');
    return { transaction: outcome.result.outcome.value, replayed: outcome.result.replayed };
  };
  return {
    submit: submitHandler(writer, maxMessageBytes, isEnabled),
    async postTransaction({ posting }, context) {
      if (!posting) {
        throw new Refusal('validation_failed', 'posting is required', { field: 'posting', tag: 'required', value: '' });
      }
      Object.assign(context.values.get(logFields), namesOf(posting));
      return postOne(validated(withTraceparent(posting, context), validatePosting), context);
    },
    async reverseTransaction(request, context) {
      return postOne(validated(withTraceparent(request, context), validateReversal), context);
    },
    async postTransactions({ postings, handBackHeld }, context) {
      const fields = context.values.get(logFields);
      fields['items'] = postings.length;
      if (postings.length > maxCommands) throw tooMany('postings', postings.length, `postings must have at most ${maxCommands} items`);
      const all = postings.map((posting) => validated(withTraceparent(posting, context), validatePosting));
      checkAnswerSize('postings', all, maxMessageBytes);
      const options = { ...waitOf(context), failFastOnLock: handBackHeld };
      const results = await Promise.all(all.map((posting) => resultOf(writer, posting, options)));
      fields['refused'] = results.filter((result) => result.outcome.case === 'refusal').length;
      // A complete message, which Connect does not copy.
      return { $typeName: 'ledger.v1.PostTransactionsResponse' as const, results };
    },
  };
}

/** How long the caller waits. It may have a deadline besides the postings' own. */
function waitOf({ signal, timeoutMs }: HandlerContext): { signal: AbortSignal; timeoutMs: number | undefined } {
  return { signal, timeoutMs: timeoutMs() };
}

async function resultOf(
  writer: Writer,
  posting: ValidatedPosting | Refusal,
  options: Parameters<Writer['post']>[1],
): Promise<PostingResult> {
  const outcome: Outcome = posting instanceof Refusal ? { refusal: posting } : await writer.post(posting, options);
  if ('result' in outcome) return outcome.result;
  if ('lockConflict' in outcome) return create(PostingResultSchema, {});
  return create(PostingResultSchema, { outcome: { case: 'refusal', value: refusalMessage(outcome.refusal) } });
}

type Named = Pick<ValidatedPosting, 'tenantId' | 'requestId'>;

/** A log line's fields for a request, cut, because a malformed id may be as long as a message. */
function namesOf({ tenantId, requestId = '' }: Partial<Named>): Record<string, string> {
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

function withErrors(handlers: Handlers, isEnabled: IsEnabled): Handlers {
  type Handler = (request: Partial<Named>, context: HandlerContext) => Promise<unknown>;
  type StreamHandler = (request: Partial<Named>, context: HandlerContext) => AsyncIterable<unknown>;
  const noted = (request: Partial<Named>, context: HandlerContext) => Object.assign(context.values.get(logFields), namesOf(request));
  const wrap = (name: string, handler: Handler): Handler => {
    return async (request, context) => {
      noted(request, context);
      try {
        refuseNewCalls(name, request, isEnabled);
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
  const isStream = (name: string) => LedgerService.method[name as keyof typeof LedgerService.method].methodKind === 'server_streaming';
  const wrapped = ([name, handler]: [string, unknown]) => [
    name,
    isStream(name) ? wrapStream(handler as StreamHandler) : wrap(name, handler as Handler),
  ];
  return Object.fromEntries(Object.entries(handlers).map(wrapped)) as Handlers;
}
