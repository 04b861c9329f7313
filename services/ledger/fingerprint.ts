// Whether a posting is the same request as one before, and in which fields it differs.
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { sha256 } from '../platform/digest.ts';
import { toDecimal } from '../platform/money.ts';
import { Refusal, type Request } from './accounting.ts';
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
export function keyReused(posting: RequestContent & { idempotencyKey: string }, transaction: Transaction): Refusal {
  const fields = differingFields(posting, transaction);
  const details = { transaction_id: transaction.transactionId, fields: fields.join() };
  const message = `this idempotency key was used for another request, which differs in ${fields.join(', ')}`;
  const blame = { field: 'idempotency_key', tag: 'idempotency_key_reused', value: posting.idempotencyKey, details };
  return new Refusal('idempotency_key_reused', message, blame);
}

/** The refusal of a posting whose transaction id was posted under another key. */
export function idReused({ kind, transactionId }: RequestContent & { transactionId: string }): Refusal {
  const details = { transaction_id: transactionId, fields: 'idempotency_key' };
  const field = kind === 'reversal' ? 'reversal_id' : 'transaction_id';
  const blame = { field, tag: 'idempotency_key_reused', value: transactionId, details };
  return new Refusal('idempotency_key_reused', 'this transaction id was used under another key', blame);
}

/** The fields in which a posting differs from a transaction, as REST names them: at most 20. */
function differingFields(posting: RequestContent, transaction: Transaction): string[] {
  const { kind, description, reference, metadata } = transaction;
  const canonical = (text: string) => checkedMetadata(text).canonical;
  const fields = [
    ...(posting.kind === kind ? differingEntries(posting, transaction) : ['kind']),
    ...(posting.description === description ? [] : ['description']),
    ...(posting.reference === (reference ?? null) ? [] : ['reference']),
    ...(canonical(posting.metadata) === canonical(metadata) ? [] : ['metadata']),
  ];
  if (fields.length > 0) return [...new Set(fields)].slice(0, maxFields);
  // The record does not keep these.
  const own = { exchange: ['rate', 'rounding', 'spread'], reversal: ['amount', 'entries'] }[posting.kind as string] ?? [];
  return [...own, 'require', 'valid_until', 'override_reason'];
}

function differingEntries({ kind, target, options, entries }: RequestContent, transaction: Transaction): string[] {
  if (target && target.id !== transaction.reverses) return ['transaction_id'];
  if (options?.amount !== undefined && toDecimal(options.amount) !== transaction.amount) return ['amount'];
  if (target && entries.length === 0) return [];
  const posted = transaction.entries.filter((entry) => !entry.counter);
  if (entries.length !== posted.length) return kind === 'exchange' ? ['fees', 'spread'] : ['entries'];
  return entries.flatMap((entry, index) => {
    const { accountCode, amount, side, currency } = posted[index] as (typeof posted)[number];
    const path = entry.field?.replace(/account_code$/, '') ?? (kind === 'single' ? '' : `entries[${index}].`);
    return [
      ...(entry.code === accountCode ? [] : [`${path}account_code`]),
      ...(toDecimal(entry.amount) === amount ? [] : [`${path}amount`]),
      ...(entry.side === side ? [] : [`${path}side`]),
      ...(entry.currency === currency ? [] : [`${path}currency`]),
    ];
  });
}
