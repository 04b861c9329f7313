// Setting a published offset back, while the relay works.
import { openRelayDatabase, post, type RelayDatabase } from '../../../test/relay.ts';
import { until } from '../../../test/notifier.ts';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { newId, toId, toUuid } from '../../platform/ids.ts';
import { relayStatus, replay } from './replay.ts';

let database: RelayDatabase;

beforeEach(async () => {
  database = await openRelayDatabase();
});

afterEach(() => database.end());

test('a batch under way does not undo a replay: all events from there on are published again, in order', async () => {
  const tenant = await database.newTenant();
  const published: bigint[] = [];
  let answer = Promise.withResolvers<void>();
  answer.resolve();
  const publish = async (events: Event[]) => {
    published.push(...events.map(({ sequence }) => sequence));
    await answer.promise;
  };
  const sink = { name: 'notifier', derivesEvents: true, publish, probe: () => Promise.resolve(), close: () => Promise.resolve() } as const;
  const { writer } = database.openReplica(sink);
  for (let turn = 0; turn < 3; turn++) await post(writer, tenant);
  await database.published();
  expect(published).toEqual([1n, 2n, 3n, 4n, 5n]);

  answer = Promise.withResolvers();
  await post(writer, tenant);
  await until(() => Promise.resolve(published.length === 6));
  expect(await replay(database.owner, tenant, { sequence: 2 })).toEqual({ from: 2n, through: 5n });
  const waiting = { tenant, published: 1, head: 6, waitingSeconds: expect.any(Number), deadLetters: 0 };
  expect(await relayStatus(database.owner, { limit: 10 })).toMatchObject({ tenants: [waiting], waitingTenants: 1, waitingEvents: 5 });
  // The relay that has lost its claim, or the one that takes it over, publishes what comes from 2 on.
  answer.resolve();
  await database.published();
  expect(published.slice(6)).toEqual([2n, 3n, 4n, 5n, 6n]);
  expect(await relayStatus(database.owner, { limit: 10 })).toMatchObject({ tenants: [], waitingTenants: 0, waitingEvents: 0 });
});

test('a replay begins at a sequence or at a time, and not where nothing was published', async () => {
  const tenant = await database.newTenant();
  const replica = database.openReplica({
    ...{ name: 'notifier', publish: () => Promise.resolve(), probe: () => Promise.resolve(), close: () => Promise.resolve() },
  });
  await post(replica.writer, tenant);
  await database.published();
  await replica.end();
  const { rows } = await database.owner.query<{ ms: number }>(
    'select (extract(epoch from created_at) * 1000)::float8 as ms from log where tenant_id = $1 and sequence = 3',
    [tenant],
  );
  const sinceMs = rows[0]!.ms;
  expect(await replay(database.owner, tenant, { sinceMs })).toEqual({ from: 3n, through: 3n });
  // It is set back already.
  const problem = (from: number) => `${toId('tenant', tenant)} is published through 2: what comes from ${from} on is published anyway`;
  expect(await replay(database.owner, tenant, { sinceMs })).toEqual({ problem: problem(3) });
  expect(await replay(database.owner, tenant, { sinceMs: sinceMs + 60_000 })).toEqual({ problem: problem(4) });
  expect(await replay(database.owner, tenant, { sinceMs: 0 })).toEqual({ from: 1n, through: 2n });
  const unknown = newId('tenant');
  expect(await replay(database.owner, toUuid('tenant', unknown)!, { sequence: 1 })).toEqual({ problem: `${unknown} has no log` });
});
