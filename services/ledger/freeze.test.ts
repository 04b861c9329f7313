// A frozen tenant: nothing of it changes, everything can be read, and all others go on.
import { startAuditor, type RunningAuditor } from '../../test/auditor.ts';
import { openAudit, type Audit } from '../../test/audit.ts';
import { hold, holdCalls, refusedWith, release, shown, spend } from '../../test/hold-commands.ts';
import { newTenant, refusal } from '../../test/ledger.ts';
import { until } from '../../test/polling.ts';
import { newId } from '../platform/ids.ts';
import { openLog } from '../platform/telemetry.ts';
import { freezeTenant } from './auditor/freeze.ts';

let audit: Audit;
let auditor: RunningAuditor;
const { one, done, made, holdOf, tenantWith } = holdCalls(() => audit.ledger.client);
const logger = openLog('test', 'silent');
const freeze = (tenant: string, reason: string) => freezeTenant(auditor.pool, logger, tenant, reason);

beforeAll(async () => {
  audit = await openAudit(undefined, { duePollMs: 20 });
  auditor = await startAuditor(audit.ledger.database);
});
afterAll(async () => {
  await auditor.end();
  await audit.end();
});

test('every change is refused, what a key has posted is answered as before, and reads and other tenants go on', async () => {
  const { client } = audit.ledger;
  const { tenantId, tenant } = await tenantWith('100.00');
  const other = await tenantWith('100.00');
  const pay = spend('1.00', { idempotencyKey: 'k1' });
  const first = (await done(tenantId, pay)).transaction!.transactionId;
  const held = await made(tenantId, hold('10.00', { idempotencyKey: 'h1' }));
  const lasting = await made(tenantId, hold('10.00', { expiresIn: 1n }));
  expect((await client.getBooks({ tenantId })).books).toMatchObject({ status: 'active' });
  expect([await freeze(tenant, 'a row differs'), await freeze(tenant, 'another row differs')]).toEqual([true, false]);

  const { sequence } = lasting;
  expect((await client.getBooks({ tenantId })).books).toMatchObject({ status: 'frozen', frozen: { reason: 'a row differs', sequence } });
  // First with what was cached before, then with what is cached since.
  for (let round = 0; round < 2; round++) {
    for (const command of [spend('1.00'), hold('1.00'), release(held.holdId)])
      expect(refusedWith(await one(tenantId, command))[0]).toBe('books_frozen');
    expect((await done(tenantId, pay)).transaction!.transactionId).toBe(first);
    expect((await one(tenantId, hold('10.00', { idempotencyKey: 'h1' }))).hold).toMatchObject({ holdId: held.holdId });
  }
  const by = { tenantId, actor: 'k' };
  const changes: [string, () => Promise<unknown>][] = [
    ['reversal', () => client.reverseTransaction({ ...by, transactionId: first })],
    ['chart', () => client.setUpChart({ ...by, businessType: 'wallet' })],
    ['account', () => client.createAccount({ ...by, accountCode: 'new', name: 'New', type: 'asset' })],
    ['change of an account', () => client.updateAccount({ ...by, accountCode: 'shop', name: 'Shop' })],
    ['books', () => client.updateBooks({ ...by, futureDays: 1 })],
    ['period', () => client.closePeriod({ ...by, through: '2020-01-31' })],
    ['reopening', () => client.reopenPeriod({ ...by, reason: 'x' })],
    ['deletion of a definition', () => client.deleteDefinition({ ...by, kind: 'limit', id: newId('limit') })],
  ];
  for (const [name, change] of changes) expect({ name, ...(await refusal(change())) }).toMatchObject({ name, reason: 'books_frozen' });
  // By the time that this one has expired, so has that of the frozen tenant.
  const elsewhere = await made(other.tenantId, hold('10.00', { expiresIn: 1n }));
  await until(
    async () => shown(await holdOf(other.tenantId, elsewhere.holdId))[0],
    (status) => status === 'expired',
  );
  expect((await client.listEvents({ tenantId, limit: 100 })).events.at(-1)).toMatchObject({ sequence });
  expect(await audit.verified(tenant)).toEqual([]);
});

test('a tenant whose head is lost gets none that begins a second log, and rebuild restores it frozen', async () => {
  const { client } = audit.ledger;
  const { tenantId, tenant } = await tenantWith('1.00');
  await audit.change(tenant, 'delete from heads where tenant_id = $1');
  expect(await freeze(tenant, 'the head is missing')).toBe(true);
  expect(await refusal(client.createAccount({ tenantId, accountCode: 'new', name: 'New', type: 'asset' }))).toMatchObject({
    reason: 'books_frozen',
  });
  await audit.rebuilt(tenant);
  await audit.change(tenant, 'delete from heads where tenant_id = $1');
  await audit.rebuilt(tenant);
  expect(await audit.verified(tenant)).toEqual([]);
  expect(refusedWith(await one(tenantId, spend('1.00')))[0]).toBe('books_frozen');
});

test('nothing is frozen while ledgers may run that would not see it, nor a tenant that is deleted', async () => {
  const { tenantId, tenant } = await tenantWith('1.00');
  await audit.owner.query(`delete from enabled where feature = 'proof'`);
  expect(await freeze(tenant, 'too early')).toBe(false);
  await audit.owner.query(`insert into enabled values ('proof')`);
  expect((await done(tenantId, spend('1.00'))).refusal).toBeUndefined();
  const gone = newTenant();
  await audit.ledger.client.deleteTenant({ tenantId: gone.tenantId });
  expect(await freeze(gone.tenant, 'too late')).toBe(false);
});
