// Fast protobuf encoding of the messages of postings, byte for byte as `toBinary`.
//
// It writes from the last byte to the first, so that each length is known before it is written, into one reused buffer.
import { toBinary, type DescMessage, type Message } from '@bufbuild/protobuf';
import {
  EventSchema,
  HoldRecordSchema,
  OriginSchema,
  SealedDataSchema,
  UnreversedSchema,
  VelocityUsesSchema,
  type ChangedBalance,
  type Event,
  type PostedEntry,
  type SealedData,
  type TransactionPosted,
} from '../../proto/gen/ledger/v1/events_pb.js';
import {
  PostTransactionsResponseSchema,
  type PostingResult,
  type PostTransactionsResponse,
  type Refusal,
  type Transaction,
} from '../../proto/gen/ledger/v1/ledger_pb.js';
import { IngestRequestSchema, type IngestRequest } from '../../proto/gen/notifier/v1/notifier_pb.js';
import type { Encoder } from '../platform/fast-unary.ts';

/** Size of the reused buffer, bytes; nearly all messages are smaller. */
const bufferBytes = 256 * 1024;

let buffer = Buffer.allocUnsafe(bufferBytes);
/** Bytes written so far, at the buffer's end. */
let written = 0;

/** Encodes a posting's event for the log. Throws a RangeError for a negative or unsafe number. */
export function encodedPosted(event: TransactionPosted): Buffer {
  written = 0;
  posted(event);
  return copyOfWritten();
}

/** Encodes an event for publishing. */
export function encodedEvent(event: Event): Buffer {
  written = 0;
  published(event);
  return copyOfWritten();
}

/** Encodes events for the notifier. */
export function encodedIngest({ events, deriveUpdates }: IngestRequest): Buffer {
  written = 0;
  if (deriveUpdates) number(2, 1n);
  for (let index = events.length - 1; index >= 0; index--) {
    const before = written;
    published(events[index] as Event);
    lengthSince(before, 1);
  }
  return copyOfWritten();
}

/** Encodes the answer to a call of postings. */
export function encodedResponse({ results }: PostTransactionsResponse): Buffer {
  written = 0;
  for (let index = results.length - 1; index >= 0; index--) result(1, results[index] as PostingResult);
  return copyOfWritten();
}

/** Encoders of messages that are not encoded by `toBinary`. */
export const encoders: ReadonlyMap<DescMessage, Encoder> = new Map<DescMessage, Encoder>([
  [PostTransactionsResponseSchema, (message) => encodedResponse(message as PostTransactionsResponse)],
  [IngestRequestSchema, (message) => encodedIngest(message as IngestRequest)],
]);

// The library encodes the few other events, unknown fields of newer versions, and damaged rows: an error thrown here would block all tenants' events.
function published(event: Event): void {
  const before = written;
  if (isKnownPosting(event)) {
    try {
      publishedFast(event);
      return;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      written = before;
    }
  }
  raw(toBinary(EventSchema, event));
}

function publishedFast(event: Event): void {
  text(15, event.traceparent);
  data(event.data);
  number(10, event.part);
  bytes(9, event.previousHash);
  bytes(8, event.hash);
  text(7, event.requestId);
  text(6, event.actor);
  number(5, event.createdMs);
  text(4, event.type);
  number(3, event.sequence);
  text(2, event.tenantId);
  text(1, event.id);
}

function isKnownPosting({ $unknown, data: { case: kind, value } }: Event): boolean {
  const isKnown = (each: { $unknown?: unknown } | undefined) => each?.$unknown === undefined;
  if ($unknown !== undefined || !isKnown(value)) return false;
  if (kind === 'transactionPosted') return value.entries.every(isKnown) && value.balances.every(isKnown);
  return kind === 'balanceUpdated' && isKnown(value.balance);
}

function data({ case: kind, value }: Event['data']): void {
  const before = written;
  if (kind === 'transactionPosted') {
    posted(value);
    lengthSince(before, 11);
  } else if (kind === 'balanceUpdated') {
    optional(3, value.holdId);
    text(2, value.transactionId);
    if (value.balance) balance(1, value.balance);
    lengthSince(before, 12);
  }
}

function posted(event: TransactionPosted): void {
  texts(19, event.redacted);
  sealed(18, event.personal);
  if (event.requestedEffectiveMs !== undefined) time(17, event.requestedEffectiveMs);
  if (event.effectiveMs !== undefined) time(16, event.effectiveMs);
  message(15, UnreversedSchema, event.unreversed);
  message(13, VelocityUsesSchema, event.uses);
  message(12, HoldRecordSchema, event.hold);
  message(11, OriginSchema, event.origin);
  for (let index = event.balances.length - 1; index >= 0; index--) balance(10, event.balances[index] as ChangedBalance);
  optional(9, event.reverses);
  text(8, event.metadata);
  entries(7, event.entries);
  optional(6, event.reference);
  text(5, event.description);
  bytes(4, event.fingerprint);
  text(3, event.idempotencyKey);
  text(2, event.kind);
  text(1, event.transactionId);
}

function sealed(field: number, all: readonly SealedData[]): void {
  for (let index = all.length - 1; index >= 0; index--) message(field, SealedDataSchema, all[index]);
}

function texts(field: number, all: readonly string[]): void {
  for (let index = all.length - 1; index >= 0; index--) given(field, all[index] as string);
}

// Few messages have one.
function message(field: number, type: DescMessage, value: Message | undefined): void {
  if (!value) return;
  const before = written;
  raw(toBinary(type, value));
  lengthSince(before, field);
}

function result(field: number, { outcome, replayed }: PostingResult): void {
  const before = written;
  if (replayed) number(3, 1n);
  if (outcome.case === 'refusal') refusal(2, outcome.value);
  if (outcome.case === 'transaction') transaction(1, outcome.value);
  lengthSince(before, field);
}

function refusal(field: number, value: Refusal): void {
  const before = written;
  for (const [key, each] of Object.entries(value.details).reverse()) {
    const start = written;
    given(2, each);
    given(1, key);
    lengthSince(start, 6);
  }
  text(5, value.value);
  text(4, value.tag);
  text(3, value.field);
  text(2, value.message);
  text(1, value.reason);
  lengthSince(before, field);
}

function transaction(field: number, value: Transaction): void {
  const before = written;
  texts(21, value.redacted);
  sealed(20, value.personal);
  if (value.requestedEffectiveMs !== undefined) time(19, value.requestedEffectiveMs);
  if (value.effectiveMs !== undefined) time(18, value.effectiveMs);
  message(17, UnreversedSchema, value.unreversed);
  message(16, OriginSchema, value.origin);
  optional(15, value.reversedBy);
  optional(14, value.reverses);
  number(13, value.sequence);
  number(12, value.createdMs);
  text(11, value.metadata);
  entries(10, value.entries);
  optional(9, value.amount);
  optional(8, value.currency);
  optional(7, value.reference);
  text(6, value.description);
  text(5, value.idempotencyKey);
  text(4, value.status);
  text(3, value.kind);
  text(2, value.transactionId);
  text(1, value.tenantId);
  lengthSince(before, field);
}

function entries(field: number, all: PostedEntry[]): void {
  for (let index = all.length - 1; index >= 0; index--) {
    const entry = all[index] as PostedEntry;
    const before = written;
    text(7, entry.balanceAfter);
    if (entry.counter) number(6, 1n);
    text(5, entry.currency);
    text(4, entry.side);
    text(3, entry.amount);
    text(2, entry.accountCode);
    text(1, entry.accountId);
    lengthSince(before, field);
  }
}

function balance(field: number, changed: ChangedBalance): void {
  const before = written;
  number(11, changed.version);
  text(10, changed.available);
  text(9, changed.pendingCredits);
  text(8, changed.pendingDebits);
  text(7, changed.credits);
  text(6, changed.debits);
  text(5, changed.balance);
  text(4, changed.previousBalance);
  text(3, changed.currency);
  text(2, changed.accountCode);
  text(1, changed.accountId);
  lengthSince(before, field);
}

/** A text, unless it is empty. */
function text(field: number, value: string): void {
  if (value !== '') given(field, value);
}

function optional(field: number, value: string | undefined): void {
  if (value !== undefined) given(field, value);
}

function given(field: number, value: string): void {
  if (writeShortAscii(value)) {
    length(value.length, field);
    return;
  }
  const size = Buffer.byteLength(value);
  const at = reserve(size);
  buffer.write(value, at);
  length(size, field);
}

// Short ASCII text, as most is: a loop is quicker than a call of Node's encoder.
function writeShortAscii(value: string): boolean {
  const size = value.length;
  if (size >= 64) return false;
  const at = reserve(size);
  for (let index = 0; index < size; index++) {
    const code = value.charCodeAt(index);
    if (code > 127) {
      written -= size;
      return false;
    }
    buffer[at + index] = code;
  }
  return true;
}

function bytes(field: number, value: Uint8Array): void {
  if (value.length === 0) return;
  raw(value);
  length(value.length, field);
}

function raw(value: Uint8Array): void {
  const at = reserve(value.length);
  buffer.set(value, at);
}

/** A time that is set, also 0. */
function time(field: number, value: bigint): void {
  if (value < 0n || value > BigInt(Number.MAX_SAFE_INTEGER)) throw new RangeError(`${value} is no time`);
  varint(Number(value));
  varint(field * 8);
}

/** A count, a time or a flag, none of which is negative, unless it is 0. */
function number(field: number, value: bigint | number): void {
  const count = Number(value);
  if (count === 0) return;
  if (count < 0 || count > Number.MAX_SAFE_INTEGER) throw new RangeError(`${value} is no count`);
  varint(count);
  varint(field * 8);
}

function lengthSince(before: number, field: number): void {
  length(written - before, field);
}

function length(size: number, field: number): void {
  varint(size);
  varint(field * 8 + 2);
}

// https://protobuf.dev/programming-guides/encoding/#varints: seven bits per byte, lowest first, the high bit set on all but the last.
function varint(value: number): void {
  let size = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) size++;
  let at = reserve(size);
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) buffer[at++] = (rest % 128) + 128;
  buffer[at] = rest;
}

/** Reserves bytes in front of those written and returns their offset; may replace the buffer. */
function reserve(size: number): number {
  if (written + size > buffer.length) {
    const larger = Buffer.allocUnsafe(2 * buffer.length + size);
    buffer.copy(larger, larger.length - written, buffer.length - written);
    buffer = larger;
  }
  written += size;
  return buffer.length - written;
}

/** A copy of what was written. */
function copyOfWritten(): Buffer {
  const message = Buffer.from(buffer.subarray(buffer.length - written));
  if (buffer.length > bufferBytes) buffer = Buffer.allocUnsafe(bufferBytes);
  return message;
}
