// To where each partition of the topic has been noted, as the database says that holds what was noted: with it, it may go back.
import { bigintArray } from '../platform/arrays.ts';
import { inTransaction, type Client, type Pool } from '../platform/postgres.ts';

/** What is noted together of a topic. */
export interface Reading {
  topic: string;
  parts: {
    partition: number;
    /** Everything before this offset must have been noted. */
    from: bigint;
    /** The offset behind what is noted now. */
    next: bigint;
  }[];
}

/** The database has not noted what it must have: it was restored, or a standby took over that was behind. Nothing of the reading has been noted. */
export class Misplaced extends Error {
  constructor() {
    super('the database has not noted what it must have noted');
  }
}

/** To where each partition of a topic has been noted durably. */
export interface Offsets {
  /** Of a partition that is missing nothing has been noted. */
  read(): Promise<ReadonlyMap<number, bigint>>;
  /** Has a partition noted to another place, where it is at `before`: 0 also where it is missing. */
  correct(partition: number, before: bigint, place: bigint): Promise<void>;
}

/** Those of a topic that are in the database. */
export function offsetsOf(pool: Pool, topic: string): Offsets {
  return {
    read: () => readOffsets(pool, topic),
    correct: async (partition, before, place) => {
      await inTransaction(pool, [], (client) =>
        client.query(
          `insert into kafka_offsets (topic, partition, next_offset) values ($1, $2, $3)
          on conflict (topic, partition) do update set next_offset = excluded.next_offset where kafka_offsets.next_offset = $4`,
          [topic, partition, place, before],
        ),
      );
    },
  };
}

/** To where each partition of a topic has been noted. */
export async function readOffsets(pool: Pool, topic: string): Promise<Map<number, bigint>> {
  const { rows } = await inTransaction(pool, [], (client) =>
    client.query<Noted>('select partition, next_offset from kafka_offsets where topic = $1', [topic]),
  );
  return byPartition(rows);
}

interface Noted {
  partition: number;
  next_offset: bigint;
}

function byPartition(rows: Noted[]): Map<number, bigint> {
  return new Map(rows.map((row) => [row.partition, row.next_offset]));
}

/** Throws {@link Misplaced} where the transaction does not see everything before a reading as noted. */
export async function mustFollow(client: Client, reading: Reading | undefined): Promise<void> {
  if (!reading) return;
  const { topic, parts } = reading;
  const { rows } = await client.query<Noted>({
    name: 'read_offsets',
    text: 'select partition, next_offset from kafka_offsets where topic = $1 and partition = any ($2::int8[])',
    values: [topic, bigintArray(parts.map(({ partition }) => BigInt(partition)))],
  });
  const noted = byPartition(rows);
  if (parts.some(({ partition, from }) => (noted.get(partition) ?? 0n) < from)) throw new Misplaced();
}

/** Notes to where a reading goes; never less than before, which another reader may have noted who had the partition meanwhile. */
export async function noteOffsets(client: Client, reading: Reading | undefined): Promise<void> {
  if (!reading) return;
  const { topic, parts } = reading;
  await client.query({
    name: 'note_offsets',
    text: `insert into kafka_offsets (topic, partition, next_offset)
      select $1, partition, next_offset from unnest($2::int8[], $3::int8[]) as n (partition, next_offset) order by partition
      on conflict (topic, partition) do update set next_offset = greatest(kafka_offsets.next_offset, excluded.next_offset)`,
    values: [topic, bigintArray(parts.map(({ partition }) => BigInt(partition))), bigintArray(parts.map(({ next }) => next))],
  });
}
