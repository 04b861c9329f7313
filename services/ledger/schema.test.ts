// Database constraints of the tables that batches write.
import pg from 'pg';
import { entries, newTenant, startLedger, type RunningLedger } from '../../test/ledger.ts';

let ledger: RunningLedger;
let owner: pg.Client;

beforeAll(async () => {
  ledger = await startLedger();
  const { tenantId, tenant } = newTenant();
  for (const accountCode of ['a', 'b']) await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  await ledger.client.postTransaction({ posting: { tenantId, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') } });
  const effectiveMs = BigInt(Date.parse('2026-01-31T00:00:00Z'));
  await ledger.client.postTransaction({ posting: { tenantId, effectiveMs, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') } });
  await ledger.client.closePeriod({ tenantId, through: '2025-12-31' });
  owner = new pg.Client({ connectionString: ledger.database.ownerUrl });
  await owner.connect();
  await owner.query(`select set_config('app.tenants', $1, false)`, [`{${tenant}}`]);
});

afterAll(async () => {
  await owner.end();
  await ledger.end();
});

test.each([
  ['heads', 'sequence = -1'],
  ['heads', `hash = '\\x00'`],
  ['heads', `chart = 'bank'`],
  ['heads', 'rebuilt = -1'],
  ['log', 'sequence = 0'],
  ['log', `type = 'transaction.voided'`],
  ['log', `hash = hash || '\\x00'`],
  ['log', `traceparent = '00'`],
  ['transactions', `fingerprint = '\\x00'`],
  ['entries', `currency = 'XAU'`],
  ['entries', 'position = -1'],
  ['entries', `side = 'left'`],
  ['entries', 'amount = 0'],
  ['balances', `currency = 'XAU'`],
  ['balances', 'debits = -1'],
  ['balances', 'credits = -1'],
  ['balances', 'pending_debits = -1'],
  ['balances', 'pending_credits = -1'],
  ['balances', 'version = 0'],
  ['shifted_entries', `currency = 'XAU'`],
  ['shifted_entries', 'debits = -1'],
  ['shifted_entries', 'running_credits = -1'],
  ['shifted_months', 'credits = -1'],
  ['books', 'version = -1'],
  ['books', 'open_from = null'],
  ['periods', `action = 'open'`],
  ['periods', 'sequence = 0'],
])('no row of %s takes %s', async (table, change) => {
  await owner.query('begin');
  await expect(owner.query(`update ${table} set ${change}`)).rejects.toMatchObject({ code: '23514' });
  await owner.query('rollback');
  // The rows exist, and no policy hides them.
  expect((await owner.query(`update ${table} set tenant_id = tenant_id`)).rowCount).toBeGreaterThan(0);
});

test('no function is overloaded', async () => {
  const { rows } = await owner.query(
    `select proname from pg_proc where pronamespace = 'public'::regnamespace group by proname having count(*) > 1`,
  );
  expect(rows).toEqual([]);
});
