// Where the topic begins and ends, and where its readers are, as the brokers say.
import type { Kafka } from 'kafkajs';
import { withAdmin } from '../platform/kafka.ts';

/** By partition, the offset of its first message that is kept, and that behind its last. */
export type Ends = ReadonlyMap<number, { low: bigint; high: bigint }>;

/** A topic, and to where a group has read it. */
export interface Topic {
  ends: Ends;
  /** By partition; below 0, where the group has committed nothing. */
  committed: ReadonlyMap<number, bigint>;
}

/** Throws what Kafka answers. */
export function readTopic(kafka: Kafka, groupId: string, topic: string): Promise<Topic> {
  return withAdmin(kafka, async (admin) => {
    const partitions = await admin.fetchTopicOffsets(topic);
    const [group] = await admin.fetchOffsets({ groupId, topics: [topic] });
    return {
      ends: new Map(partitions.map(({ partition, low, high }) => [partition, { low: BigInt(low), high: BigInt(high) }])),
      committed: new Map((group?.partitions ?? []).map(({ partition, offset }) => [partition, BigInt(offset)])),
    };
  });
}
