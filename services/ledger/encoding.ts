// The messages of each posting in protobuf's binary form. Written field by field from the last byte to the first, so that each length is known when
// its turn comes, into a buffer that is kept: the library begins each message with a buffer of 128 bytes and doubles it until it fits. The README's
// decisions tell what that costs an event.
import { toBinary, type DescMessage } from '@bufbuild/protobuf';
import {
  AccountCreatedSchema,
  AccountUpdatedSchema,
  EventSchema,
  type ChangedBalance,
  type Event,
  type PostedEntry,
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

/** So much is kept from message to message, bytes: nearly all are smaller. */
const kept = 256 * 1024;

let buffer = Buffer.allocUnsafe(kept);
/** Bytes that are written, at the buffer's end. */
let written = 0;

/** What the log keeps of a posting, as `toBinary` has it. Throws a RangeError where a number is no count. */
export function encodedPosted(event: TransactionPosted): Buffer {
  written = 0;
  posted(event);
  return taken();
}

/** An event as it is published, as `toBinary` has it. */
export function encodedEvent(event: Event): Buffer {
  written = 0;
  published(event);
  return taken();
}

/** Events for the notifier, as `toBinary` has them. */
export function encodedIngest({ events, deriveUpdates }: IngestRequest): Buffer {
  written = 0;
  if (deriveUpdates) number(2, 1n);
  for (let place = events.length - 1; place >= 0; place--) {
    const before = written;
    published(events[place] as Event);
    lengthSince(before, 1);
  }
  return taken();
}

/** The answer to postings, as `toBinary` has it. */
export function encodedResponse({ results }: PostTransactionsResponse): Buffer {
  written = 0;
  for (let place = results.length - 1; place >= 0; place--) result(1, results[place] as PostingResult);
  return taken();
}

/** How requests and answers are encoded that are not by `toBinary`. */
export const encoders: ReadonlyMap<DescMessage, Encoder> = new Map<DescMessage, Encoder>([
  [PostTransactionsResponseSchema, (message) => encodedResponse(message as PostTransactionsResponse)],
  [IngestRequestSchema, (message) => encodedIngest(message as IngestRequest)],
]);

// What a newer version has put into the log travels with it; and a damaged row, be it with a number that is no count, is told as it stands: thrown
// from here, it would keep back the events of all tenants.
function published(event: Event): void {
  const before = written;
  if (isKnownWhole(event)) {
    try {
      publishedByHand(event);
      return;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      written = before;
    }
  }
  raw(toBinary(EventSchema, event));
}

function publishedByHand(event: Event): void {
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

function isKnownWhole({ $unknown, data: { case: kind, value } }: Event): boolean {
  const isKnown = (each: { $unknown?: unknown } | undefined) => each?.$unknown === undefined;
  if ($unknown !== undefined || !isKnown(value)) return false;
  if (kind === 'transactionPosted') return value.entries.every(isKnown) && value.balances.every(isKnown);
  return kind !== 'balanceUpdated' || isKnown(value.balance);
}

function data({ case: kind, value }: Event['data']): void {
  const before = written;
  switch (kind) {
    case 'transactionPosted':
      posted(value);
      lengthSince(before, 11);
      break;
    case 'balanceUpdated':
      text(2, value.transactionId);
      if (value.balance) balance(1, value.balance);
      lengthSince(before, 12);
      break;
    // Those of accounts are few.
    case 'accountCreated':
      raw(toBinary(AccountCreatedSchema, value));
      lengthSince(before, 13);
      break;
    case 'accountUpdated':
      raw(toBinary(AccountUpdatedSchema, value));
      lengthSince(before, 14);
      break;
    default:
  }
}

function posted(event: TransactionPosted): void {
  for (let place = event.balances.length - 1; place >= 0; place--) balance(10, event.balances[place] as ChangedBalance);
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

function result(field: number, { outcome, replayed }: PostingResult): void {
  const before = written;
  if (replayed) number(3, 1n);
  if (outcome.case === 'refusal') refusal(2, outcome.value);
  if (outcome.case === 'transaction') transaction(1, outcome.value);
  lengthSince(before, field);
}

function refusal(field: number, told: Refusal): void {
  const before = written;
  text(5, told.value);
  text(4, told.tag);
  text(3, told.field);
  text(2, told.message);
  text(1, told.reason);
  lengthSince(before, field);
}

function transaction(field: number, told: Transaction): void {
  const before = written;
  optional(15, told.reversedBy);
  optional(14, told.reverses);
  number(13, told.sequence);
  number(12, told.createdMs);
  text(11, told.metadata);
  entries(10, told.entries);
  optional(9, told.amount);
  optional(8, told.currency);
  optional(7, told.reference);
  text(6, told.description);
  text(5, told.idempotencyKey);
  text(4, told.status);
  text(3, told.kind);
  text(2, told.transactionId);
  text(1, told.tenantId);
  lengthSince(before, field);
}

function entries(field: number, all: PostedEntry[]): void {
  for (let place = all.length - 1; place >= 0; place--) {
    const entry = all[place] as PostedEntry;
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

/** A text, where it is not empty. */
function text(field: number, value: string): void {
  if (value !== '') given(field, value);
}

function optional(field: number, value: string | undefined): void {
  if (value !== undefined) given(field, value);
}

function given(field: number, value: string): void {
  if (isWrittenPlainly(value)) {
    length(value.length, field);
    return;
  }
  const size = Buffer.byteLength(value);
  const at = placeFor(size);
  buffer.write(value, at);
  length(size, field);
}

// What is short and of ASCII, as most texts are, is written sooner than Node is called.
function isWrittenPlainly(value: string): boolean {
  const size = value.length;
  if (size >= 64) return false;
  const at = placeFor(size);
  for (let place = 0; place < size; place++) {
    const code = value.charCodeAt(place);
    if (code > 127) {
      written -= size;
      return false;
    }
    buffer[at + place] = code;
  }
  return true;
}

function bytes(field: number, value: Uint8Array): void {
  if (value.length === 0) return;
  raw(value);
  length(value.length, field);
}

function raw(value: Uint8Array): void {
  const at = placeFor(value.length);
  buffer.set(value, at);
}

/** A count, a time or a flag, none of which is below 0, where it is not 0. */
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

// https://protobuf.dev/programming-guides/encoding/#varints: seven bits a byte, the lowest first, and a mark on all but the last.
function varint(value: number): void {
  let size = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) size++;
  let at = placeFor(size);
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) buffer[at++] = (rest % 128) + 128;
  buffer[at] = rest;
}

/** Where so many more bytes begin, in front of those that are written; the buffer may be another one then. */
function placeFor(size: number): number {
  if (written + size > buffer.length) {
    const larger = Buffer.allocUnsafe(2 * buffer.length + size);
    buffer.copy(larger, larger.length - written, buffer.length - written);
    buffer = larger;
  }
  written += size;
  return buffer.length - written;
}

/** What is written, in bytes of its own. */
function taken(): Buffer {
  const message = Buffer.from(buffer.subarray(buffer.length - written));
  if (buffer.length > kept) buffer = Buffer.allocUnsafe(kept);
  return message;
}
