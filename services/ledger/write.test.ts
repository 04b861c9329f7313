// Moving heads that the caller has locked.
import { withClient } from '../../deploy/local/databases.ts';
import { until } from '../../test/polling.ts';
import { waitingLocks } from '../../test/table-locks.ts';
import { by, openWriters, posted, transfer, type Writers } from '../../test/writers.ts';
import { toUuid } from '../platform/ids.ts';
import { inTransaction } from '../platform/postgres.ts';
import { updateAccount } from './accounts.ts';
import { lockHead } from './log.ts';
import { moveHeads } from './write.ts';

let writers: Writers;

beforeAll(async () => {
  writers = await openWriters();
});

afterAll(() => writers.end());

test('each of several heads is moved to its new position, and no other', async () => {
  const tenants: string[] = [];
  for (let place = 0; place < 3; place++) tenants.push(toUuid('tenant', await writers.tenantWith('a'))!);
  const positions = async () => {
    const columns = 'sequence::int, hash, extract(epoch from last_at)::float8 * 1000 as "lastMs", chart, rebuilt::int';
    return (await writers.owner.query(`select ${columns} from heads where tenant_id = any($1) order by tenant_id`, [tenants])).rows;
  };
  const [, , other] = await positions();
  await inTransaction(writers.pool, tenants, async (client) => {
    const heads = [];
    for (const tenant of tenants.slice(0, 2)) heads.push((await lockHead(client, tenant, false))!.head);
    const to = (place: number) => ({ sequence: BigInt(place), hash: Buffer.alloc(32, place), lastMs: 1_700_000_000_000 + place });
    await moveHeads(client, [
      { ...heads[0]!, ...to(7), chart: 'other' },
      { ...heads[1]!, ...to(8) },
    ]);
  });
  expect(await positions()).toEqual([
    { sequence: 7, hash: Buffer.alloc(32, 7), lastMs: 1_700_000_000_007, chart: 'other', rebuilt: 0 },
    { sequence: 8, hash: Buffer.alloc(32, 8), lastMs: 1_700_000_000_008, chart: null, rebuilt: 0 },
    other,
  ]);
});

// What changes a table waits for who reads its indexes, and keeps others from changing rows meanwhile.
test.each<[string, (tenant: string) => Promise<unknown>]>([
  ['a change of an account', (tenant) => updateAccount(writers.pool, toUuid('tenant', tenant)!, 'a', { name: 'other' }, by)],
  [
    'a posting under locks',
    async (tenant) => posted(await writers.open({ isPatient: true, maxCachedAccounts: 0 }).post(transfer(tenant, 'a', 'b', '1.00'))),
  ],
])('%s that holds its head moves it, also where somebody has begun to change the table of heads', async (_, change) => {
  const tenant = await writers.tenantWith('a', 'b');
  const waitingFor = (table: string) =>
    until(
      () =>
        writers.owner.query(`select from pg_locks where ${waitingLocks} and relation in ('${table}'::regclass, '${table}_pkey'::regclass)`),
      ({ rowCount }) => rowCount === 1,
    );
  await withClient(writers.adminUrl, async (admin) => {
    await admin.query('begin; lock table accounts in access exclusive mode');
    // It has its head, and waits for what comes behind it.
    const changed = change(tenant);
    await waitingFor('accounts');
    await withClient(writers.adminUrl, async (other) => {
      const reindexed = other.query('reindex table heads');
      await waitingFor('heads');
      await admin.query('rollback');
      await changed;
      await reindexed;
    });
  });
});
