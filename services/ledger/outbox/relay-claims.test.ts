import { randomUUID } from 'node:crypto';
import { openRelayDatabase, post, type RelayDatabase } from '../../../test/relay.ts';
import type { Pool } from '../../platform/postgres.ts';
import { claim, claimEnds, claimsOf, findUnpublished, settle } from './relay-claims.ts';

let books: RelayDatabase;

beforeEach(async () => {
  books = await openRelayDatabase();
});

afterEach(() => books.end());

test('a claim that has run out raises nothing any more', async () => {
  const tenant = await books.newTenant();
  const [slow, next] = [randomUUID(), randomUUID()];
  expect(await claim(books.relayed, [tenant], slow, 10, 1e6)).toHaveLength(2);
  expect(await claim(books.relayed, [tenant], next, 10, 1e6)).toEqual([]);
  await books.owner.query(`update relay_marks set claimed_until = clock_timestamp() - interval '1 second'`);
  expect(await claim(books.relayed, [tenant], next, 10, 1e6)).toHaveLength(2);
  await settle(books.relayed, next, [{ tenant, sequence: 1n }], []);
  await settle(books.relayed, slow, [{ tenant, sequence: 2n }], []);
  expect((await books.owner.query('select sequence, claim_id from relay_marks')).rows).toEqual([{ sequence: 1n, claim_id: null }]);
});

test('a claim that lasts longer than any does, as of before the clock was set back, holds nobody off', async () => {
  const tenant = await books.newTenant();
  await claim(books.relayed, [tenant], randomUUID(), 10, 1e6);
  const until = (time: string) => books.owner.query(`update relay_marks set claimed_until = clock_timestamp() + interval '${time}'`);
  await until('19 s');
  expect(await claim(books.relayed, [tenant], randomUUID(), 10, 1e6)).toEqual([]);
  await until('30 s');
  expect(await claim(books.relayed, [tenant], randomUUID(), 10, 1e6)).toHaveLength(2);
});

test('a claim reads one event at least, however large it is and the one before it', async () => {
  const tenant = await books.newTenant();
  const { writer } = books.openReplica(null);
  const metadata = JSON.stringify({ text: 'x'.repeat(10_000) });
  for (let turn = 0; turn < 3; turn++) await post(writer, tenant, { metadata });
  const sequences: (bigint | null)[][] = [];
  for (let last = 0n; last < 5n;) {
    const claimId = randomUUID();
    const rows = await claim(books.relayed, [tenant], claimId, 100, 100);
    sequences.push(rows.map(({ sequence }) => sequence));
    last = rows.at(-1)?.sequence ?? last;
    await settle(books.relayed, claimId, [{ tenant, sequence: last }], []);
  }
  expect(sequences).toEqual([
    [1n, 2n],
    [2n, 3n],
    [3n, 4n],
    [4n, 5n],
  ]);
});

test('what was claimed is what the log tells, with each changed balance as the posting has it where nobody else derives that', async () => {
  const tenant = await books.newTenant();
  const { writer } = books.openReplica(null);
  for (let turn = 0; turn < 2; turn++) await post(writer, tenant);
  const rows = await claim(books.relayed, [tenant], randomUUID(), 10, 1e6);
  const eventsOf = (derives: boolean) => claimsOf(rows, derives).flatMap(({ events }) => events);
  const told = await books.eventsOf(tenant);
  expect(eventsOf(false)).toEqual(told);
  expect(eventsOf(true)).toEqual(told.filter(({ part }) => part === 0));
  const balances = eventsOf(false).flatMap(({ data }) => (data.case === 'balanceUpdated' ? [data.value.balance] : []));
  const amounts = balances.map((each) => [each?.accountCode, each?.previousBalance, each?.balance, each?.debits, each?.credits]);
  expect(amounts).toEqual([
    ['a', '0.00', '1.00', '1.00', '0.00'],
    ['b', '0.00', '-1.00', '0.00', '1.00'],
    ['a', '1.00', '2.00', '2.00', '0.00'],
    ['b', '-1.00', '-2.00', '0.00', '2.00'],
  ]);
});

test('the rest of a log comes with the time of its last event', async () => {
  const tenant = await books.newTenant();
  await post(books.openReplica(null).writer, tenant);
  const ends = await claimEnds(books.relayed, [tenant], randomUUID());
  const { rows } = await books.owner.query<{ ms: bigint }>(
    'select floor(extract(epoch from created_at) * 1000)::int8 as ms from log order by sequence desc limit 1',
  );
  expect(ends).toEqual([{ tenant, mark: 0n, through: 3n, createdMs: rows[0]?.ms }]);
});

test('a mark can not go back', async () => {
  const tenant = await books.newTenant();
  await claim(books.relayed, [tenant], tenant, 10, 1e6);
  await settle(books.relayed, tenant, [{ tenant, sequence: 2n }], []);
  await expect(books.owner.query('update relay_marks set sequence = 1')).rejects.toThrow('can not go back');
});

test('a mark is closed when its time is over and everything is published, and opened again by the next posting', async () => {
  const tenant = await books.newTenant();
  const open = async () =>
    (await books.owner.query<{ open: boolean }>('select open_until is not null as open from relay_marks')).rows[0]?.open;
  const over = () => books.owner.query(`update relay_marks set open_until = clock_timestamp() - interval '1 second'`);
  await over();
  expect(await findUnpublished(books.relayed, null)).toEqual({ behind: [tenant], next: null });
  expect(await open()).toBe(true);
  await claim(books.relayed, [tenant], tenant, 10, 1e6);
  await settle(books.relayed, tenant, [{ tenant, sequence: 2n }], []);
  expect((await findUnpublished(books.relayed, null)).behind).toEqual([]);
  expect(await open()).toBe(false);
  // While a posting holds the head its mark stays open.
  await post(books.openReplica(null).writer, tenant);
  expect(await open()).toBe(true);
  await claim(books.relayed, [tenant], tenant, 10, 1e6);
  await settle(books.relayed, tenant, [{ tenant, sequence: 3n }], []);
  await over();
  await books.owner.query('begin');
  await books.owner.query('select from heads for update');
  await findUnpublished(books.relayed, null);
  await books.owner.query('rollback');
  expect(await open()).toBe(true);
  await findUnpublished(books.relayed, null);
  expect(await open()).toBe(false);
});

test('the relay sees the marks of all tenants, and of everything else only what it has claimed', async () => {
  const [mine, theirs] = [await books.newTenant(), await books.newTenant()];
  const count = async (from: Pool, table: string) => (await from.query(`select from ${table}`)).rowCount;
  expect(await count(books.relayed, 'relay_marks')).toBe(2);
  for (const table of ['heads', 'log', 'accounts', 'balances', 'transactions', 'entries'])
    expect(await count(books.relayed, table)).toBe(0);
  for (const table of ['relay_marks', 'relay_dead_letters']) expect(await count(books.pool, table)).toBe(0);
  const rows = await claim(books.relayed, [mine], randomUUID(), 10, 1e6);
  expect(new Set(rows.map((row) => row.tenant_id))).toEqual(new Set([mine]));
  expect(theirs).not.toBe(mine);
});
