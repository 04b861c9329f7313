// The call of commands: checked one by one, done alone or all together, and answered one by one.
import { create } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import {
  CommandResultSchema,
  RefusalSchema,
  type CommandResult,
  type Refusal as RefusalMessage,
  type SubmitRequest,
  type SubmitResponse,
} from '../../proto/gen/ledger/v1/ledger_pb.js';
import { logFields } from '../platform/serve.ts';
import { Refusal } from './accounting.ts';
import { validateCommand } from './commands.ts';
import { checkedId, invalid } from './fields.ts';
import { withTraceparent, type ValidatedPosting } from './mapping.ts';
import { refuseNewFields, type IsEnabled } from './feature-switch.ts';
import { maxEntries } from './command-results.ts';
import type { Commands, Done, Outcome } from './queue.ts';
import type { PostOptions, Writer } from './writer.ts';

/** Commands or postings of a call. */
export const maxCommands = 1_000;

/** The handler of Submit. `maxBytes`: largest message; `isEnabled`: whether a feature is. */
export function submitHandler(writer: Writer, maxBytes: number, isEnabled: IsEnabled) {
  return async (request: SubmitRequest, context: HandlerContext): Promise<SubmitResponse> => {
    const fields = context.values.get(logFields);
    const { commands, atomic } = withTraceparent(request, context);
    fields['items'] = commands.length;
    if (commands.length === 0) throw invalid('commands', 'required', '', 'commands is required');
    if (commands.length > maxCommands) throw tooMany('commands', commands.length, `commands must have at most ${maxCommands} items`);
    checkedId('tenant_id', 'tenant', request.tenantId);
    const checked = commands.map((command) => {
      try {
        if (command.command.value) refuseNewFields(command.command.value, isEnabled);
        return validateCommand(command, request);
      } catch (error) {
        return writer.rejectInvalid(error, request);
      }
    });
    const entries = checked.reduce((sum, each) => sum + (each instanceof Refusal ? 0 : each.entries.length), 0);
    if (entries > maxEntries) throw tooMany('commands', entries, `commands must have at most ${maxEntries} entries in all`);
    checkAnswerSize('commands', checked, maxBytes);
    const options = { signal: context.signal, timeoutMs: context.timeoutMs() };
    const results = atomic
      ? await allOrNone(writer, checked, request.dryRun, options)
      : fitting(await Promise.all(checked.map((each) => resultOf(writer, each, request.dryRun, options))), maxBytes);
    fields['refused'] = results.filter(({ refusal }) => refusal).length;
    return { $typeName: 'ledger.v1.SubmitResponse', results };
  };
}

async function allOrNone(
  writer: Writer,
  checked: (ValidatedPosting | Refusal)[],
  dryRun: boolean,
  options: PostOptions,
): Promise<CommandResult[]> {
  const malformed = checked.findIndex((each) => each instanceof Refusal);
  const outcome =
    malformed < 0
      ? await writer.submit(checked as unknown as Commands, dryRun, options)
      : { refusal: checked[malformed] as Refusal, at: malformed };
  if (Array.isArray(outcome)) return outcome.map(messageOf);
  const refused = 'at' in outcome ? (outcome.at ?? 0) : 0;
  return checked.map((_, index) => (index === refused ? messageOf(outcome) : create(CommandResultSchema, {})));
}

async function resultOf(
  writer: Writer,
  command: ValidatedPosting | Refusal,
  dryRun: boolean,
  options: PostOptions,
): Promise<CommandResult> {
  if (command instanceof Refusal) return messageOf({ refusal: command });
  const outcome = await writer.submit([command], dryRun, options);
  return messageOf(Array.isArray(outcome) ? (outcome[0] as Done) : outcome);
}

function messageOf(outcome: Outcome): CommandResult {
  if ('refusal' in outcome) return create(CommandResultSchema, { refusal: refusalMessage(outcome.refusal) });
  if ('lockConflict' in outcome) return create(CommandResultSchema, {});
  const { result, hold } = outcome;
  const message: CommandResult = { $typeName: 'ledger.v1.CommandResult', replayed: result.replayed };
  if (result.outcome.case === 'transaction') message.transaction = result.outcome.value;
  if (hold) message.hold = hold;
  return message;
}

/** A refusal as part of an answer. */
export function refusalMessage({ reason, message, blame }: Refusal): RefusalMessage {
  return create(RefusalSchema, { reason, message, ...blame });
}

/** The refusal of a call with too many of something. */
export function tooMany(field: string, count: number, message: string): Refusal {
  return new Refusal('validation_failed', `${message}, not ${count}`, { field, tag: 'max', value: String(count) });
}

// Bytes of an answer for an entry with its code, and for a transaction or hold without its entries and texts.
const entryBytes = 115;
const transactionBytes = 500;
// Of sealed data besides its ciphertext.
const personalBytes = 100;

/**
 * Refuses a call whose answer might be too large. Before anything is done, because an answer that is too large can't be sent, and it is
 * larger than its request.
 */
export function checkAnswerSize(field: string, all: (ValidatedPosting | Refusal)[], maxBytes: number): void {
  let bytes = 0;
  for (const each of all) {
    if (each instanceof Refusal) bytes += transactionBytes + Buffer.byteLength(each.message + (each.blame?.value ?? ''));
    else
      bytes += sizeOf(
        each,
        each.reference,
        each.entries.map(({ code }) => code),
      );
  }
  if (bytes <= maxBytes) return;
  const message = `the answer to these ${field} might have more than ${maxBytes} bytes: send fewer at once`;
  throw new Refusal('validation_failed', message, { field, tag: 'max', value: String(all.length) });
}

function sizeOf(
  texts: Pick<ValidatedPosting, 'metadata' | 'description' | 'idempotencyKey' | 'personal'>,
  reference: string | null | undefined,
  codes: string[],
): number {
  let bytes = transactionBytes;
  for (const text of [texts.metadata, texts.description, texts.idempotencyKey, reference ?? '']) bytes += Buffer.byteLength(text);
  for (const { ciphertext } of texts.personal ?? []) bytes += personalBytes + ciphertext.length;
  for (const code of codes) bytes += entryBytes + code.length;
  return bytes;
}

// How many entries a reversal has was not known before. What does not fit is done, and a repetition of the command answers it.
function fitting(results: CommandResult[], maxBytes: number): CommandResult[] {
  let bytes = 0;
  return results.map((result) => {
    for (const each of [result.transaction, result.hold]) {
      if (each)
        bytes += sizeOf(
          each,
          each.reference,
          each.entries.map(({ accountCode }) => accountCode),
        );
    }
    if (bytes <= maxBytes || result.refusal) return result;
    return messageOf({
      refusal: new Refusal('unavailable', 'the answer had no space for this result; a retry with the same key finds out'),
    });
  });
}
