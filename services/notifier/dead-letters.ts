// Dead letters: messages that cannot be consumed, stored with the reason until an operator tries them again.
import { fromBinary } from '@bufbuild/protobuf';
import { v7 as uuidv7 } from 'uuid';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { bytesArray, textArray, uuidArray } from '../platform/arrays.ts';
import { allSettledOrThrow, inTransaction, type Client, type Pool } from '../platform/postgres.ts';

/** A message that cannot be consumed. */
export interface DeadLetter {
  /** Where it came from: topic, partition and offset, or tenant and position in its log. */
  source: string;
  key?: Uint8Array | null;
  value: Uint8Array;
  reason: string;
}

/** Lets the transaction see dead letters. */
export const deadLettersJob = { name: 'job_dead_letters', text: `select set_config('app.job', 'dead letters', true)` };

const insert = {
  name: 'insert_dead_letters',
  text: `insert into dead_letters (id, source, key, value, reason, received_at)
    select *, clock_timestamp() from unnest($1::uuid[], $2::text[], $3::bytea[], $4::bytea[], $5::text[]) on conflict do nothing
    returning id`,
};

/** Inserts dead letters; answers those that are new. A second call with the same inserts nothing. */
export async function insertDeadLetters(client: Client, deadLetters: DeadLetter[]): Promise<DeadLetter[]> {
  if (deadLetters.length === 0) return [];
  const text = (value: string) => value.replaceAll('\0', '\ufffd').slice(0, 1000);
  const ids = deadLetters.map(() => uuidv7());
  const values = [
    uuidArray(ids),
    textArray(deadLetters.map(({ source }) => text(source))),
    bytesArray(deadLetters.map(({ key }) => key ?? null)),
    bytesArray(deadLetters.map(({ value }) => value)),
    textArray(deadLetters.map(({ reason }) => text(reason))),
  ];
  const [, { rows }] = await allSettledOrThrow([client.query(deadLettersJob), client.query<{ id: string }>({ ...insert, values })]);
  const insertedIds = new Set(rows.map(({ id }) => id));
  return deadLetters.filter((_, index) => insertedIds.has(ids[index] as string));
}

/** The ids of all dead letters, the oldest first. */
export async function listDeadLetters(pool: Pool): Promise<string[]> {
  return inTransaction(pool, [], async (client) => {
    await client.query(deadLettersJob);
    return (await client.query<{ id: string }>('select id from dead_letters order by id')).rows.map((row) => row.id);
  });
}

/** A dead letter as the operator sees it. */
export interface StoredDeadLetter {
  id: string;
  source: string;
  reason: string;
  /** ISO 8601. */
  received_at: string;
}

/** The oldest dead letters, at most so many, and how many there are. */
export async function readDeadLetters(pool: Pool, limit: number): Promise<{ deadLetters: StoredDeadLetter[]; total: number }> {
  return inTransaction(pool, [], async (client) => {
    await client.query(deadLettersJob);
    const { rows } = await client.query<StoredDeadLetter>(
      `select id, source, reason, to_char(received_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as received_at
        from dead_letters order by id limit $1`,
      [limit],
    );
    const counted = await client.query<{ total: number }>('select count(*)::float8 as total from dead_letters');
    return { deadLetters: rows, total: counted.rows[0]?.total ?? 0 };
  });
}

/**
 * Deletes a dead letter after `consume` has consumed its event, in one transaction, which sees no tenant's rows yet; false if it does not exist.
 * Throws if it still can't be decoded or consumed.
 */
export async function redriveDeadLetter(
  pool: Pool,
  id: string,
  consume: (client: Client, event: Event) => Promise<unknown>,
): Promise<boolean> {
  return inTransaction(pool, [], async (client) => {
    await client.query(deadLettersJob);
    const { rows } = await client.query<{ value: Buffer }>('select value from dead_letters where id = $1 for update', [id]);
    if (!rows[0]) return false;
    await consume(client, fromBinary(EventSchema, rows[0].value));
    await client.query('delete from dead_letters where id = $1', [id]);
    return true;
  });
}

/** Deletes dead letters (ids); answers those that existed. */
export async function discardDeadLetters(pool: Pool, ids: string[]): Promise<{ id: string; source: string }[]> {
  return inTransaction(pool, [], async (client) => {
    await client.query(deadLettersJob);
    const { rows } = await client.query<{ id: string; source: string }>(
      'delete from dead_letters where id = any ($1::uuid[]) returning id, source',
      [uuidArray(ids)],
    );
    return rows;
  });
}
