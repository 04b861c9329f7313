// Reads of the log: its rows as event messages.
import { create, fromBinary } from '@bufbuild/protobuf';
import {
  AccountCreatedSchema,
  AccountUpdatedSchema,
  BooksUnfrozenSchema,
  BooksUpdatedSchema,
  DefinitionChangedSchema,
  EventSchema,
  HoldCreatedSchema,
  HoldEndedSchema,
  LogImportedSchema,
  PeriodChangedSchema,
  SubjectErasedSchema,
  TransactionRedactedSchema,
  type Event,
} from '../../proto/gen/ledger/v1/events_pb.js';
import { uuidArray } from '../platform/arrays.ts';
import { toId, toUuid } from '../platform/ids.ts';
import { epochMs, readTenant, type Connections } from '../platform/postgres.ts';
import { ownTraceparent } from '../platform/trace.ts';
import { genesisHash, type EventType } from './log.ts';
import { countFitting } from './page.ts';
import { decodePosted } from './mapping.ts';

/** A row of the log as {@link eventColumns} reads it. */
export interface EventRow {
  sequence: bigint;
  event_id: string;
  type: EventType;
  created_ms: number;
  actor: string;
  request_id: string;
  traceparent: string | null;
  payload: Buffer;
  hash: Buffer;
}

/** The names of an {@link EventRow}'s columns. */
export const eventNames = 'sequence, event_id, type, created_ms, actor, request_id, traceparent, payload, hash';

/** The columns of the log that make an event. */
export const eventColumns = eventNames.replace('created_ms', `${epochMs('created_at')} as created_ms`);

/** The log after a sequence, oldest first: at most `limit` events, fewer if they are large. */
export async function listEvents(
  pool: Connections,
  tenant: string,
  afterSequence: bigint,
  limit: number,
): Promise<{ events: Event[]; hasMore: boolean }> {
  const [rows, imported] = await readTenant<[EventRow[], object[]]>(
    pool,
    tenant,
    {
      name: 'list_events',
      // Including the one before, for its hash.
      text: `select ${eventColumns} from log where tenant_id = $1 and sequence >= $2 order by sequence limit $3`,
      values: [tenant, afterSequence, limit + 2],
    },
    { name: 'has_import', text: `select from log where tenant_id = $1 and sequence = 1 and type = 'log.imported'`, values: [tenant] },
  );
  const first = rows[0]?.sequence === afterSequence ? 1 : 0;
  const last = first + countFitting(rows.slice(first), limit);
  const events = rows.slice(first, last).map((row, index) => eventOf(tenant, row, rows[first + index - 1]?.hash ?? genesisHash));
  if (imported.length > 0) await correctPositions(pool, tenant, events);
  return { events, hasMore: rows.length > last };
}

// Events that were imported name positions of the log from which they came.
async function correctPositions(pool: Connections, tenant: string, events: Event[]): Promise<void> {
  const named = events.flatMap(({ data }): { id: string | null; record: { sequence: bigint } }[] => {
    if (data.case === 'transactionRedacted') return [{ id: toUuid('txn', data.value.transactionId), record: data.value }];
    const isOfHold = data.case === 'transactionPosted' || data.case === 'holdCreated' || data.case === 'holdEnded';
    return isOfHold && data.value.hold ? [{ id: toUuid('hold', data.value.hold.holdId), record: data.value.hold }] : [];
  });
  if (named.length === 0) return;
  const [rows] = await readTenant<[{ id: string; sequence: bigint }[]]>(pool, tenant, {
    name: 'positions_of_ids',
    text: `select id, sequence from holds where tenant_id = $1 and id = any($2::uuid[])
      union all select id, sequence from transactions where tenant_id = $1 and id = any($2::uuid[])`,
    values: [tenant, uuidArray(named.map(({ id }) => id))],
  });
  const positions = new Map(rows.map(({ id, sequence }) => [id, sequence]));
  for (const { id, record } of named) record.sequence = positions.get(id ?? '') ?? record.sequence;
}

/** The event of a row of the log. */
export function eventOf(tenant: string, row: EventRow, previousHash: Buffer): Event {
  return create(EventSchema, {
    id: toId('evt', row.event_id),
    tenantId: toId('tenant', tenant),
    sequence: row.sequence,
    type: row.type,
    createdMs: BigInt(row.created_ms),
    actor: row.actor,
    requestId: row.request_id,
    traceparent: row.traceparent ?? ownTraceparent(row.event_id, row.hash),
    hash: row.hash,
    previousHash,
    data: dataOf(row),
  });
}

function dataOf({ type, payload }: EventRow): Event['data'] {
  switch (type) {
    case 'transaction.posted':
      return { case: 'transactionPosted', value: decodePosted(payload) };
    case 'account.created':
      return { case: 'accountCreated', value: fromBinary(AccountCreatedSchema, payload) };
    case 'account.updated':
      return { case: 'accountUpdated', value: fromBinary(AccountUpdatedSchema, payload) };
    case 'hold.created':
      return { case: 'holdCreated', value: fromBinary(HoldCreatedSchema, payload) };
    case 'hold.voided':
    case 'hold.expired':
      return { case: 'holdEnded', value: fromBinary(HoldEndedSchema, payload) };
    case 'definition.changed':
      return { case: 'definitionChanged', value: fromBinary(DefinitionChangedSchema, payload) };
    case 'books.updated':
      return { case: 'booksUpdated', value: fromBinary(BooksUpdatedSchema, payload) };
    case 'period.closed':
      return { case: 'periodClosed', value: fromBinary(PeriodChangedSchema, payload) };
    case 'period.reopened':
      return { case: 'periodReopened', value: fromBinary(PeriodChangedSchema, payload) };
    case 'subject.erased':
      return { case: 'subjectErased', value: fromBinary(SubjectErasedSchema, payload) };
    case 'transaction.redacted':
      return { case: 'transactionRedacted', value: fromBinary(TransactionRedactedSchema, payload) };
    case 'log.imported':
      return { case: 'logImported', value: fromBinary(LogImportedSchema, payload) };
    case 'books.unfrozen':
      return { case: 'booksUnfrozen', value: fromBinary(BooksUnfrozenSchema, payload) };
  }
}
