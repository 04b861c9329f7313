// For the operator: how far the relay is, and setting it back so that events are published again.
import { fromBinary } from '@bufbuild/protobuf';
import type pg from 'pg';
import { LogImportedSchema } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toId } from '../../platform/ids.ts';
import { setTenants } from '../../platform/postgres.ts';
import { firstAtTime } from '../time-range.ts';
import { activeUntil } from './active-cursors.ts';

/** From where events are published again: a sequence, or a time in milliseconds since the Unix epoch, inclusive. */
export type ReplayFrom = { sequence: number } | { sinceMs: number };

/** The sequences that are published again, both inclusive; or why there are none. */
export type Replayed = { from: bigint; through: bigint } | { problem: string };

/**
 * Sets a tenant's (UUID) published offset back to before the start, so that the running relay publishes what follows again, in order and under the
 * same ids. `client` is the owner's. What a batch under way has claimed is published twice, too.
 */
export async function replay(client: pg.ClientBase, tenant: string, start: ReplayFrom): Promise<Replayed> {
  await client.query('begin');
  try {
    // The owner sees every tenant's rows, but changes those of the transaction's tenants only.
    await client.query(setTenants([tenant]));
    const replayed = await setBack(client, tenant, start);
    await client.query('problem' in replayed ? 'rollback' : 'commit');
    return replayed;
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
}

async function setBack(client: pg.ClientBase, tenant: string, start: ReplayFrom): Promise<Replayed> {
  const id = toId('tenant', tenant);
  // The head first, as every change does: it creates a missing offset under the head.
  const head = await client.query('select from heads where tenant_id = $1 for update', [tenant]);
  if (head.rowCount === 0) return { problem: `${id} has no log` };
  const { rows } = await client.query<{ sequence: string }>('select sequence::text from relay_marks where tenant_id = $1 for update', [
    tenant,
  ]);
  const published = BigInt(rows[0]?.sequence ?? 0);
  const from = await startOf(client, tenant, start);
  if (from > published) return { problem: `${id} is published through ${published}: what comes from ${from} on is published anyway` };
  // An offset that is there can only rise. A claim goes with it, so that its end does not raise the new one.
  await client.query('delete from relay_marks where tenant_id = $1', [tenant]);
  await client.query(
    `insert into relay_marks (tenant_id, sequence, open_until) values ($1, $2, clock_timestamp() + interval '1 millisecond' * $3)`,
    [tenant, from - 1n, activeUntil(0)],
  );
  return { from, through: published };
}

/** The first sequence to publish. Imported events never are: behind `log.imported` it is the first that was recorded here. */
async function startOf(client: pg.ClientBase, tenant: string, start: ReplayFrom): Promise<bigint> {
  const first = 'sequence' in start ? BigInt(start.sequence) : await firstSince(client, tenant, start.sinceMs);
  if (first === 1n) return first;
  const imported = await client.query<{ payload: Buffer }>(
    `select payload from log where tenant_id = $1 and sequence = 1 and type = 'log.imported'`,
    [tenant],
  );
  const payload = imported.rows[0]?.payload;
  const afterImport = payload ? fromBinary(LogImportedSchema, payload).size + 2n : 1n;
  return first > afterImport ? first : afterImport;
}

async function firstSince(client: pg.ClientBase, tenant: string, sinceMs: number): Promise<bigint> {
  const text = `select ${firstAtTime('to_timestamp($2::float8 / 1000.0)')}::text as first`;
  const { rows } = await client.query<{ first: string }>(text, [tenant, sinceMs]);
  return BigInt(rows[0]?.first ?? 1);
}

/** The UUIDs of all tenants that have a log. */
export async function tenantsWithLog(client: pg.ClientBase): Promise<string[]> {
  const { rows } = await client.query<{ tenant_id: string }>('select tenant_id from heads order by tenant_id');
  return rows.map((row) => row.tenant_id);
}

/** How far publication is. */
export interface RelayStatus {
  /** With events that are not published, the oldest first; or the one that was asked for. */
  tenants: {
    /** UUID. */
    tenant: string;
    published: number;
    head: number;
    /** Age of the next event; null: nothing waits. */
    waitingSeconds: number | null;
    deadLetters: number;
  }[];
  waitingTenants: number;
  waitingEvents: number;
  deadLetters: number;
}

/** Measures how far publication is, of one tenant (UUID) or of all; at most `limit` tenants are listed. */
export async function relayStatus(
  client: pg.ClientBase,
  { tenant, limit }: { tenant?: string | undefined; limit: number },
): Promise<RelayStatus> {
  const { rows } = await client.query<RelayStatus['tenants'][number]>(
    `with letters as (
        select tenant_id, count(*) as count from relay_dead_letters
        where published_at is null and ($1::uuid is null or tenant_id = $1) group by tenant_id),
      found as (
        select h.tenant_id, coalesce(m.sequence, 0) as published, h.sequence as head from heads h left join relay_marks m using (tenant_id)
        where $1::uuid is null or h.tenant_id = $1),
      listed as (
        select f.*, extract(epoch from clock_timestamp() - l.created_at) as seconds, coalesce(letters.count, 0) as letters
        from found f left join letters using (tenant_id)
          left join lateral (select created_at from log where tenant_id = f.tenant_id and sequence = f.published + 1 and f.head > f.published) l on true
        where $1::uuid is not null or f.head > f.published or letters.count > 0
        order by seconds desc nulls last, tenant_id limit $2)
      select listed.tenant_id as tenant, listed.published::float8, listed.head::float8, listed.seconds::float8 as "waitingSeconds",
        listed.letters::float8 as "deadLetters"
      from listed`,
    [tenant ?? null, limit],
  );
  const totals = await client.query<Omit<RelayStatus, 'tenants'>>(
    `select count(*)::float8 as "waitingTenants", coalesce(sum(h.sequence - coalesce(m.sequence, 0)), 0)::float8 as "waitingEvents",
        (select count(*)::float8 from relay_dead_letters where published_at is null and ($1::uuid is null or tenant_id = $1)) as "deadLetters"
      from heads h left join relay_marks m using (tenant_id)
      where h.sequence > coalesce(m.sequence, 0) and ($1::uuid is null or h.tenant_id = $1)`,
    [tenant ?? null],
  );
  return { tenants: rows, ...(totals.rows[0] as Omit<RelayStatus, 'tenants'>) };
}
