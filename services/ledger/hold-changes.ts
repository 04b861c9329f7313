// What commands on holds change: their events, balances, and the rows of holds.
import { create, toBinary } from '@bufbuild/protobuf';
import { HoldCreatedSchema, HoldEndedSchema, OriginSchema, type HoldRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { toUuid } from '../platform/ids.ts';
import type { TenantState } from './account-cache.ts';
import { nothing, type Books } from './accounting.ts';
import { setEffective, type Changes } from './changes.ts';
import { nextPosition } from './chart.ts';
import { assertNotSpentEarly } from './effective-time.ts';
import { encodedPosted } from './encoding.ts';
import {
  afterCapture,
  afterEnd,
  expiryOf,
  minorOf,
  newHold,
  remainingOf,
  takeCapture,
  usesBack,
  type CurrentHold,
  type HoldEnd,
} from './holds.ts';
import { balanceMessage, postedEventOf, transactionOf, usesMessage, type ValidatedPosting } from './mapping.ts';
import { post } from './posting-rules.ts';

/** Makes a hold at `nowMs`, as {@link Changes.post}. Throws a {@link Refusal}: nothing has changed then. */
export function makeHold(changes: Changes, state: TenantState, command: ValidatedPosting, nowMs: number): CurrentHold {
  const { sequence, createdMs } = nextPosition(state.head, nowMs);
  const expiresMs = expiryOf(command, createdMs);
  const result = post({ ...command, entries: [], reserve: command.entries }, booksOf(state, nowMs));
  const override = command.overrideReason === null ? null : { reason: command.overrideReason, broken: result.broken };
  const origin = override && create(OriginSchema, { override });
  const hold = newHold(command, (code) => state.accounts.get(code)?.account, { sequence, createdMs, expiresMs, origin });
  const event = create(HoldCreatedSchema, { hold, fingerprint: command.fingerprint, balances: result.changes.map(balanceMessage) });
  if (result.uses) event.uses = usesMessage(result.uses, true);
  const payload = toBinary(HoldCreatedSchema, event);
  changes.append(state, { ...contextOf(command), type: 'hold.created', payload }, result, nowMs);
  const { tenant, transaction: id, idempotencyKey, fingerprint, reference } = command;
  const lines = hold.entries.map((line) => ({ ...lineOf(line), from: minorOf(line.amount) }));
  const made = { id, idempotencyKey, fingerprint, reference, expiresAtMs: expiresMs, createdMs };
  changes.set(changes.holds, `${tenant} ${id}`, { tenant, sequence, made, status: 'pending', lines });
  // Also if it is undone: then it is looked for in vain.
  if (state.nextDueMs !== undefined && expiresMs !== null) state.nextDueMs = Math.min(state.nextDueMs, expiresMs);
  const counted = (result.uses ?? []).map(({ limit, subject, stepMs, positions }) => ({ limitId: limit.id, subject, stepMs, positions }));
  return { record: hold, parts: 0, counted };
}

/** Captures a hold that is pending. */
export function captureHold(
  changes: Changes,
  state: TenantState,
  command: ValidatedPosting,
  hold: CurrentHold,
  nowMs: number,
): { transaction: Transaction; hold: CurrentHold } {
  const { entries, release, lines } = takeCapture(command, hold.record);
  const uses = usesBack(hold, lines, state.rules);
  const effective = changes.effectiveTime(state, command, null, nowMs);
  const result = { ...post({ ...command, entries, release }, booksOf(state, nowMs)), uses };
  const { createdMs } = nextPosition(state.head, nowMs);
  if (effective) assertNotSpentEarly({ ...command, entries }, result.changes, effective.atMs, createdMs);
  const record = afterCapture(hold.record, lines, createdMs);
  const event = postedEventOf(command, result);
  if (effective) setEffective(event, effective);
  event.hold = record;
  event.origin ??= create(OriginSchema);
  event.origin.holdId = record.holdId;
  const row = changes.append(state, { ...contextOf(command), type: 'transaction.posted', payload: encodedPosted(event) }, result, nowMs);
  changes.posted.push({ posting: command, row: changes.log.length - 1, result, reverses: null });
  changes.date(state, command, result, row, effective);
  const transaction = transactionOf(event, { tenantId: command.tenantId, sequence: row.sequence, createdMs: row.createdMs });
  return { transaction, hold: changed(changes, command, hold, record, row.sequence) };
}

/** Voids or expires a hold that is pending. */
export function endHold(
  changes: Changes,
  state: TenantState,
  command: Pick<ValidatedPosting, 'tenant' | 'target' | 'actor' | 'requestId' | 'traceparent' | 'description'>,
  hold: CurrentHold,
  end: Exclude<HoldEnd, 'captured'>,
  nowMs: number,
): CurrentHold {
  const kind = end === 'voided' ? 'void' : 'expire';
  const release = remainingOf(hold.record).filter(({ amount }) => amount > 0n);
  const record = afterEnd(hold.record, end, nextPosition(state.head, nowMs).createdMs);
  const uses = usesBack(hold, record.entries, state.rules);
  const result = { ...post({ kind, entries: [], release }, booksOf(state, nowMs)), uses };
  const { description } = command;
  const event = create(HoldEndedSchema, { hold: record, balances: result.changes.map(balanceMessage), description });
  if (uses) event.uses = usesMessage(uses);
  const payload = toBinary(HoldEndedSchema, event);
  const row = changes.append(state, { ...contextOf(command), type: `hold.${end}`, payload }, result, nowMs);
  return changed(changes, command, hold, record, row.sequence);
}

function booksOf({ head, accounts, rules }: TenantState, nowMs: number): Books {
  return {
    account: (code) => accounts.get(code)?.account,
    balance: (account, currency) => accounts.get(account.code)?.balances.get(currency) ?? nothing,
    suspense: () => {
      throw new Error('a hold has no single entry');
    },
    velocity: rules ? { rules, atMs: nextPosition(head, nowMs).createdMs } : null,
  };
}

function contextOf({ actor, requestId, traceparent }: Pick<ValidatedPosting, 'actor' | 'requestId' | 'traceparent'>) {
  return { actor, requestId, traceparent };
}

/** Writes that an event at `sequence` has changed a hold; returns it as it is then. */
function changed(
  changes: Changes,
  { tenant, target }: Pick<ValidatedPosting, 'tenant' | 'target'>,
  before: CurrentHold,
  record: HoldRecord,
  sequence: bigint,
): CurrentHold {
  const of = target?.uuid ?? '';
  const number = before.parts + 1;
  changes.parts.push({ tenant, of, number, sequence });
  const key = `${tenant} ${of}`;
  const earlier = changes.holds.get(key);
  const lines = record.entries.map((line, index) => {
    // What remained before the batch.
    const from = earlier?.lines[index]?.from ?? minorOf(before.record.entries[index]?.remaining ?? '');
    return { ...lineOf(line), from };
  });
  const status = record.status as HoldEnd | 'pending';
  changes.set(changes.holds, key, { tenant, sequence: record.sequence, made: earlier?.made ?? null, status, lines });
  return { record, parts: number, counted: before.counted };
}

function lineOf({ accountId, currency, side, amount, captured, remaining }: HoldRecord['entries'][number]) {
  const account = toUuid('acc', accountId) as string;
  return { account, currency, side, amount: minorOf(amount), captured: minorOf(captured), remaining: minorOf(remaining) };
}
