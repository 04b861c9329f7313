// Redaction: removes texts from a posted transaction for ever. Its event keeps its place and its hash, amounts stay.
import { create, toBinary } from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';
import { TransactionRedactedSchema, type TransactionPosted } from '../../proto/gen/ledger/v1/events_pb.js';
import type { LedgerService, RedactTransactionRequest, Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { textArray } from '../platform/arrays.ts';
import { sha256 } from '../platform/digest.ts';
import { toId } from '../platform/ids.ts';
import { inTransaction, type Client, type Connections } from '../platform/postgres.ts';
import { Refusal } from './accounting.ts';
import { writeEvents } from './accounts.ts';
import type { AuditContext } from './chart.ts';
import { encodedPosted } from './encoding.ts';
import { checkedId, checkedText, invalid, tenantOf } from './fields.ts';
import { append, lockHead } from './log.ts';
import { auditContextOf, decodePosted, withTraceparent } from './mapping.ts';
import { transactionsBySequence } from './reads.ts';
import type { TenantCalls } from './tenant-calls.ts';
import { lexemesOf } from './words.ts';

const maxFields = 20;
const ofMetadata = 'metadata.';

/** Handler of RedactTransaction. */
export function redactionHandlers({ changed }: TenantCalls): Pick<ServiceImpl<typeof LedgerService>, 'redactTransaction'> {
  return {
    async redactTransaction(request, context) {
      const tenant = tenantOf(request);
      const id = checkedId('transaction_id', 'txn', request.transactionId);
      const redaction = checkedRedaction(request);
      const auditContext = auditContextOf(withTraceparent({ ...request, traceparent: '' }, context));
      return { transaction: await changed(tenant, context, (own) => redactTransaction(own, tenant, id, redaction, auditContext)) };
    },
  };
}

/** What to redact. */
interface Redaction {
  /** `description`, `reference` or `metadata.<key>`. */
  fields: string[];
  reason: string;
}

/** Checks a request. Throws {@link Refusal} naming the field. */
function checkedRedaction({ fields, reason }: Pick<RedactTransactionRequest, 'fields' | 'reason'>): Redaction {
  if (fields.length === 0) throw invalid('fields', 'required', '', 'fields is required');
  if (fields.length > maxFields) throw invalid('fields', 'max', String(fields.length), `fields must have at most ${maxFields} items`);
  fields.forEach((field, index) => {
    const name = `fields[${index}]`;
    if (field === 'description' || field === 'reference' || field.startsWith(ofMetadata)) return;
    throw invalid(name, 'oneof', field, `${name} must be description, reference or metadata.<key>`);
  });
  return { fields: [...new Set(fields)], reason: checkedText('reason', reason, { min: 1, max: 1000 }) };
}

interface PostedRow {
  sequence: bigint;
  event_id: string;
  payload: Buffer;
  /** Hash of the payload that was posted; null: it still stands. */
  payload_hash: Buffer | null;
}

/**
 * Redacts fields of a transaction (UUID) and appends `transaction.redacted`; fields that are redacted already change nothing. Throws
 * {@link Refusal}: `transaction_not_found`, `books_frozen`, or `validation_failed` for a field that the transaction does not have.
 */
function redactTransaction(
  pool: Connections,
  tenant: string,
  id: string,
  { fields, reason }: Redaction,
  context: AuditContext,
): Promise<Transaction> {
  return inTransaction(pool, [tenant], async (client) => {
    // First, as a rebuild: the indexer would write words that it read before.
    await client.query(`select pg_advisory_xact_lock(hashtextextended('index ' || $1, 0))`, [tenant]);
    const locked = await lockHead(client, tenant, false);
    const { rows } = await client.query<PostedRow>({
      name: 'posted_to_redact',
      text: `select l.sequence, l.event_id, l.payload, r.payload_hash from transactions t
        join log l on l.tenant_id = t.tenant_id and l.sequence = t.sequence
        left join redactions r on r.tenant_id = t.tenant_id and r.sequence = t.sequence where t.tenant_id = $1 and t.id = $2`,
      values: [tenant, id],
    });
    const [posted] = rows;
    if (!locked || !posted) throw new Refusal('transaction_not_found', 'transaction not found');
    const { sequence } = posted;
    const event = decodePosted(posted.payload);
    const wanted = fields.filter((field) => !event.redacted.includes(field));
    if (wanted.length > 0) {
      for (const field of wanted) remove(event, field, `fields[${fields.indexOf(field)}]`);
      const replacement = encodedPosted(event);
      await replace(client, tenant, sequence, { event, wanted, replacement });
      const message = create(TransactionRedactedSchema, {
        ...{ transactionId: event.transactionId, sequence, eventId: toId('evt', posted.event_id), fields: wanted, reason },
        payloadHash: posted.payload_hash ?? sha256(posted.payload),
        redactedHash: sha256(replacement),
      });
      const { head, nowMs } = locked;
      const payload = toBinary(TransactionRedactedSchema, message);
      await writeEvents(client, [append(head, { type: 'transaction.redacted', ...context, payload }, nowMs)], head, nowMs);
    }
    const [transaction] = await transactionsBySequence(client, tenant, [sequence]);
    return transaction as Transaction;
  });
}

// Changes the event. Numbers of metadata keep their value: a double represents each.
function remove(event: TransactionPosted, field: string, path: string): void {
  const missing = () => invalid(path, 'oneof', field, `${path}: the transaction has no ${field}`);
  event.redacted.push(field);
  if (field === 'description') {
    if (event.description === '') throw missing();
    event.description = '';
  } else if (field === 'reference') {
    if (event.reference === undefined) throw missing();
    delete event.reference;
  } else {
    const values = JSON.parse(event.metadata === '' ? '{}' : event.metadata) as Record<string, unknown>;
    const key = field.slice(ofMetadata.length);
    if (!Object.hasOwn(values, key)) throw missing();
    event.metadata = JSON.stringify(Object.fromEntries(Object.entries(values).filter(([name]) => name !== key)));
  }
}

async function replace(
  client: Client,
  tenant: string,
  sequence: bigint,
  { event, wanted, replacement }: { event: TransactionPosted; wanted: string[]; replacement: Uint8Array },
): Promise<void> {
  const keys = wanted.filter((field) => field.startsWith(ofMetadata)).map((field) => field.slice(ofMetadata.length));
  await client.query('select redact_event($1, $2, $3, $4, $5, $6)', [
    ...[tenant, sequence, replacement, wanted.includes('reference'), textArray(keys)],
    lexemesOf(tenant, sequence, event).join(' '),
  ]);
}
