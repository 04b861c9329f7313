// Messages ↔ domain for postings: what a caller may send, checked field by field, and how a posted transaction is told.
import { fromBinary } from '@bufbuild/protobuf';
import {
  TransactionPostedSchema,
  type ChangedBalance,
  type PostedEntry,
  type TransactionPosted,
} from '../../proto/gen/ledger/v1/events_pb.js';
import type { Posting, ReverseTransactionRequest, Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { sha256 } from '../platform/digest.ts';
import { newId, tenantUuid, toUuid } from '../platform/ids.ts';
import { InvalidJson, parseJson, type JsonProblem } from '../platform/json.ts';
import { isCurrency, toDecimal, toMinor, type Currency } from '../platform/money.ts';
import { traceparentOf } from '../platform/trace.ts';
import { Refusal, net, outgoing, type Change, type Entry, type Line, type Posted, type Request } from './accounting.ts';

/** A posting as the writer takes it: every text checked, every amount in minor units. */
export interface ValidatedPosting extends Request {
  /** TypeID and UUID of the tenant. */
  tenantId: string;
  tenant: string;
  /** TypeID and UUID of the transaction. */
  transactionId: string;
  transaction: string;
  idempotencyKey: string;
  fingerprint: Buffer;
  description: string;
  reference: string | null;
  /** A JSON object as text. */
  metadata: string;
  /** The transaction to reverse, whose lines then are the entries. */
  reverses: { id: string; uuid: string } | null;
  actor: string;
  requestId: string;
  /** Trace context of the request, null where it had none. */
  traceparent: string | null;
  /** Milliseconds the caller waits. */
  timeoutMs: number;
  /** The caller repeats what it may have posted already. */
  retry: boolean;
  /** About how large the posting is on the wire and in the log, bytes. */
  bytes: number;
}

const codePattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

/** A refusal that blames a field; `value` is what was sent, of which the beginning is told. */
export function invalid(field: string, tag: string, value: string, message: string): Refusal {
  return new Refusal('validation_failed', message, { field, tag, value: value.slice(0, 1000) });
}

/** Checks a text's length in code points and that PostgreSQL can hold it. Throws {@link Refusal} naming the field. */
export function checkedText(field: string, text: string, bounds: { min?: number; max: number }): string {
  if (text.includes('\0')) throw invalid(field, 'unicode', text, `${field} holds a NUL`);
  if (text.length < (bounds.min ?? 0)) throw invalid(field, 'required', text, `${field} is required`);
  // A code point is one or two UTF-16 units: counted one by one only where the difference matters.
  if (text.length > bounds.max && (text.length > 2 * bounds.max || [...text].length > bounds.max)) {
    throw invalid(field, 'max', text, `${field} must have at most ${bounds.max} characters`);
  }
  return text;
}

/** Checks an account code. Throws {@link Refusal} naming the field. */
export function checkedCode(field: string, code: string): string {
  if (code === '') throw invalid(field, 'required', code, `${field} is required`);
  if (!codePattern.test(code)) throw invalid(field, 'code', code, `${field} must match ${codePattern.source}`);
  return code;
}

/** Checks an identifier and answers its UUID. Throws {@link Refusal} naming the field. */
export function checkedId(field: string, prefix: Parameters<typeof toUuid>[0], id: string): string {
  const uuid = prefix === 'tenant' ? tenantUuid(id) : toUuid(prefix, id);
  if (uuid === null) throw invalid(field, id === '' ? 'required' : 'id', id, `${field} must be an identifier with the prefix ${prefix}_`);
  return uuid;
}

/** Checks a currency. Throws {@link Refusal} naming the field. */
export function checkedCurrency(field: string, currency: string): Currency {
  if (currency === '') throw invalid(field, 'required', currency, `${field} is required`);
  if (!isCurrency(currency)) throw invalid(field, 'oneof', currency, `${field} must be one of NGN USD EUR GBP`);
  return currency;
}

const flaws: Record<JsonProblem, string> = {
  type: 'metadata must be a JSON object',
  max: 'metadata must be at most 10 deep',
  unicode: 'metadata holds a NUL or half of a surrogate pair',
  number: 'metadata holds a number that would come back as another one: send it as text',
};

/** Checks metadata and answers it as compact JSON text, with its canonical form (keys sorted). Throws {@link Refusal} naming the field. */
export function checkedMetadata(text: string): { text: string; canonical: string } {
  if (text === '' || text === '{}') return { text: '{}', canonical: '{}' };
  const refuse = (tag: string, message: string) => invalid('metadata', tag, text, message);
  // However it is spaced and escaped: more than that is not worth reading.
  if (text.length > 65_536) throw refuse('max', 'metadata must have at most 16 KiB as JSON');
  let value: unknown;
  try {
    value = parseJson(text, 10);
  } catch (error) {
    if (error instanceof InvalidJson) throw refuse(error.flaw, flaws[error.flaw]);
    throw error;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refuse('type', flaws.type);
  const compact = JSON.stringify(value);
  if (Buffer.byteLength(compact) > 16_384) throw refuse('max', 'metadata must have at most 16 KiB as JSON');
  return { text: compact, canonical: sorted(value) };
}

function sorted(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(sorted).join(',')}]`;
  const fields = value as Record<string, unknown>;
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${sorted(fields[key])}`).join(',')}}`;
}

/** The message, with the trace context of its call where it has none of its own. */
export function withTraceparent<Message extends { traceparent: string }>(
  message: Message,
  { requestHeader }: { requestHeader: Headers },
): Message {
  if (message.traceparent === '') message.traceparent = requestHeader.get('traceparent') ?? '';
  return message;
}

/** Checks a posting. Throws {@link Refusal} with the reason `validation_failed` and the field's name as in REST. */
export function validatePosting(posting: Posting): ValidatedPosting {
  const tenant = checkedId('tenant_id', 'tenant', posting.tenantId);
  const transactionId = posting.transactionId === '' ? newId('txn') : posting.transactionId;
  const transaction = checkedId('transaction_id', 'txn', transactionId);
  const { entries } = posting;
  if (entries.length === 0) throw invalid('entries', 'required', '', 'entries is required');
  if (entries.length > 200) throw invalid('entries', 'max', String(entries.length), 'entries must have at most 200 items');
  const kind: Request['kind'] = entries.length === 1 ? 'single' : 'double';
  const metadata = checkedMetadata(posting.metadata);
  const { timeoutMs } = posting;
  if (timeoutMs < 0) throw invalid('timeout_ms', 'min', String(timeoutMs), 'timeout_ms must not be below zero');
  const { idempotencyKey, description } = common(posting, transactionId);
  const { actor, requestId, traceparent } = auditContextOf(posting);
  // Field by field, and its fingerprint last: spread from others it was copied twice.
  const order: ValidatedPosting = {
    kind,
    tenantId: posting.tenantId,
    tenant,
    transactionId,
    transaction,
    idempotencyKey,
    fingerprint: unknown,
    description,
    actor,
    requestId,
    traceparent,
    reference: posting.reference === undefined ? null : checkedText('reference', posting.reference, { max: 255 }),
    entries: entries.map((entry, place) => entryOf(entry, kind === 'single' ? '' : `entries[${place}].`)),
    metadata: metadata.text,
    reverses: null,
    timeoutMs: timeoutMs === 0 ? 10_000 : timeoutMs,
    retry: posting.retry,
    bytes: 600 + posting.metadata.length + posting.description.length + entries.length * 120,
  };
  order.fingerprint = fingerprint(order, metadata.canonical);
  return order;
}

/** Checks a request to reverse, as {@link validatePosting}; its entries are the mirrored lines, which the writer reads. */
export function validateReversal(request: ReverseTransactionRequest): ValidatedPosting {
  const tenant = checkedId('tenant_id', 'tenant', request.tenantId);
  const reverses = { id: request.transactionId, uuid: checkedId('transaction_id', 'txn', request.transactionId) };
  const transactionId = request.reversalId === '' ? newId('txn') : request.reversalId;
  const order = {
    ...common(request, transactionId),
    ...auditContextOf(request),
    tenantId: request.tenantId,
    tenant,
    transactionId,
    transaction: checkedId('reversal_id', 'txn', transactionId),
    kind: 'reversal' as const,
    reference: null,
    entries: [],
    metadata: '{}',
    reverses,
    timeoutMs: 10_000,
    retry: request.retry,
    // The mirrored lines are not known yet: as large as a posting of 200 entries may be.
    bytes: 25_000,
  };
  return { ...order, fingerprint: fingerprint(order, '{}') };
}

function common(request: { idempotencyKey: string; description: string }, transactionId: string) {
  return {
    idempotencyKey: request.idempotencyKey === '' ? transactionId : checkedText('idempotency_key', request.idempotencyKey, { max: 255 }),
    description: checkedText('description', request.description, { max: 1000 }),
  };
}

/** Who asks, and in which request. Throws {@link Refusal} naming the field. */
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

// Characters that hide, turn others or show nothing that all would take for the same, as those do that are not assigned.
const unseen = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u;
// But these choose the form of the one before: of an emoji, as phones write it, or of a character in a Japanese name.
const chosenForms = /(?<=\p{Extended_Pictographic})\ufe0f|(?<=\p{Ideographic})[\u{e0100}-\u{e01ef}]/gu;

// Whoever reads the audit trail shall see what is there, and not another's name.
function checkedActor(actor: string): string {
  checkedText('actor', actor, { max: 255 });
  if (unseen.test(actor.replaceAll(chosenForms, '')) || actor.trim() === '')
    throw invalid('actor', 'unicode', actor, 'actor must be a name without characters that are invisible or not assigned');
  return actor;
}

function entryOf(entry: { accountCode: string; amount: string; side: string; currency: string }, path: string): Entry {
  checkedCode(`${path}account_code`, entry.accountCode);
  const field = `${path}amount`;
  if (entry.amount === '') throw invalid(field, 'required', '', `${field} is required`);
  const amount = toMinor(entry.amount);
  if (amount === null) throw invalid(field, 'decimal', entry.amount, `${field} must be a decimal with at most 13 and 2 digits`);
  if (amount === 0n) throw invalid(field, 'gt', entry.amount, `${field} must be greater than zero`);
  if (entry.side !== 'debit' && entry.side !== 'credit') {
    throw invalid(`${path}side`, entry.side === '' ? 'required' : 'oneof', entry.side, `${path}side must be debit or credit`);
  }
  checkedCurrency(`${path}currency`, entry.currency);
  return { code: entry.accountCode, amount, side: entry.side, currency: entry.currency, counter: false };
}

const version = Buffer.from([1]);
/** Of an order that is not read to its end. */
const unknown = Buffer.alloc(0);

// What makes two requests the same: absent and default are one, entries keep their order, metadata's keys do not.
function fingerprint(order: Omit<ValidatedPosting, 'fingerprint'>, metadata: string): Buffer {
  const canonical = JSON.stringify([
    order.kind,
    order.description,
    order.reference,
    order.entries.map((entry) => [entry.code, entry.amount.toString(), entry.side, entry.currency]),
    metadata,
    order.reverses?.id ?? null,
  ]);
  return Buffer.concat([version, sha256(canonical)]);
}

// The messages of each posting are literals: made by `create`, field by field, they cost twice the time and three times the memory.

/** The event of a posting that the rules allow, as the log stores it. */
export function postedEventOf(order: ValidatedPosting, { lines, changes }: Posted): TransactionPosted {
  const event: TransactionPosted = {
    $typeName: 'ledger.v1.TransactionPosted',
    transactionId: order.transactionId,
    kind: order.kind,
    idempotencyKey: order.idempotencyKey,
    fingerprint: order.fingerprint,
    description: order.description,
    metadata: order.metadata,
    entries: lines.map(entryMessage),
    balances: changes.map(balanceMessage),
  };
  if (order.reference !== null) event.reference = order.reference;
  if (order.reverses) event.reverses = order.reverses.id;
  return event;
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

function balanceMessage({ account, currency, before, after }: Change): ChangedBalance {
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

/** A posted transaction as its event tells it. `place` is the event's place and time in the log. */
export function transactionOf(
  event: TransactionPosted,
  place: { tenantId: string; sequence: bigint; createdMs: number; reversedBy?: string | undefined },
): Transaction {
  const { transactionId, kind, idempotencyKey, description, entries, metadata } = event;
  const transaction: Transaction = {
    $typeName: 'ledger.v1.Transaction',
    tenantId: place.tenantId,
    transactionId,
    kind,
    status: 'posted',
    idempotencyKey,
    description,
    entries,
    metadata,
    createdMs: BigInt(place.createdMs),
    sequence: place.sequence,
  };
  if (event.reference !== undefined) transaction.reference = event.reference;
  if (event.reverses !== undefined) transaction.reverses = event.reverses;
  if (place.reversedBy !== undefined) transaction.reversedBy = place.reversedBy;
  const currency = entries[0]?.currency;
  if (currency !== undefined && entries.every((entry) => entry.currency === currency)) {
    transaction.currency = currency;
    const debits = entries.filter((entry) => entry.side === 'debit');
    transaction.amount = toDecimal(debits.reduce((sum, entry) => sum + (toMinor(entry.amount) ?? 0n), 0n));
  }
  return transaction;
}

/** The event of a posting as the log stores it. */
export function decodePosted(payload: Uint8Array): TransactionPosted {
  return fromBinary(TransactionPostedSchema, payload);
}
