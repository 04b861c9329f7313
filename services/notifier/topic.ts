// Where the topic begins and ends, as the brokers say.
import type { Kafka } from 'kafkajs';
import { withAdmin } from '../platform/kafka.ts';

/** By partition, the offset of its first message that is kept, and that behind its last. */
export type Ends = ReadonlyMap<number, { low: bigint; high: bigint }>;

/** Throws what Kafka answers. */
export async function readEnds(kafka: Kafka, topic: string): Promise<Ends> {
  const partitions = await withAdmin(kafka, (admin) => admin.fetchTopicOffsets(topic));
  return new Map(partitions.map(({ partition, low, high }) => [partition, { low: BigInt(low), high: BigInt(high) }]));
}

/** By partition, to where the group has committed; below 0, where it has not. Throws what Kafka answers. */
export async function readCommitted(kafka: Kafka, group: string, topic: string): Promise<ReadonlyMap<number, bigint>> {
  const [committed] = await withAdmin(kafka, (admin) => admin.fetchOffsets({ groupId: group, topics: [topic] }));
  return new Map((committed?.partitions ?? []).map(({ partition, offset }) => [partition, BigInt(offset)]));
}
