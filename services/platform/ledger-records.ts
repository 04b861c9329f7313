// Accounts and transactions as REST answers and exports have them.
// Written as text: parsing stored metadata would cost the hot path, and numbers their digits.
import type { AccountRecord, Origin } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { originRecord } from './payment-records.ts';

let lastMs = 0n;
let lastTime = new Date(0).toISOString();

/** A time as ISO 8601 in UTC. */
export function timeOf(ms: bigint): string {
  // Postings of one batch have the same time.
  if (ms !== lastMs) {
    lastTime = new Date(Number(ms)).toISOString();
    lastMs = ms;
  }
  return lastTime;
}

/** The JSON of a record with its metadata, without the closing brace. */
export function openWith(fields: object, metadata: string): string {
  return `${JSON.stringify(fields).slice(0, -1)},"metadata":${metadata === '' ? '{}' : metadata}`;
}

/** The JSON of an account, without the closing brace. */
export function accountFields(account: AccountRecord): string {
  const { id, accountCode, name, type, normalBalance, currency = null, parentCode = null, isGroup, description = null } = account;
  const fields = {
    id,
    account_code: accountCode,
    name,
    type,
    normal_balance: normalBalance,
    currency,
    parent_code: parentCode,
    is_group: isGroup,
    description,
    allow_negative: account.allowNegative,
    status: account.status,
    system: account.system,
    limits: account.limits.map(({ currency: of, minAvailable = null, maxBalance = null }) => ({
      currency: of,
      min_available: minAvailable,
      max_balance: maxBalance,
    })),
    blocked: account.blocked,
    version: Number(account.version),
    created_at: timeOf(account.createdMs),
    updated_at: timeOf(account.updatedMs),
  };
  return openWith(fields, account.metadata);
}

/** `data.account` as JSON. */
export function accountJson(account: AccountRecord): string {
  return `${accountFields(account)}}`;
}

/** A text as JSON. */
export const quote = JSON.stringify as (text: string) => string;
/** A text that needs no escaping as JSON, or null. */
export const orNull = (text: string | undefined): string => (text === undefined ? 'null' : `"${text}"`);

const originJson = (origin: Origin | undefined): string => (origin ? JSON.stringify(originRecord(origin)) : 'null');

/** Personal data as all see it who can't open it. */
export const sealedRecord = (subjectId: string): Record<string, string | null> => ({
  subject_id: subjectId,
  subject: null,
  data: null,
  state: 'sealed',
});

/** What a posted transaction has of personal data, sealed, and of redacted fields. */
export const personalRecord = ({
  personal,
  redacted,
}: Pick<Transaction, 'personal' | 'redacted'>): { personal: Record<string, string | null>[]; redacted: string[] } => ({
  personal: personal.map(({ subjectId }) => sealedRecord(subjectId)),
  redacted,
});

/**
 * `data.transaction` as JSON. Ids, codes, amounts and enums need no escaping: the service has validated them. `opened`: its `personal` as JSON;
 * without it that is sealed.
 */
export function transactionJson(transaction: Transaction, opened?: ReadonlyMap<Transaction, string>): string {
  const { transactionId, idempotencyKey, description, reference, metadata, sequence } = transaction;
  const createdAt = timeOf(transaction.createdMs);
  const { effectiveMs, requestedEffectiveMs } = transaction;
  const effectiveAt = effectiveMs === undefined ? createdAt : timeOf(effectiveMs);
  const requestedAt = requestedEffectiveMs === undefined ? 'null' : `"${timeOf(requestedEffectiveMs)}"`;
  let entries = '';
  for (const { accountId, accountCode, amount, side, currency, balanceAfter, counter } of transaction.entries) {
    if (entries !== '') entries += ',';
    entries += `{"account_id":"${accountId}","account_code":"${accountCode}","amount":"${amount}","side":"${side}","currency":"${currency}","balance_after":"${balanceAfter}","counter":${counter}}`;
  }
  const ownId = transactionId === '' ? 'null' : `"${transactionId}"`;
  const key = idempotencyKey === transactionId ? ownId : quote(idempotencyKey);
  return (
    `{"transaction_id":${ownId},"kind":"${transaction.kind}","status":"${transaction.status}","idempotency_key":${key},` +
    `"description":${description === '' ? '""' : quote(description)},"reference":${reference === undefined ? 'null' : quote(reference)},` +
    `"currency":${orNull(transaction.currency)},"amount":${orNull(transaction.amount)},"entries":[${entries}],` +
    `"metadata":${metadata === '' ? '{}' : metadata},"effective_at":"${effectiveAt}",` +
    `"requested_effective_at":${requestedAt},"created_at":"${createdAt}","sequence":${sequence === 0n ? 'null' : sequence},` +
    `"reverses":${orNull(transaction.reverses)},"reversed_by":${orNull(transaction.reversedBy)},"origin":${originJson(transaction.origin)},` +
    `"unreversed":${transaction.unreversed ? JSON.stringify(transaction.unreversed.amounts) : 'null'},${personalJson(transaction, opened)}}`
  );
}

function personalJson(transaction: Transaction, opened: ReadonlyMap<Transaction, string> | undefined): string {
  if (transaction.personal.length + transaction.redacted.length === 0) return '"personal":[],"redacted":[]';
  const { personal, redacted } = personalRecord(transaction);
  return `"personal":${opened?.get(transaction) ?? JSON.stringify(personal)},"redacted":${JSON.stringify(redacted)}`;
}
