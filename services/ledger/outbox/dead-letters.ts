// Dead letters: events that the sink rejected. The published offset has passed them; an operator has them published again.
import type pg from 'pg';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { withBalanceEvents } from '../../platform/balance-events.ts';
import { toId } from '../../platform/ids.ts';
import { errorMessage } from '../../platform/lifetime.ts';
import { inTransaction, type Pool } from '../../platform/postgres.ts';
import { isDataError } from '../../platform/postgres-errors.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { eventColumns, eventOf, type EventRow } from '../events.ts';
import { genesisHash } from '../log.ts';
import { EventRejected, EventsDeferred, type DeadLetter, type EventSink } from './event-sink.ts';
import { isFree, leaseSeconds } from './relay-claims.ts';

/** A dead letter as fields of a log line, with public ids. */
export function logFields({ tenant, eventId, ...rest }: DeadLetter): Record<string, unknown> {
  return { tenant: toId('tenant', tenant), event_id: toId('evt', eventId), ...rest };
}

interface Key {
  tenant_id: string;
  sequence: bigint;
  part: number;
}

async function claimDue(pool: Pool, limit: number): Promise<Key[]> {
  const { rows } = await pool.query<Key>({
    name: 'claim_dead_letters',
    text: `with due as (
        select tenant_id, sequence, part from relay_dead_letters
        where published_at is null and due and ${isFree}
        order by claimed_until nulls first, tenant_id, sequence, part limit $1 for update skip locked)
      update relay_dead_letters d set claimed_until = clock_timestamp() + make_interval(secs => ${leaseSeconds}) from due
      where d.tenant_id = due.tenant_id and d.sequence = due.sequence and d.part = due.part
      returning d.tenant_id, d.sequence, d.part`,
    values: [limit],
  });
  return rows;
}

const unreadable = (error: unknown) => new EventRejected(`it can't be read: ${errorMessage(error)}`, { cause: error });

/** Throws EventRejected where the event can't be read, so that the dead letters after it need not wait. */
async function readEvent(pool: Pool, { tenant_id, sequence, part }: Key): Promise<Event> {
  const query = inTransaction(pool, [tenant_id], (client) =>
    client.query<EventRow & { previous_hash: Buffer | null }>(
      `select ${eventColumns}, (select hash from log where tenant_id = $1 and sequence = $2 - 1) as previous_hash
        from log where tenant_id = $1 and sequence = $2`,
      [tenant_id, sequence],
    ),
  );
  const { rows } = await query.catch((error: unknown) => {
    throw isDataError(error) ? unreadable(error) : error;
  });
  const [row] = rows;
  let event: Event | undefined;
  try {
    event = row && withBalanceEvents(eventOf(tenant_id, row, row.previous_hash ?? genesisHash))[part];
  } catch (error) {
    throw unreadable(error);
  }
  if (!event) throw new EventRejected('the posting has no such event');
  return event;
}

/** What publishing dead letters needs. */
export interface DeadLetterOptions {
  pool: Pool;
  publish: EventSink['publish'];
  logger: Logger;
  /** Stops after the current dead letter. */
  signal: AbortSignal;
}

const batchSize = 10;

/** Publishes the dead letters that are due. Throws where the sink or the database is unavailable. */
export async function publishDueDeadLetters(options: DeadLetterOptions): Promise<void> {
  let due: Key[];
  do {
    due = await claimDue(options.pool, batchSize);
    for (const key of due) if (!options.signal.aborted) await publishDeadLetter(key, options);
  } while (due.length === batchSize && !options.signal.aborted);
}

async function publishDeadLetter(key: Key, { pool, publish, logger }: DeadLetterOptions): Promise<void> {
  const fields = { tenant: toId('tenant', key.tenant_id), sequence: key.sequence, part: key.part };
  let rejection: string | null = null;
  try {
    await publish([await readEvent(pool, key)]);
  } catch (error) {
    // Its claim expires, and it is tried again.
    if (error instanceof EventsDeferred) return logger.warn({ err: error, ...fields }, 'dead letter deferred');
    if (!(error instanceof EventRejected)) throw error;
    rejection = error.message;
  }
  await recordResult(pool, key, rejection);
  logger.info({ ...fields, rejection }, rejection === null ? 'dead letter published' : 'dead letter rejected again');
}

/** A rejected one waits for the operator again. */
async function recordResult(pool: Pool, { tenant_id, sequence, part }: Key, rejection: string | null): Promise<void> {
  await pool.query({
    text: `update relay_dead_letters set due = false, claimed_until = null,
        published_at = case when $4::text is null then clock_timestamp() end,
        reason = coalesce($4, reason), refusals = refusals + case when $4::text is null then 0 else 1 end
      where tenant_id = $1 and sequence = $2 and part = $3`,
    values: [tenant_id, sequence, part, rejection?.slice(0, 1000) ?? null],
  });
}

/** Dead letters that were not published since. */
export async function countDeadLetters(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    'select count(*)::float8 as count from relay_dead_letters where published_at is null',
  );
  return rows[0]?.count ?? NaN;
}

/**
 * Marks the dead letters of a tenant (a UUID; undefined: of all) as due: the running ledger publishes them. `client` is the owner's. Prints each and
 * returns how many.
 */
export function redrive(client: pg.ClientBase, tenant: string | undefined, print: (line: string) => void): Promise<number> {
  return changeUnpublished(client, 'update relay_dead_letters set due = true', tenant, print);
}

/**
 * Deletes the unpublished dead letters of a tenant (a UUID; undefined: of all): their events stay in the log only. `client` is the owner's. Prints
 * each and returns how many.
 */
export function discard(client: pg.ClientBase, tenant: string | undefined, print: (line: string) => void): Promise<number> {
  return changeUnpublished(client, 'delete from relay_dead_letters', tenant, print);
}

async function changeUnpublished(
  client: pg.ClientBase,
  statement: string,
  tenant: string | undefined,
  print: (line: string) => void,
): Promise<number> {
  const { rows } = await client.query<{ tenant_id: string; sequence: string; part: number; type: string; reason: string }>(
    `${statement} where published_at is null and ($1::uuid is null or tenant_id = $1)
      returning tenant_id, sequence::text, part, type, reason`,
    [tenant ?? null],
  );
  for (const { tenant_id, sequence, part, type, reason } of rows)
    print(`${toId('tenant', tenant_id)} ${sequence}.${part} ${type}: ${reason}`);
  return rows.length;
}
