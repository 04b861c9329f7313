import { EventEmitter } from 'node:events';
import type { Consumer } from 'kafkajs';
import { Registry } from 'prom-client';
import { testClient } from '../../test/kafka.ts';
import { openLog } from '../platform/telemetry.ts';
import { Membership } from './membership.ts';
import { ReaderMetrics } from './reader-metrics.ts';

test('who is in the group and may not read the topic is not heard', () => {
  const logger = openLog('test', 'silent');
  const events = { GROUP_JOIN: 'join', FETCH: 'fetch', HEARTBEAT: 'heartbeat', END_BATCH_PROCESS: 'batch' };
  const happened = new EventEmitter();
  const membership = new Membership({
    kafka: testClient('127.0.0.1:1'),
    consumer: { events, on: (name: string, listener: () => void) => happened.on(name, listener) } as unknown as Consumer,
    topic: 'events',
    group: 'readers',
    offsets: { read: () => Promise.resolve(new Map()), correct: () => Promise.resolve() },
    giveUp: () => undefined,
    handler: () => Promise.resolve(),
    figures: new ReaderMetrics(new Registry(), logger),
    closed: new AbortController().signal,
    logger,
  });
  const heardAfter = (event: string, payload: object) => {
    happened.emit(event, { payload });
    return membership.isHeard();
  };
  expect(heardAfter(events.GROUP_JOIN, { memberAssignment: { events: [0] } })).toBe(false);
  expect(heardAfter(events.HEARTBEAT, {})).toBe(false);
  expect(heardAfter(events.FETCH, {})).toBe(true);
  expect(heardAfter(events.HEARTBEAT, {})).toBe(true);
});
