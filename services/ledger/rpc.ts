// The ledger's RPCs: message → domain → message. Refusals become gRPC errors here, by one table.
import { create } from '@bufbuild/protobuf';
import { Code, type ConnectError, type ConnectRouter, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import { LedgerService, PostingResultSchema, RefusalSchema, type PostingResult } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { inSlices } from '../platform/large.ts';
import type { Pool } from '../platform/postgres.ts';
import { isTransient, isLockTimeout } from '../platform/postgres-errors.ts';
import { refuse } from '../platform/errors.ts';
import { logFields } from '../platform/serve.ts';
import { Overloaded } from '../platform/fair-semaphore.ts';
import { Refusal, type Reason } from './accounting.ts';
import { chartAndReads } from './chart-rpc.ts';
import type { Outcome } from './queue.ts';
import { validatePosting, validateReversal, withTraceparent, type ValidatedPosting } from './mapping.ts';
import type { Writer } from './writer.ts';

/** How each reason is told as a gRPC code: NOT_FOUND where the request's own resource is unknown, FAILED_PRECONDITION for a rule. */
const codes: Record<Reason, Code> = {
  validation_failed: Code.InvalidArgument,
  account_not_found: Code.FailedPrecondition,
  transaction_not_found: Code.NotFound,
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
  idempotency_key_reused: Code.FailedPrecondition,
  overloaded: Code.ResourceExhausted,
  unavailable: Code.Unavailable,
  internal: Code.Internal,
};

/** The most items of one PostTransactions call. */
const mostItems = 1000;

/** What the RPCs of the ledger work with. */
export interface LedgerDependencies {
  writer: Writer;
  reads: Pool;
  /** Largest message in either direction, bytes. */
  maxMessageBytes: number;
  /** Told each tenant (UUID) whose chart has changed, after the commit. */
  committed: (tenant: string) => void;
}

/** The RPCs of the ledger. */
export function ledgerRoutes({ writer, reads, maxMessageBytes, committed }: LedgerDependencies): (router: ConnectRouter) => void {
  // Whatever is wrong with one posting of a call is told of that one alone.
  const readOr = <Asked extends Pick<ValidatedPosting, 'tenantId' | 'requestId'>>(
    asked: Asked,
    read: (asked: Asked) => ValidatedPosting,
  ): ValidatedPosting | Refusal => {
    try {
      return read(asked);
    } catch (error) {
      return writer.rejectInvalid(error, asked);
    }
  };
  const post = async (order: ValidatedPosting | Refusal, context: HandlerContext) => {
    if (order instanceof Refusal) throw order;
    const outcome = await writer.post(order, waitOf(context));
    if ('refusal' in outcome) throw outcome.refusal;
    if ('lockConflict' in outcome) throw new Error('a posting was handed back unasked');
    const { outcome: answer, replayed } = outcome.result;
    if (answer.case !== 'transaction') throw new Error('a posting without a transaction');
    return { transaction: answer.value, replayed };
  };
  const postings: Partial<ServiceImpl<typeof LedgerService>> = {
    async postTransaction(request, context) {
      const { posting } = request;
      if (!posting) throw requiredPosting();
      Object.assign(context.values.get(logFields), named(posting));
      return post(readOr(withTraceparent(posting, context), validatePosting), context);
    },
    async reverseTransaction(request, context) {
      return post(readOr(withTraceparent(request, context), validateReversal), context);
    },
    async postTransactions(request, context) {
      const { postings } = request;
      const fields = context.values.get(logFields);
      fields['items'] = postings.length;
      if (postings.length > mostItems) {
        const blame = { field: 'postings', tag: 'max', value: String(postings.length) };
        throw new Refusal('validation_failed', `postings must have at most ${mostItems} items`, blame);
      }
      const callTrace = context.requestHeader.get('traceparent') ?? '';
      const read: (ValidatedPosting | Refusal)[] = [];
      await inSlices(
        postings,
        (posting) => {
          if (posting.traceparent === '') posting.traceparent = callTrace;
          read.push(readOr(posting, validatePosting));
        },
        context.signal,
      );
      answerMustFit(read, maxMessageBytes);
      const how = { ...waitOf(context), failFastOnLock: request.handBackHeld };
      const results = await Promise.all(read.map((order) => resultOf(writer, order, how)));
      fields['refused'] = results.filter((result) => result.outcome.case === 'refusal').length;
      // Whole, so that nothing of it is copied into another.
      return { $typeName: 'ledger.v1.PostTransactionsResponse' as const, results };
    },
  };
  return (router) => router.service(LedgerService, translated({ ...postings, ...chartAndReads(reads, committed) }));
}

// How long the caller waits, who may have a deadline of his own beside what the postings say.
function waitOf({ signal, timeoutMs }: HandlerContext): { signal: AbortSignal; timeoutMs: number | undefined } {
  return { signal, timeoutMs: timeoutMs() };
}

// What an entry of an answer may take beside its code, and a transaction beside its entries and texts.
const entryBytes = 115;
const transactionBytes = 500;

// An answer tells more of each entry than the request, and is written when everything is posted: then it is too late to refuse the call.
function answerMustFit(read: (ValidatedPosting | Refusal)[], most: number): void {
  let bytes = 0;
  for (const each of read) {
    bytes += transactionBytes;
    if (each instanceof Refusal) {
      bytes += Buffer.byteLength(each.message + (each.blame?.value ?? ''));
      continue;
    }
    for (const text of [each.metadata, each.description, each.idempotencyKey, each.reference ?? '']) bytes += Buffer.byteLength(text);
    for (const { code } of each.entries) bytes += entryBytes + code.length;
  }
  if (bytes <= most) return;
  const blame = { field: 'postings', tag: 'max', value: String(read.length) };
  throw new Refusal('validation_failed', `the answer to these postings might have more than ${most} bytes: send fewer at once`, blame);
}

async function resultOf(writer: Writer, order: ValidatedPosting | Refusal, how: Parameters<Writer['post']>[1]): Promise<PostingResult> {
  const internal = (): Outcome => ({ refusal: new Refusal('internal', 'internal error') });
  const outcome = order instanceof Refusal ? { refusal: order } : await writer.post(order, how).catch(internal);
  if ('result' in outcome) return outcome.result;
  if ('lockConflict' in outcome) return create(PostingResultSchema, {});
  const { reason, message, blame } = outcome.refusal;
  const value = create(RefusalSchema, { reason, message, ...blame });
  return create(PostingResultSchema, { outcome: { case: 'refusal', value } });
}

function requiredPosting(): Refusal {
  return new Refusal('validation_failed', 'posting is required', { field: 'posting', tag: 'required', value: '' });
}

/** A refusal as a gRPC error. A resource that the request itself names, without a field to blame, is NOT_FOUND. */
function asConnectError(refusal: Refusal): ConnectError {
  const { reason, message, blame } = refusal;
  const code = reason === 'account_not_found' && !blame ? Code.NotFound : codes[reason];
  const retryAfter = reason === 'overloaded' || reason === 'unavailable' ? 1 : undefined;
  return refuse(code, { reason, message, ...blame, retryAfter });
}

interface Named {
  tenantId?: string;
  requestId?: string;
}

/** What a log line tells of a request, where it names it: what is malformed may be as long as a message. */
function named({ tenantId, requestId }: Named): { tenant?: string; request_id?: string } {
  return {
    ...(tenantId !== undefined && { tenant: tenantId.slice(0, 100) }),
    ...(requestId !== undefined && requestId !== '' && { request_id: requestId.slice(0, 128) }),
  };
}

// PostgreSQL being away, or a head that stays locked, is the caller's to wait for; everything else that is no refusal stays an internal error.
function translate(error: unknown): unknown {
  if (error instanceof Refusal) return asConnectError(error);
  if (error instanceof Overloaded) return asConnectError(new Refusal('overloaded', error.message));
  if (!isTransient(error)) return error;
  return asConnectError(
    new Refusal('unavailable', isLockTimeout(error) ? 'the books are locked; nothing was changed' : 'the database is away'),
  );
}

function translated(handlers: Partial<ServiceImpl<typeof LedgerService>>): Partial<ServiceImpl<typeof LedgerService>> {
  type Handler = (request: Named, context: HandlerContext) => Promise<unknown>;
  const wrap = (handler: Handler): Handler => {
    return async (request, context) => {
      Object.assign(context.values.get(logFields), named(request));
      try {
        return await handler(request, context);
      } catch (error) {
        throw translate(error);
      }
    };
  };
  return Object.fromEntries(Object.entries(handlers).map(([name, handler]) => [name, wrap(handler as unknown as Handler)]));
}
