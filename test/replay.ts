// Correct logs, event by event, for tests of the replay.
import { create, toBinary, type MessageInitShape } from '@bufbuild/protobuf';
import {
  HoldCreatedSchema,
  HoldEndedSchema,
  HoldRecordSchema,
  TransactionPostedSchema,
  type AccountRecord,
  type ChangedBalanceSchema,
  type HoldRecord,
  type TransactionPosted,
} from '../proto/gen/ledger/v1/events_pb.js';
import { createdEvent, newAccount } from '../services/ledger/chart.ts';
import { Replay, type ReplayedEvent } from '../services/ledger/audit/replay.ts';
import { append, genesisHash, type Head, type LogRow, type NewEvent } from '../services/ledger/log.ts';
import type { BusinessType } from '../services/ledger/templates.ts';
import { newId } from '../services/platform/ids.ts';
import { newTenant } from './ledger.ts';

/** Actor of all events. */
export const by = { actor: 'test', requestId: 'r' };
/** Tenant of all logs, a UUID. */
export const { tenant } = newTenant();
/** Time of all events. */
export const nowMs = 1_700_000_000_000;

/** A new account: an asset that may be negative, with changes. */
export function account(code: string, more: Partial<AccountRecord> = {}): AccountRecord {
  const line = { code, name: code, type: 'asset' as const, normalBalance: 'debit' as const, currency: null, parentCode: null };
  const made = newAccount({ ...line, isGroup: false, allowNegative: true, system: false }, { sequence: 1n, createdMs: nowMs });
  return Object.assign(made, { id: newId('acc') }, more);
}

/** An asset. */
export const a = account('a');
/** A liability that may not go below zero. */
export const b = account('b', { type: 'liability', normalBalance: 'credit', allowNegative: false });
/** The accounts that each log begins with. */
export const accounts = [
  a,
  b,
  account('closed', { status: 'closed' }),
  account('group', { isGroup: true }),
  account('pounds', { currency: 'GBP' }),
];
/** Balances single entries in NGN; not among `accounts`. */
export const suspense = account('SUSPENSE-NGN', { type: 'liability', normalBalance: 'credit', currency: 'NGN', system: true });
export const byCode = new Map([...accounts, suspense].map((each) => [each.accountCode, each]));

/** A posting from its lines (`a debit 1.00 NGN 1.00`, the last is the balance after) and balances. */
export function posting(
  lines: string[],
  balances: string[],
  more: MessageInitShape<typeof TransactionPostedSchema> = {},
): TransactionPosted {
  const transactionId = newId('txn');
  return create(TransactionPostedSchema, {
    ...{ transactionId, idempotencyKey: transactionId, kind: 'double', fingerprint: new Uint8Array(33), metadata: '{}' },
    entries: lines.map((line) => {
      const [accountCode = '', side = '', amount = '', currency = '', balanceAfter = ''] = line.split(' ');
      return { accountId: byCode.get(accountCode)?.id ?? newId('acc'), accountCode, side, amount, currency, balanceAfter };
    }),
    balances: balances.map(changedBalance),
    ...more,
  });
}

// `a NGN 1.00 2.00 2.00 0.00 2`: before, after, debits, credits, version; then what is pending on each side and available, if there is something.
function changedBalance(line: string): MessageInitShape<typeof ChangedBalanceSchema> {
  const [accountCode = '', currency = '', previousBalance = '', balance = '', debits = '', credits = '', version = '', ...pending] =
    line.split(' ');
  const [pendingDebits = '0.00', pendingCredits = '0.00', available = balance] = pending;
  const accountId = byCode.get(accountCode)?.id ?? '';
  const totals = { debits, credits, pendingDebits, pendingCredits, available, version: BigInt(version) };
  return { accountId, accountCode, currency, previousBalance, balance, ...totals };
}

/** A new hold from its lines (`a debit 1.00 NGN`) at a position in the log. */
export function hold(lines: string[], sequence: bigint, more: MessageInitShape<typeof HoldRecordSchema> = {}): HoldRecord {
  const holdId = newId('hold');
  return create(HoldRecordSchema, {
    ...{ holdId, status: 'pending', idempotencyKey: holdId, metadata: '{}', createdMs: BigInt(nowMs), sequence },
    entries: lines.map((line) => {
      const [accountCode = '', side = '', amount = '', currency = ''] = line.split(' ');
      const accountId = byCode.get(accountCode)?.id ?? '';
      return { accountId, accountCode, side, currency, amount, captured: '0.00', remaining: amount };
    }),
    ...more,
  });
}

/** A hold after a change of what was captured and what remains of each entry (`5.00 0.00`). */
export function changedHold(before: HoldRecord, lines: string[], more: Partial<HoldRecord>): HoldRecord {
  const entries = before.entries.map((entry, index) => {
    const [captured = '', remaining = ''] = lines[index]!.split(' ');
    return { ...entry, captured, remaining };
  });
  return { ...before, entries, ...more };
}

/** A hold's `hold.created`. */
export function heldEvent(record: HoldRecord, balances: string[], more: MessageInitShape<typeof HoldCreatedSchema> = {}): NewEvent {
  const message = create(HoldCreatedSchema, { fingerprint: new Uint8Array(33), balances: balances.map(changedBalance), ...more });
  message.hold = record;
  return { type: 'hold.created', ...by, payload: toBinary(HoldCreatedSchema, message) };
}

/** A hold's `hold.voided` or `hold.expired`. */
export function endedEvent(record: HoldRecord, balances: string[], more: MessageInitShape<typeof HoldEndedSchema> = {}): NewEvent {
  const message = create(HoldEndedSchema, { balances: balances.map(changedBalance), ...more });
  message.hold = record;
  return { type: record.status === 'expired' ? 'hold.expired' : 'hold.voided', ...by, payload: toBinary(HoldEndedSchema, message) };
}

/** A capture's posting. */
export function capture(record: HoldRecord, lines: string[], balances: string[]): TransactionPosted {
  const message = posting(lines, balances, { kind: 'capture', origin: { holdId: record.holdId } });
  message.hold = record;
  return message;
}

/** 5.00 from b to a, the first posting of a log. */
export const first = (): TransactionPosted =>
  posting(['a debit 5.00 NGN 5.00', 'b credit 5.00 NGN 5.00'], ['a NGN 0.00 5.00 5.00 0.00 1', 'b NGN 0.00 5.00 0.00 5.00 1']);
/** 2.00 back, the one after it. */
export const second = (): TransactionPosted =>
  posting(
    ['b debit 2.00 NGN 3.00', 'a credit 1.50 NGN 3.50', 'a credit 0.50 NGN 3.00'],
    ['b NGN 5.00 3.00 2.00 5.00 2', 'a NGN 5.00 3.00 5.00 2.00 2'],
  );

/** A posting as an event. */
export const event = (message: TransactionPosted): NewEvent => ({
  ...{ type: 'transaction.posted', ...by },
  payload: toBinary(TransactionPostedSchema, message),
});

/** A chained log of the accounts and then these events, at the time of all others or their own, and its replay. */
export function replayed(
  events: (NewEvent & { atMs?: number })[],
  tamper: (rows: LogRow[]) => void = () => undefined,
  template: BusinessType | null = null,
): { rows: LogRow[]; findings: string[]; replay: Replay; added: ReplayedEvent[] } {
  const head: Head = { tenant, sequence: 0n, hash: genesisHash, lastMs: 0, chart: null, rebuilt: 0n, frozen: false };
  const made = accounts.map((each) => createdEvent(each, template, by));
  const rows = [...made, ...events].map((each: NewEvent & { atMs?: number }) => append(head, each, each.atMs ?? nowMs));
  tamper(rows);
  const findings: string[] = [];
  const replay = new Replay(tenant, (problem) => findings.push(problem));
  const added: ReplayedEvent[] = rows.map((row) => replay.apply(row));
  return { rows, findings, replay, added };
}
/** The findings of such a log. */
export const findings = (...log: Parameters<typeof replayed>): string[] => replayed(...log).findings;
