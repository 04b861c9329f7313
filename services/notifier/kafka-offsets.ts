// Consumed offsets of the Kafka topic, stored in the notifier's database with the data: a restore takes both back together.
import { plainArray } from '../platform/arrays.ts';
import { inTransaction, type Client, type Pool } from '../platform/postgres.ts';

/** A step of a partition's consumed offset; an offset is that of the next message to consume. */
export interface OffsetMove {
  topic: string;
  partition: number;
  /** The stored offset that the events continue. */
  from: bigint;
  to: bigint;
}

/** The stored offset is another one than the events continue: the database was restored, or another replica has the partition. */
export class OffsetMismatch extends Error {
  constructor({ topic, partition, from }: OffsetMove) {
    super(`the stored offset of ${topic}/${partition} is not ${from}`);
  }
}

/** The stored offsets by partition, 0 for a new one. */
export async function readOffsets(pool: Pool, topic: string, partitions: number[]): Promise<Map<number, bigint>> {
  const values = [topic, plainArray(partitions)];
  return inTransaction(pool, [], async (client) => {
    const create = `insert into kafka_offsets (topic, partition, next_offset) select $1, p, 0 from unnest($2::int[]) as p order by p
      on conflict do nothing`;
    await client.query(create, values);
    const read = 'select partition, next_offset from kafka_offsets where topic = $1 and partition = any ($2::int[])';
    const { rows } = await client.query<{ partition: number; next_offset: bigint }>(read, values);
    return new Map(rows.map((row) => [row.partition, row.next_offset]));
  });
}

/** Moves a stored offset within a transaction, if there is a move. Throws {@link OffsetMismatch}; then the transaction must be rolled back. */
export async function moveOffset(client: Client, move: OffsetMove | undefined): Promise<void> {
  if (!move) return;
  const { rowCount } = await client.query({
    name: 'move_offset',
    text: 'update kafka_offsets set next_offset = $4 where topic = $1 and partition = $2 and next_offset = $3',
    values: [move.topic, move.partition, move.from, move.to],
  });
  if (rowCount !== 1) throw new OffsetMismatch(move);
}
