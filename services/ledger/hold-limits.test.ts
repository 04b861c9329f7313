// Holds and velocity limits: a hold counts when it is made, and what it releases is given back where it was counted.
import { openAudit, type Audit } from '../../test/audit.ts';
import { capture, hold, holdCalls, refusedWith, release, spend } from '../../test/hold-commands.ts';

let audit: Audit;
const { one, done, made, tenantWith } = holdCalls(() => audit.ledger.client);

beforeAll(async () => {
  audit = await openAudit();
});

afterAll(() => audit.end());

async function limitOn(tenantId: string, more: object = {}): Promise<string> {
  const usual = { account_code: 'purse', currency: 'NGN', side: 'debit', max_amount: '500.00', window: { rolling_seconds: 86_400 } };
  const record = JSON.stringify({ ...usual, ...more });
  return (await audit.ledger.client.putDefinition({ tenantId, kind: 'limit', record })).definition!.id;
}

async function usage(tenantId: string, limitId: string): Promise<[amount: string, count: bigint]> {
  const { amount, count } = await audit.ledger.client.getUsage({ tenantId, limitId });
  return [amount, count];
}

test('a hold counts once, its captures do not, and what is released is given back', async () => {
  const { tenantId, tenant } = await tenantWith('1000.00');
  const limitId = await limitOn(tenantId);
  const first = await made(tenantId, hold('300.00'));
  expect(await usage(tenantId, limitId)).toEqual(['300.00', 1n]);
  const refused = await one(tenantId, hold('200.01'));
  expect(refusedWith(refused)).toEqual(['limit_exceeded', 'entries[0].account_code', limitId]);
  expect(refusedWith(await one(tenantId, spend('200.01')))[0]).toBe('limit_exceeded');
  await done(tenantId, capture(first.holdId, { amount: '100.00', final: false }));
  expect(await usage(tenantId, limitId)).toEqual(['300.00', 1n]);
  await done(tenantId, capture(first.holdId, { amount: '50.00' }));
  expect(await usage(tenantId, limitId)).toEqual(['150.00', 1n]);
  const second = await made(tenantId, hold('350.00'));
  expect(await usage(tenantId, limitId)).toEqual(['500.00', 2n]);
  await done(tenantId, release(second.holdId));
  // Nothing of it moved, so that its count is given back too.
  expect(await usage(tenantId, limitId)).toEqual(['150.00', 1n]);
  const third = await made(tenantId, hold('20.00'));
  await done(tenantId, capture(third.holdId, { amount: '5.00', final: false }));
  await done(tenantId, release(third.holdId));
  expect(await usage(tenantId, limitId)).toEqual(['155.00', 2n]);
  expect(await audit.verified(tenant)).toEqual([]);
});

test('a limit that was made later or is deleted gets nothing back', async () => {
  const { tenantId, tenant } = await tenantWith('1000.00');
  const deleted = await limitOn(tenantId);
  const { holdId } = await made(tenantId, hold('300.00'));
  await audit.ledger.client.deleteDefinition({ tenantId, kind: 'limit', id: deleted });
  const later = await limitOn(tenantId);
  await done(tenantId, release(holdId));
  expect(await usage(tenantId, later)).toEqual(['0.00', 0n]);
  expect(await audit.verified(tenant)).toEqual([]);
});

test('a group that an account has left gets back what it has counted, and keeps the rest', async () => {
  const { tenantId, tenant } = await tenantWith('1000.00');
  const { client } = audit.ledger;
  for (const accountCode of ['old', 'new'])
    await client.createAccount({ tenantId, accountCode, name: 'g', type: 'liability', isGroup: true });
  await client.updateAccount({ tenantId, accountCode: 'purse', parentCode: 'old' });
  const limitId = await limitOn(tenantId, { account_code: 'old', applies: 'sum' });
  await done(tenantId, spend('7.00'));
  const { holdId } = await made(tenantId, hold('300.00'));
  await client.updateAccount({ tenantId, accountCode: 'purse', parentCode: 'new' });
  await done(tenantId, release(holdId));
  expect(await usage(tenantId, limitId)).toEqual(['7.00', 1n]);
  expect(await audit.verified(tenant)).toEqual([]);
});

test('a hold that is undone, and a dry run, count nothing', async () => {
  const { tenantId } = await tenantWith('1000.00');
  const limitId = await limitOn(tenantId);
  await one(tenantId, hold('300.00'), { dryRun: true });
  await audit.ledger.client.submit({ tenantId, commands: [hold('300.00'), hold('300.00')], atomic: true });
  expect(await usage(tenantId, limitId)).toEqual(['0.00', 0n]);
});
