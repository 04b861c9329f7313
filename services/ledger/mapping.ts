// Mapping of postings: gRPC messages to validated postings, and posted transactions to messages.
import { create, fromBinary } from '@bufbuild/protobuf';
import {
  OriginSchema,
  TransactionPostedSchema,
  type ChangedBalance,
  type Origin,
  type PostedEntry,
  type SealedData,
  type TransactionPosted,
  type Unreversed,
  type VelocityUses,
} from '../../proto/gen/ledger/v1/events_pb.js';
import type { Posting, SubmitRequest, Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { newId } from '../platform/ids.ts';
import { toDecimal, toMinor } from '../platform/money.ts';
import { traceparentOf } from '../platform/trace.ts';
import { traceOfCall } from '../platform/tracing.ts';
import type { AskedTime } from './effective-time.ts';
import { net, outgoing, type BalanceChange, type Entry, type Line, type Posted } from './accounting.ts';
import {
  checkedActor,
  checkedCode,
  checkedCurrency,
  checkedId,
  checkedKey,
  checkedMetadata,
  checkedText,
  checkedTime,
  invalid,
} from './fields.ts';
import { fingerprint, type RequestContent } from './fingerprint.ts';
import { checkedAmount, checkedConditions, checkedExchange } from './payment-fields.ts';
import { checkedPersonalBytes } from './personal.ts';
import type { Use } from './velocity.ts';

/** A posting that the writer accepts: every text is checked, every amount is in minor units. */
export interface ValidatedPosting extends RequestContent {
  /** TypeID and UUID of the tenant. */
  tenantId: string;
  tenant: string;
  /** TypeID and UUID of the transaction or hold that it makes; a void makes neither and has its hold's. */
  transactionId: string;
  transaction: string;
  idempotencyKey: string;
  fingerprint: Buffer;
  actor: string;
  requestId: string;
  /** Trace context of the request, null where it had none. */
  traceparent: string | null;
  /** How long the caller waits, milliseconds. */
  timeoutMs: number;
  /** The caller may have posted it already. */
  retry: boolean;
  /** Estimated size in messages and in the log, bytes. */
  bytes: number;
  /** By the database's clock, milliseconds since the Unix epoch, when it is too late to post; null: never. */
  validUntilMs: number | null;
  /** Decided and answered, but not posted. */
  dryRun: boolean;
  origin: Origin | null;
  /** Why blocks and limits do not refuse it; null: they do. */
  overrideReason: string | null;
  /** When it is to count; null: when it is recorded. */
  effectiveAt: AskedTime | null;
  /** Personal data, sealed, each of another subject; absent: none. No part of what makes the request. */
  personal?: SealedData[];
}

/** What a call has for all its commands. */
export type Call = Pick<SubmitRequest, 'tenantId' | 'actor' | 'requestId' | 'traceparent' | 'retry'> &
  Partial<Pick<SubmitRequest, 'timeoutMs' | 'dryRun'>>;

/** The message, with the trace context that {@link traceOfCall} finds. */
export function withTraceparent<Message extends { traceparent: string }>(
  message: Message,
  context: Parameters<typeof traceOfCall>[1],
): Message {
  message.traceparent = traceOfCall(message.traceparent, context);
  return message;
}

/** Checks a posting. Throws {@link Refusal} with the reason `validation_failed` and the field's name as in REST. */
export function validatePosting(posting: Posting): ValidatedPosting {
  const tenant = checkedId('tenant_id', 'tenant', posting.tenantId);
  const transactionId = posting.transactionId === '' ? newId('txn') : posting.transactionId;
  const transaction = checkedId('transaction_id', 'txn', transactionId);
  const { entries } = posting;
  if (posting.exchange) {
    if (entries.length > 0) throw invalid('entries', 'same', String(entries.length), 'entries must be left out of an exchange');
  } else if (entries.length === 0) throw invalid('entries', 'required', '', 'entries is required');
  if (entries.length > 200) throw invalid('entries', 'max', String(entries.length), 'entries must have at most 200 items');
  const kind = posting.exchange ? 'exchange' : entries.length === 1 ? 'single' : 'double';
  const metadata = checkedMetadata(posting.metadata);
  const { idempotencyKey, description, reference, validUntilMs, overrideReason, effectiveAt } = commonFields(posting, transactionId);
  const { actor, requestId, traceparent } = auditContextOf(posting);
  const validated: ValidatedPosting = {
    kind,
    tenantId: posting.tenantId,
    tenant,
    transactionId,
    transaction,
    idempotencyKey,
    fingerprint: noFingerprint,
    description,
    actor,
    requestId,
    traceparent,
    reference,
    entries: entries.map((entry, index) => entryOf(entry, kind === 'single' ? '' : `entries[${index}].`)),
    metadata: metadata.text,
    target: null,
    timeoutMs: checkedTimeout(posting.timeoutMs),
    retry: posting.retry,
    bytes: 600 + posting.metadata.length + posting.description.length + entries.length * 120,
    validUntilMs,
    dryRun: posting.dryRun,
    overrideReason,
    effectiveAt,
    origin: null,
    terms: null,
    options: null,
  };
  addTerms(validated, posting);
  if (posting.personal.length > 0) {
    validated.personal = posting.personal;
    validated.bytes += checkedPersonalBytes(posting.personal);
  }
  validated.fingerprint = fingerprint(validated, metadata.canonical);
  return validated;
}

// What a posting has besides its entries; most have nothing.
function addTerms(validated: ValidatedPosting, posting: Posting): void {
  const { exchange: message } = posting;
  if (message) {
    const { exchange, entries, origin } = checkedExchange(message);
    validated.entries = entries;
    validated.origin = create(OriginSchema, { exchange: origin });
    validated.bytes += 300 + entries.length * 120;
    validated.terms = jsonOf({ exchange });
  }
  addConditions(validated, posting);
}

/** Adds what must hold, and with the time and reason that the command has already, to its terms. */
export function addConditions(validated: ValidatedPosting, message: Pick<Posting, 'entries' | 'require'>): void {
  const require = checkedConditions(message);
  if (validated.overrideReason !== null) validated.override = true;
  if (require.length > 0) validated.require = require;
  if (require.length > 0 || validated.validUntilMs !== null || validated.overrideReason !== null) {
    const conditions = require.map(({ field, code, currency, checks }) => [
      field,
      code,
      currency,
      // Not the text: however an amount is written, the request is the same.
      checks.map(({ path, value }) => [path, value]),
    ]);
    validated.terms = `${validated.terms ?? ''}${jsonOf([conditions, validated.validUntilMs, validated.overrideReason])}`;
  }
  if (validated.effectiveAt !== null) validated.terms = `${validated.terms ?? ''}${jsonOf({ effective_at: validated.effectiveAt })}`;
}

function jsonOf(value: unknown): string {
  return JSON.stringify(value, (_key, each: unknown) => (typeof each === 'bigint' ? each.toString() : each));
}

/** The fields that commands of all kinds have; `id` is the key of one without. Throws {@link Refusal} naming the field. */
export function commonFields(message: CommonFields, id: string): Pick<ValidatedPosting, CommonName> {
  const { idempotencyKey, description, reference, validUntilMs, overrideReason } = message;
  return {
    idempotencyKey: idempotencyKey === '' ? id : checkedKey(idempotencyKey),
    description: checkedText('description', description, { max: 1000 }),
    reference: reference === undefined ? null : checkedText('reference', reference, { max: 255 }),
    validUntilMs: validUntilMs === undefined ? null : checkedTime('valid_until', validUntilMs),
    effectiveAt: askedTime(message),
    overrideReason: overrideReason === undefined ? null : checkedText('override_reason', overrideReason, { min: 1, max: 255 }),
  };
}

type CommonName = 'idempotencyKey' | 'description' | 'reference' | 'validUntilMs' | 'overrideReason' | 'effectiveAt';
type CommonFields = Pick<Posting, Exclude<CommonName, 'effectiveAt'>> & {
  effectiveMs?: bigint | undefined;
  effectiveAsOriginal?: boolean | undefined;
};

// Its bounds are those of the books.
function askedTime({ effectiveMs, effectiveAsOriginal = false }: CommonFields): AskedTime | null {
  if (!effectiveAsOriginal) return effectiveMs === undefined ? null : Number(effectiveMs);
  if (effectiveMs !== undefined)
    throw invalid('effective_at', 'same', String(effectiveMs), 'effective_at must be a time or that of the original');
  return 'original';
}

/** How long a caller waits, milliseconds. Throws {@link Refusal} naming the field. */
export function checkedTimeout(timeoutMs: number): number {
  if (timeoutMs < 0) throw invalid('timeout_ms', 'min', String(timeoutMs), 'timeout_ms must not be below zero');
  return timeoutMs === 0 ? 10_000 : timeoutMs;
}

/** Actor, request id and trace context of a request. Throws {@link Refusal} naming the field. */
export function auditContextOf(request: {
  actor: string;
  requestId: string;
  traceparent: string;
}): Pick<ValidatedPosting, 'actor' | 'requestId' | 'traceparent'> {
  return {
    actor: request.actor === '' ? 'internal' : checkedActor(request.actor),
    requestId: checkedText('request_id', request.requestId, { max: 255 }),
    traceparent: traceparentOf(request.traceparent),
  };
}

/** Checks an entry; `path` stands before the names of its fields. Throws {@link Refusal} naming the field. */
export function entryOf(entry: { accountCode: string; amount: string; side: string; currency: string }, path: string): Entry {
  checkedCode(`${path}account_code`, entry.accountCode);
  const amount = checkedAmount(`${path}amount`, entry.amount);
  if (entry.side === '') throw invalid(`${path}side`, 'required', '', `${path}side is required`);
  if (entry.side !== 'debit' && entry.side !== 'credit')
    throw invalid(`${path}side`, 'oneof', entry.side, `${path}side must be one of debit, credit`);
  checkedCurrency(`${path}currency`, entry.currency);
  return { code: entry.accountCode, amount, side: entry.side, currency: entry.currency, counter: false };
}

const noFingerprint = Buffer.alloc(0);

// The messages below are literals, because `create` costs twice the time and three times the memory.

/** The event of a posting that the rules allow, as the log stores it. */
export function postedEventOf(posting: ValidatedPosting, { lines, changes, broken, uses }: Posted): TransactionPosted {
  const event: TransactionPosted = {
    $typeName: 'ledger.v1.TransactionPosted',
    transactionId: posting.transactionId,
    kind: posting.kind,
    idempotencyKey: posting.idempotencyKey,
    fingerprint: posting.fingerprint,
    description: posting.description,
    metadata: posting.metadata,
    entries: lines.map(entryMessage),
    balances: changes.map(balanceMessage),
    personal: posting.personal ?? [],
    redacted: [],
  };
  if (posting.reference !== null) event.reference = posting.reference;
  if (posting.kind === 'reversal' && posting.target) event.reverses = posting.target.id;
  if (posting.overrideReason !== null) {
    event.origin = create(OriginSchema, {
      ...(posting.origin?.exchange && { exchange: posting.origin.exchange }),
      override: { reason: posting.overrideReason, broken },
    });
  } else if (posting.origin) event.origin = posting.origin;
  if (uses) event.uses = usesMessage(uses);
  return event;
}

/** What velocity limits have counted of an event. */
export function usesMessage(uses: Use[], withPositions = false): VelocityUses {
  const messages = uses.map(({ limit, subject, stepMs, amount, count, positions }) => ({
    $typeName: 'ledger.v1.VelocityUse' as const,
    limitId: limit.id,
    subject,
    stepMs: BigInt(stepMs),
    amount: toDecimal(amount),
    count,
    positions: withPositions ? positions : [],
  }));
  return { $typeName: 'ledger.v1.VelocityUses', uses: messages };
}

function entryMessage({ account, amount, side, currency, counter, balanceAfter }: Line): PostedEntry {
  return {
    $typeName: 'ledger.v1.PostedEntry',
    accountId: account.id,
    accountCode: account.code,
    amount: toDecimal(amount),
    side,
    currency,
    counter,
    balanceAfter: toDecimal(balanceAfter),
  };
}

/** A balance after an event, as the event has it. */
export function balanceMessage({ account, currency, before, after }: BalanceChange): ChangedBalance {
  const balance = net(account, after);
  return {
    $typeName: 'ledger.v1.ChangedBalance',
    accountId: account.id,
    accountCode: account.code,
    currency,
    previousBalance: toDecimal(net(account, before)),
    balance: toDecimal(balance),
    debits: toDecimal(after.debits),
    credits: toDecimal(after.credits),
    pendingDebits: toDecimal(after.pendingDebits),
    pendingCredits: toDecimal(after.pendingCredits),
    available: toDecimal(balance - outgoing(account, after)),
    version: after.version,
  };
}

/** A posted transaction from its event and the event's position and time in the log. */
export function transactionOf(
  event: TransactionPosted,
  position: { tenantId: string; sequence: bigint; createdMs: number; reversedBy?: string | undefined; unreversed?: Unreversed | undefined },
): Transaction {
  const { transactionId, kind, idempotencyKey, description, entries, metadata } = event;
  const transaction: Transaction = {
    $typeName: 'ledger.v1.Transaction',
    tenantId: position.tenantId,
    transactionId,
    kind,
    status: 'posted',
    idempotencyKey,
    description,
    entries,
    metadata,
    createdMs: BigInt(position.createdMs),
    sequence: position.sequence,
    personal: event.personal,
    redacted: event.redacted,
  };
  if (event.reference !== undefined) transaction.reference = event.reference;
  if (event.reverses !== undefined) transaction.reverses = event.reverses;
  if (position.reversedBy !== undefined) transaction.reversedBy = position.reversedBy;
  if (position.unreversed !== undefined) transaction.unreversed = position.unreversed;
  if (event.origin !== undefined) transaction.origin = event.origin;
  if (event.effectiveMs !== undefined) transaction.effectiveMs = event.effectiveMs;
  if (event.requestedEffectiveMs !== undefined) transaction.requestedEffectiveMs = event.requestedEffectiveMs;
  const currency = entries[0]?.currency;
  if (currency !== undefined && entries.every((entry) => entry.currency === currency)) {
    transaction.currency = currency;
    const debits = entries.filter((entry) => entry.side === 'debit');
    transaction.amount = toDecimal(debits.reduce((sum, entry) => sum + (toMinor(entry.amount) ?? 0n), 0n));
  }
  return transaction;
}

/** Decodes the event of a posting. */
export function decodePosted(payload: Uint8Array): TransactionPosted {
  return fromBinary(TransactionPostedSchema, payload);
}
