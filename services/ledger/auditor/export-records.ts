// How exports write their records: as lines of NDJSON, which are those of REST, and as rows of CSV.
import type { AccountRecord } from '../../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../../proto/gen/ledger/v1/ledger_pb.js';
import { sha256 } from '../../platform/digest.ts';
import { toId } from '../../platform/ids.ts';
import { accountJson, timeOf, transactionJson } from '../../platform/ledger-records.ts';
import { toDecimal } from '../../platform/money.ts';
import { headerOf } from '../log.ts';
import type { Cell, ColumnType } from '../reports/formats/table.ts';
import type { ExportedBalance, ExportedEvent } from './export-reads.ts';

/** How one kind of record is written. */
export interface RecordForm<Item> {
  /** `type` of a line among those of other kinds. */
  type: string;
  /** The record as JSON, in one line. */
  json: (item: Item) => string;
  columns: readonly (readonly [name: string, type: ColumnType])[];
  cells: (item: Item) => Cell[];
}

const texts = (...names: string[]) => names.map((name) => [name, 'text'] as const);
// Nothing that a spreadsheet would run stands in these.
const plain = (...names: string[]) => names.map((name) => [name, 'number'] as const);

const timeOrNull = (ms: bigint | undefined): string | null => (ms === undefined ? null : timeOf(ms));

/** Events, with all that their hashes are made of. */
export const eventForm = (tenant: string): RecordForm<ExportedEvent> => ({
  type: 'event',
  json: ({ row, previousHash }) => {
    const { sequence, event_id: eventId, type, created_ms: createdMs, actor, request_id: requestId, payload, hash } = row;
    const kept = row.payload_hash;
    const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
    return JSON.stringify({
      sequence: Number(sequence),
      type,
      header: headerOf({ tenant, sequence, eventId, type, createdMs, actor, requestId }),
      payload: kept === null ? payload.toString('base64') : null,
      payload_hash: hex(kept ?? sha256(payload)),
      previous_hash: hex(previousHash),
      hash: hex(hash),
      ...(kept !== null && { redacted_payload: payload.toString('base64') }),
    });
  },
  columns: [],
  cells: () => [],
});

/** Transactions with their entries; CSV has one row for each without them. */
export const transactionForm: RecordForm<Transaction> = {
  type: 'transaction',
  json: (each) => transactionJson(each),
  columns: [
    ...plain('transaction_id', 'sequence', 'kind', 'status'),
    ...texts('idempotency_key', 'description', 'reference'),
    ...plain('currency', 'amount', 'effective_at', 'requested_effective_at', 'created_at', 'reverses', 'reversed_by'),
    ...texts('metadata'),
  ],
  cells: (each) => [
    ...[each.transactionId, each.sequence.toString(), each.kind, each.status, each.idempotencyKey, each.description],
    ...[each.reference ?? null, each.currency ?? null, each.amount ?? null, timeOf(each.effectiveMs ?? each.createdMs)],
    ...[timeOrNull(each.requestedEffectiveMs), timeOf(each.createdMs), each.reverses ?? null, each.reversedBy ?? null, each.metadata],
  ],
};

/** An entry with its transaction. */
export interface ExportedEntry {
  transaction: Transaction;
  /** Index of the entry. */
  position: number;
}

const entryFields = ({ transaction, position }: ExportedEntry) => {
  const { accountId, accountCode, side, amount, currency, balanceAfter } = transaction.entries[position] as Transaction['entries'][number];
  return {
    transaction_id: transaction.transactionId,
    sequence: Number(transaction.sequence),
    position,
    account_id: accountId,
    account_code: accountCode,
    side,
    amount,
    currency,
    balance_after: balanceAfter,
    effective_at: timeOf(transaction.effectiveMs ?? transaction.createdMs),
    created_at: timeOf(transaction.createdMs),
    description: transaction.description,
    reference: transaction.reference ?? null,
  };
};

/** Entries, each by itself. */
export const entryForm: RecordForm<ExportedEntry> = {
  type: 'entry',
  json: (entry) => JSON.stringify(entryFields(entry)),
  columns: [
    ...plain('transaction_id', 'sequence', 'position', 'account_id', 'account_code', 'side', 'amount', 'currency', 'balance_after'),
    ...plain('effective_at', 'created_at'),
    ...texts('description', 'reference'),
  ],
  cells: (entry) => Object.values(entryFields(entry)),
};

/** Accounts and groups. */
export const accountForm: RecordForm<AccountRecord> = {
  type: 'account',
  json: accountJson,
  columns: [
    ...plain('id', 'account_code'),
    ...texts('name'),
    ...plain('type', 'normal_balance', 'currency', 'parent_code', 'is_group'),
    ...texts('description'),
    ...plain('allow_negative', 'status', 'system', 'version', 'created_at', 'updated_at'),
    ...texts('metadata'),
  ],
  cells: (each) => [
    ...[each.id, each.accountCode, each.name, each.type, each.normalBalance, each.currency ?? null, each.parentCode ?? null, each.isGroup],
    ...[each.description ?? null, each.allowNegative, each.status, each.system, each.version.toString(), timeOf(each.createdMs)],
    ...[timeOf(each.updatedMs), each.metadata],
  ],
};

const balanceFields = (each: ExportedBalance) => ({
  account_id: toId('acc', each.accountId),
  account_code: each.accountCode,
  currency: each.currency,
  balance: toDecimal(each.balance),
  debits: toDecimal(each.debits),
  credits: toDecimal(each.credits),
});

/** Balances that were ever moved. */
export const balanceForm: RecordForm<ExportedBalance> = {
  type: 'balance',
  json: (each) => JSON.stringify(balanceFields(each)),
  columns: plain('account_id', 'account_code', 'currency', 'balance', 'debits', 'credits'),
  cells: (each) => Object.values(balanceFields(each)),
};
