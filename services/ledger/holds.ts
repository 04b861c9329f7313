// What is left of a hold, what a capture takes of it, and its record after each change. Pure; amounts are minor units.
import { fromBinary } from '@bufbuild/protobuf';
import {
  HoldCreatedSchema,
  HoldEndedSchema,
  type HoldEntry,
  type HoldRecord,
  type Origin,
  type VelocityUses,
} from '../../proto/gen/ledger/v1/events_pb.js';
import { toDecimal } from '../platform/money.ts';
import { Refusal, type Books, type Entry, type Side } from './accounting.ts';
import type { EventType } from './log.ts';
import { decodePosted, type ValidatedPosting } from './mapping.ts';
import { takePart } from './matching.ts';
import { givenBack, type CountedUse, type LimitRules, type Use } from './velocity.ts';

/** How a hold ends. */
export type HoldEnd = 'captured' | 'voided' | 'expired';

/** A hold as it is now. */
export interface CurrentHold {
  record: HoldRecord;
  /** How many events have changed it. */
  parts: number;
  /** Where velocity limits have counted it. */
  counted: CountedUse[];
}

/** The newest event of a hold, as the database has it. */
export interface HoldRow {
  tenant_id: string;
  /** UUID. */
  id: string;
  /** Position of its `hold.created`. */
  sequence: bigint;
  type: EventType;
  payload: Buffer;
  parts: number;
  /** Its `hold.created`, where that is not the newest and the hold is to be changed. */
  created?: Buffer | null;
}

/** A hold from its newest event, which carries it whole. */
export function currentHold({ id, sequence, type, payload, parts, created }: HoldRow): CurrentHold {
  const first = type === 'hold.created' ? payload : created;
  const made = first ? fromBinary(HoldCreatedSchema, first) : undefined;
  const record =
    type === 'hold.created'
      ? made?.hold
      : type === 'transaction.posted'
        ? decodePosted(payload).hold
        : fromBinary(HoldEndedSchema, payload).hold;
  if (!record) throw new Error(`the newest event of hold ${id} is without the hold`);
  // An event that was imported has the position in the log from which it came.
  record.sequence = sequence;
  return { record, parts, counted: countedOf(made?.uses) };
}

function countedOf(uses: VelocityUses | undefined): CountedUse[] {
  return (uses?.uses ?? []).map(({ limitId, subject, stepMs, positions }) => ({ limitId, subject, stepMs: Number(stepMs), positions }));
}

/** What velocity limits get back of a hold when its lines have changed; null: nothing. */
export function usesBack({ record, counted }: CurrentHold, after: HoldEntry[], rules: LimitRules | null | undefined): Use[] | null {
  if (!rules || counted.length === 0) return null;
  const released = after.map(({ captured, remaining }, index) => {
    const before = record.entries[index] as HoldEntry;
    return minorOf(before.captured) + minorOf(before.remaining) - minorOf(captured) - minorOf(remaining);
  });
  const back = givenBack(
    counted,
    released,
    after.map(({ captured }) => minorOf(captured)),
    rules,
  );
  return back.length === 0 ? null : back;
}

/** What remains of each line. */
export function remainingOf({ entries }: HoldRecord): Entry[] {
  return entries.map(({ accountCode, side, currency, remaining }) => ({
    code: accountCode,
    amount: minorOf(remaining),
    side: side as Side,
    currency,
    counter: false,
  }));
}

/** Whether it has expired at a time, milliseconds since the Unix epoch, though its event may not be written yet. */
export function isDue({ status, expiresMs }: HoldRecord, nowMs: number): boolean {
  return status === 'pending' && expiresMs !== undefined && nowMs >= Number(expiresMs);
}

/** Refuses to change a hold that has ended, or is due at `nowMs`. */
export function mustBePending(record: HoldRecord, nowMs: number): void {
  const status = isDue(record, nowMs) ? 'expired' : record.status;
  if (status === 'pending') return;
  const blame = { field: 'hold_id', tag: 'hold_ended', value: status };
  throw new Refusal('hold_ended', `hold ${record.holdId} has ended: it is ${status}`, blame);
}

/** What a capture does. */
export interface Captured {
  /** What moves. */
  entries: Entry[];
  /** What is pending no more: what moves, and if the capture is final the rest. */
  release: Entry[];
  /** The lines after it. */
  lines: HoldEntry[];
}

/** Takes what a capture asks for. Throws {@link Refusal}: what {@link takePart} throws. */
export function takeCapture(command: ValidatedPosting, record: HoldRecord): Captured {
  const { amount = null, final = true } = command.options ?? {};
  const before = remainingOf(record);
  const { entries, amounts } = takePart(before, { amount, entries: command.entries.length > 0 ? command.entries : null }, 'hold_exceeded');
  const lines = record.entries.map((line, index) => {
    const taken = amounts[index] as bigint;
    const left = final ? 0n : (before[index] as Entry).amount - taken;
    return { ...line, captured: toDecimal(minorOf(line.captured) + taken), remaining: toDecimal(left) };
  });
  const released = before.map((line, index) => ({ ...line, amount: final ? line.amount : (amounts[index] as bigint) }));
  return { entries, release: released.filter((line) => line.amount > 0n), lines };
}

/** When a new hold expires, milliseconds since the Unix epoch; null: never. Throws {@link Refusal} if that is not after `nowMs`. */
export function expiryOf({ options }: ValidatedPosting, nowMs: number): number | null {
  if (options?.expiresIn !== undefined) return nowMs + options.expiresIn * 1000;
  const expiresMs = options?.expiresAtMs;
  if (expiresMs === undefined) return null;
  if (expiresMs > nowMs) return expiresMs;
  const value = new Date(expiresMs).toISOString();
  const message = `expires_at must be after the present time, ${new Date(nowMs).toISOString()}`;
  throw new Refusal('validation_failed', message, { field: 'expires_at', tag: 'gt', value });
}

/** The record of a new hold, at its position in the log. */
export function newHold(
  command: ValidatedPosting,
  account: Books['account'],
  { sequence, createdMs, expiresMs, origin }: { sequence: bigint; createdMs: number; expiresMs: number | null; origin: Origin | null },
): HoldRecord {
  const record: HoldRecord = {
    $typeName: 'ledger.v1.HoldRecord',
    holdId: command.transactionId,
    status: 'pending',
    idempotencyKey: command.idempotencyKey,
    description: command.description,
    entries: command.entries.map(({ code, side, currency, amount }) => ({
      $typeName: 'ledger.v1.HoldEntry',
      accountId: account(code)?.id ?? '',
      accountCode: code,
      side,
      currency,
      amount: toDecimal(amount),
      captured: '0.00',
      remaining: toDecimal(amount),
    })),
    metadata: command.metadata,
    captures: 0,
    createdMs: BigInt(createdMs),
    sequence,
  };
  if (command.reference !== null) record.reference = command.reference;
  if (expiresMs !== null) record.expiresMs = BigInt(expiresMs);
  if (origin) record.origin = origin;
  return record;
}

/** The record after a capture at a time, milliseconds since the Unix epoch. */
export function afterCapture(record: HoldRecord, lines: HoldEntry[], atMs: number): HoldRecord {
  const captured = { ...record, entries: lines, captures: record.captures + 1 };
  return lines.every(({ remaining }) => minorOf(remaining) === 0n) ? { ...captured, status: 'captured', endedMs: BigInt(atMs) } : captured;
}

/** The record after its end. */
export function afterEnd(record: HoldRecord, status: HoldEnd, atMs: number): HoldRecord {
  const entries = record.entries.map((line) => ({ ...line, remaining: '0.00' }));
  return { ...record, entries, status, endedMs: BigInt(atMs) };
}

/** Minor units of an amount as events have it. */
export function minorOf(amount: string): bigint {
  return BigInt(amount.replace('.', ''));
}
