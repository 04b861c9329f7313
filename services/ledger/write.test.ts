// A change and a schema change of the heads table at once.
import { withClient } from '../../deploy/local/databases.ts';
import { until } from '../../test/polling.ts';
import { waitingLocks } from '../../test/table-locks.ts';
import { by, openWriters, posted, transfer, type Writers } from '../../test/writers.ts';
import { toUuid } from '../platform/ids.ts';
import { updateAccount } from './accounts.ts';

let writers: Writers;

beforeAll(async () => {
  writers = await openWriters();
});

afterAll(() => writers.end());

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
