// The log: what an event is, how it is chained, and how it is appended under the tenant's head.
import { sha256 } from '../platform/digest.ts';
import { newUuid, tenantId, toId } from '../platform/ids.ts';
import { epochMs, type Client } from '../platform/postgres.ts';

/** Kinds of events that have a row of their own. */
export type EventType = 'transaction.posted' | 'account.created' | 'account.updated';

/** The end of a tenant's log, as its locked row says. */
export interface Head {
  /** UUID. */
  tenant: string;
  sequence: bigint;
  hash: Buffer;
  /** When the last event happened, milliseconds since the Unix epoch. */
  lastMs: number;
  /** The template that was set up, null where none was. */
  chart: string | null;
  /** How often an operator has replaced the projections, or a ledger has fenced off calls that were sent before. */
  rebuilt: bigint;
}

/** An event before it has a place. */
export interface NewEvent {
  type: EventType;
  actor: string;
  requestId: string;
  /** The caller's trace context, https://www.w3.org/TR/trace-context/; stands beside the event and is no part of its hash. */
  traceparent?: string | null | undefined;
  /** The exact bytes that are stored, hashed and published. */
  payload: Uint8Array;
}

/** An event in its place. */
export interface LogRow extends NewEvent {
  tenant: string;
  sequence: bigint;
  /** UUID. */
  eventId: string;
  createdMs: number;
  hash: Buffer;
}

/** The hash before the first event. */
export const genesisHash = Buffer.alloc(32);

/**
 * The hash of an event: sha256(previous ‖ sha256(header) ‖ sha256(payload)). Two levels, so that a proof needs no payload and a payload
 * may be erased without breaking the chain.
 */
export function chainHash(previous: Uint8Array, row: Omit<LogRow, 'hash'>): Buffer {
  const header = JSON.stringify([
    tenantId(row.tenant),
    Number(row.sequence),
    toId('evt', row.eventId),
    row.type,
    row.createdMs,
    row.actor,
    row.requestId,
  ]);
  const parts = Buffer.allocUnsafe(96);
  parts.set(previous, 0);
  parts.set(sha256(header), 32);
  parts.set(sha256(row.payload), 64);
  return sha256(parts);
}

/** Gives an event the place after the head, chains it there and moves the head to it. `nowMs` is the database's clock, read or reckoned. */
export function append(head: Head, event: NewEvent, nowMs: number): LogRow {
  const { type, actor, requestId, traceparent, payload } = event;
  const row: LogRow = {
    tenant: head.tenant,
    sequence: head.sequence + 1n,
    eventId: newUuid(),
    type,
    // The clock may have been set back; the log's time never goes back.
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

// Stryker disable all: what follows talks to PostgreSQL, and its tests need one

/** Reads the database's clock, milliseconds since the Unix epoch. */
export const readClock = {
  name: 'clock',
  text: `select ${epochMs('clock_timestamp()')} as now_ms`,
};

/**
 * The lock on the table that moving a head takes, taken before any head is held: whoever changes the table waits for who holds one, and would be
 * waited for by him. (`reindex table heads` was ended by a deadlock in 11 of 12 trials, and where it was given up after half a second a posting was
 * refused.)
 */
export const lockHeadsTable = { name: 'want_heads', text: 'lock table heads in row exclusive mode' };

/**
 * Locks the tenant's head in a statement of its own, as every change does first, and reads the clock under the lock. `make` makes a missing
 * head (set-up and the first account do, a posting never does); without it a missing head is null.
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
  return row ? { head: headOf(row), nowMs: (time.rows[0] as { now_ms: number }).now_ms } : null;
}

/** Keeps calls that were sent before from finding these tenants' heads (UUIDs), which the caller holds, where they need them. */
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
}

/** The columns of a head. */
export const selectHead = `select tenant_id, sequence, hash, ${epochMs('last_at')} as last_ms, chart,
  rebuilt from heads`;

/** A head from its row. */
export function headOf(row: HeadRow): Head {
  return { tenant: row.tenant_id, sequence: row.sequence, hash: row.hash, lastMs: row.last_ms, chart: row.chart, rebuilt: row.rebuilt };
}
