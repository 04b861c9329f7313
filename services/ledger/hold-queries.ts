// Queries of holds: those that commands are about, whose keys or ids were used, and that are due.
import { textArray, uuidArray } from '../platform/arrays.ts';
import { epochMs, queryFlagged, type Client, type Connections } from '../platform/postgres.ts';
import type { HoldRow } from './holds.ts';
import type { ValidatedPosting } from './mapping.ts';

/** Columns and joins that read a hold `h` with its newest event. Row-level security keeps a coalesce that is no sub-select out of the index. */
export const currentColumns = 'h.tenant_id, h.id, h.sequence, coalesce(p.number, 0) as parts, l.type, l.payload';
export const joinNewest = `left join lateral (
    select number, sequence from parts where tenant_id = h.tenant_id and of = h.id order by number desc limit 1) p on true
  cross join lateral (
    select type, payload from log where tenant_id = h.tenant_id and sequence = (select coalesce(p.sequence, h.sequence)) offset 0) l`;

/** The payload of its `hold.created`, where that is not the newest. */
const createdColumn = `case when p.number is not null then (
  select payload from log where tenant_id = h.tenant_id and sequence = h.sequence) end as created`;

/** The holds that commands are about. */
export async function targetHolds(client: Client, commands: ValidatedPosting[]): Promise<HoldRow[]> {
  if (commands.length === 0) return [];
  const { rows } = await client.query<HoldRow>({
    name: 'target_holds',
    text: `select ${currentColumns}, ${createdColumn}
      from (select distinct tenant, id from unnest($1::uuid[], $2::uuid[]) as each (tenant, id)) as wanted,
        lateral (select * from holds where tenant_id = wanted.tenant and id = wanted.id offset 0) h ${joinNewest}`,
    values: [uuidArray(commands.map(({ tenant }) => tenant)), uuidArray(commands.map(({ target }) => target?.uuid ?? null))],
  });
  return rows;
}

/** A hold under whose key or id something is to be made. */
export interface UsedHoldRow extends HoldRow {
  idempotency_key: string;
  fingerprint: Buffer;
}

/** The holds that were made under these keys. */
export async function usedHoldKeys(client: Client, holds: ValidatedPosting[]): Promise<UsedHoldRow[]> {
  if (holds.length === 0) return [];
  const { rows } = await client.query<UsedHoldRow>({
    name: 'used_hold_keys',
    text: `select h.idempotency_key, h.fingerprint, ${currentColumns}
      from unnest($1::uuid[], $2::text[]) as wanted (tenant, key),
        lateral (select * from holds where tenant_id = wanted.tenant and idempotency_key = wanted.key offset 0) h ${joinNewest}`,
    values: [uuidArray(holds.map(({ tenant }) => tenant)), textArray(holds.map(({ idempotencyKey }) => idempotencyKey))],
  });
  return rows;
}

/** The key under which a transaction or hold of an id was made. */
export interface KeyOfId {
  tenant_id: string;
  id: string;
  idempotency_key: string;
}

/** The keys under which holds of these ids were made. */
export async function keysOfHoldIds(client: Client, holds: ValidatedPosting[]): Promise<KeyOfId[]> {
  if (holds.length === 0) return [];
  const { rows } = await client.query<KeyOfId>({
    name: 'keys_of_hold_ids',
    text: `select h.tenant_id, h.id, h.idempotency_key from unnest($1::uuid[], $2::uuid[]) as wanted (tenant, id),
      lateral (select * from holds where tenant_id = wanted.tenant and id = wanted.id offset 0) h`,
    values: [uuidArray(holds.map(({ tenant }) => tenant)), uuidArray(holds.map(({ transaction }) => transaction))],
  });
  return rows;
}

/** Due holds that are read at a time. */
export const maxDue = 500;
/** How far ahead holds are looked for that are due next, milliseconds. */
const horizonMs = 30_000;

// By time and not by tenant, whose key would lead to all of its holds.
const waits = `status = 'pending' and expires_at is not null`;

/** Holds of tenants (UUIDs) that are due at a time, milliseconds since the Unix epoch; the first ones first. */
export async function dueHolds(client: Client, tenants: string[], nowMs: number): Promise<HoldRow[]> {
  const { rows } = await client.query<HoldRow>({
    name: 'due_holds',
    text: `select ${currentColumns}, ${createdColumn} from (
        select * from (select * from holds where ${waits} and expires_at <= to_timestamp($2::float8 / 1000.0)
            order by expires_at, tenant_id, id offset 0) as due
        where tenant_id = any($1::uuid[]) limit ${maxDue}) h ${joinNewest}`,
    values: [uuidArray(tenants), nowMs],
  });
  return rows;
}

/** Before when no other hold of tenants (UUIDs) is due after a time; both milliseconds since the Unix epoch. By tenant. */
export async function nextDue(client: Client, tenants: string[], nowMs: number): Promise<Map<string, number>> {
  const { rows } = await client.query<{ tenant: string; next_ms: number }>({
    name: 'next_due',
    text: `with soon as materialized (
          select tenant_id, min(expires_at) as at from holds where ${waits}
            and expires_at > to_timestamp($2::float8 / 1000.0) and expires_at <= to_timestamp(($2::float8 + ${horizonMs}) / 1000.0)
          group by tenant_id)
      select tenant, case when (select true from holds where tenant_id = tenant and status = 'pending' limit 1)
          then coalesce((select ${epochMs('at')} from soon where tenant_id = tenant), $2::float8 + ${horizonMs})
          else 'infinity' end as next_ms
      from unnest($1::uuid[]) as wanted (tenant)`,
    values: [uuidArray(tenants), nowMs],
  });
  return new Map(rows.map(({ tenant, next_ms }) => [tenant, next_ms]));
}

/** A hold, by its UUID and its tenant's. */
export interface DueHold {
  tenant: string;
  id: string;
}

/**
 * Holds of all tenants that are due, of each tenant the first `most`, but for the holds `except`. The pool's flag is `app.due`.
 * `sinceMs`: how long they are due, milliseconds.
 */
export async function dueOfAllTenants(pool: Connections, most: number, except: string[]): Promise<(DueHold & { sinceMs: number })[]> {
  const { rows } = await queryFlagged<{ tenant_id: string; id: string; since_ms: number }>(pool, {
    name: 'due_of_all_tenants',
    text: `select tenant_id, id, since_ms from (
          select tenant_id, id, ${epochMs('clock_timestamp()')} - ${epochMs('expires_at')} as since_ms,
            row_number() over (partition by tenant_id order by expires_at, id) as place
          from (select tenant_id, id, expires_at from holds h where ${waits} and expires_at <= clock_timestamp()
              and not exists (select from freezes where tenant_id = h.tenant_id)
            order by expires_at, tenant_id, id limit 20000) as due
          where id <> all($2::uuid[])) as each
        where place <= $1`,
    values: [most, except],
  });
  return rows.map((row) => ({ tenant: row.tenant_id, id: row.id, sinceMs: row.since_ms }));
}
