// A deployment on a database of the version before: REST is as that version until the operator enables what is new.
import { withClient } from '../deploy/local/databases.ts';
import { runCommand } from './audit.ts';
import { startCluster, type Cluster } from './cluster.ts';
import { deposit, newWallet, type Customer } from './customer.ts';
import { until } from './notifier.ts';

let cluster: Cluster;
let customer: Customer;

beforeAll(async () => {
  cluster = await startCluster();
  await withClient(cluster.databases.ledger.ownerUrl, (client) => client.query('delete from enabled'));
  await cluster.restart('ledger');
  customer = await newWallet(cluster);
});

afterAll(() => cluster.stop());

const limit = { account_code: 'CUSTOMER-WALLETS-USD', applies: 'account', currency: 'USD', side: 'debit' };
const daily = { ...limit, max_amount: '100.00', window: { rolling_seconds: 86_400 } };
const money = { account_code: 'SETTLEMENT-USD', currency: 'USD' };

const used: [string, () => ReturnType<Customer['post']>, string | null][] = [
  ['a hold', () => customer.post('holds', deposit()), null],
  ['a velocity limit', () => customer.post('limits', daily), null],
  ['a dry run', () => customer.post('transactions/double-entry?dry_run=true', deposit()), 'dry_run'],
  [
    'a condition',
    () => customer.post('transactions/double-entry', deposit('1.00', { require: [{ ...money, balance: { gte: '0.00' } }] })),
    'require',
  ],
  [
    'an effective time',
    () => customer.post('transactions/double-entry', deposit('1.00', { effective_at: '2026-01-31T12:00:00Z' })),
    'effective_at',
  ],
  ['a time', () => customer.post('transactions/double-entry', deposit('1.00', { valid_until: '2999-01-01T00:00:00Z' })), 'valid_until'],
  [
    'a credit line',
    () =>
      customer.post('accounts', { account_code: 'LINE', name: 'L', type: 'asset', limits: [{ currency: 'USD', min_available: '-5.00' }] }),
    'limits',
  ],
];

test('what is new is refused: routes with 404, fields as unknown; what was there works', async () => {
  for (const [name, use, field] of used) {
    const { status, body } = await use();
    if (field === null) expect([name, status, body.code]).toEqual([name, 404, 'route_not_found']);
    else expect([name, status, body.code, body.details]).toMatchObject([name, 400, 'validation_failed', { field, tag: 'unknown' }]);
  }
  expect([await customer.get('limits'), await customer.get('holds')]).toEqual([undefined, undefined]);
  const posted = await customer.post('transactions/double-entry', deposit());
  expect(posted.status).toBe(201);
  const { transaction_id } = posted.body.data.transaction;
  expect((await customer.post(`transactions/${transaction_id}/reverse`, { description: 'Back' })).status).toBe(201);
});

test('once enabled all of it works soon, without a restart', async () => {
  expect(runCommand(cluster.databases.ledger.ownerUrl, 'enable', 'payments', 'books', 'proof').status).toBe(0);
  await until(async () => (await customer.get('limits')) !== undefined);
  for (const [name, use] of used) expect([name, (await use()).status]).toEqual([name, name === 'a dry run' ? 200 : 201]);
});
