// What kafkajs 2.2.4 does wrongly, mended in its own parts: it has had no release since 2023. Loaded before any of its clients is made.
import { setTimeout as pause } from 'node:timers/promises';
// @ts-expect-error -- an inner file, without types
import Batch from 'kafkajs/src/consumer/batch.js';
// @ts-expect-error -- an inner file, without types
import ConsumerGroup from 'kafkajs/src/consumer/consumerGroup.js';
// @ts-expect-error -- an inner file, without types
import Runner from 'kafkajs/src/consumer/runner.js';
// @ts-expect-error -- an inner file, without types
import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
// @ts-expect-error -- an inner file, without types
import metadataRequest from 'kafkajs/src/protocol/requests/metadata/index.js';

interface Queue {
  pending: unknown[];
  throttledUntil: number;
  scheduleCheckPendingRequests: () => void;
}

// kafkajs 2.2.4 looks for requests that a throttle holds back, on every connection, every millisecond, for ever: it reckons the time to wait
// as a negative one when there is no throttle (and Node warns of it). Here it looks where there is something to look for.
const queue = (RequestQueue as { prototype: Queue }).prototype;
const schedule = Object.getOwnPropertyDescriptor(queue, 'scheduleCheckPendingRequests')?.value as (this: Queue) => void;
queue.scheduleCheckPendingRequests = function (this: Queue) {
  if (this.pending.length > 0 || this.throttledUntil > Date.now()) schedule.call(this);
};

interface Metadata {
  topicMetadata: { partitionMetadata: { partitionErrorCode: number; leader: number }[] }[];
}

interface MetadataRequest {
  versions: string[];
  protocol: (of: { version: string }) => (asked: { topics: string[] }) => { response: { parse: (metadata: Metadata) => unknown } };
}

// kafkajs takes nothing of an answer in which one partition has no leader. So one of ours kept all tenants waiting, and one of any other topic, too, as
// an admin and a producer ask for all topics before they know one. Here only who wants that partition fails, or who asks for one topic of which none
// has a leader, as while it is being made.
const { versions, protocol } = metadataRequest as MetadataRequest;
for (const version of versions) {
  const { response } = protocol({ version })({ topics: [] });
  const { parse } = response;
  response.parse = (metadata) => {
    const { topicMetadata: topics } = metadata;
    const partitions = topics.flatMap(({ partitionMetadata }) => partitionMetadata);
    if (topics.length > 1 || partitions.some(({ leader }) => leader >= 0)) for (const each of partitions) each.partitionErrorCode = 0;
    return parse(metadata);
  };
}

interface Group {
  recoverFromFetch: (error: Error) => Promise<void>;
}

// Where a partition without a leader is to be read from its beginning kafkajs asks for metadata, and tries again, without a pause: 1,500 to 5,000
// requests a second of each reader.
const group = (ConsumerGroup as { prototype: Group }).prototype;
const recover = Object.getOwnPropertyDescriptor(group, 'recoverFromFetch')?.value as (this: Group, error: Error) => Promise<void>;
group.recoverFromFetch = async function (this: Group, error) {
  await recover.call(this, error);
  if (error.name === 'KafkaJSBrokerNotFound') await pause(500);
};

interface Fetching {
  running: boolean;
  fetchManager: { stop: () => Promise<void> };
  fetch: (broker: string) => Promise<unknown[]>;
}

// Where a consumer is stopped while its fetchers are made anew, as a broker has come or gone, the new ones ask for ever and are answered nothing, without a
// turn of the event loop: a notifier that was told to end then stood still at full CPU, and only SIGKILL ended it.
const runner = (Runner as { prototype: Fetching }).prototype;
const fetchFrom = Object.getOwnPropertyDescriptor(runner, 'fetch')?.value as (this: Fetching, broker: string) => Promise<unknown[]>;
runner.fetch = function (this: Fetching, broker) {
  if (!this.running) void this.fetchManager.stop();
  return fetchFrom.call(this, broker);
};

// Before the first message that a fetch has answered may stand what a transaction has taken back, or nothing, where compaction has removed it: where a batch
// begins is where it was asked for. Else whoever holds the beginning against what was noted before finds a hole, and reads again for ever.
const batch = (Batch as { prototype: { firstOffset: () => string } }).prototype;
batch.firstOffset = function (this: { fetchedOffset: string }) {
  return this.fetchedOffset;
};
