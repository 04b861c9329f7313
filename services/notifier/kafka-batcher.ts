// Joins messages of several partitions into one transaction, because a transaction each costs four times as many at a few events a second.
import { fromBinary } from '@bufbuild/protobuf';
import type { KafkaMessage } from 'kafkajs';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { errorMessage } from '../platform/lifetime.ts';
import type { DeadLetter } from './dead-letters.ts';
import type { OffsetMove } from './kafka-offsets.ts';

/**
 * Consumes events and moves stored offsets in one transaction. May get events that were consumed before. Called again with the same after it
 * threw, and from the stored offset on after `OffsetMismatch`.
 */
export type Ingest = (events: Event[], more: { deadLetters: DeadLetter[]; moves: OffsetMove[] }) => Promise<void>;

/** Messages of one partition in their order, and the step of its offset. */
export interface Chunk {
  move: OffsetMove;
  messages: KafkaMessage[];
}

const maxMessages = 400;

/** Ingests chunks, those that come meanwhile together in the next transaction. */
export class KafkaBatcher {
  private readonly waiting: (Chunk & { done: PromiseWithResolvers<void> })[] = [];
  private readonly ingest: Ingest;
  private isRunning = false;

  constructor(ingest: Ingest) {
    this.ingest = ingest;
  }

  /** Resolves after the commit. If a joint transaction fails, each chunk is tried on its own. */
  add(chunk: Chunk): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.waiting.push({ ...chunk, done });
    // Not at once: kafkajs hands over all partitions of a fetch in one turn.
    if (!this.isRunning) setImmediate(() => void this.run());
    this.isRunning = true;
    return done.promise;
  }

  /** Ingests chunks in a transaction of their own, now. */
  async ingestNow(chunks: Chunk[]): Promise<void> {
    const events: Event[] = [];
    const deadLetters: DeadLetter[] = [];
    for (const { move, messages } of chunks) {
      for (const { key, value, offset } of messages) {
        try {
          events.push(decode(value));
        } catch (error) {
          const source = `${move.topic}/${move.partition}/${offset}`;
          deadLetters.push({ source, key, value: value ?? Buffer.alloc(0), reason: errorMessage(error) });
        }
      }
    }
    await this.ingest(events, { deadLetters, moves: chunks.map(({ move }) => move) });
  }

  private async run(): Promise<void> {
    while (this.waiting.length > 0) {
      let size = 0;
      const end = this.waiting.findIndex(({ messages }) => (size += messages.length) > maxMessages);
      const chunks = this.waiting.splice(0, end === -1 ? this.waiting.length : Math.max(1, end));
      try {
        await this.ingestNow(chunks);
        for (const { done } of chunks) done.resolve();
      } catch (error) {
        if (chunks.length === 1) chunks[0]?.done.reject(error);
        else for (const chunk of chunks) await this.ingestNow([chunk]).then(chunk.done.resolve, chunk.done.reject);
      }
    }
    this.isRunning = false;
  }
}

function decode(value: Buffer | null): Event {
  if (value === null) throw new Error('the message has no value');
  let event: Event;
  try {
    event = fromBinary(EventSchema, value);
  } catch (error) {
    throw new Error(`the value is not a ledger.v1.Event: ${errorMessage(error)}`, { cause: error });
  }
  if (event.id === '' || event.tenantId === '' || event.sequence < 1n) throw new Error('the event has no id, tenant or sequence');
  return event;
}
