// Balances by both times over REST: as of an instant, as known then, day by day, and in the tree.
import { startCheckedCluster } from '../test/contract.ts';
import { line, newWallet, type Customer } from '../test/customer.ts';
import type { Cluster } from '../test/cluster.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: Cluster;
let customer: Customer;

beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newWallet(cluster);
  const changed = await cluster.rest('PATCH', customer.at('books'), { key: customer.key, body: { timezone: 'Africa/Lagos' } });
  expect(changed.status).toBe(200);
});
afterAll(() => cluster.stop());

const post = async (account: string, amount: string, effective_at?: string) => {
  const body = { ...line(account, 'debit', amount, 'NGN'), ...(effective_at !== undefined && { effective_at }) };
  const { status, body: answer } = await customer.post('transactions', body);
  expect([status, answer.code]).toEqual([201, undefined]);
  return answer.data.transaction;
};
const balanceOf = async (account: string, query = '') =>
  (await customer.get(`accounts/code/${account}/balance?currency=NGN${query}`)).balance;

test('a posting dated last month changes that day and today, and no balance_after', async () => {
  const before = await post('OPERATING-CASH', '1.00');
  const late = await post('OPERATING-CASH', '5.00', '2026-02-10T12:00:00Z');
  const [lastMonth, today] = await Promise.all([balanceOf('OPERATING-CASH', '&as_of=2026-02-28'), balanceOf('OPERATING-CASH')]);
  expect(lastMonth).toMatchObject({ balance: '5.00', debits: '5.00', credits: '0.00', version: 2, updated_at: late.created_at });
  expect(lastMonth).toMatchObject({ as_of: '2026-02-28T22:59:59.999Z', pending_debits: null, pending_credits: null, available: null });
  expect(today).toMatchObject({ balance: '6.00', available: '6.00', as_of: null, known_sequence: null });
  expect(await balanceOf('OPERATING-CASH', '&as_of=2026-02-10T11:59:59.999Z')).toMatchObject({
    balance: '0.00',
    version: 0,
    updated_at: null,
  });
  // As it was known before the late one, by its sequence and by the clock.
  for (const known of [`known_sequence=${before.sequence}`, `known_at=${before.created_at}`]) {
    expect(await balanceOf('OPERATING-CASH', `&as_of=2026-02-28&${known}`)).toMatchObject({
      balance: '0.00',
      known_sequence: before.sequence,
    });
    expect(await balanceOf('OPERATING-CASH', `&${known}`)).toMatchObject({ balance: '1.00', as_of: null, updated_at: before.created_at });
  }
  const beyond = await balanceOf('OPERATING-CASH', `&known_sequence=${Number.MAX_SAFE_INTEGER}`);
  expect(beyond).toMatchObject({ balance: '6.00', known_sequence: late.sequence });
  const { history } = await customer.get('accounts/code/OPERATING-CASH/balance/history?currency=NGN');
  expect(history.map((each: { balance_after: string }) => each.balance_after)).toEqual(['6.00', '1.00']);
});

test('a day ends with the books’ time zone, in balances, days and the tree', async () => {
  await post('PREPAID-EXPENSES', '1.00', '2026-01-31T22:59:59.999Z');
  await post('PREPAID-EXPENSES', '2.00', '2026-01-31T23:00:00Z');
  expect(await balanceOf('PREPAID-EXPENSES', '&as_of=2026-01-31')).toMatchObject({ balance: '1.00', as_of: '2026-01-31T22:59:59.999Z' });
  const daily = async (query: string, account = 'PREPAID-EXPENSES') =>
    (await customer.get(`accounts/code/${account}/balance/daily?currency=NGN&${query}`)).days;
  const days = [
    { date: '2026-01-30', opening: '0.00', debits: '0.00', credits: '0.00', closing: '0.00' },
    { date: '2026-01-31', opening: '0.00', debits: '1.00', credits: '0.00', closing: '1.00' },
    { date: '2026-02-01', opening: '1.00', debits: '2.00', credits: '0.00', closing: '3.00' },
  ];
  expect(await daily('from=2026-01-30&to=2026-02-01')).toEqual(days);
  // The day of a time: 23:30 UTC is the next one in Lagos.
  expect(await daily('from=2026-01-30T12:00:00Z&to=2026-01-31T23:30:00Z')).toEqual(days);
  expect(await daily('from=2026-02-01&to=2026-02-01&known_sequence=1')).toEqual([{ ...days[0], date: '2026-02-01' }]);
  const year = await daily('from=2025-02-01&to=2026-02-01');
  expect([year.length, year.at(-1)]).toEqual([366, days[2]]);

  const { accounts } = await customer.get('accounts/hierarchy?include=balances&root=ASSETS&depth=1&as_of=2026-01-31');
  expect(accounts[0].balances).toEqual([{ currency: 'NGN', debits: '1.00', credits: '0.00', balance: '1.00' }]);
  const known = await customer.get('accounts/hierarchy?include=balances&root=PREPAID-EXPENSES&as_of=2026-02-01&known_sequence=1');
  expect(known.accounts[0].balances).toEqual([]);
});

test('a day that the time zone skipped is left out', async () => {
  const other = await newWallet(cluster);
  await cluster.rest('PATCH', other.at('books'), { key: other.key, body: { timezone: 'Pacific/Apia' } });
  const { days } = await other.get('accounts/code/OPERATING-CASH/balance/daily?currency=NGN&from=2011-12-29&to=2011-12-31');
  expect(days.map(({ date }: { date: string }) => date)).toEqual(['2011-12-29', '2011-12-31']);
});

const balance = 'accounts/code/OPERATING-CASH/balance';
test.each([
  [`${balance}?currency=NGN&as_of=2026-02-30`, 400, 'as_of', 'datetime', '2026-02-30'],
  [`${balance}?currency=NGN&as_of=2026-02-03T12:00:00.1234Z`, 400, 'as_of', 'datetime', '2026-02-03T12:00:00.1234Z'],
  [`${balance}?currency=NGN&known_at=yesterday`, 400, 'known_at', 'datetime', 'yesterday'],
  [`${balance}?currency=NGN&known_sequence=-1`, 400, 'known_sequence', 'min', -1],
  [`${balance}?currency=NGN&known_sequence=1.5`, 400, 'known_sequence', 'type', '1.5'],
  [`${balance}?currency=NGN&known_at=2026-02-03&known_sequence=1`, 400, 'known_at', 'oneof', '2026-02-03'],
  [`${balance}?as_of=2026-02-03`, 400, 'currency', 'required', ''],
  ['accounts/code/SETTLEMENT-USD/balance?currency=NGN&as_of=2026-02-03', 422, 'currency', 'currency_not_allowed', 'NGN'],
  ['accounts/code/ASSETS/balance?currency=NGN&as_of=2026-02-03', 422, 'account_code', 'account_is_group', 'ASSETS'],
  [`${balance}/daily?currency=NGN&to=2026-02-03`, 400, 'from', 'required', ''],
  [`${balance}/daily?currency=NGN&from=2026-02-03`, 400, 'to', 'required', ''],
  [`${balance}/daily?currency=NGN&from=2026-02-03&to=2026-13-01`, 400, 'to', 'datetime', '2026-13-01'],
  [`${balance}/daily?currency=NGN&from=2026-02-03&to=2026-02-02`, 400, 'from', 'oneof', '2026-02-03'],
  [`${balance}/daily?currency=NGN&from=2025-01-31&to=2026-02-01`, 400, 'to', 'max', '2026-02-01'],
  [`${balance}/daily?currency=NGN&from=2026-01-31&to=2026-02-01&as_of=2026-01-31`, 400, 'as_of', 'unknown', '2026-01-31'],
  ['accounts/hierarchy?as_of=2026-02-03', 400, 'include', 'required', ''],
])('%s is refused', async (path, status, field, tag, value) => {
  const answer = await cluster.rest('GET', customer.at(path), { key: customer.key });
  expect([answer.status, answer.body.details]).toEqual([status, { field, tag, value }]);
});
