// What is left to reverse of a transaction, and what a reversal takes of it. Pure; amounts are minor units.
import type { PostedEntry } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { toId } from '../platform/ids.ts';
import { toDecimal } from '../platform/money.ts';
import { Refusal, opposite, type Entry, type Side } from './accounting.ts';
import type { DatedOriginal } from './effective-time.ts';
import { decodePosted, type ValidatedPosting } from './mapping.ts';
import { takePart } from './matching.ts';

/** A transaction that is to be reversed, as the database has it. */
export interface OriginalRow {
  tenant_id: string;
  id: string;
  /** Milliseconds since the Unix epoch. */
  created_ms: number;
  payload: Buffer;
  /** What reversed all of it, or the last part. */
  reversed_by: string | null;
  /** The newest of its parts, and that reversal's event; null where none was reversed. */
  part: number | null;
  part_payload: Buffer | null;
}

/** What can be reversed of a transaction. */
export interface Reversible {
  entries: PostedEntry[];
  /** Left of each entry. */
  left: readonly bigint[];
  /** How many reversals have taken a part. */
  parts: number;
  /** Why nothing can be reversed; null where something can. */
  ended: string | null;
  /** Its kind, and when it counts. */
  dated: DatedOriginal;
}

/** What a reversal takes. */
export interface Reversal {
  entries: Entry[];
  /** What it leaves of each entry, decimal text; null where it leaves nothing. */
  unreversed: string[] | null;
  /** Its number among the parts; null where it reverses all at once. */
  part: number | null;
  /** What can be reversed after it. */
  rest: Reversible;
  /** The transaction that it reverses. */
  dated: DatedOriginal;
}

const none = { entries: [], left: [], parts: 0, dated: { kind: '', effectiveMs: 0 } };
const aReversal: Reversible = { ...none, ended: 'is a reversal itself' };

/** What can be reversed of a stored transaction. */
export function reversibleOf({ payload, created_ms, reversed_by, part, part_payload }: OriginalRow): Reversible {
  if (reversed_by !== null) return { ...none, ended: reversedBy(toId('txn', reversed_by)) };
  const { kind, entries, effectiveMs } = decodePosted(payload);
  if (kind === 'reversal') return aReversal;
  const amounts = part_payload ? decodePosted(part_payload).unreversed?.amounts : undefined;
  const dated = { kind, effectiveMs: Number(effectiveMs ?? created_ms) };
  return { entries, left: (amounts ?? entries.map(({ amount }) => amount)).map(minorOf), parts: part ?? 0, ended: null, dated };
}

/** What can be reversed of a transaction that nothing has reversed. */
export function posted({ kind, entries, createdMs, effectiveMs }: Pick<Transaction, DatedName>): Reversible {
  if (kind === 'reversal') return aReversal;
  const dated = { kind, effectiveMs: Number(effectiveMs ?? createdMs) };
  return { entries, left: entries.map(({ amount }) => minorOf(amount)), parts: 0, ended: null, dated };
}

type DatedName = 'kind' | 'entries' | 'createdMs' | 'effectiveMs';

/** Takes what a reversal asks for. Throws {@link Refusal}: `already_reversed`, or what {@link takePart} throws. */
export function takeReversal(command: ValidatedPosting, { entries, left, parts, ended, dated }: Reversible): Reversal {
  if (ended !== null) throw new Refusal('already_reversed', `transaction ${command.target?.id ?? ''} ${ended}`);
  const mirrored = entries.map((entry, index) => ({
    code: entry.accountCode,
    amount: left[index] as bigint,
    side: opposite(entry.side as Side),
    currency: entry.currency,
    counter: entry.counter,
  }));
  const part = { amount: command.options?.amount ?? null, entries: command.entries.length > 0 ? command.entries : null };
  const taken = takePart(mirrored, part, 'reversal_exceeded');
  const after = left.map((amount, index) => amount - (taken.amounts[index] as bigint));
  const isLast = after.every((amount) => amount === 0n);
  const number = isLast && parts === 0 ? null : parts + 1;
  return {
    entries: taken.entries,
    unreversed: isLast ? null : after.map(toDecimal),
    part: number,
    rest: { entries, left: after, parts: number ?? 0, ended: isLast ? reversedBy(command.transactionId) : null, dated },
    dated,
  };
}

function reversedBy(id: string): string {
  return `is reversed already, by ${id}`;
}

function minorOf(amount: string): bigint {
  return BigInt(amount.replace('.', ''));
}
