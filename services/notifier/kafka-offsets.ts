// Consumed offsets of the Kafka topic, stored in the notifier's database with the data: a restore takes both back together.
import { bigintArray, plainArray } from '../platform/arrays.ts';
import { inTransaction, type Client, type Pool } from '../platform/postgres.ts';

/** A step of a partition's consumed offset; an offset is that of the next message to consume. */
export interface OffsetMove {
  topic: string;
  partition: number;
  /** The stored offset that the events continue. */
  from: bigint;
  to: bigint;
}

/** A stored offset is another one than the events continue: the database was restored, or another replica has the partition. */
export class OffsetMismatch extends Error {
  constructor(moves: OffsetMove[]) {
    super(`a stored offset is not ${moves.map(({ topic, partition, from }) => `${from} of ${topic}/${partition}`).join(', ')}`);
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

/** Moves stored offsets of one topic within a transaction. Throws {@link OffsetMismatch}; then the transaction must be rolled back. */
export async function moveOffsets(client: Client, moves: OffsetMove[]): Promise<void> {
  if (moves.length === 0) return;
  const { rowCount } = await client.query({
    name: 'move_offsets',
    text: `update kafka_offsets o set next_offset = m.new from unnest($2::int[], $3::int8[], $4::int8[]) as m (partition, old, new)
      where o.topic = $1 and o.partition = m.partition and o.next_offset = m.old`,
    values: [
      moves[0]?.topic,
      plainArray(moves.map(({ partition }) => partition)),
      bigintArray(moves.map(({ from }) => from)),
      bigintArray(moves.map(({ to }) => to)),
    ],
  });
  if (rowCount !== moves.length) throw new OffsetMismatch(moves);
}
