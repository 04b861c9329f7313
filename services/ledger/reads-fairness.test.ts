// Slow reads of one tenant leave connections to the others.
import { until } from '../../test/polling.ts';
import { newTenant, refusal, startLedger, type RunningLedger } from '../../test/ledger.ts';
import { waitingLocks, whileLocked } from '../../test/table-locks.ts';
import { withClient } from '../../deploy/local/databases.ts';

let ledger: RunningLedger;
const [slow, other] = [newTenant().tenantId, newTenant().tenantId];

beforeAll(async () => {
  ledger = await startLedger();
  for (const tenantId of [slow, other]) {
    await ledger.client.createAccount({ tenantId, accountCode: 'till', name: 'Till', type: 'asset', currency: 'NGN' });
  }
});
afterAll(() => ledger.end());

const balance = () => ledger.client.getBalance({ tenantId: other, accountCode: 'till' });
const history = (signal = new AbortController().signal) =>
  ledger.client.listBalanceHistory({ tenantId: slow, accountCode: 'till' }, { signal });

test.each([
  ['entries', () => history()],
  ['transactions', () => ledger.client.listTransactions({ tenantId: slow })],
  ['log', () => ledger.client.listEvents({ tenantId: slow })],
])('many reads of one tenant that wait for %s do not block other tenants’ reads', async (table, read) => {
  await whileLocked(ledger.database, table, { reads: 100, read, waiting: 6 }, async () => {
    expect((await balance()).balance).toMatchObject({ accountCode: 'till', balance: '0.00' });
    expect((await ledger.client.getHierarchy({ tenantId: other, includeBalances: true })).accounts).toHaveLength(1);
  });
});

test('many reads of one tenant’s chart occupy one connection', async () => {
  const read = () => ledger.client.getHierarchy({ tenantId: slow, includeBalances: true });
  await whileLocked(ledger.database, 'balances', { reads: 50, read, waiting: 1 }, async () => {
    for (let times = 0; times < 20; times++) await ledger.client.getAccount({ tenantId: slow, accountCode: 'till' });
    const waits = await withClient(ledger.database.adminUrl, (admin) => admin.query(`select from pg_locks where ${waitingLocks}`));
    expect(waits.rowCount).toBe(1);
  });
});

test('changes of many tenants that wait for their heads do not block reads', async () => {
  let ended = 0;
  const change = () => {
    const account = { tenantId: newTenant().tenantId, accountCode: 'till', name: 'Till', type: 'asset' };
    return ledger.client.createAccount(account).finally(() => ended++);
  };
  await whileLocked(ledger.database, 'heads', { reads: 8, read: change, waiting: 6 }, async () => {
    expect((await balance()).balance).toMatchObject({ accountCode: 'till', balance: '0.00' });
    // The read did not succeed because a change gave up.
    expect(ended).toBe(0);
  });
});

test('beyond the limit of waiting reads a tenant is refused, others are answered, and disconnecting clients free space', async () => {
  const leaving = new AbortController();
  const reasons: Promise<string>[] = [];
  const read = () =>
    history(leaving.signal).catch((error: Error) => {
      if (!leaving.signal.aborted) reasons.push(refusal(Promise.reject(error)).then(({ reason }) => reason));
    });
  await whileLocked(ledger.database, 'entries', { reads: 2_100, read, waiting: 6 }, async () => {
    await until(
      () => Promise.all(reasons),
      (given) => given.includes('overloaded'),
    );
    expect((await balance()).balance).toMatchObject({ accountCode: 'till' });
    leaving.abort();
  });
  expect((await history()).history).toEqual([]);
});
