// Messages of several partitions that are noted in one transaction.
import type { KafkaMessage, OffsetsByTopicPartition } from 'kafkajs';

/** Messages of a partition, one after the other, that are to be noted. */
export interface Part {
  partition: number;
  /** None, where there is nothing but marks of transactions. */
  messages: KafkaMessage[];
  /** Where it begins. */
  first: bigint;
  /** Where the partition is read on. */
  next: string;
  /** Commits offsets of any partitions; as each batch's does, also while the consumer ends. */
  commit: (offsets: OffsetsByTopicPartition) => Promise<void>;
  heartbeat: () => Promise<void>;
  /** Whether this replica still has business with them. */
  wanted: () => boolean;
  /** They failed with others, or alone, and hold up no others from now on. */
  alone: boolean;
}

/** Messages that are handed over together. */
const mostTogether = 400;

/** The handler has thrown, or was not asked. */
export class NotNoted extends Error {}

/**
 * Notes parts together that come while others are being noted, or in one turn: of ten tenants on as many partitions, 500 events a second, each
 * partition alone took so many transactions and commits that one event waited 180 ms.
 */
export function gathered(note: (parts: Part[]) => Promise<void>): (part: Part) => Promise<void> {
  const waiting: { part: Part; done: PromiseWithResolvers<void> }[] = [];
  let busy = false;
  // What is wanted no more has been taken over by others, or will be.
  const next = () => {
    const taken: typeof waiting = [];
    let count = 0;
    for (let each = waiting[0]; each; each = waiting[0]) {
      const { part, done } = each;
      if (part.wanted()) {
        count += part.messages.length;
        if (taken[0] && (part.alone || taken[0].part.alone || count > mostTogether)) break;
        // One after the other: a partition is noted to one place.
        if (taken.some((other) => other.part.partition === part.partition)) break;
        taken.push(each);
      } else done.reject(new NotNoted());
      waiting.shift();
    }
    return taken;
  };
  const run = async () => {
    for (let taken = next(); taken.length > 0; taken = next()) {
      try {
        await note(taken.map(({ part }) => part));
        for (const { done } of taken) done.resolve();
      } catch (error) {
        for (const { done } of taken) done.reject(error);
      }
    }
    busy = false;
  };
  return (part) => {
    const done = Promise.withResolvers<void>();
    waiting.push({ part, done });
    if (!busy) setImmediate(() => void run());
    busy = true;
    return done.promise;
  };
}
