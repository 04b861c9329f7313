// Events as receivers read them: the envelope as JSON text, made once and sent as it is on every attempt. Metadata is spliced in as the
// text that it is: reading and printing it again would lose what a double can't hold.
import type { AccountRecord, Event, TransactionPosted } from '../../proto/gen/ledger/v1/events_pb.js';
import { toDecimal, toMinor } from '../platform/money.ts';

/** What an envelope says about itself. */
export interface Envelope {
  /** TypeID of the event. */
  id: string;
  type: string;
  createdMs: bigint;
  /** TypeID of the tenant. */
  tenantId: string;
  livemode: boolean;
}

/** The envelope of an event of the log. Throws where the event does not hold what its type promises. */
export function eventBody(event: Event): string {
  const { id, type, createdMs, tenantId } = event;
  return envelope({ id, type, createdMs, tenantId, livemode: true }, eventData(event));
}

/** The envelope of a test. */
export function testBody(about: Omit<Envelope, 'livemode'>): string {
  const data = JSON.stringify({ message: `This is a test of ${about.type}: nothing has happened.` });
  return envelope({ ...about, livemode: false }, data);
}

function envelope({ id, type, createdMs, tenantId, livemode }: Envelope, data: string): string {
  const created = createdMs / 1000n;
  return `{"id":"${id}","type":"${type}","created":${created},"data":${data},"tenant_id":"${tenantId}","livemode":${livemode}}`;
}

function eventData({ data, type, sequence }: Event): string {
  switch (data.case) {
    case 'transactionPosted':
      if (type === 'transaction.posted') return object(posted(data.value), data.value.metadata, { sequence: whole(sequence) });
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
          version: whole(version),
          transaction_id: data.value.transactionId,
          sequence: whole(sequence),
        });
      }
      break;
    case 'accountCreated':
      if (type === 'account.created' && data.value.account) {
        return object(account(data.value.account), data.value.account.metadata, { sequence: whole(sequence) });
      }
      break;
    case 'accountUpdated':
      if (type === 'account.updated' && data.value.account) {
        const { changes } = data.value;
        return object(account(data.value.account), data.value.account.metadata, { changes, sequence: whole(sequence) });
      }
      break;
    default:
  }
  throw new Error(`an event of type ${JSON.stringify(type)} that holds ${data.case ?? 'nothing'}`);
}

function object(before: object, metadata: string, after: object): string {
  const text = metadata === '' ? '{}' : metadata;
  // Spliced in unread, anything else would make the whole body no JSON.
  const read: unknown = JSON.parse(text);
  if (typeof read !== 'object' || read === null || Array.isArray(read)) throw new Error('metadata that is not an object');
  return `${JSON.stringify(before).slice(0, -1)},"metadata":${text},${JSON.stringify(after).slice(1)}`;
}

function posted(event: TransactionPosted): object {
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

function account(record: AccountRecord): object {
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
    version: whole(record.version),
    created_at: iso(record.createdMs),
    updated_at: iso(record.updatedMs),
  };
}

function whole(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error(`${value} is more than JSON's readers can hold`);
  return Number(value);
}

function iso(ms: bigint): string {
  return new Date(Number(ms)).toISOString();
}
