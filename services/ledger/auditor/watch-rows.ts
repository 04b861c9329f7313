// The watch's SQL: which tenants are due, what a walk has found, and the lock that keeps two auditors from walking one tenant.
import { inTransaction, withClient, type Client, type Connections, type Pool } from '../../platform/postgres.ts';
import type { LogRow } from '../log.ts';

/** Logs with more events are long: walking one takes minutes to hours, so they do not make the others wait. */
const longLog = 10_000;

// A walk that took half a second is repeated after a minute, one of a quarter of an hour after `VERIFY_HOURS`. All share a tenth of a core.
const repeatFactor = 100;
const minPauseMs = 20_000;

/** Tenants (UUIDs) whose walk is due, the longest waiting first; only this one where `only` is given. The connection has `app.indexer` on. */
export async function dueTenants(client: Client, isLong: boolean, everyMs: number, only: string | null = null): Promise<string[]> {
  const { rows } = await client.query<{ tenant_id: string }>({
    name: 'due_walks',
    // Also of tenants whose head is lost. What ended after now did so before the clock was set back.
    text: `select tenant_id
      from heads h full join verifications v using (tenant_id), lateral (
        select case when finished_at <= clock_timestamp() then finished_at end as walked_at offset 0) w
      where (coalesce(h.sequence, 0) > ${longLog}) = $1 and ($3::uuid is null or tenant_id = $3) and coalesce(walked_at
        + interval '1 millisecond' * least(greatest(${repeatFactor} * worked_ms, ${minPauseMs}), $2::float8), '-infinity') <= clock_timestamp()
      order by walked_at nulls first limit 100`,
    values: [isLong, everyMs, only],
  });
  return rows.map((row) => row.tenant_id);
}

/** Whether the walk of a tenant is this connection's alone, until {@link unlockWalk} or its end. */
export async function tryLockWalk(client: Client, tenant: string): Promise<boolean> {
  const text = `select pg_try_advisory_lock(hashtextextended('walk ' || $1, 0)) as "isMine"`;
  const { rows } = await client.query<{ isMine: boolean }>({ name: 'lock_walk', text, values: [tenant] });
  return rows[0]?.isMine === true;
}

/** Lets others walk the tenant. */
export async function unlockWalk(client: Client, tenant: string): Promise<void> {
  await client.query({ name: 'unlock_walk', text: `select pg_advisory_unlock(hashtextextended('walk ' || $1, 0))`, values: [tenant] });
}

/** How far a tenant's log and its index of words are, in a transaction that sees its rows. */
export interface Progress {
  /** 0: there is no head. */
  head: bigint;
  indexed: bigint;
  isFrozen: boolean;
  isDeleted: boolean;
}

/** Reads it. */
export async function progressOf(client: Client, tenant: string): Promise<Progress> {
  const { rows } = await client.query<Progress>({
    name: 'walk_progress',
    text: `select coalesce((select sequence from heads where tenant_id = $1), 0) as head,
        coalesce((select through from search_indexes where tenant_id = $1 and name = ''), 0) as indexed,
        exists (select from freezes where tenant_id = $1) as "isFrozen",
        exists (select from deleted_tenants where tenant_id = $1) as "isDeleted"`,
    values: [tenant],
  });
  return rows[0] as Progress;
}

/** What a whole walk has found. */
export interface Walked {
  startedMs: number;
  workedMs: number;
  events: number;
  last: Pick<LogRow, 'sequence' | 'hash'>;
  findings: number;
  /** A line each. */
  report: string[];
}

/** Records a walk, unless the tenant was deleted meanwhile. What was last verified stays where there are findings. */
export async function recordWalk(pool: Connections, tenant: string, walked: Walked): Promise<void> {
  const { startedMs, workedMs, events, last, findings, report } = walked;
  await inTransaction(pool, [tenant], async (client) => {
    // A deletion waits for this, or has removed the row that would be left.
    const lock = `select pg_advisory_xact_lock_shared(hashtextextended('delete ' || $1, 0))`;
    await client.query({ name: 'lock_deletion', text: lock, values: [tenant] });
    await client.query({
      name: 'record_walk',
      text: `insert into verifications as v (tenant_id, sequence, hash, verified_at, started_at, finished_at, worked_ms, events, findings, report)
        select $1, verified.*, to_timestamp($2::float8 / 1000), clock_timestamp(), $3, $4, $5, $6
        from (select $7::bigint, $8::bytea, clock_timestamp()) verified (sequence, hash, at) right join (select) one on $5::int = 0
        where not exists (select from deleted_tenants where tenant_id = $1)
        on conflict (tenant_id) do update set started_at = excluded.started_at, finished_at = excluded.finished_at,
          worked_ms = excluded.worked_ms, events = excluded.events, findings = excluded.findings, report = excluded.report,
          sequence = coalesce(excluded.sequence, v.sequence), hash = coalesce(excluded.hash, v.hash),
          verified_at = coalesce(excluded.verified_at, v.verified_at)`,
      values: [tenant, startedMs, Math.ceil(workedMs), events, findings, report.join('\n'), last.sequence, last.hash],
    });
  });
}

/** What the metrics show. */
export interface WatchCounts {
  frozen: number;
  oldestSeconds: number;
  /** Of the last walk of each tenant. */
  differences: number;
}

/** Counts frozen tenants, how long ago the last walk of each log ended, or its tenant was created, and what those walks found. */
export async function countWatched(pool: Pool): Promise<WatchCounts> {
  const { rows } = await withClient(pool, (client) =>
    client.query<WatchCounts>({
      name: 'count_watched',
      // A tenant's UUIDv7 begins with the time of its creation, in milliseconds.
      text: `select (select count(*)::int from freezes) as frozen,
        coalesce(extract(epoch from clock_timestamp() - min(coalesce(finished_at,
          to_timestamp(('x' || left(replace(tenant_id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)))), 0)::float8 as "oldestSeconds",
        coalesce(sum(findings), 0)::float8 as differences from heads full join verifications using (tenant_id)`,
    }),
  );
  return rows[0] as WatchCounts;
}
