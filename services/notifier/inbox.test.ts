import { create } from '@bufbuild/protobuf';
import { ChangedBalanceSchema, EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { withClient } from '../../deploy/local/databases.ts';
import { newTenant, startNotifier, type RunningNotifier, type TestTenant } from '../../test/notifier.ts';
import { newId } from '../platform/ids.ts';
import { inTransaction } from '../platform/postgres.ts';
import { readInbox } from './inbox.ts';

let notifier: RunningNotifier;

beforeAll(async () => {
  notifier = await startNotifier({ claims: false });
  // The planner prefers to walk a table that it knows to be empty.
  await withClient(notifier.database.ownerUrl, (client) => client.query('vacuum analyze gaps, late'));
});

afterAll(() => notifier.end());

async function subscribed(): Promise<TestTenant> {
  const tenant = newTenant();
  const events = ['transaction.posted', 'balance.updated'];
  await notifier.client.configureWebhook({ tenantId: tenant.tenantId, url: 'http://127.0.0.1:1/', events });
  return tenant;
}

async function takeAll(events: Event[], atOnce = 7): Promise<void> {
  for (let at = 0; at < events.length; at += atOnce) await notifier.client.ingest({ events: events.slice(at, at + atOnce) });
}

const countReads = `select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as reads
  from pg_stat_xact_user_tables where relname in ('gaps', 'late')`;

/** Rows of gaps and late events that are read for a batch of events of one tenant. */
function rowsRead({ tenant }: TestTenant, ...sequences: bigint[]): Promise<number> {
  return inTransaction(notifier.work, [tenant], async (client) => {
    // Of the connection, not only of this transaction.
    const reads = async () => (await client.query<{ reads: number }>(countReads)).rows[0]!.reads;
    const before = await reads();
    const positions = sequences.map((sequence) => ({ tenant, sequence, part: 0 }));
    const inboxes = await readInbox(client, [tenant], positions);
    expect(inboxes.get(tenant)?.offset).toMatchObject({ sequence: 100n, part: 0 });
    return (await reads()) - before;
  });
}

test('a batch reads only gaps that its own events may lie in', async () => {
  const tenant = await subscribed();
  const events = Array.from({ length: 100 }, () => tenant.posting());
  const ofParity = (parity: number) => events.filter((_, place) => place % 2 === parity);
  await takeAll(ofParity(1));
  await takeAll(ofParity(0));
  expect(await rowsRead(tenant, 101n, 102n)).toBe(0);
  // For each at most the gap and the late event.
  expect(await rowsRead(tenant, 1n, 99n, 101n)).toBeLessThanOrEqual(4);
});

test('however gaps are filled, each event is consumed once, also when the whole log comes again', async () => {
  const tenant = await subscribed();
  const events = Array.from({ length: 12 }, () => parts(tenant)).flat();
  // Every one of three comes in time, the others in another order, some of them twice.
  const inTime = events.filter((_, place) => place % 3 === 0);
  const late = events.filter((_, place) => place % 3 !== 0);
  const shuffled = late.map((_, place) => late[(place * 7) % late.length]!);
  expect(new Set(shuffled).size).toBe(late.length);
  await takeAll(inTime);
  await takeAll(shuffled.slice(0, 15));
  await takeAll(shuffled.slice(10));
  const all = async () => (await notifier.client.listDeliveries({ tenantId: tenant.tenantId, limit: 100 })).deliveries;
  const ids = (await all()).map(({ eventId }) => eventId);
  expect(ids.toSorted()).toEqual(events.map(({ id }) => id).toSorted());
  await forgetEvents(tenant);
  await takeAll(events);
  expect((await all()).map(({ eventId }) => eventId)).toEqual([]);
});

const delivered = async ({ tenantId }: TestTenant) =>
  (await notifier.client.listDeliveries({ tenantId, limit: 100 })).deliveries.map(({ eventId }) => eventId).reverse();

const reissuedSoFar = async () => Number(/^notifier_events_reissued_total (\d+)/m.exec(await notifier.metrics.metrics())?.[1]);

// As after a restore of the ledger: its time goes on, its sequences begin anew.
test('an event at a consumed position is delivered once if it is younger than the consumed offset', async () => {
  const [tenant, disabled] = [await subscribed(), await subscribed()];
  const events = Array.from({ length: 5 }, () => tenant.posting());
  await takeAll(events);
  await notifier.client.updateWebhook({ tenantId: disabled.tenantId, enabled: false });
  // By the ledger's clock, wherever that of the notifier stands.
  const passedMs = BigInt(Date.now() + 110_000);
  await notifier.client.pass({ stretches: [{ tenantId: disabled.tenantId, after: 0n, through: 5n, createdMs: passedMs }] });
  await notifier.client.updateWebhook({ tenantId: disabled.tenantId, enabled: true });
  const before = await reissuedSoFar();
  const later = (count: number) => BigInt(Date.now() + 120_000 + count);
  const reissued = [4n, 5n, 6n].map((sequence, place) => tenant.posting({ sequence, createdMs: later(place) }));
  for (let time = 0; time < 2; time++) await takeAll(reissued);
  await takeAll(events);
  expect(await delivered(tenant)).toEqual([...events, ...reissued].map(({ id }) => id));
  expect(await reissuedSoFar()).toBe(before + 2);

  const [same, other] = [passedMs, passedMs + 1n].map((createdMs) => disabled.posting({ sequence: 2n, createdMs })) as [Event, Event];
  await takeAll([same, other]);
  expect(await delivered(disabled)).toEqual([other.id]);
});

test('an event of a restored ledger is delivered also if its position was passed without a time', async () => {
  const tenant = await subscribed();
  await takeAll([tenant.posting()]);
  await notifier.client.updateWebhook({ tenantId: tenant.tenantId, enabled: false });
  await notifier.client.pass({ stretches: [{ tenantId: tenant.tenantId, after: 1n, through: 5n }] });
  await notifier.client.updateWebhook({ tenantId: tenant.tenantId, enabled: true });
  const known = tenant.posting({ sequence: 4n, createdMs: BigInt(Date.now()) });
  const reissued = tenant.posting({ sequence: 5n, createdMs: BigInt(Date.now() + 300_000) });
  await takeAll([known, reissued]);
  expect(await delivered(tenant)).toContain(reissued.id);
  expect(await delivered(tenant)).not.toContain(known.id);
});

test('if the clock was set back, too, it is delivered after the operator has emptied the inbox', async () => {
  const tenant = await subscribed();
  const events = Array.from({ length: 5 }, () => tenant.posting());
  await takeAll(events);
  const [{ createdMs }] = events as [Event];
  const reissued = [4n, 5n].map((sequence) => tenant.posting({ sequence, createdMs }));
  await takeAll(reissued);
  expect(await delivered(tenant)).toEqual(events.map(({ id }) => id));
  await withClient(notifier.database.ownerUrl, (client) => client.query('truncate inbox, gaps, late'));
  await takeAll([...reissued, events[4]!]);
  expect(await delivered(tenant)).toEqual([...events, ...reissued].map(({ id }) => id));
});

test.each([
  ['at once', 7],
  ['one by one', 1],
])('a posting at the consumed offset that now has more parts, which come %s, leaves no gap', async (_, atOnce) => {
  const tenant = await subscribed();
  await takeAll([tenant.posting()]);
  const createdMs = BigInt(Date.now() + 120_000);
  const reissued = [...parts(tenant, { sequence: 1n, createdMs }), tenant.posting({ sequence: 2n, createdMs })];
  await takeAll(reissued, atOnce);
  expect(await delivered(tenant)).toHaveLength(5);
  const gaps = await withClient(notifier.database.adminUrl, (client) => {
    return client.query('select from gaps where tenant_id = $1', [tenant.tenant]);
  });
  expect(gaps.rowCount).toBe(0);
});

/** A posting that changes two balances, as three events. */
function parts(tenant: TestTenant, more?: Parameters<TestTenant['posting']>[0]): Event[] {
  const posting = tenant.posting(more);
  if (posting.data.case === 'transactionPosted') posting.data.value.balances = [1, 2].map(() => create(ChangedBalanceSchema));
  const { tenantId, sequence, createdMs } = posting;
  const balance = { accountId: newId('acc'), accountCode: 'CASH', currency: 'NGN', balance: '1.00', previousBalance: '0.00', version: 1n };
  const changed = [1, 2].map((part) =>
    create(EventSchema, {
      id: newId('evt'),
      tenantId,
      sequence,
      part,
      type: 'balance.updated',
      createdMs,
      data: { case: 'balanceUpdated', value: { balance, transactionId: newId('txn') } },
    }),
  );
  return [posting, ...changed];
}

// As the retention job does: then only the inbox knows that they were consumed.
async function forgetEvents({ tenant }: TestTenant): Promise<void> {
  await inTransaction(notifier.work, [tenant], async (client) => {
    await client.query('delete from deliveries');
    await client.query('delete from payloads');
  });
}
