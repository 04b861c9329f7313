// The JSON body of a webhook delivery, made once per event and sent unchanged on every attempt.
// Metadata is inserted as text: parsing and printing it again would round numbers that a double cannot represent.
import type { AccountRecord, Event, TransactionPosted } from '../../proto/gen/ledger/v1/events_pb.js';
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

function eventData({ data, type, sequence }: Event): string {
  switch (data.case) {
    case 'transactionPosted':
      if (type === 'transaction.posted')
        return objectWithMetadata(transactionData(data.value), data.value.metadata, { sequence: safeNumber(sequence) });
      break;
    case 'balanceUpdated':
      if (type === 'balance.updated' && data.value.balance) {
        const { accountId, accountCode, currency, balance, previousBalance, debits, credits, available, version } = data.value.balance;
        return JSON.stringify({
          account_id: accountId,
          account_code: accountCode,
          currency,
          balance,
          previous_balance: previousBalance,
          debits,
          credits,
          available,
          version: safeNumber(version),
          transaction_id: data.value.transactionId,
          sequence: safeNumber(sequence),
        });
      }
      break;
    case 'accountCreated':
      if (type === 'account.created' && data.value.account) {
        return objectWithMetadata(accountData(data.value.account), data.value.account.metadata, { sequence: safeNumber(sequence) });
      }
      break;
    case 'accountUpdated':
      if (type === 'account.updated' && data.value.account) {
        const { changes } = data.value;
        return objectWithMetadata(accountData(data.value.account), data.value.account.metadata, {
          changes,
          sequence: safeNumber(sequence),
        });
      }
      break;
    default:
  }
  throw new Error(`an event of type ${JSON.stringify(type)} that holds ${data.case ?? 'nothing'}`);
}

/** A JSON object with the metadata between the fields of `before` and `after`. */
function objectWithMetadata(before: object, metadata: string, after: object): string {
  const text = metadata === '' ? '{}' : metadata;
  // Inserted without this check, anything but an object would make the whole body invalid JSON.
  const parsed: unknown = JSON.parse(text);
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) throw new Error('metadata that is not an object');
  return `${JSON.stringify(before).slice(0, -1)},"metadata":${text},${JSON.stringify(after).slice(1)}`;
}

function transactionData(event: TransactionPosted): object {
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
    reverses,
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
