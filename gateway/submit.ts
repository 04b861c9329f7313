// Submits commands to the ledger, and sends them again with the same ids while their outcome is unknown.
import { setTimeout as pause } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type { FastifyRequest } from 'fastify';
import { CommandResultSchema, type Command, type CommandResult } from '../proto/gen/ledger/v1/ledger_pb.js';
import { refusalOf } from '../services/platform/caller.ts';
import { postingsOf, seal } from './personal.ts';
import { rejection } from './rejections.ts';
import { auditContext, callOptions } from './request-context.ts';
import type { Services } from './services.ts';

/** How commands are submitted. */
export interface SubmitOptions {
  /** All or none. */
  atomic?: boolean;
  /** Decided and answered, but nothing is changed. */
  dryRun?: boolean;
  /** What an overloaded ledger rejects is sent again too. */
  waitsForCapacity?: boolean;
}

/** How long a caller waits for its commands. */
const callerMs = 10_000;
// After this time, a call to a stalled replica is repeated on another one. Many commands may need longer.
const [attemptMs, longAttemptMs] = [3_000, 5_000];

/**
 * Submits commands whose ids the gateway has assigned, and answers one result for each. While an outcome is unknown all are sent again, and what
 * was done is found by its id: an earlier error would mislead the client, whose retry could be rejected before the first call is done.
 * Throws the ledger's ConnectError where the call itself is rejected.
 */
export async function submit(
  services: Services,
  request: FastifyRequest,
  commands: Command[],
  { atomic = false, dryRun = false, waitsForCapacity = false }: SubmitOptions = {},
): Promise<CommandResult[]> {
  const { tenantId } = request.caller;
  if (!dryRun) await seal(services, request, postingsOf(commands));
  const until = performance.now() + callerMs;
  const call = { tenantId, atomic, dryRun, ...auditContext(request) };
  const isOpen = (reason: string | undefined) => reason === 'unavailable' || (waitsForCapacity && reason === 'overloaded');
  const results: CommandResult[] = [];
  let first = 0;
  for (let attempt = 0; ; attempt++) {
    const leftMs = Math.min(until - performance.now(), commands.length === 1 ? attemptMs : longAttemptMs);
    const options = callOptions(request, Math.max(1, Math.round(leftMs)));
    const isLast = () => performance.now() + retryMs(attempt) >= until;
    try {
      const again = { commands: commands.slice(first), timeoutMs: options.timeoutMs, retry: attempt > 0 };
      const answer = await services.writerOf(tenantId).submit({ ...call, ...again }, options);
      results.splice(first, Infinity, ...answer.results);
      const doubtful = results.findIndex(({ refusal }) => isOpen(refusal?.reason));
      if (doubtful < 0 || isLast()) return results;
      // In their order: those after it are decided again too, unless they were done.
      if (!atomic) first = doubtful;
    } catch (error) {
      const refusal = refusalOf(error);
      const isFinal = refusal ? !isOpen(refusal.reason) : error instanceof ConnectError && error.code === Code.Unimplemented;
      if (isFinal || options.signal.aborted || isLast()) {
        if (results.length === 0) throw error;
        // The last call may have done what the one before refused.
        return results.map((result, index) => (index >= first && result.refusal ? inDoubt : result));
      }
    }
    await pause(retryMs(attempt));
  }
}

const inDoubt = create(CommandResultSchema, {
  refusal: { reason: 'unavailable', message: 'the ledger did not answer in time; a retry with the same key finds out' },
});

const retryMs = (attempt: number): number => Math.min(50 * 2 ** attempt, 500);

/** Submits one command. Throws what it is refused for. */
export async function submitOne(
  services: Services,
  request: FastifyRequest,
  command: Command['command'],
  dryRun: boolean,
): Promise<CommandResult> {
  const [result] = await submit(services, request, [{ $typeName: 'ledger.v1.Command', command }], { dryRun });
  if (!result) throw new Error('the ledger answered without a result');
  if (result.refusal) throw rejection(result.refusal);
  return result;
}
