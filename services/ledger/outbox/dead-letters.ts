// Dead letters: events that the other side refused for themselves. The mark has passed them; an operator has them published again.
import type pg from 'pg';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toId } from '../../platform/ids.ts';
import { inTransaction, type Pool } from '../../platform/postgres.ts';
import { isDataError, bisect } from '../../platform/postgres-errors.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { eventColumns, eventOf, type EventRow } from '../events.ts';
import { isFree, leaseSeconds } from './relay-claims.ts';
import { EventRejected, EventsDeferred, type DeadLetter, type EventSink } from './event-sink.ts';
import { genesisHash } from '../log.ts';
import { withBalanceEvents } from '../../platform/balance-events.ts';

/** A dead letter as a line of the log tells of it: by the identifiers that callers know. */
export function lineOf({ tenant, eventId, ...rest }: DeadLetter): Record<string, unknown> {
  return { tenant: toId('tenant', tenant), event_id: toId('evt', eventId), ...rest };
}

// A dead letter that an operator wants published again, with its event's row and the hash before it.
type DueLetter = EventRow & Place & { previous_hash: Buffer | null };

interface Place {
  tenant_id: string;
  sequence: bigint;
  part: number;
}

// Claims dead letters that are due.
async function claimDueLetters(pool: Pool, most: number): Promise<Place[]> {
  const { rows } = await pool.query<Place>({
    name: 'claim_letters',
    text: `with due as (
        select tenant_id, sequence, part from relay_dead_letters
        where published_at is null and due and ${isFree}
        order by claimed_until nulls first, tenant_id, sequence, part limit $1 for update skip locked)
      update relay_dead_letters d set claimed_until = clock_timestamp() + make_interval(secs => ${leaseSeconds}) from due
      where d.tenant_id = due.tenant_id and d.sequence = due.sequence and d.part = due.part
      returning d.tenant_id, d.sequence, d.part`,
    values: [most],
  });
  return rows;
}

async function readLetters(pool: Pool, due: Place[]): Promise<DueLetter[]> {
  return inTransaction(pool, [...new Set(due.map((row) => row.tenant_id))], async (client) => {
    const { rows } = await client.query<DueLetter>({
      text: `select due.t as tenant_id, due.p as part, l.*, before.hash as previous_hash
        from unnest($1::uuid[], $2::bigint[], $3::int[]) as due (t, s, p),
          lateral (select ${eventColumns} from log where tenant_id = due.t and sequence = due.s offset 0) l
          left join lateral (select hash from log where tenant_id = due.t and sequence = due.s - 1 offset 0) before on true
        order by due.t, due.s, due.p`,
      values: [due.map((row) => row.tenant_id), due.map((row) => row.sequence), due.map((row) => row.part)],
    });
    return rows;
  });
}

// Notes that a dead letter was published (`refusal` null), or why not again: it then waits for the operator.
async function settleLetter(pool: Pool, letter: Place, refusal: string | null): Promise<void> {
  await pool.query({
    text: `update relay_dead_letters set due = false, claimed_until = null,
        published_at = case when $4::text is null then clock_timestamp() end,
        reason = coalesce($4, reason), refusals = refusals + case when $4::text is null then 0 else 1 end
      where tenant_id = $1 and sequence = $2 and part = $3`,
    values: [letter.tenant_id, letter.sequence, letter.part, refusal?.slice(0, 1000) ?? null],
  });
}

/** How many were not published since. */
export async function countDeadLetters(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ letters: number }>(
    'select count(*)::float8 as letters from relay_dead_letters where published_at is null',
  );
  return rows[0]?.letters ?? NaN;
}

/** What publishing dead letters needs. */
export interface LettersOptions {
  pool: Pool;
  exit: EventSink;
  logger: Logger;
  /** Ends it after the letter in hand. */
  signal: AbortSignal;
}

const lettersAtOnce = 10;

/** Publishes the dead letters that are due. Throws where the other side, or the database, is away. */
export async function publishDueDeadLetters(options: LettersOptions): Promise<void> {
  let due: Place[];
  do {
    due = await claimDueLetters(options.pool, lettersAtOnce);
    if (due.length > 0) await publishLetters(due, options);
  } while (due.length === lettersAtOnce && !options.signal.aborted);
}

async function publishLetters(due: Place[], options: LettersOptions): Promise<void> {
  const letters: DueLetter[] = [];
  const read = async (part: readonly Place[]) => void letters.push(...(await readLetters(options.pool, [...part])));
  await bisect(due, read, (letter, why) => conclude(letter, unreadable(why), options));
  for (const letter of letters) await publishLetter(letter, options);
}

async function publishLetter(letter: DueLetter, options: LettersOptions): Promise<void> {
  const { exit, logger } = options;
  let refusal: string | null = null;
  try {
    await exit.publish([eventIn(letter)]);
  } catch (error) {
    if (error instanceof EventsDeferred) {
      // Its lease runs out, and it comes again; those behind it need not wait for that.
      logger.warn({ err: error, ...placeOf(letter) }, 'a dead letter was not taken');
      return;
    }
    if (!(error instanceof EventRejected)) throw error;
    refusal = error.message;
  }
  await conclude(letter, refusal, options);
}

async function conclude(letter: Place, refusal: string | null, { pool, logger }: LettersOptions): Promise<void> {
  try {
    await settleLetter(pool, letter, refusal);
  } catch (error) {
    if (!isDataError(error)) throw error;
    // As above: it comes again, and those behind it need not wait for that.
    logger.warn({ err: error, ...placeOf(letter) }, 'what came of a dead letter could not be written down');
    return;
  }
  logger.info({ ...placeOf(letter), refusal }, refusal === null ? 'a dead letter was published' : 'a dead letter was refused again');
}

function placeOf({ tenant_id, sequence, part }: Place): Record<string, unknown> {
  return { tenant: toId('tenant', tenant_id), sequence, part };
}

// What can't be read is refused like what the other side does not take: those behind it need not wait for it.
function eventIn(letter: DueLetter): Event {
  let event: Event | undefined;
  try {
    event = withBalanceEvents(eventOf(letter.tenant_id, letter, letter.previous_hash ?? genesisHash))[letter.part];
  } catch (error) {
    throw new EventRejected(unreadable(error), { cause: error });
  }
  if (!event) throw new EventRejected('the posting has no such event');
  return event;
}

function unreadable(error: unknown): string {
  return `it can't be read: ${(error as Error).message}`;
}

interface Waiting {
  tenant_id: string;
  sequence: string;
  part: number;
  type: string;
  reason: string;
}

function told(rows: Waiting[], say: (line: string) => void): number {
  for (const { tenant_id, sequence, part, type, reason } of rows)
    say(`${toId('tenant', tenant_id)} ${sequence}.${part} ${type}: ${reason}`);
  return rows.length;
}

/**
 * Has the dead letters of a tenant (a UUID; undefined: of all) published again by the ledger that runs. `client` is the owner's. Tells of
 * each and answers how many.
 */
export async function redrive(client: pg.ClientBase, tenant: string | undefined, say: (line: string) => void): Promise<number> {
  const { rows } = await client.query<Waiting>(
    `update relay_dead_letters set due = true where published_at is null and ($1::uuid is null or tenant_id = $1)
      returning tenant_id, sequence::text, part, type, reason`,
    [tenant ?? null],
  );
  return told(rows, say);
}

/**
 * Throws the dead letters of a tenant (a UUID; undefined: of all) away that were not published: their events stay in the log, and nowhere else.
 * `client` is the owner's. Tells of each and answers how many.
 */
export async function discard(client: pg.ClientBase, tenant: string | undefined, say: (line: string) => void): Promise<number> {
  const { rows } = await client.query<Waiting>(
    `delete from relay_dead_letters where published_at is null and ($1::uuid is null or tenant_id = $1)
      returning tenant_id, sequence::text, part, type, reason`,
    [tenant ?? null],
  );
  return told(rows, say);
}
