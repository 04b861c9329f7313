import { jest } from '@jest/globals';
import { EventEmitter } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import type { Batch, Consumer } from 'kafkajs';
// @ts-expect-error -- an inner file, without types
import InnerBatch from 'kafkajs/src/consumer/batch.js';
import { Registry } from 'prom-client';
import { testClient } from '../../test/kafka.ts';
import { openLog } from '../platform/telemetry.ts';
import { Membership, type Handler } from './membership.ts';
import { ReaderMetrics } from './reader-metrics.ts';

const KafkaBatch = InnerBatch as new (topic: string, fetchedOffset: string, data: object) => Batch;

type Reading = Parameters<Handler>[2];

/** What a membership makes of what its consumer tells. */
function told() {
  const logger = openLog('test', 'silent');
  const events = { GROUP_JOIN: 'join', REQUEST: 'request', FETCH: 'fetch', HEARTBEAT: 'heartbeat', END_BATCH_PROCESS: 'batch' };
  const happened = new EventEmitter();
  const places: Reading[] = [];
  let eachBatch: ((payload: unknown) => Promise<void>) | undefined;
  const run = (options: { eachBatch: typeof eachBatch }) => Promise.resolve(void (eachBatch = options.eachBatch));
  const subscribe = () => Promise.resolve();
  const membership = new Membership({
    kafka: testClient('127.0.0.1:1'),
    consumer: { events, on: (name: string, listener: () => void) => happened.on(name, listener), run, subscribe } as unknown as Consumer,
    topic: 'events',
    group: 'readers',
    offsets: { read: () => Promise.resolve(new Map()), correct: () => Promise.resolve() },
    giveUp: () => undefined,
    handler: (_events, _unreadable, reading) => Promise.resolve(void places.push(reading)),
    figures: new ReaderMetrics(new Registry(), logger),
    closed: new AbortController().signal,
    logger,
  });
  const heardAfter = (event: keyof typeof events, payload: object = {}) => {
    happened.emit(events[event], { payload });
    return membership.isHeard();
  };
  /** Where the reader says that it reads, having been answered these messages, or marks of transactions, to a question for what is from `asked` on. */
  const readingOf = async (asked: number, offsets: number[], areMarks = false) => {
    await membership.run();
    const messages = offsets.map((offset) => ({ key: null, value: null, offset: String(offset), headers: {}, isControlRecord: areMarks }));
    const batch = new KafkaBatch('events', String(asked), { partition: 0, highWatermark: '1000', abortedTransactions: [], messages });
    const nothing = () => Promise.resolve();
    if (areMarks) {
      heardAfter('END_BATCH_PROCESS', { partition: 0, batchSize: 0, firstOffset: batch.firstOffset(), lastOffset: batch.lastOffset() });
    } else {
      await eachBatch!({
        batch,
        isRunning: () => true,
        heartbeat: nothing,
        commitOffsetsIfNecessary: nothing,
        resolveOffset: () => undefined,
      });
    }
    await setImmediate();
    return places.flatMap(({ parts }) => parts);
  };
  return { heardAfter, readingOf, join: (partitions: number[]) => heardAfter('GROUP_JOIN', { memberAssignment: { events: partitions } }) };
}

test('who is in the group, and is answered no messages, is not heard', () => {
  const { heardAfter, join } = told();
  expect(join([0])).toBe(false);
  expect(heardAfter('HEARTBEAT')).toBe(false);
  // As where a place can't be asked for.
  expect(heardAfter('FETCH')).toBe(false);
  expect(heardAfter('REQUEST', { apiKey: 12 })).toBe(false);
  expect(heardAfter('FETCH')).toBe(false);
  expect(heardAfter('REQUEST', { apiKey: 1 })).toBe(false);
  expect(heardAfter('FETCH')).toBe(true);
  expect(heardAfter('HEARTBEAT')).toBe(true);
});

test('who reads no more after another member has come is heard no more, but for the time that reading may take', () => {
  jest.useFakeTimers();
  const { heardAfter, join } = told();
  join([0, 1]);
  heardAfter('REQUEST', { apiKey: 1 });
  expect(heardAfter('FETCH')).toBe(true);
  jest.advanceTimersByTime(14_000);
  expect(heardAfter('HEARTBEAT')).toBe(true);
  expect(join([0])).toBe(true);
  jest.advanceTimersByTime(14_000);
  expect([heardAfter('HEARTBEAT'), heardAfter('FETCH')]).toEqual([true, true]);
  jest.advanceTimersByTime(2_000);
  expect(heardAfter('HEARTBEAT')).toBe(false);
  jest.useRealTimers();
});

test('who joined in the middle of a fetch, as the leader of a partition was gone, is not heard for what that one had asked', () => {
  jest.useFakeTimers();
  const { heardAfter, join } = told();
  join([0, 1]);
  heardAfter('REQUEST', { apiKey: 1 });
  expect(heardAfter('FETCH')).toBe(true);
  heardAfter('REQUEST', { apiKey: 1 });
  join([0, 1]);
  jest.advanceTimersByTime(15_000);
  expect([heardAfter('FETCH'), heardAfter('HEARTBEAT')]).toEqual([false, false]);
  jest.useRealTimers();
});

test('who has no partition is heard without asking', () => {
  const { heardAfter, join } = told();
  expect(join([])).toBe(false);
  expect(heardAfter('FETCH')).toBe(true);
});

test.each([
  ['message', false],
  ['mark of a transaction', true],
])('what compaction has removed before the first %s is read past, and no place that the database has not noted', async (_, areMarks) => {
  const { readingOf, join } = told();
  join([0]);
  expect(await readingOf(132, [140, 141], areMarks)).toEqual([{ partition: 0, from: 132n, next: 142n }]);
});

test('messages that are handed over in pieces read on from each other', async () => {
  const { readingOf, join } = told();
  join([0]);
  const offsets = Array.from({ length: 450 }, (_, place) => 140 + place);
  const parts = await readingOf(132, offsets);
  expect(parts.map(({ from }) => from)).toEqual([132n, ...parts.slice(0, -1).map(({ next }) => next)]);
  expect([parts.length > 1, parts.at(-1)?.next]).toEqual([true, 590n]);
});
