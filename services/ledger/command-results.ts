// What commands are answered: results, replays of earlier ones, and results of a dry run.
import type { HoldRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { Refusal } from './accounting.ts';
import { holdKeyReused, keyReused } from './fingerprint.ts';
import type { ValidatedPosting } from './mapping.ts';
import { isAbandoned, type Done, type Item, type ItemOutcome } from './queue.ts';
import type { UsedKey } from './writer-queries.ts';

/** Entries that the commands of one item may have. */
export const maxEntries = 2_000;

/** Adds the entries of a command to those before it. Throws {@link Refusal}: what reversals and captures post is not known before. */
export function entriesMustFit(before: number, { result: { outcome } }: Done): number {
  if (outcome.case !== 'transaction') return before;
  const entries = before + outcome.value.entries.filter(({ counter }) => !counter).length;
  if (entries <= maxEntries) return entries;
  const blame = { field: 'entries', tag: 'max', value: String(entries) };
  throw new Refusal('validation_failed', `the commands must have at most ${maxEntries} entries in all`, blame);
}

/** The result of a transaction that was posted. */
export function resultOf(transaction: Transaction, replayed: boolean): Done {
  return { result: { $typeName: 'ledger.v1.PostingResult', outcome: { case: 'transaction', value: transaction }, replayed } };
}

/** The result of a command whose key was used. Throws {@link Refusal} if that was another request. */
export function replayOf(item: Item, command: ValidatedPosting, used: UsedKey): Done {
  const { transaction } = used;
  if (!transaction) throw new Error(`transaction ${used.id} has no event`);
  if (!used.fingerprint.equals(command.fingerprint)) throw keyReused(command, transaction);
  const own = used.id === command.transaction && (command.retry || item.uncertain);
  // If the caller no longer waits, it may have sent the posting to another replica, which posted it.
  return { ...resultOf(transaction, !own), found: own && (command.retry || isAbandoned(item)) };
}

/** The result of a command that posted nothing. */
export function holdResultOf(hold: HoldRecord, replayed: boolean): Done {
  return { result: { $typeName: 'ledger.v1.PostingResult', outcome: { case: undefined }, replayed }, hold };
}

/** The result of a hold whose key was used, as {@link replayOf}. */
export function holdReplayOf(item: Item, command: ValidatedPosting, used: UsedKey, hold: HoldRecord): Done {
  if (!used.fingerprint.equals(command.fingerprint)) throw holdKeyReused(command, hold);
  const own = used.id === command.transaction && (command.retry || item.uncertain);
  return { ...holdResultOf(hold, !own), found: own && (command.retry || isAbandoned(item)) };
}

/** A result as a dry run answers it: what would have come after `sequence` has no id and no position. */
export function asDryRun({ hold, ...done }: Done, sequence: bigint): Done {
  const { outcome, replayed } = done.result;
  const isNew = outcome.case === 'transaction' && outcome.value.sequence > sequence;
  return {
    ...done,
    ...(isNew && resultOf({ ...outcome.value, ...unnamed(outcome.value, outcome.value.transactionId), transactionId: '' }, replayed)),
    ...(hold && { hold: hold.sequence > sequence ? { ...hold, ...unnamed(hold, hold.holdId), holdId: '' } : hold }),
  };
}

function unnamed({ idempotencyKey }: { idempotencyKey: string }, id: string): { idempotencyKey: string; sequence: bigint } {
  return { idempotencyKey: idempotencyKey === id ? '' : idempotencyKey, sequence: 0n };
}

/** Whether an item was refused for what is available or counted, which holds take and give back when they expire. */
export function dependsOnHolds(outcome: ItemOutcome): boolean {
  return 'refusal' in outcome && ['insufficient_funds', 'limit_exceeded', 'condition_failed'].includes(outcome.refusal.reason);
}

/** The refusal of a command that is decided after the time until which it is valid. */
export function tooLate(validUntilMs: number): Refusal {
  const value = new Date(validUntilMs).toISOString();
  return new Refusal('too_late', `the posting was valid until ${value}`, { field: 'valid_until', tag: 'too_late', value });
}
