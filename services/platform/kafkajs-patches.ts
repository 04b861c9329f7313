// Repairs of kafkajs 2.2.4, which has had no release since 2023. Imported before any of its clients is made.
import { setTimeout as pause } from 'node:timers/promises';
// @ts-expect-error -- an inner file, without types
import ConsumerGroup from 'kafkajs/src/consumer/consumerGroup.js';
// @ts-expect-error -- an inner file, without types
import Runner from 'kafkajs/src/consumer/runner.js';
// @ts-expect-error -- an inner file, without types
import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
// @ts-expect-error -- an inner file, without types
import metadataRequest from 'kafkajs/src/protocol/requests/metadata/index.js';

type Method<Self, Args extends unknown[]> = (this: Self, ...args: Args) => unknown;

/** Replaces a method of a class; `make` gets the original. */
function patch<Self, Args extends unknown[]>(of: unknown, name: string, make: (original: Method<Self, Args>) => Method<Self, Args>): void {
  const { prototype } = of as { prototype: Record<string, Method<Self, Args>> };
  prototype[name] = make(prototype[name] as Method<Self, Args>);
}

// Without a throttle kafkajs looks for throttled requests each millisecond, on every connection, for ever.
patch<{ pending: unknown[]; throttledUntil: number }, []>(RequestQueue, 'scheduleCheckPendingRequests', (schedule) => {
  return function () {
    if (this.pending.length > 0 || this.throttledUntil > Date.now()) schedule.call(this);
  };
});

// One partition without a leader makes kafkajs reject the metadata of all topics, so a broker restart would stop all tenants. Only a topic that
// has no leader at all, as while it is created, is an error here.
interface Metadata {
  topicMetadata: { partitionMetadata: { partitionErrorCode: number; leader: number }[] }[];
}
const { versions, protocol } = metadataRequest as {
  versions: string[];
  protocol: (of: { version: string }) => (request: { topics: string[] }) => { response: { parse: (metadata: Metadata) => unknown } };
};
for (const version of versions) {
  const { response } = protocol({ version })({ topics: [] });
  const { parse } = response;
  response.parse = (metadata) => {
    const partitions = metadata.topicMetadata.flatMap(({ partitionMetadata }) => partitionMetadata);
    const isUsable = metadata.topicMetadata.length > 1 || partitions.some(({ leader }) => leader >= 0);
    if (isUsable) for (const each of partitions) each.partitionErrorCode = 0;
    return parse(metadata);
  };
}

// A consumer whose partition has no leader asks for metadata again without a pause: thousands of requests a second.
patch<object, [Error]>(ConsumerGroup, 'recoverFromFetch', (recover) => {
  return async function (error) {
    await recover.call(this, error);
    if (error.name === 'KafkaJSBrokerNotFound') await pause(500);
  };
});

// A consumer that is stopped while its fetchers are rebuilt, as after a broker restart, loops without a turn of the event loop.
patch<{ running: boolean; fetchManager: { stop: () => Promise<void> } }, [string]>(Runner, 'fetch', (fetch) => {
  return function (broker) {
    if (!this.running) void this.fetchManager.stop();
    return fetch.call(this, broker);
  };
});
