import { randomUUID } from 'node:crypto';
import { openRelayDatabase, post, type RelayDatabase } from '../../../test/relay.ts';
import { queryFlagged, type Pool } from '../../platform/postgres.ts';
import { claim, findUnpublished, settle, type Claimed } from './relay-claims.ts';

let database: RelayDatabase;

beforeEach(async () => {
  database = await openRelayDatabase();
});

afterEach(() => database.end());

const claimed = (tenant: string, claimId: string, bytes = 1e6): Promise<Claimed[]> =>
  claim(database.relayed, [tenant], claimId, { events: 10, bytes, derivesEvents: true });
const publishedTo = (tenant: string, claimId: string, sequence: bigint) => settle(database.relayed, claimId, [{ tenant, sequence }], []);
const expireIn = (time: string) =>
  database.owner.query(`update relay_marks set claimed_until = clock_timestamp() + interval '${time}' where claim_id is not null`);

test('a claim keeps other replicas away, and an expired one advances nothing', async () => {
  const tenant = await database.newTenant();
  const [slow, next] = [randomUUID(), randomUUID()];
  expect(await claimed(tenant, slow)).toMatchObject([{ sequence: 2n }]);
  expect(await claimed(tenant, next)).toEqual([]);
  expect(await claimed(tenant, slow)).toHaveLength(1);
  await expireIn('-1 s');
  expect(await claimed(tenant, next)).toHaveLength(1);
  await publishedTo(tenant, next, 1n);
  await publishedTo(tenant, slow, 2n);
  expect((await database.owner.query('select sequence, claim_id from relay_marks')).rows).toEqual([{ sequence: 1n, claim_id: null }]);
});

test('a claim in the far future, made before the clock was set back, keeps nobody away', async () => {
  const tenant = await database.newTenant();
  await claimed(tenant, randomUUID());
  await expireIn('19 s');
  expect(await claimed(tenant, randomUUID())).toEqual([]);
  await expireIn('30 s');
  expect(await claimed(tenant, randomUUID())).toHaveLength(1);
});

test('a claim reads one event at least, however large it is and the one before it', async () => {
  const tenant = await database.newTenant();
  const { writer } = database.openReplica(null);
  const metadata = JSON.stringify({ text: 'x'.repeat(10_000) });
  for (let turn = 0; turn < 3; turn++) await post(writer, tenant, { metadata });
  const ranges: [bigint, boolean][] = [];
  for (let last = 0n; last < 5n;) {
    const claimId = randomUUID();
    const [range] = await claimed(tenant, claimId, 100);
    last = range!.sequence;
    ranges.push([last, range!.hasMore]);
    await publishedTo(tenant, claimId, last);
  }
  expect(ranges).toEqual([2n, 3n, 4n, 5n].map((last) => [last, true]));
});

test('claimed events are those of the log, with the changed balances of each posting unless the sink derives them', async () => {
  const tenant = await database.newTenant();
  const { writer } = database.openReplica(null);
  for (let turn = 0; turn < 2; turn++) await post(writer, tenant);
  const expected = await database.eventsOf(tenant);
  const events = async (derivesEvents: boolean) =>
    (await claim(database.relayed, [tenant], tenant, { events: 10, bytes: 1e6, derivesEvents })).flatMap((each) => each.events);
  expect(await events(false)).toEqual(expected);
  expect(await events(true)).toEqual(expected.filter(({ part }) => part === 0));
  const balances = expected.flatMap(({ data }) => (data.case === 'balanceUpdated' ? [data.value.balance] : []));
  expect(balances.map((each) => [each?.accountCode, each?.previousBalance, each?.balance, each?.debits, each?.credits])).toEqual([
    ['a', '0.00', '1.00', '1.00', '0.00'],
    ['b', '0.00', '-1.00', '0.00', '1.00'],
    ['a', '1.00', '2.00', '2.00', '0.00'],
    ['b', '-1.00', '-2.00', '0.00', '2.00'],
  ]);
});

test('a published offset never decreases', async () => {
  const tenant = await database.newTenant();
  await claimed(tenant, tenant);
  await publishedTo(tenant, tenant, 2n);
  await claimed(tenant, tenant);
  await publishedTo(tenant, tenant, 0n);
  expect((await database.owner.query('select sequence from relay_marks')).rows).toEqual([{ sequence: 2n }]);
  await expect(database.owner.query('update relay_marks set sequence = 1')).rejects.toThrow();
});

test('a cursor is deactivated when its time is over and everything is published, but not while a change is under way', async () => {
  const tenant = await database.newTenant();
  const isActive = async () =>
    (await database.owner.query<{ active: boolean }>('select open_until is not null as active from relay_marks')).rows[0]?.active;
  const expire = () => database.owner.query(`update relay_marks set open_until = clock_timestamp() - interval '1 second'`);
  await expire();
  expect(await findUnpublished(database.relayed, null)).toEqual({ tenants: [tenant], next: null });
  expect(await isActive()).toBe(true);
  await claimed(tenant, tenant);
  await publishedTo(tenant, tenant, 2n);
  expect((await findUnpublished(database.relayed, null)).tenants).toEqual([]);
  expect(await isActive()).toBe(false);
  // The next posting activates it.
  await post(database.openReplica(null).writer, tenant);
  expect(await isActive()).toBe(true);
  await claimed(tenant, tenant);
  await publishedTo(tenant, tenant, 3n);
  await expire();
  await database.owner.query('begin');
  await database.owner.query('select from heads for update');
  await findUnpublished(database.relayed, null);
  await database.owner.query('rollback');
  expect(await isActive()).toBe(true);
  await findUnpublished(database.relayed, null);
  expect(await isActive()).toBe(false);
});

test('the relay sees the cursors of all tenants, and of everything else only what it has claimed', async () => {
  const [mine] = [await database.newTenant(), await database.newTenant()];
  const count = async (from: Pool, table: string) => (await queryFlagged(from, { text: `select from ${table}`, values: [] })).rowCount;
  expect(await count(database.relayed, 'relay_marks')).toBe(2);
  for (const table of ['heads', 'log', 'accounts', 'balances', 'transactions', 'entries'])
    expect(await count(database.relayed, table)).toBe(0);
  for (const table of ['relay_marks', 'relay_dead_letters']) expect(await count(database.pool, table)).toBe(0);
  expect(await claimed(mine, randomUUID())).toMatchObject([{ tenant: mine }]);
});
