// A database that the version before payments has filled, migrated in place and used on.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { SubmitRequestSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { withClient } from '../../deploy/local/databases.ts';
import { root } from '../../deploy/local/plan.ts';
import { openAudit, type Audit } from '../../test/audit.ts';
import { freshDatabase } from '../../test/cluster.ts';
import { entries, refusal } from '../../test/ledger.ts';
import { bareEnvironment } from '../../test/run.ts';

// The tenants and requests that filled it, in their order.
const wallet = 'tenant_01jd1zq5v8e6n9w2k4m7p3r5t8';
const bank = 'tenant_01jd1zq5v8e6n9w2k4m7p3r5t9';
const shop = 'tenant_01jd1zq5v8e6n9w2k4m7p3r5ta';
const by = { actor: 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', requestId: 'req-old' };
const metadata = '{"n":"12345678901234567890","b":1.5,"a":[true,null]}';
const requests = [
  { tenantId: shop, idempotencyKey: 'till-1', description: 'Opening', entries: entries('CASH debit 100.00 NGN') },
  {
    ...{ tenantId: shop, idempotencyKey: 'order-1', description: 'Äpfel “✓”', reference: 'INV-1', metadata },
    entries: entries('CASH debit 30.10 NGN', 'SALES credit 30.10 NGN'),
  },
  {
    ...{ tenantId: shop, idempotencyKey: 'order-2', reference: 'INV-1' },
    entries: entries('CASH debit 10 USD', 'SALES credit 10 USD', 'CASH debit 5.5 EUR', 'SALES credit 5.50 EUR'),
  },
  {
    ...{ tenantId: shop, idempotencyKey: 'split' },
    entries: entries('CARD credit 60.00 NGN', 'CASH debit 20.00 NGN', 'CASH debit 40.00 NGN'),
  },
  {
    ...{ tenantId: wallet, idempotencyKey: 'deposit' },
    entries: entries('OPERATING-CASH debit 1000000000000.00 NGN', 'CUSTOMER-WALLETS-NGN credit 1000000000000.00 NGN'),
  },
  {
    ...{ tenantId: wallet, idempotencyKey: 'fee', metadata: '{"order":"42"}' },
    entries: entries('CUSTOMER-WALLETS-NGN debit 0.01 NGN', 'PROFESSIONAL-FEES credit 0.01 NGN'),
  },
  { tenantId: bank, idempotencyKey: 'float', entries: entries('OPERATING-CASH credit 7.77 GBP') },
];
type Commands = NonNullable<MessageInitShape<typeof SubmitRequestSchema>['commands']>;
const refund = { tenantId: shop, idempotencyKey: 'refund-1', description: 'Returned' };

let audit: Audit;

beforeAll(async () => {
  const database = await freshDatabase('ledger');
  const dump = readFileSync(join(root, 'test/ledger-0001.sql'), 'utf8');
  const owner = new URL(database.ownerUrl).username;
  await withClient(database.ownerUrl, (client) => client.query(dump.replaceAll(' TO ledger_owner ', ` TO "${owner}" `)));
  const urls = { DATABASE_URL: database.serviceUrl, MIGRATION_DATABASE_URL: database.ownerUrl, AUDITOR_DATABASE_URL: database.auditorUrl };
  const env = { ...bareEnvironment, ...urls };
  execFileSync(process.execPath, ['services/ledger/main.ts', 'migrate'], { cwd: root, env });
  audit = await openAudit(database);
});

afterAll(() => audit.end());

const clean = async () => expect([await audit.verified(), await audit.checked()]).toEqual([[], []]);
const counted = async (table: string) => (await audit.owner.query<{ n: number }>(`select count(*)::int as n from ${table}`)).rows[0]!.n;

test('what it had written is found right, and payments are off until they are enabled', async () => {
  await clean();
  expect([await counted('log'), await counted('transactions')]).toEqual([84, 8]);
  expect(await counted('enabled')).toBe(0);
});

test('its keys replay their transactions, and another request under one is refused', async () => {
  const { client } = audit.ledger;
  const original = new Map<string, string>();
  for (const request of requests) {
    const { transaction, replayed } = await client.postTransaction({ posting: { ...by, ...request } });
    expect([transaction!.idempotencyKey, replayed]).toEqual([request.idempotencyKey, true]);
    original.set(request.idempotencyKey, transaction!.transactionId);
  }
  const { transaction: reversal, replayed } = await client.reverseTransaction({
    ...by,
    ...refund,
    transactionId: original.get('order-1')!,
  });
  expect([reversal!.reverses, replayed]).toEqual([original.get('order-1'), true]);
  const { transaction: reversed } = await client.getTransaction({ tenantId: shop, transactionId: original.get('order-1')! });
  expect(reversed).toMatchObject({ reversedBy: reversal!.transactionId, metadata });
  const other = client.postTransaction({ posting: { ...requests[0]!, entries: entries('CASH debit 100.01 NGN') } });
  expect(await refusal(other)).toMatchObject({ reason: 'idempotency_key_reused' });
  const closed = client.postTransaction({ posting: { tenantId: shop, entries: entries('OLD debit 1.00 NGN', 'SALES credit 1.00 NGN') } });
  expect(await refusal(closed)).toMatchObject({ reason: 'account_closed' });
  expect(await counted('log')).toBe(84);
});

test('it is posted to as before: balances go on from where they were', async () => {
  const { client } = audit.ledger;
  await client.postTransaction({ posting: { tenantId: shop, entries: entries('CARD debit 59.99 NGN', 'CASH credit 59.99 NGN') } });
  const { balance } = await client.getBalance({ tenantId: shop, accountCode: 'CARD', currency: 'NGN' });
  expect(balance).toMatchObject({ balance: '0.01', pendingDebits: '0.00', available: '0.01', version: 2n });
  const overdrawn = client.postTransaction({
    posting: { tenantId: shop, entries: entries('CARD debit 0.02 NGN', 'CASH credit 0.02 NGN') },
  });
  expect(await refusal(overdrawn)).toMatchObject({ reason: 'insufficient_funds' });
  const { transactions } = await client.listTransactions({ tenantId: shop, reference: 'INV-1' });
  expect(transactions.map(({ idempotencyKey }) => idempotencyKey)).toEqual(['order-2', 'order-1']);
  await clean();
});

test('an old transaction is reversed in parts, and one that was reversed stays reversed', async () => {
  const { client } = audit.ledger;
  const { transactions } = await client.listTransactions({ tenantId: shop, reference: 'INV-1' });
  const [several, reversed] = transactions.map(({ transactionId }) => transactionId) as [string, string];
  const reverse = async (transactionId: string, ...lines: string[]) => {
    const value = { transactionId, entries: entries(...lines) };
    const { results } = await client.submit({ tenantId: shop, commands: [{ command: { case: 'reversal', value } }] });
    return results[0]!;
  };
  expect((await reverse(reversed)).refusal).toMatchObject({ reason: 'already_reversed' });
  const part = await reverse(several, 'SALES debit 4.00 USD', 'CASH credit 4.00 USD');
  expect(part.transaction).toMatchObject({ kind: 'reversal', reverses: several, amount: '4.00' });
  const read = async () => (await client.getTransaction({ tenantId: shop, transactionId: several })).transaction;
  expect((await read())!.unreversed!.amounts).toEqual(['6.00', '6.00', '5.50', '5.50']);
  expect((await reverse(several, 'SALES debit 6.01 USD', 'CASH credit 6.01 USD')).refusal).toMatchObject({ reason: 'reversal_exceeded' });
  const rest = await reverse(several);
  expect(await read()).toMatchObject({ reversedBy: rest.transaction!.transactionId });
  expect((await read())!.unreversed).toBeUndefined();
  await clean();
});

test('money of old accounts is held, captured and voided; an old key may name a hold', async () => {
  const { client } = audit.ledger;
  const lines = entries('CUSTOMER-WALLETS-NGN debit 100.00 NGN', 'PROFESSIONAL-FEES credit 100.00 NGN');
  const hold = { idempotencyKey: 'fee', entries: lines };
  const submit = async (...commands: Commands) => (await client.submit({ tenantId: wallet, commands })).results;
  const [made] = await submit({ command: { case: 'hold', value: hold } });
  const { holdId } = made!.hold!;
  const { balance } = await client.getBalance({ tenantId: wallet, accountCode: 'CUSTOMER-WALLETS-NGN', currency: 'NGN' });
  const total = { balance: '999999999999.99', pendingDebits: '100.00', available: '999999999899.99', version: 3n };
  expect(balance).toMatchObject(total);
  const overdrawn = { tenantId: wallet, entries: lines.map((line) => ({ ...line, amount: '999999999900.00' })) };
  expect(await refusal(client.postTransaction({ posting: overdrawn }))).toMatchObject({ reason: 'insufficient_funds' });
  const [captured, voided] = await submit(
    { command: { case: 'capture', value: { holdId, amount: '40.00', final: false } } },
    { command: { case: 'void', value: { holdId } } },
  );
  expect(captured!.transaction).toMatchObject({ kind: 'capture', amount: '40.00', origin: { holdId } });
  expect(voided!.hold).toMatchObject({ status: 'voided', captures: 1 });
  await clean();
});

test('what it had counts when it was recorded; late postings, reversals then and closed periods work on it', async () => {
  const { client } = audit.ledger;
  const [first] = requests;
  const effectiveMs = BigInt(Date.parse('2020-02-29T12:00:00Z'));
  expect(await refusal(client.postTransaction({ posting: { ...by, ...first, effectiveMs } }))).toMatchObject({
    ...{ reason: 'idempotency_key_reused', metadata: expect.objectContaining({ fields: 'effective_at' }) },
  });
  const { transactions } = await client.listTransactions({ tenantId: shop, idempotencyKey: 'till-1' });
  const { transactionId, createdMs, effectiveMs: recorded } = transactions[0]!;
  expect(recorded).toBeUndefined();
  const { transaction } = await client.reverseTransaction({ tenantId: shop, transactionId, effectiveAsOriginal: true });
  expect(transaction!.effectiveMs).toBe(createdMs);
  const late = { tenantId: shop, effectiveMs, entries: entries('CASH debit 1.00 NGN', 'SALES credit 1.00 NGN') };
  expect((await client.postTransaction({ posting: late })).transaction!.effectiveMs).toBe(effectiveMs);
  const { balance } = await client.getBalance({ tenantId: shop, accountCode: 'CASH', currency: 'NGN', asOfMs: effectiveMs });
  expect(balance!.balance).toBe('1.00');
  await client.closePeriod({ tenantId: shop, through: '2020-12-31' });
  expect(await refusal(client.postTransaction({ posting: late }))).toMatchObject({ reason: 'period_closed', field: 'effective_at' });
  await clean();
});

test('every table has the owner and the row-level security of a new database', async () => {
  const fresh = await freshDatabase('ledger', { migrated: true });
  const shape = `select c.relname, pg_get_userbyid(c.relowner) as owner, c.relrowsecurity, c.relforcerowsecurity, c.relacl::text, coalesce((
      select json_agg(json_build_array(p.polname, p.polcmd, p.polroles::regrole[]::text, pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
        order by p.polname) from pg_policy p where p.polrelid = c.oid)::text, '') as policies
    from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'i') and c.relname not like 'mikro_orm%' order by 1`;
  try {
    const [here, there] = await Promise.all(
      [audit.ledger.database.ownerUrl, fresh.ownerUrl].map((url) =>
        withClient(url, async (client) => (await client.query<{ relname: string }>(shape)).rows),
      ),
    );
    expect(here).toEqual(there);
    expect(here!.map(({ relname }) => relname)).toEqual(
      expect.arrayContaining(['holds', 'hold_entries', 'parts', 'definitions', 'velocity', 'books', 'periods', 'shifted_entries']),
    );
  } finally {
    await fresh.drop();
  }
});
