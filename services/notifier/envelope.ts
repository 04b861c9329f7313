// The JSON body of a webhook delivery, made once per event and sent unchanged on every attempt.
// JSON of tenants is inserted as text: parsing and printing it again would round numbers that a double cannot represent.
import type { AccountRecord, Event, HoldRecord, TransactionPosted } from '../../proto/gen/ledger/v1/events_pb.js';
import { changedPeriod } from '../platform/books-records.ts';
import { personalRecord } from '../platform/ledger-records.ts';
import { proofRecord } from '../platform/proof-records.ts';
import { balanceUpdateRecord, holdRecord, originRecord } from '../platform/payment-records.ts';
import { toDecimal, toMinor } from '../platform/money.ts';

/** The fields of an envelope except its `data`. */
export interface Envelope {
  /** TypeID of the event. */
  id: string;
  type: string;
  createdMs: bigint;
  /** TypeID of the tenant. */
  tenantId: string;
  livemode: boolean;
}

/** The body for an event of the log. Throws if the event's data does not match its type. */
export function eventBody(event: Event): string {
  const { id, type, createdMs, tenantId } = event;
  return envelope({ id, type, createdMs, tenantId, livemode: true }, eventData(event));
}

/** The body of a test delivery: `livemode` is false, and `data` is only a message. */
export function testBody(head: Omit<Envelope, 'livemode'>): string {
  const data = JSON.stringify({ message: `This is a test of ${head.type}: nothing has happened.` });
  return envelope({ ...head, livemode: false }, data);
}

function envelope({ id, type, createdMs, tenantId, livemode }: Envelope, data: string): string {
  const created = createdMs / 1000n;
  return `{"id":"${id}","type":"${type}","created":${created},"data":${data},"tenant_id":"${tenantId}","livemode":${livemode}}`;
}

type EventData = Exclude<Event['data'], { case: undefined }>;

/** The types of events, by what they hold. */
const typesOf: Record<EventData['case'], readonly string[]> = {
  transactionPosted: ['transaction.posted'],
  balanceUpdated: ['balance.updated'],
  accountCreated: ['account.created'],
  accountUpdated: ['account.updated'],
  holdCreated: ['hold.created'],
  holdEnded: ['hold.voided', 'hold.expired'],
  holdCaptured: ['hold.captured'],
  definitionChanged: ['definition.changed'],
  booksUpdated: ['books.updated'],
  periodClosed: ['period.closed'],
  periodReopened: ['period.reopened'],
  subjectErased: ['subject.erased'],
  transactionRedacted: ['transaction.redacted'],
  logImported: ['log.imported'],
  booksUnfrozen: ['books.unfrozen'],
};

function eventData({ data, type, sequence, createdMs }: Event): string {
  const text = data.case && typesOf[data.case].includes(type) ? dataJson(data, type, { sequence: safeNumber(sequence), createdMs }) : null;
  if (text === null) throw new Error(`an event of type ${JSON.stringify(type)} that holds ${data.case ?? 'nothing'}`);
  return text;
}

/** What a body's `data` is; null: the event lacks what it is about. */
function dataJson(data: EventData, type: string, { sequence, createdMs }: { sequence: number; createdMs: bigint }): string | null {
  const { case: kind, value } = data;
  switch (kind) {
    case 'transactionPosted':
      return objectWith(transactionData(value, createdMs), 'metadata', value.metadata, { sequence });
    case 'balanceUpdated':
      return value.balance ? JSON.stringify(balanceUpdateRecord(value, sequence)) : null;
    case 'accountCreated':
      return accountJson(value.account, { sequence });
    case 'accountUpdated':
      return accountJson(value.account, { changes: value.changes, sequence });
    case 'holdCreated':
      return holdJson(value.hold);
    case 'holdEnded':
      // Nobody describes an expiry.
      return holdJson(value.hold, type === 'hold.voided' ? { void_description: value.description } : {});
    case 'holdCaptured':
      return holdJson(value.hold, { transaction_id: value.transactionId });
    case 'definitionChanged': {
      const { kind: of, id, version, record } = value;
      const fields = { kind: of, id, version: safeNumber(version) };
      return record === undefined ? JSON.stringify({ ...fields, record: null }) : objectWith(fields, 'record', record);
    }
    case 'booksUpdated':
      return objectWith({ sequence }, 'books', value.record);
    case 'periodClosed':
    case 'periodReopened':
      return JSON.stringify({ ...changedPeriod(value), sequence });
    case 'subjectErased':
    case 'transactionRedacted':
    case 'logImported':
    case 'booksUnfrozen':
      return JSON.stringify({ ...proofRecord(data), sequence });
  }
}

/** A JSON object with a field of JSON text, empty: `{}`, between the fields of `before` and `after`. */
function objectWith(before: object, field: string, text: string, after: object = {}): string {
  const json = text === '' ? '{}' : text;
  // Inserted without this check, anything but an object would make the whole body invalid JSON.
  const parsed: unknown = JSON.parse(json);
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) throw new Error(`${field} that is not an object`);
  const rest = JSON.stringify(after).slice(1);
  return `${JSON.stringify(before).slice(0, -1)},"${field}":${json}${rest === '}' ? '' : ','}${rest}`;
}

function accountJson(account: AccountRecord | undefined, after: object): string | null {
  return account ? objectWith(accountData(account), 'metadata', account.metadata, after) : null;
}

function holdJson(hold: HoldRecord | undefined, after: object = {}): string | null {
  return hold ? objectWith(holdRecord(hold), 'metadata', hold.metadata, after) : null;
}

function transactionData(event: TransactionPosted, createdMs: bigint): object {
  const { transactionId, kind, idempotencyKey, description, reference = null, entries, reverses = null } = event;
  const [first] = entries;
  const currency = first && entries.every((entry) => entry.currency === first.currency) ? first.currency : null;
  const debits = entries.reduce((sum, entry) => sum + (entry.side === 'debit' ? (toMinor(entry.amount) ?? 0n) : 0n), 0n);
  return {
    transaction_id: transactionId,
    kind,
    idempotency_key: idempotencyKey,
    description,
    reference,
    currency,
    amount: currency === null ? null : toDecimal(debits),
    lines: entries.map((entry) => ({
      account_id: entry.accountId,
      account_code: entry.accountCode,
      amount: entry.amount,
      side: entry.side,
      currency: entry.currency,
    })),
    effective_at: isoTime(event.effectiveMs ?? createdMs),
    requested_effective_at: event.requestedEffectiveMs === undefined ? null : isoTime(event.requestedEffectiveMs),
    reverses,
    origin: originRecord(event.origin),
    unreversed: event.unreversed?.amounts ?? null,
    ...personalRecord(event),
  };
}

function accountData(record: AccountRecord): object {
  return {
    id: record.id,
    account_code: record.accountCode,
    name: record.name,
    type: record.type,
    normal_balance: record.normalBalance,
    currency: record.currency ?? null,
    parent_code: record.parentCode ?? null,
    is_group: record.isGroup,
    description: record.description ?? null,
    allow_negative: record.allowNegative,
    status: record.status,
    system: record.system,
    limits: record.limits.map(({ currency, minAvailable = null, maxBalance = null }) => ({
      currency,
      min_available: minAvailable,
      max_balance: maxBalance,
    })),
    blocked: record.blocked,
    version: safeNumber(record.version),
    created_at: isoTime(record.createdMs),
    updated_at: isoTime(record.updatedMs),
  };
}

function safeNumber(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error(`${value} is more than JSON's readers can hold`);
  return Number(value);
}

function isoTime(ms: bigint): string {
  return new Date(Number(ms)).toISOString();
}
