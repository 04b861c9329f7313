// Reads of many tenants at once: one whose reads are slow, however many, leaves connections for everybody else's.
import { until } from '../../test/polling.ts';
import { newTenant, refusal, startLedger, type RunningLedger } from '../../test/ledger.ts';
import { whileLocked } from '../../test/table-locks.ts';

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
])('many reads of one tenant that wait for %s keep nobody else from reading', async (table, read) => {
  await whileLocked(ledger.database, table, { reads: 100, read, waiting: 6 }, async () => {
    expect((await balance()).balance).toMatchObject({ accountCode: 'till', balance: '0.00' });
    expect((await ledger.client.getHierarchy({ tenantId: other, includeBalances: true })).accounts).toHaveLength(1);
  });
});

test('changes of many tenants that wait for their heads keep nobody from reading', async () => {
  let ended = 0;
  const change = () => {
    const account = { tenantId: newTenant().tenantId, accountCode: 'till', name: 'Till', type: 'asset' };
    return ledger.client.createAccount(account).finally(() => ended++);
  };
  await whileLocked(ledger.database, 'heads', { reads: 8, read: change, waiting: 6 }, async () => {
    expect((await balance()).balance).toMatchObject({ accountCode: 'till', balance: '0.00' });
    // That one gave up is not what let the read through.
    expect(ended).toBe(0);
  });
});

test('beyond so many that wait a tenant is told that it is too much, others are answered, and callers who leave make room', async () => {
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
