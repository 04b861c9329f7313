// The log: events, their hash chain, and the tenant's head, under which they are appended.
import { sha256 } from '../platform/digest.ts';
import { newUuid, tenantId, toId } from '../platform/ids.ts';
import { epochMs, type Client } from '../platform/postgres.ts';
import { Refusal } from './accounting.ts';

/** Types of events in the log. */
export type EventType =
  | 'transaction.posted'
  | 'account.created'
  | 'account.updated'
  | 'hold.created'
  | 'hold.voided'
  | 'hold.expired'
  | 'definition.changed'
  | 'books.updated'
  | 'period.closed'
  | 'period.reopened'
  | 'subject.erased'
  | 'transaction.redacted'
  | 'log.imported'
  | 'books.unfrozen';

/** The end of a tenant's log. */
export interface Head {
  /** UUID. */
  tenant: string;
  sequence: bigint;
  hash: Buffer;
  /** When the last event happened, milliseconds since the Unix epoch. */
  lastMs: number;
  /** The template that was set up, or null. */
  chart: string | null;
  /** Counts rebuilds and fenced calls; cached state is valid for one count. */
  rebuilt: bigint;
  /** Whether changes are refused, because verification has found something. */
  frozen: boolean;
}

/** An event before it has a position. */
export interface NewEvent {
  type: EventType;
  actor: string;
  requestId: string;
  /** The caller's trace context, https://www.w3.org/TR/trace-context/. Not hashed. */
  traceparent?: string | null | undefined;
  /** The exact bytes that are stored, hashed and published. */
  payload: Uint8Array;
}

/** An event at its position. */
export interface LogRow extends NewEvent {
  tenant: string;
  sequence: bigint;
  /** UUID. */
  eventId: string;
  createdMs: number;
  hash: Buffer;
  /** SHA-256 of the payload that was appended, where a redaction has put another in its place. */
  payloadHash?: Buffer | null;
}

/** The hash before the first event. */
export const genesisHash = Buffer.alloc(32);

/**
 * The hash of an event: sha256(previous ‖ sha256(header) ‖ sha256(payload)). Two levels, so that a proof needs no payload, and erasing
 * one does not break the chain.
 */
export function chainHash(previous: Uint8Array, row: Omit<LogRow, 'hash'>): Buffer {
  return linkHash(previous, headerOf(row), row.payloadHash ?? sha256(row.payload));
}

/** The same from the header's text and the hash of the payload, which outlives a payload that was redacted. */
export function linkHash(previous: Uint8Array, header: string, payloadHash: Uint8Array): Buffer {
  const parts = Buffer.allocUnsafe(96);
  parts.set(previous, 0);
  parts.set(sha256(header), 32);
  parts.set(payloadHash, 64);
  return sha256(parts);
}

/** The text of an event that is hashed next to its payload. */
export function headerOf(row: Omit<LogRow, 'hash' | 'payload' | 'payloadHash'>): string {
  const { tenant, sequence, eventId, type, createdMs, actor, requestId } = row;
  return JSON.stringify([tenantId(tenant), Number(sequence), toId('evt', eventId), type, createdMs, actor, requestId]);
}

/** Appends an event after the head and moves the head to it. `nowMs` is the database's clock, read or estimated. */
export function append(head: Head, event: NewEvent, nowMs: number): LogRow {
  const { type, actor, requestId, traceparent, payload } = event;
  const row: LogRow = {
    tenant: head.tenant,
    sequence: head.sequence + 1n,
    eventId: newUuid(),
    type,
    // The clock may have been set back, but time in a log never goes back.
    createdMs: Math.max(nowMs, head.lastMs),
    actor,
    requestId,
    traceparent,
    payload,
    hash: head.hash,
  };
  row.hash = chainHash(head.hash, row);
  head.sequence = row.sequence;
  head.lastMs = row.createdMs;
  head.hash = row.hash;
  return row;
}

/** Reads the database's clock, milliseconds since the Unix epoch. */
export const readClock = { name: 'clock', text: `select ${epochMs('clock_timestamp()')} as now_ms` };

/** Takes the table lock of a head's update before the row lock: otherwise a schema change of the table in between is a deadlock. */
export const lockHeadsTable = { name: 'lock_heads_table', text: 'lock table heads in row exclusive mode' };

/**
 * Locks the tenant's head, as every change does first, and reads the clock under the lock. `make` creates a missing head, as set-up and
 * the first account do; without it a missing head is null. Throws {@link Refusal} `books_frozen`.
 */
export async function lockHead(client: Client, tenant: string, make: boolean): Promise<{ head: Head; nowMs: number } | null> {
  if (make) {
    await client.query({
      name: 'make_head',
      text: `insert into heads (tenant_id, sequence, hash, last_at, rebuilt) values ($1, 0, $2, to_timestamp(0), 0) on conflict do nothing`,
      values: [tenant, genesisHash],
    });
  }
  const [, locked, time] = await Promise.all([
    client.query(lockHeadsTable),
    client.query<HeadRow>({ name: 'lock_head', text: `${selectHead} where tenant_id = $1 for update`, values: [tenant] }),
    client.query<{ now_ms: number }>(readClock),
  ]);
  const row = locked.rows[0];
  if (row?.frozen) throw frozenBooks();
  return row ? { head: headOf(row), nowMs: (time.rows[0] as { now_ms: number }).now_ms } : null;
}

/** The refusal of any change of a frozen tenant. */
export function frozenBooks(): Refusal {
  return new Refusal('books_frozen', 'the books are frozen, because verification has found something: nothing can be changed');
}

/** Makes calls that were sent before fail for these tenants (UUIDs), whose heads the caller has locked. */
export async function fenceHeads(client: Client, tenants: string[]): Promise<void> {
  await client.query({
    name: 'fence_heads',
    text: 'update heads set rebuilt = rebuilt + 1 where tenant_id = any($1::uuid[])',
    values: [tenants],
  });
}

/** A row of `heads` as `selectHead` reads it. */
export interface HeadRow {
  tenant_id: string;
  sequence: bigint;
  hash: Buffer;
  last_ms: number;
  chart: string | null;
  rebuilt: bigint;
  frozen: boolean;
}

/** The columns of a head. */
export const selectHead = `select tenant_id, sequence, hash, ${epochMs('last_at')} as last_ms, chart,
  rebuilt, frozen_at is not null as frozen from heads`;

/** A head from its row. */
export function headOf({ tenant_id: tenant, last_ms: lastMs, ...rest }: HeadRow): Head {
  return { tenant, lastMs, ...rest };
}
