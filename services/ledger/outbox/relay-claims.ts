// The relay's side of the marks: claimed, read from, raised and given back, found again and measured.
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { inTransaction, epochMs, type Pool } from '../../platform/postgres.ts';
import { bisect } from '../../platform/postgres-errors.ts';
import { withBalanceEvents } from '../../platform/balance-events.ts';
import { eventColumns, eventNames, eventOf, type EventRow } from '../events.ts';
import type { DeadLetter, UnpublishedRange, SequenceRange } from './event-sink.ts';
import { genesisHash } from '../log.ts';

/** A row of the log of a claimed tenant, or nulls where it has none beyond its mark; the row of the mark itself is there for its hash. */
export type ClaimedRow = { tenant_id: string; mark: bigint } & (EventRow | Record<keyof EventRow, null>);

/** A tenant's mark in hand, and what was read beyond it. */
export interface Claimed extends SequenceRange {
  /** Events of the log; `events` may have those that are derived, too. */
  read: number;
  /** Their payload. */
  bytes: number;
  events: Event[];
  /** Why the row behind `through` can't be read; absent where it can, or was not asked for. */
  unreadable?: unknown;
}

/** How long a claim holds unless it is given back or renewed, seconds: so long the events of a replica that was killed wait for another. */
export const leaseSeconds = 10;

/**
 * Of a row that may be claimed: nobody has claimed it, or his time is over. So it is where it lasts for much longer than a claim does: the database's clock
 * was set back, and who was killed since would have kept it for as long as that. (Set back by less, it frees nobody's who lives.)
 */
export const isFree = `(claimed_until is null
      or claimed_until not between clock_timestamp() and clock_timestamp() + make_interval(secs => ${2 * leaseSeconds}))`;

const claimed = `free as (
    select tenant_id from relay_marks
    where tenant_id = any($1::uuid[]) and ${isFree}
    order by tenant_id for update skip locked),
  claimed as (
    update relay_marks m set claim_id = $2, claimed_until = clock_timestamp() + make_interval(secs => ${leaseSeconds})
    from free where m.tenant_id = free.tenant_id
    returning m.tenant_id, m.sequence as mark)`;

/**
 * Claims the tenants (UUIDs) whose marks are free and reads what lies beyond them, in one round trip: of each at most `most` events and about
 * `bytes` of payload, but one event at least. What another replica holds is left out. The transaction is over before anybody is asked to take the events.
 */
export async function claim(pool: Pool, tenants: string[], claimId: string, most: number, bytes: number): Promise<ClaimedRow[]> {
  return inTransaction(pool, tenants, async (client) => {
    const { rows } = await client.query<ClaimedRow>({
      name: 'claim_marks',
      text: `with ${claimed}
        select c.tenant_id, c.mark, l.* from claimed c left join lateral (
          select ${eventNames} from (
            select ${eventColumns}, sum(case when sequence > c.mark then octet_length(payload) else 0 end)
                over (order by sequence rows between unbounded preceding and 1 preceding) as before
            from log where tenant_id = c.tenant_id and sequence >= c.mark order by sequence limit $3) counted
          where before is null or before <= $4 or sequence = c.mark + 1 offset 0) l on true
        order by c.tenant_id, l.sequence`,
      values: [tenants, claimId, most + 1, bytes],
    });
    return rows;
  });
}

/** What was claimed, with every event that must be published, by tenant. `derives`: as the exit does. */
export function claimsOf(rows: ClaimedRow[], derives: boolean): Claimed[] {
  return [...Map.groupBy(rows, (row) => row.tenant_id)].map(([tenant, [...own]]) => {
    const mark = own[0]?.mark ?? 0n;
    const stored = own.filter((row) => row.sequence !== null);
    const beyond = stored.filter((row) => row.sequence > mark);
    // The row of the mark is read with them for its hash.
    const before = stored.length > beyond.length ? stored[0] : undefined;
    const claimed: Claimed = { tenant, mark, through: mark, read: 0, bytes: 0, events: [] };
    for (const [place, row] of beyond.entries()) {
      try {
        const event = eventOf(tenant, row, beyond[place - 1]?.hash ?? before?.hash ?? genesisHash);
        claimed.events.push(...(derives ? [event] : withBalanceEvents(event)));
      } catch (error) {
        // Thrown, it would keep back the events of all tenants, and not only what lies behind it.
        claimed.unreadable = error;
        break;
      }
      claimed.through = row.sequence;
      claimed.read++;
      claimed.bytes += row.payload.length;
    }
    return claimed;
  });
}

/** Claims as {@link claim} does, but reads only where the logs end. */
export async function claimEnds(pool: Pool, tenants: string[], claimId: string): Promise<UnpublishedRange[]> {
  return inTransaction(pool, tenants, async (client) => {
    const { rows } = await client.query<UnpublishedRange>({
      name: 'claim_ends',
      text: `with ${claimed}
        select c.tenant_id as tenant, c.mark, greatest(c.mark, h.sequence) as through, ${epochMs('h.last_at')}::int8 as "createdMs"
        from claimed c, lateral (select sequence, last_at from heads where tenant_id = c.tenant_id offset 0) h order by c.tenant_id`,
      values: [tenants, claimId],
    });
    return rows;
  });
}

/** Lengthens a claim that is still held. */
export async function renew(pool: Pool, claimId: string, tenants: string[]): Promise<void> {
  await pool.query({
    name: 'renew_marks',
    text: `with mine as (
        select tenant_id from relay_marks where tenant_id = any($2::uuid[]) and claim_id = $1 order by tenant_id for update)
      update relay_marks m set claimed_until = clock_timestamp() + make_interval(secs => ${leaseSeconds})
      from mine where m.tenant_id = mine.tenant_id`,
    values: [claimId, tenants],
  });
}

/**
 * Gives claims back, each mark raised to where its tenant's events are published, and keeps what was refused on the way. Only of marks that
 * the claim still holds: whoever took over after the lease says himself how far he came. Answers of which tenants PostgreSQL refuses that, and why:
 * their claims run out, and nobody else's events are published again for them.
 */
export async function settle(
  pool: Pool,
  claimId: string,
  marks: readonly { tenant: string; sequence: bigint }[],
  refused: readonly DeadLetter[],
): Promise<Map<string, unknown>> {
  const unsettled = new Map<string, unknown>();
  if (marks.length === 0) return unsettled;
  const lettersOf = (part: typeof marks) => refused.filter((letter) => part.some(({ tenant }) => tenant === letter.tenant));
  const take = (part: typeof marks) => settleTogether(pool, claimId, part, part === marks ? refused : lettersOf(part));
  await bisect(marks, take, ({ tenant }, why) => unsettled.set(tenant, why));
  return unsettled;
}

async function settleTogether(
  pool: Pool,
  claimId: string,
  marks: readonly { tenant: string; sequence: bigint }[],
  refused: readonly DeadLetter[],
): Promise<void> {
  const raise = `mine as (
      select m.tenant_id, raised.s from unnest($2::uuid[], $3::bigint[]) as raised (t, s) join relay_marks m on m.tenant_id = raised.t
      where m.claim_id = $1 order by m.tenant_id for update of m),
    raised as (
      update relay_marks m set sequence = greatest(m.sequence, mine.s), claim_id = null, claimed_until = null
      from mine where m.tenant_id = mine.tenant_id
      returning m.tenant_id)`;
  const values = [claimId, marks.map(({ tenant }) => tenant), marks.map(({ sequence }) => sequence)];
  await pool.query(
    refused.length === 0
      ? { name: 'settle_marks', text: `with ${raise} select tenant_id from raised`, values }
      : {
          text: `with ${raise},
            kept as (
              insert into relay_dead_letters (tenant_id, sequence, part, event_id, type, reason)
              select t, s, p, e, y, r from unnest($4::uuid[], $5::bigint[], $6::int[], $7::uuid[], $8::text[], $9::text[])
                as refused (t, s, p, e, y, r) join raised on raised.tenant_id = refused.t
              on conflict (tenant_id, sequence, part) do update
                set reason = excluded.reason, refused_at = clock_timestamp(), refusals = relay_dead_letters.refusals + 1, published_at = null)
            select tenant_id from raised`,
          values: [
            ...values,
            refused.map(({ tenant }) => tenant),
            refused.map(({ sequence }) => sequence),
            refused.map(({ part }) => part),
            refused.map(({ eventId }) => eventId),
            refused.map(({ type }) => type),
            refused.map(({ reason }) => reason.slice(0, 1000)),
          ],
        },
  );
}

/** What the poll has found. */
export interface Leftovers {
  /** Tenants whose logs hold more than is published, and those of whom that can't be read. */
  behind: string[];
  /** Where the next poll begins; null: from the first tenant again. */
  next: string | null;
}

const pageOfMarks = 1000;

/**
 * Looks through the next open marks (or all, with `everything`), a bounded number at a time, for tenants with events to publish; closes the marks of those that have
 * been quiet. Under the head's lock, so that no change that believes the mark to be open is on its way.
 */
export async function findUnpublished(pool: Pool, after: string | null, everything = false): Promise<Leftovers> {
  const zero = '00000000-0000-0000-0000-000000000000';
  const open = await pool.query<{ tenant_id: string; over: boolean | null }>({
    name: everything ? 'marks_page' : 'open_marks_page',
    text: `select tenant_id, open_until <= clock_timestamp() as over from relay_marks
      where ${everything ? '' : 'open_until is not null and '}tenant_id > $1 order by tenant_id limit ${pageOfMarks}`,
    values: [after ?? zero],
  });
  const tenants = open.rows.map((row) => row.tenant_id);
  if (tenants.length === 0) return { behind: [], next: null };
  const over = open.rows.filter((row) => row.over === true).map((row) => row.tenant_id);
  const behind = await behindOf(pool, tenants, new Set(over));
  return { behind, next: tenants.length < pageOfMarks ? null : (tenants.at(-1) as string) };
}

async function behindOf(pool: Pool, tenants: string[], over: Set<string>): Promise<string[]> {
  const behind: string[] = [];
  const look = (part: readonly string[]) =>
    inTransaction(pool, [...part], async (client) => {
      const { rows } = await client.query<{ tenant_id: string }>({
        name: 'behind',
        text: `select m.tenant_id from relay_marks m join heads h on h.tenant_id = m.tenant_id
        where m.tenant_id = any($1::uuid[]) and h.sequence > m.sequence order by m.tenant_id`,
        values: [part],
      });
      const quiet = part.filter((tenant) => over.has(tenant));
      if (quiet.length > 0) {
        await client.query({
          name: 'close_marks',
          text: `with quiet as (select tenant_id, sequence from heads where tenant_id = any($1::uuid[]) order by tenant_id for update skip locked)
          update relay_marks m set open_until = null from quiet
          where m.tenant_id = quiet.tenant_id and m.sequence = quiet.sequence and m.open_until <= clock_timestamp()`,
          values: [quiet],
        });
      }
      behind.push(...rows.map((row) => row.tenant_id));
    });
  await bisect(tenants, look, (tenant) => behind.push(tenant));
  return behind;
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
