// The relay's SQL on cursors (`relay_marks`): claim them and read events, advance published offsets, find unpublished events, measure the lag.
import { fromBinary } from '@bufbuild/protobuf';
import { LogImportedSchema, type Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { withDerivedEvents } from '../../platform/derived-events.ts';
import { toUuid } from '../../platform/ids.ts';
import { inTransaction, epochMs, queryFlagged, type Pool } from '../../platform/postgres.ts';
import { bisect } from '../../platform/postgres-errors.ts';
import { eventColumns, eventNames, eventOf, type EventRow } from '../events.ts';
import { genesisHash } from '../log.ts';
import type { UnpublishedRange } from './event-sink.ts';
import type { RejectedEvent } from './publication.ts';

/** A row of the log of a claimed tenant, from its published offset on; nulls where there is none. */
type ClaimedRow = { tenant_id: string; published: bigint } & (EventRow | Record<keyof EventRow, null>);

/** What is published of a claimed tenant's log. */
export interface Claimed extends PublishedOffset {
  /** Oldest first; the last one has the claim's `sequence`. */
  events: Event[];
  /** Whether the limits cut the range off. */
  hasMore: boolean;
  /** Why the next event can't be decoded. */
  unreadable?: unknown;
}

/** What is read of each tenant, at most; one event at least. */
export interface ClaimOptions {
  events: number;
  /** Payload. */
  bytes: number;
  /** Leaves out derived events. */
  derivesEvents: boolean;
}

/** How long a claim lasts unless it is renewed, seconds. Events that a killed replica claimed wait that long. */
export const leaseSeconds = 10;

/** Whether a row may be claimed. A claim in the far future was made before the database's clock was set back: it counts as expired. */
export const isFree = `(claimed_until is null
      or claimed_until not between clock_timestamp() and clock_timestamp() + make_interval(secs => ${2 * leaseSeconds}))`;

const claimed = `free as (
    select tenant_id from relay_marks
    where tenant_id = any($1::uuid[]) and (claim_id = $2 or ${isFree})
    order by tenant_id for update skip locked),
  claimed as (
    update relay_marks m set claim_id = $2, claimed_until = clock_timestamp() + make_interval(secs => ${leaseSeconds})
    from free where m.tenant_id = free.tenant_id
    returning m.tenant_id, m.sequence as published)`;

/**
 * Claims the cursors of tenants (UUIDs) and reads the events after their published offsets; leaves out cursors that another `claimId` has claimed. The
 * transaction ends before anything is published.
 */
export async function claim(pool: Pool, tenants: string[], claimId: string, options: ClaimOptions): Promise<Claimed[]> {
  const { rows } = await inTransaction(pool, tenants, (client) =>
    client.query<ClaimedRow>({
      name: 'claim_cursors',
      // The event at the published offset is read, too: the next event carries its hash.
      text: `with ${claimed}
        select c.tenant_id, c.published, l.* from claimed c left join lateral (
          select ${eventNames} from (
            select ${eventColumns}, sum(case when sequence > c.published then octet_length(payload) else 0 end)
                over (order by sequence rows between unbounded preceding and 1 preceding) as before
            from log where tenant_id = c.tenant_id and sequence >= c.published order by sequence limit $3) counted
          where before is null or before <= $4 or sequence = c.published + 1 offset 0) l on true
        order by c.tenant_id, l.sequence`,
      values: [tenants, claimId, options.events + 1, options.bytes],
    }),
  );
  return [...Map.groupBy(rows, (row) => row.tenant_id)].map(([tenant, own]) => claimedOf(tenant, own, options));
}

function claimedOf(tenant: string, rows: ClaimedRow[], options: ClaimOptions): Claimed {
  const published = rows[0]?.published ?? 0n;
  const stored = rows.filter((row) => row.sequence !== null);
  let previousHash = stored[0]?.sequence === published ? stored[0].hash : genesisHash;
  const unpublished = stored.filter((row) => row.sequence > published);
  const bytes = unpublished.reduce((sum, { payload }) => sum + payload.length, 0);
  const hasMore = unpublished.length >= options.events || bytes > options.bytes;
  const claimed: Claimed = { tenant, sequence: published, events: [], hasMore };
  for (const row of unpublished) {
    try {
      const event = eventOf(tenant, row, previousHash);
      claimed.events.push(...(options.derivesEvents ? [event] : withDerivedEvents(event)));
    } catch (error) {
      return { ...claimed, unreadable: error };
    }
    [claimed.sequence, previousHash] = [row.sequence, row.hash];
    if (row.sequence === 1n && row.type === 'log.imported') {
      // What was imported is not published: the next claim goes on behind it.
      const { size } = fromBinary(LogImportedSchema, row.payload);
      return { ...claimed, sequence: row.sequence + size, hasMore: true };
    }
  }
  return claimed;
}

/** Where a log ends, and whether a transaction was redacted in the unpublished part: the notifier may still have deliveries of it. */
export interface ClaimedRange extends UnpublishedRange {
  isRedacted: boolean;
}

/** Claims as {@link claim} does, but reads only where the logs end. */
export async function claimRanges(pool: Pool, tenants: string[], claimId: string): Promise<ClaimedRange[]> {
  const { rows } = await inTransaction(pool, tenants, (client) =>
    client.query<ClaimedRange>({
      name: 'claim_ranges',
      text: `with ${claimed}
        select c.tenant_id as tenant, c.published, greatest(c.published, h.sequence) as through, ${epochMs('h.last_at')}::int8 as "createdMs",
          exists (select from redactions where tenant_id = c.tenant_id) and exists (select from log
            where tenant_id = c.tenant_id and sequence > c.published and sequence <= h.sequence and type = 'transaction.redacted') as "isRedacted"
        from claimed c, lateral (select sequence, last_at from heads where tenant_id = c.tenant_id offset 0) h order by c.tenant_id`,
      values: [tenants, claimId],
    }),
  );
  return rows;
}

/** Which of these tenants have a cursor. Deleted ones have none. */
export async function tenantsWithCursor(pool: Pool, tenants: string[]): Promise<Set<string>> {
  if (tenants.length === 0) return new Set();
  const { rows } = await queryFlagged<{ tenant_id: string }>(pool, {
    name: 'existing_cursors',
    text: 'select tenant_id from relay_marks where tenant_id = any($1::uuid[])',
    values: [tenants],
  });
  return new Set(rows.map((row) => row.tenant_id));
}

/** Extends a claim that has not been taken over. */
export async function renew(pool: Pool, claimId: string, tenants: string[]): Promise<void> {
  await queryFlagged(pool, {
    name: 'renew_cursors',
    text: `with mine as (
        select tenant_id from relay_marks where tenant_id = any($2::uuid[]) and claim_id = $1 order by tenant_id for update)
      update relay_marks m set claimed_until = clock_timestamp() + make_interval(secs => ${leaseSeconds})
      from mine where m.tenant_id = mine.tenant_id`,
    values: [claimId, tenants],
  });
}

/** A tenant's (UUID) new published offset; one below the stored offset leaves that as it is. */
export interface PublishedOffset {
  tenant: string;
  sequence: bigint;
}

/**
 * Advances published offsets, keeps dead letters and releases the claims, of cursors that another replica has not taken over. Returns the tenants for
 * which PostgreSQL refused that, and why: their claims expire.
 */
export async function settle(
  pool: Pool,
  claimId: string,
  offsets: readonly PublishedOffset[],
  rejected: readonly RejectedEvent[],
): Promise<Map<string, unknown>> {
  const failed = new Map<string, unknown>();
  const text = `with mine as (
      select m.tenant_id, advanced.s from unnest($2::uuid[], $3::bigint[]) as advanced (t, s) join relay_marks m on m.tenant_id = advanced.t
      where m.claim_id = $1 order by m.tenant_id for update of m),
    advanced as (
      update relay_marks m set sequence = greatest(m.sequence, mine.s), claim_id = null, claimed_until = null
      from mine where m.tenant_id = mine.tenant_id
      returning m.tenant_id)
    insert into relay_dead_letters (tenant_id, sequence, part, event_id, type, reason)
      select rejected.* from json_to_recordset($4) as rejected (tenant_id uuid, sequence bigint, part int, event_id uuid, type text, reason text)
        join advanced using (tenant_id)
      on conflict (tenant_id, sequence, part) do update
        set reason = excluded.reason, refused_at = clock_timestamp(), refusals = relay_dead_letters.refusals + 1, published_at = null`;
  const deadLetters = rejected.map(({ event: { tenantId, sequence, part, id, type }, reason }) => {
    const key = { tenant_id: toUuid('tenant', tenantId), sequence: sequence.toString(), part };
    return { ...key, event_id: toUuid('evt', id), type, reason: reason.slice(0, 1000) };
  });
  const write = async (part: readonly PublishedOffset[]) => {
    const [tenants, sequences] = [part.map(({ tenant }) => tenant), part.map(({ sequence }) => sequence)];
    await queryFlagged(pool, { name: 'settle_cursors', text, values: [claimId, tenants, sequences, JSON.stringify(deadLetters)] });
  };
  await bisect(offsets, write, ({ tenant }, error) => failed.set(tenant, error));
  return failed;
}

const pageSize = 1000;

/**
 * Reads a page of active cursors after a tenant (with `everything`, of all cursors) and returns tenants with unpublished events, or unreadable ones;
 * `next` is where the next page begins, null at the end. Deactivates expired cursors under the head's lock, so that no change overlooks it.
 */
export async function findUnpublished(
  pool: Pool,
  after: string | null,
  everything = false,
): Promise<{ tenants: string[]; next: string | null }> {
  const { rows } = await queryFlagged<{ tenant_id: string }>(pool, {
    name: everything ? 'cursors_page' : 'active_cursors_page',
    text: `select tenant_id from relay_marks
      where ${everything ? '' : 'open_until is not null and '}tenant_id > $1 order by tenant_id limit ${pageSize}`,
    values: [after ?? '00000000-0000-0000-0000-000000000000'],
  });
  const page = rows.map((row) => row.tenant_id);
  const found: string[] = [];
  const look = async (part: readonly string[]) => {
    const unpublished = await inTransaction(pool, [...part], (client) =>
      client.query<{ tenant_id: string }>({
        name: 'unpublished',
        text: `with quiet as (
            select h.tenant_id, h.sequence from relay_marks m join heads h on h.tenant_id = m.tenant_id
            where m.tenant_id = any($1::uuid[]) and m.open_until <= clock_timestamp() order by h.tenant_id for update of h skip locked),
          deactivated as (
            update relay_marks m set open_until = null from quiet
            where m.tenant_id = quiet.tenant_id and m.sequence = quiet.sequence and m.open_until <= clock_timestamp())
          select m.tenant_id from relay_marks m join heads h on h.tenant_id = m.tenant_id
          where m.tenant_id = any($1::uuid[]) and h.sequence > m.sequence order by m.tenant_id`,
        values: [part],
      }),
    );
    found.push(...unpublished.rows.map((row) => row.tenant_id));
  };
  if (page.length > 0) await bisect(page, look, (tenant) => found.push(tenant));
  return { tenants: found, next: page.length < pageSize ? null : (page.at(-1) ?? null) };
}

/** How far publication is behind, over all tenants. */
export interface Lag {
  events: number;
  /** Age of the oldest event that is not published. */
  seconds: number;
}

/** Measures the lag. */
export async function lag(pool: Pool): Promise<Lag> {
  return inTransaction(pool, [], async (client) => {
    await client.query(`select set_config('app.tenants', coalesce(
      (select array_agg(tenant_id)::text from relay_marks where open_until is not null), '{}'), true)`);
    const { rows } = await client.query<Lag>(
      `select coalesce(sum(h.sequence - m.sequence), 0)::float8 as events,
          coalesce(extract(epoch from clock_timestamp() - min(l.created_at)), 0)::float8 as seconds
        from relay_marks m join heads h on h.tenant_id = m.tenant_id and h.sequence > m.sequence
          left join lateral (select created_at from log where tenant_id = m.tenant_id and sequence = m.sequence + 1 offset 0) l on true
        where m.open_until is not null`,
    );
    return rows[0] as Lag;
  });
}
