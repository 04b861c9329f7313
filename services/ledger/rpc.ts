// The ledger's gRPC interface: messages are validated, posted by the writer and answered; refusals become gRPC errors.
import { create } from '@bufbuild/protobuf';
import { type ConnectRouter, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import { LedgerService, PostingResultSchema, type PostingResult } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { Pool } from '../platform/postgres.ts';
import { logFields } from '../platform/serve.ts';
import { SpanKind, rpcResult, rpcSpan, startSpans } from '../platform/tracing.ts';
import { Refusal } from './accounting.ts';
import { booksHandlers } from './books-rpc.ts';
import { chartAndReads } from './chart-rpc.ts';
import { validateReversal } from './commands.ts';
import { definitionHandlers } from './definitions-rpc.ts';
import { filterHandlers } from './filters.ts';
import { validatePosting, withTraceparent, type ValidatedPosting } from './mapping.ts';
import { refuseNewCalls, refuseNewFields, type IsEnabled } from './feature-switch.ts';
import type { Outcome } from './queue.ts';
import { checkAnswerSize, maxCommands, refusalMessage, submitHandler, tooMany } from './submit-rpc.ts';
import { tenantCalls } from './tenant-calls.ts';
import { namesOf, withErrors, type Named } from './rpc-errors.ts';
import { redactionHandlers } from './redaction.ts';
import { subjectHandlers } from './subjects.ts';
import { deletionHandlers } from './tenant-deletion.ts';
import type { Writer } from './writer.ts';

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
    ...redactionHandlers(calls),
    ...booksHandlers(calls),
    ...filterHandlers(calls),
    ...subjectHandlers(calls),
  };
  const check = (name: string, request: object) => refuseNewCalls(name, request, isEnabled);
  return (router) => router.service(LedgerService, withErrors(LedgerService, handlers, check));
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
      // Joined by the gateway, each posting comes with a trace of its own.
      const traced = all.filter((posting): posting is ValidatedPosting => !(posting instanceof Refusal));
      const method = `${LedgerService.typeName}/PostTransactions`;
      const endSpans = startSpans(traced, method, rpcSpan(method, SpanKind.SERVER));
      const results = await Promise.all(all.map((posting) => resultOf(writer, posting, options)));
      endSpans(...rpcResult('ok'));
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
