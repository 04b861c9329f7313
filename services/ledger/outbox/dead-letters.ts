// Dead letters: events that the sink rejected. The published offset has passed them; an operator has them published again.
import type pg from 'pg';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { withDerivedEvents } from '../../platform/derived-events.ts';
import { toId } from '../../platform/ids.ts';
import { errorMessage } from '../../platform/lifetime.ts';
import { queryFlagged, type Pool } from '../../platform/postgres.ts';
import { isPermanent } from '../../platform/postgres-errors.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { listEvents } from '../events.ts';
import { EventRejected, EventsDeferred, type EventSink } from './event-sink.ts';
import { isFree, leaseSeconds } from './relay-claims.ts';

interface Key {
  tenant_id: string;
  sequence: bigint;
  part: number;
}

/**
 * Publishes one dead letter that is due. Returns whether there was one. Throws where the sink or the database is unavailable: its claim expires, and it
 * is tried again.
 */
export async function publishDeadLetter(pool: Pool, publish: EventSink['publish'], logger: Logger): Promise<boolean> {
  const key = await claimDue(pool);
  if (!key) return false;
  const fields = { tenant: toId('tenant', key.tenant_id), sequence: key.sequence, part: key.part };
  let rejection: string | null = null;
  try {
    await publish([await readEvent(pool, key)]);
  } catch (error) {
    if (error instanceof EventsDeferred) {
      logger.warn({ err: error, ...fields }, 'dead letter deferred');
      return true;
    }
    if (!(error instanceof EventRejected)) throw error;
    rejection = error.message;
  }
  await recordResult(pool, key, rejection);
  logger.info({ ...fields, rejection }, rejection === null ? 'dead letter published' : 'dead letter rejected again');
  return true;
}

async function claimDue(pool: Pool): Promise<Key | undefined> {
  const { rows } = await queryFlagged<Key>(pool, {
    name: 'claim_dead_letter',
    text: `update relay_dead_letters set claimed_until = clock_timestamp() + make_interval(secs => ${leaseSeconds})
      where (tenant_id, sequence, part) = (
        select tenant_id, sequence, part from relay_dead_letters where published_at is null and due and ${isFree}
        order by claimed_until nulls first, tenant_id, sequence, part limit 1 for update skip locked)
      returning tenant_id, sequence, part`,
    values: [],
  });
  return rows[0];
}

/** Throws EventRejected where the event can't be read, so that the dead letters after it need not wait. */
async function readEvent(pool: Pool, { tenant_id, sequence, part }: Key): Promise<Event> {
  const { events } = await listEvents(pool, tenant_id, sequence - 1n, 1).catch((error: unknown) => {
    throw isPermanent(error) ? new EventRejected(`it can't be read: ${errorMessage(error)}`, { cause: error }) : error;
  });
  const event = events.find((each) => each.sequence === sequence);
  const published = event && withDerivedEvents(event)[part];
  if (!published) throw new EventRejected('no such event is derived from it');
  return published;
}

/** A rejected one waits for the operator again. */
async function recordResult(pool: Pool, { tenant_id, sequence, part }: Key, rejection: string | null): Promise<void> {
  await queryFlagged(pool, {
    text: `update relay_dead_letters set due = false, claimed_until = null,
        published_at = case when $4::text is null then clock_timestamp() end,
        reason = coalesce($4, reason), refusals = refusals + case when $4::text is null then 0 else 1 end
      where tenant_id = $1 and sequence = $2 and part = $3`,
    values: [tenant_id, sequence, part, rejection?.slice(0, 1000) ?? null],
  });
}

/** Dead letters that were not published since. */
export async function countDeadLetters(pool: Pool): Promise<number> {
  const { rows } = await queryFlagged<{ count: number }>(pool, {
    text: 'select count(*)::float8 as count from relay_dead_letters where published_at is null',
    values: [],
  });
  return rows[0]?.count ?? NaN;
}

/** What an operator does with dead letters: the running ledger publishes them again; or their events stay in the log only. */
const changes = { redrive: 'update relay_dead_letters set due = true', discard: 'delete from relay_dead_letters' };

/** A dead letter as the operator sees it, by the tenant's id. */
interface ChangedDeadLetter {
  tenant: string;
  sequence: number;
  part: number;
  event_type: string;
  reason: string;
}

/**
 * Changes the unpublished dead letters of a tenant (a UUID; undefined: of all) and returns them. `client` is the owner's. A second call finds those
 * that are still unpublished.
 */
export async function changeDeadLetters(
  client: pg.ClientBase,
  change: keyof typeof changes,
  tenant: string | undefined,
): Promise<ChangedDeadLetter[]> {
  const { rows } = await client.query<ChangedDeadLetter>(
    `${changes[change]} where published_at is null and ($1::uuid is null or tenant_id = $1)
      returning tenant_id as tenant, sequence::float8, part, type as event_type, reason`,
    [tenant ?? null],
  );
  return rows.map((row) => ({ ...row, tenant: toId('tenant', row.tenant) }));
}
