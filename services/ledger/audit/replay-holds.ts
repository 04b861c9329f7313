// Holds of a replay: how each event changes them, in code of its own.
import { fromBinary, toJson, type JsonValue } from '@bufbuild/protobuf';
import {
  HoldCreatedSchema,
  HoldEndedSchema,
  HoldRecordSchema,
  type HoldRecord,
  type TransactionPosted,
} from '../../../proto/gen/ledger/v1/events_pb.js';
import { toUuid } from '../../platform/ids.ts';
import { toDecimal } from '../../platform/money.ts';
import type { LogRow } from '../log.ts';
import type { ReplayedAccounts } from './replay-accounts.ts';
import { BalanceChanges, type ReplayedBalances } from './replay-balances.ts';
import type { Counted, ReplayedLimits } from './replay-definitions.ts';
import { blockProblem } from './replay-limits.ts';
import { bytea, minorUnits, time, type AddedRows, type Report, type Row } from './rows.ts';

/** A hold that has not ended. */
interface PendingHold {
  uuid: string;
  record: HoldRecord;
  fingerprint: Uint8Array;
  /** Events that have changed it. */
  parts: number;
  /** Where velocity limits have counted it. */
  counted: Counted[];
}

/** What the holds of a tenant are part of. */
export interface HoldBooks {
  tenant: string;
  accounts: ReplayedAccounts;
  balances: ReplayedBalances;
  limits: ReplayedLimits;
}

/** Holds of one tenant, event by event. Keeps those in memory that are pending. */
export class ReplayedHolds {
  /** What to add to the positions that an event names: they are those of the log from which it came. */
  shift = 0n;
  private readonly books: HoldBooks;
  /** By TypeID. */
  private readonly pending = new Map<string, PendingHold>();

  constructor(books: HoldBooks) {
    this.books = books;
  }

  /** Takes a `hold.created`. */
  create(row: LogRow, problem: Report): void {
    const { hold: record, fingerprint, balances, uses } = fromBinary(HoldCreatedSchema, row.payload);
    const uuid = record ? toUuid('hold', record.holdId) : null;
    if (!record || uuid === null) throw new Error('no hold');
    record.sequence += this.shift;
    if (this.pending.has(record.holdId)) problem(`makes ${record.holdId} again`);
    const entries = record.entries.map((entry) => ({ ...entry, captured: '0.00', remaining: entry.amount }));
    const { endedMs: _endedMs, ...fields } = record;
    const made = { ...fields, status: 'pending', captures: 0, createdMs: BigInt(row.createdMs), sequence: row.sequence, entries };
    compareRecords(made, record, problem);
    if (isDue(record, row)) problem(`makes ${record.holdId}, which is due`);
    const isOverridden = record.origin?.override !== undefined;
    const changes = new BalanceChanges(this.books.balances, problem);
    const sums = new Map<string, bigint>();
    for (const entry of record.entries) {
      const { currency, side } = entry;
      const account = this.books.accounts.of(entry, problem);
      if (!isOverridden) blockProblem(account.record, entry, problem);
      const amount = minorUnits(entry.amount);
      if (amount <= 0n) problem('has an entry that is not greater than zero');
      changes.pend({ account, currency, side }, amount);
      sums.set(currency, (sums.get(currency) ?? 0n) + (side === 'debit' ? amount : -amount));
    }
    for (const [currency, sum] of sums) if (sum !== 0n) problem(`does not balance in ${currency}`);
    changes.end(row.createdMs, balances, isOverridden);
    const counted = this.books.limits.count(record.entries, uses, { row, isOverridden, problem });
    this.pending.set(record.holdId, { uuid, record, fingerprint, parts: 0, counted });
  }

  /** Takes what a capture changes of its hold, after its entries. */
  capture(row: LogRow, event: TransactionPosted, changes: BalanceChanges, added: AddedRows, problem: Report): void {
    const { hold: after, origin, entries } = event;
    if (event.kind !== 'capture' || !after) {
      if (after || origin?.holdId !== undefined || event.kind === 'capture')
        problem(`is ${event.kind} and has ${after?.holdId ?? 'no hold'}`);
      return;
    }
    if (origin?.holdId !== after.holdId) problem(`captures ${after.holdId} and says ${origin?.holdId ?? 'nothing'}`);
    const hold = this.pending.get(after.holdId);
    if (!hold) return problem(`captures ${after.holdId}, which is not pending`);
    after.sequence += this.shift;
    const { record: before } = hold;
    if (isDue(before, row)) problem(`captures ${after.holdId}, which is due`);
    const taken = takenBy(entries, before, problem);
    const rest = before.entries.map((entry, index) => minorUnits(entry.remaining) - (taken[index] as bigint));
    const isOver = after.status === 'captured' || rest.every((amount) => amount === 0n);
    const expected = before.entries.map((entry, index) => ({
      ...entry,
      captured: toDecimal(minorUnits(entry.captured) + (taken[index] as bigint)),
      remaining: toDecimal(isOver ? 0n : (rest[index] as bigint)),
    }));
    const capturedHold = { ...before, captures: before.captures + 1, entries: expected };
    const ended = { ...capturedHold, status: 'captured', endedMs: BigInt(row.createdMs) };
    compareRecords(isOver ? ended : capturedHold, after, problem);
    const captures = expected.map(({ captured }) => minorUnits(captured));
    this.books.limits.giveBack(hold.counted, isOver ? rest : [], captures, event.uses, { row, isOverridden: true, problem });
    this.change(hold, after, row, changes, added);
  }

  /** Takes a `hold.voided` or `hold.expired`. */
  end(row: LogRow, added: AddedRows, problem: Report): void {
    const { hold: after, balances, description, uses } = fromBinary(HoldEndedSchema, row.payload);
    const hold = after && this.pending.get(after.holdId);
    if (!hold) return problem(`ends ${after?.holdId ?? 'no hold'}, which is not pending`);
    after.sequence += this.shift;
    const { record: before } = hold;
    const status = row.type.slice('hold.'.length);
    if (isDue(before, row) !== (status === 'expired'))
      problem(`is ${row.type} of ${before.holdId}, which is ${status === 'expired' ? 'not ' : ''}due`);
    if (status === 'expired' && description !== '') problem('has a description, which only a void has');
    const entries = before.entries.map((entry) => ({ ...entry, remaining: '0.00' }));
    compareRecords({ ...before, status, entries, endedMs: BigInt(row.createdMs) }, after, problem);
    const rest = before.entries.map((entry) => minorUnits(entry.remaining));
    const captured = before.entries.map((entry) => minorUnits(entry.captured));
    this.books.limits.giveBack(hold.counted, rest, captured, uses, { row, isOverridden: true, problem });
    const changes = new BalanceChanges(this.books.balances, problem);
    this.change(hold, after, row, changes, added);
    changes.end(row.createdMs, balances, false);
  }

  /** Pending holds and their entries, as they are after the last event. */
  rows(): Pick<AddedRows, 'holds' | 'hold_entries'> {
    const all = [...this.pending.values()];
    return { holds: all.map((hold) => this.row(hold)), hold_entries: all.flatMap((hold) => this.entryRows(hold)) };
  }

  // The replay goes on with what the event says.
  private change(hold: PendingHold, after: HoldRecord, row: LogRow, changes: BalanceChanges, added: AddedRows): void {
    hold.record.entries.forEach((entry, index) => {
      const account = this.books.accounts.of(entry, () => undefined);
      const remaining = minorUnits(after.entries[index]?.remaining ?? '0.00');
      changes.pend({ account, currency: entry.currency, side: entry.side }, remaining - minorUnits(entry.remaining));
    });
    hold.record = after;
    hold.parts += 1;
    added.parts.push({ tenant_id: this.books.tenant, of: hold.uuid, number: hold.parts, sequence: row.sequence.toString() });
    if (after.status === 'pending') return;
    this.pending.delete(after.holdId);
    added.holds.push(this.row(hold));
    added.hold_entries.push(...this.entryRows(hold));
  }

  private row({ uuid, record, fingerprint }: PendingHold): Row {
    return {
      tenant_id: this.books.tenant,
      sequence: record.sequence.toString(),
      id: uuid,
      idempotency_key: record.idempotencyKey,
      fingerprint: bytea(fingerprint),
      reference: record.reference ?? null,
      status: record.status,
      expires_at: record.expiresMs === undefined ? null : time(Number(record.expiresMs)),
      created_at: time(Number(record.createdMs)),
    };
  }

  private entryRows({ record }: PendingHold): Row[] {
    return record.entries.map((entry, position) => ({
      tenant_id: this.books.tenant,
      hold_sequence: record.sequence.toString(),
      position,
      account_id: this.books.accounts.of(entry, () => undefined).uuid,
      currency: entry.currency,
      side: entry.side,
      amount: minorUnits(entry.amount).toString(),
      captured: minorUnits(entry.captured).toString(),
      remaining: minorUnits(entry.remaining).toString(),
    }));
  }
}

function isDue({ expiresMs }: HoldRecord, { createdMs }: LogRow): boolean {
  return expiresMs !== undefined && createdMs >= Number(expiresMs);
}

// What a capture takes from each entry of its hold. Entries that are alike are filled in their order.
function takenBy(captured: TransactionPosted['entries'], { holdId, entries }: HoldRecord, problem: Report): bigint[] {
  const left = entries.map((entry) => minorUnits(entry.remaining));
  for (const { accountId, side, currency, amount, accountCode } of captured) {
    let open = minorUnits(amount);
    entries.forEach((entry, index) => {
      if (entry.accountId !== accountId || entry.side !== side || entry.currency !== currency) return;
      const there = left[index] as bigint;
      const taken = there < open ? there : open;
      left[index] = there - taken;
      open -= taken;
    });
    if (open !== 0n) problem(`captures ${toDecimal(open)} ${currency} of ${accountCode} more than is left of ${holdId}`);
  }
  return entries.map((entry, index) => minorUnits(entry.remaining) - (left[index] as bigint));
}

// All fields, so that none can be forgotten.
function compareRecords(expected: HoldRecord, actual: HoldRecord, problem: Report): void {
  const [should, is] = [expected, actual].map((record) => new Map(leaves(toJson(HoldRecordSchema, record)))) as [Leaves, Leaves];
  for (const path of new Set([...should.keys(), ...is.keys()])) {
    const [wanted, found] = [should.get(path) ?? 'absent', is.get(path) ?? 'absent'];
    if (wanted !== found) problem(`says that ${path} of ${actual.holdId} is ${found}, not ${wanted}`);
  }
}

type Leaves = Map<string, string>;

function leaves(value: JsonValue, path = ''): [path: string, value: string][] {
  if (typeof value !== 'object' || value === null) return [[path, String(value)]];
  return Object.entries(value).flatMap(([key, each]) => leaves(each, path === '' ? key : `${path}.${key}`));
}
