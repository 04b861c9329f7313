// Dead letters: messages that nothing can be made of, kept with the reason until an operator tries them again.
import { fromBinary } from '@bufbuild/protobuf';
import { v7 as uuidv7 } from 'uuid';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { bytesArray, textArray, uuidArray } from '../platform/arrays.ts';
import { allSettledOrThrow, inTransaction, type Client, type Pool } from '../platform/postgres.ts';

/** A message that is kept. */
export interface Letter {
  /** Where it came from: topic, partition and offset, or tenant and place in its log. */
  source: string;
  key?: Uint8Array | null;
  value: Uint8Array;
  reason: string;
}

const job = { name: 'job_dead_letters', text: `select set_config('app.job', 'dead letters', true)` };

const insert = {
  name: 'insert_letters',
  text: `insert into dead_letters (id, source, key, value, reason, received_at)
    select *, clock_timestamp() from unnest($1::uuid[], $2::text[], $3::bytea[], $4::bytea[], $5::text[]) on conflict do nothing
    returning id`,
};

/** Keeps letters, each once however often it comes; answers those that are new. */
export async function insertLetters(client: Client, letters: Letter[]): Promise<Letter[]> {
  if (letters.length === 0) return [];
  const text = (value: string) => value.replaceAll('\0', '\ufffd').slice(0, 1000);
  const ids = letters.map(() => uuidv7());
  const values = [
    uuidArray(ids),
    textArray(letters.map(({ source }) => text(source))),
    bytesArray(letters.map(({ key }) => key ?? null)),
    bytesArray(letters.map(({ value }) => value)),
    textArray(letters.map(({ reason }) => text(reason))),
  ];
  const [, { rows }] = await allSettledOrThrow([client.query(job), client.query<{ id: string }>({ ...insert, values })]);
  const kept = new Set(rows.map(({ id }) => id));
  return letters.filter((_, place) => kept.has(ids[place] as string));
}

/** The ids of all letters, the oldest first. */
export async function listLetters(pool: Pool): Promise<string[]> {
  return inTransaction(pool, [], async (client) => {
    await client.query(job);
    return (await client.query<{ id: string }>('select id from dead_letters order by id')).rows.map((row) => row.id);
  });
}

/**
 * Opens a letter and throws it away when `work` has taken its event, in one transaction, which sees no tenant's rows yet; false where it is
 * gone. Throws where it still can't be read or taken.
 */
export async function openLetter(pool: Pool, id: string, work: (client: Client, event: Event) => Promise<unknown>): Promise<boolean> {
  return inTransaction(pool, [], async (client) => {
    await client.query(job);
    const { rows } = await client.query<{ value: Buffer }>('select value from dead_letters where id = $1 for update', [id]);
    if (!rows[0]) return false;
    await work(client, fromBinary(EventSchema, rows[0].value));
    await client.query('delete from dead_letters where id = $1', [id]);
    return true;
  });
}

/** Throws letters (ids) away unread; answers those that were there. */
export async function discardLetters(pool: Pool, ids: string[]): Promise<{ id: string; source: string }[]> {
  return inTransaction(pool, [], async (client) => {
    await client.query(job);
    const { rows } = await client.query<{ id: string; source: string }>(
      'delete from dead_letters where id = any ($1::uuid[]) returning id, source',
      [uuidArray(ids)],
    );
    return rows;
  });
}
