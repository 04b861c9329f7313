// Queries of holds: those that commands are about, whose keys or ids were used, and that are due.
import { textArray, uuidArray } from '../platform/arrays.ts';
import type { Client } from '../platform/postgres.ts';
import type { HoldRow } from './holds.ts';
import type { ValidatedPosting } from './mapping.ts';

/** Columns and joins that read a hold `h` with its newest event. */
export const currentColumns = 'h.tenant_id, h.id, coalesce(p.number, 0) as parts, l.type, l.payload';
export const joinNewest = `left join lateral (
    select number, sequence from parts where tenant_id = h.tenant_id and of = h.id order by number desc limit 1) p on true
  cross join lateral (select type, payload from log where tenant_id = h.tenant_id and sequence = coalesce(p.sequence, h.sequence) offset 0) l`;

/** The holds that commands are about. */
export async function targetHolds(client: Client, commands: ValidatedPosting[]): Promise<HoldRow[]> {
  if (commands.length === 0) return [];
  const { rows } = await client.query<HoldRow>({
    name: 'target_holds',
    text: `select ${currentColumns}, case when p.number is not null then (
          select payload from log where tenant_id = h.tenant_id and sequence = h.sequence) end as created
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
  sequence: bigint;
}

/** The holds that were made under these keys. */
export async function usedHoldKeys(client: Client, holds: ValidatedPosting[]): Promise<UsedHoldRow[]> {
  if (holds.length === 0) return [];
  const { rows } = await client.query<UsedHoldRow>({
    name: 'used_hold_keys',
    text: `select h.idempotency_key, h.fingerprint, h.sequence, ${currentColumns}
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
