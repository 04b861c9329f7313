// Whether a posting is the same request as one before, and in which fields it differs.
import type { HoldRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { sha256 } from '../platform/digest.ts';
import { toDecimal } from '../platform/money.ts';
import { Refusal, type Request } from './accounting.ts';
import type { AskedTime } from './effective-time.ts';
import { checkedMetadata } from './fields.ts';

/** What of its target a command takes, or how long a hold lasts. */
export interface CommandOptions {
  /** Minor units to capture or reverse. Without it the entries, or all that is left where there are none. */
  amount?: bigint;
  /** Whether a capture releases what it leaves; true if absent. */
  final?: boolean;
  /** When a hold expires, milliseconds since the Unix epoch, or in how many seconds; neither: never. */
  expiresAtMs?: number;
  expiresIn?: number;
}

/** What makes two postings the same request. */
export interface RequestContent extends Request {
  description: string;
  reference: string | null;
  /** A JSON object as text. */
  metadata: string;
  /** The transaction to reverse, or the hold to capture, void or expire. */
  target: { id: string; uuid: string } | null;
  /** What only holds, captures and reversals may have; null: nothing. */
  options: CommandOptions | null;
  /** What was sent besides, as canonical JSON; null: nothing. */
  terms: string | null;
}

const maxFields = 20;

/**
 * Equal for the same request: absent equals default, entries are ordered, the keys of `metadata`, given in canonical form, are not.
 * Its first byte is the version: 1 without terms, so that keys of requests without them stay good.
 */
export function fingerprint(posting: RequestContent, metadata: string): Buffer {
  const canonical = JSON.stringify([
    posting.kind,
    posting.description,
    posting.reference,
    posting.entries.map((entry) => [entry.code, entry.amount.toString(), entry.side, entry.currency]),
    metadata,
    posting.target?.id ?? null,
    ...(posting.terms === null ? [] : [posting.terms]),
  ]);
  return Buffer.concat([Buffer.from([posting.terms === null ? 1 : 2]), sha256(canonical)]);
}

/** The refusal of a posting whose key was used for another request. */
export function keyReused(posting: Keyed, transaction: Transaction): Refusal {
  const fields = [
    ...(posting.kind === transaction.kind ? differingEntries(posting, transaction) : ['kind']),
    ...differing(posting, transaction),
    ...differingTime(posting, transaction),
  ];
  // The record does not keep these.
  const own: Record<string, string[]> = {
    exchange: ['rate', 'rounding', 'spread'],
    reversal: ['amount', 'entries', 'effective_at'],
    capture: ['amount', 'entries', 'final'],
  };
  return reused(posting, { transaction_id: transaction.transactionId }, fields, own[posting.kind] ?? []);
}

/** The refusal of a hold whose key was used for another. */
export function holdKeyReused(command: Keyed, hold: HoldRecord): Refusal {
  const { expiresAtMs } = command.options ?? {};
  const isSameTime = expiresAtMs === undefined || BigInt(expiresAtMs) === hold.expiresMs;
  const fields = [...differingLines(command, hold.entries), ...differing(command, hold), ...(isSameTime ? [] : ['expires_at'])];
  return reused(command, { hold_id: hold.holdId }, fields, ['expires_at', 'expires_in']);
}

/** The refusal of a command whose transaction or hold id was used under another key. */
export function idReused({ kind, transactionId }: RequestContent & { transactionId: string }): Refusal {
  const what = kind === 'hold' ? 'hold' : 'transaction';
  const details = { [`${what}_id`]: transactionId, fields: 'idempotency_key' };
  const field = kind === 'reversal' ? 'reversal_id' : `${what}_id`;
  const blame = { field, tag: 'idempotency_key_reused', value: transactionId, details };
  return new Refusal('idempotency_key_reused', `this ${what} id was used under another key`, blame);
}

type Keyed = RequestContent & { idempotencyKey: string; effectiveAt: AskedTime | null };

/** `unrecorded`: fields that may differ where no recorded one does. */
function reused({ idempotencyKey }: Keyed, first: Record<string, string>, differing: string[], unrecorded: string[]): Refusal {
  const fields =
    differing.length > 0 ? [...new Set(differing)].slice(0, maxFields) : [...unrecorded, 'require', 'valid_until', 'override_reason'];
  const details = { ...first, fields: fields.join() };
  const message = `this idempotency key was used for another request, which differs in ${differing.length > 0 ? '' : 'one or more of '}${fields.join(', ')}`;
  const blame = { field: 'idempotency_key', tag: 'idempotency_key_reused', value: idempotencyKey, details };
  return new Refusal('idempotency_key_reused', message, blame);
}

/** The texts in which a command differs from what it has made first, as REST names them. */
function differing(command: RequestContent, { description, reference, metadata }: Pick<Transaction, TextName>): string[] {
  const canonical = (text: string) => checkedMetadata(text).canonical;
  return [
    ...(command.description === description ? [] : ['description']),
    ...(command.reference === (reference ?? null) ? [] : ['reference']),
    ...(canonical(command.metadata) === canonical(metadata) ? [] : ['metadata']),
  ];
}

// A reversal may count when its original does without being asked to, which the record does not show.
function differingTime({ effectiveAt, kind }: Keyed, { effectiveMs, requestedEffectiveMs, createdMs }: Transaction): string[] {
  const recorded = requestedEffectiveMs ?? effectiveMs;
  const isSame =
    typeof effectiveAt === 'number' ? BigInt(effectiveAt) === (recorded ?? createdMs) : kind === 'reversal' || recorded === undefined;
  return isSame ? [] : ['effective_at'];
}

type TextName = 'description' | 'reference' | 'metadata';

function differingEntries(posting: RequestContent, transaction: Transaction): string[] {
  const { kind, target, options, entries } = posting;
  if (target && kind === 'capture' && target.id !== transaction.origin?.holdId) return ['hold_id'];
  if (target && kind === 'reversal' && target.id !== transaction.reverses) return ['transaction_id'];
  if (options?.amount !== undefined && toDecimal(options.amount) !== transaction.amount) return ['amount'];
  if (target && entries.length === 0) return [];
  return differingLines(
    posting,
    transaction.entries.filter((entry) => !entry.counter),
  );
}

type RecordedLine = Pick<Transaction['entries'][number], 'accountCode' | 'amount' | 'side' | 'currency'>;

function differingLines({ kind, entries }: RequestContent, recorded: readonly RecordedLine[]): string[] {
  if (entries.length !== recorded.length) return kind === 'exchange' ? ['fees', 'spread'] : ['entries'];
  return entries.flatMap((entry, index) => {
    const { accountCode, amount, side, currency } = recorded[index] as RecordedLine;
    const path = entry.field?.replace(/account_code$/, '') ?? (kind === 'single' ? '' : `entries[${index}].`);
    return [
      ...(entry.code === accountCode ? [] : [`${path}account_code`]),
      ...(toDecimal(entry.amount) === amount ? [] : [`${path}amount`]),
      ...(entry.side === side ? [] : [`${path}side`]),
      ...(entry.currency === currency ? [] : [`${path}currency`]),
    ];
  });
}
