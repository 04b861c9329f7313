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
    /** What has been noted beyond this offset is of another topic, which had this one's name. */
    end: bigint;
  }[];
}

/**
 * The database has not noted what it must have, or what can't be: it was restored, or a standby took over that was behind, or the topic was made
 * anew. Nothing of the reading has been noted.
 */
export class Misplaced extends Error {
  /** By partition that is not where it must be, to where it has been noted. */
  readonly stored: ReadonlyMap<number, bigint>;

  constructor(stored: ReadonlyMap<number, bigint>) {
    super('the database has not noted what it must have noted');
    this.stored = stored;
  }
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

/** Throws {@link Misplaced} where the transaction does not see everything before a reading as noted, or sees more than the topic has. */
export async function mustFollow(client: Client, reading: Reading | undefined): Promise<void> {
  if (!reading) return;
  const { topic, parts } = reading;
  const { rows } = await client.query<Noted>({
    name: 'read_offsets',
    text: 'select partition, next_offset from kafka_offsets where topic = $1 and partition = any ($2::int8[])',
    values: [topic, bigintArray(parts.map(({ partition }) => BigInt(partition)))],
  });
  const noted = byPartition(rows);
  const misplaced = parts.flatMap(({ partition, from, end }): [number, bigint][] => {
    const stored = noted.get(partition) ?? 0n;
    return stored < from || stored > end ? [[partition, stored]] : [];
  });
  if (misplaced.length > 0) throw new Misplaced(new Map(misplaced));
}

/** Notes to where a reading goes; less than before where the topic was made anew. */
export async function noteOffsets(client: Client, reading: Reading | undefined): Promise<void> {
  if (!reading) return;
  const { topic, parts } = reading;
  await client.query({
    name: 'note_offsets',
    text: `insert into kafka_offsets (topic, partition, next_offset)
      select $1, partition, next_offset from unnest($2::int8[], $3::int8[]) as n (partition, next_offset) order by partition
      on conflict (topic, partition) do update set next_offset = excluded.next_offset`,
    values: [topic, bigintArray(parts.map(({ partition }) => BigInt(partition))), bigintArray(parts.map(({ next }) => next))],
  });
}
