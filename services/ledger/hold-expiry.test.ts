// Holds that are due, also before their events are written: no loop expires them here.
import { openAudit, type Audit } from '../../test/audit.ts';
import { capture, hold, holdCalls, posting, refusedWith, release, shown, spend } from '../../test/hold-commands.ts';
import { until } from '../../test/polling.ts';

let audit: Audit;
const { submit, one, done, made, holdOf, tenantWith, balanceOf } = holdCalls(() => audit.ledger.client);

beforeAll(async () => {
  audit = await openAudit();
});

afterAll(() => audit.end());

/** Waits until a time, milliseconds since the Unix epoch, has come by the database's clock. */
async function reached(ms: bigint): Promise<void> {
  const clock = 'select extract(epoch from clock_timestamp())::float8 * 1000 as ms';
  await until(
    async () => (await audit.owner.query<{ ms: number }>(clock)).rows[0]!.ms,
    (now) => now > Number(ms) + 10,
  );
}

async function eventsOf(tenantId: string): Promise<string[]> {
  const { events } = await audit.ledger.client.listEvents({ tenantId, limit: 100 });
  return events.map(({ type }) => type).filter((type) => !type.startsWith('account.'));
}

test('a hold that lasts so many seconds expires so long after it was made', async () => {
  const { tenantId } = await tenantWith('100.00');
  const { createdMs, expiresMs } = await made(tenantId, hold('10.00', { expiresIn: 34_560_000n }));
  expect(expiresMs! - createdMs).toBe(34_560_000_000n);
});

test('from then on it is neither captured nor voided, and nothing is changed', async () => {
  const { tenantId } = await tenantWith('100.00');
  const before = await made(tenantId, hold('10.00', { expiresIn: 1n }));
  await done(tenantId, capture(before.holdId, { amount: '1.00', final: false }));
  await reached(before.expiresMs!);
  for (const command of [capture(before.holdId), release(before.holdId)]) {
    expect(refusedWith(await one(tenantId, command))).toEqual(['hold_ended', 'hold_id', 'expired']);
  }
  expect(shown(await holdOf(tenantId, before.holdId))).toEqual(['pending', 1, '1.00 9.00', '1.00 9.00']);
  expect(await balanceOf(tenantId, 'purse')).toEqual(['99.00', '90.00', '9.00', '0.00', 3n]);
  // A key that was used before is answered as before.
  const again = await one(tenantId, hold('10.00', { expiresIn: 1n, idempotencyKey: before.idempotencyKey }));
  expect(again.hold).toMatchObject({ holdId: before.holdId });
});

test('its money is there for a posting, a hold, a ceiling, a condition and a limit that need it', async () => {
  const { tenantId, tenant } = await tenantWith('100.00');
  const due = () => made(tenantId, hold('60.00', { expiresIn: 1n }));
  const inDebt = await due();
  await reached(inDebt.expiresMs!);
  const spent = await done(tenantId, spend('41.00'));
  expect(spent.transaction!.entries[0]!.balanceAfter).toBe('59.00');
  expect(shown(await holdOf(tenantId, inDebt.holdId))).toEqual(['expired', 0, '0.00 0.00', '0.00 0.00']);
  await done(tenantId, posting('shop debit 41.00 NGN', 'purse credit 41.00 NGN'));

  await reached((await due()).expiresMs!);
  await done(tenantId, hold('100.00', { holdId: 'hold_00000000000000000000000001' }));
  await done(tenantId, release('hold_00000000000000000000000001'));

  await reached((await due()).expiresMs!);
  const limits = { limits: [{ currency: 'NGN', maxBalance: '50.00' }] };
  await audit.ledger.client.updateAccount({ tenantId, accountCode: 'shop', limits: { limits: [] } });
  await audit.ledger.client.updateAccount({ tenantId, accountCode: 'shop', limits });
  await done(tenantId, posting('bank debit 50.00 NGN', 'shop credit 50.00 NGN'));
  await audit.ledger.client.updateAccount({ tenantId, accountCode: 'shop', limits: { limits: [] } });

  await reached((await due()).expiresMs!);
  const available = { accountCode: 'purse', currency: 'NGN', available: { gte: '99.00' } };
  await done(tenantId, spend('1.00', { require: [available] }));

  const limit = { account_code: 'purse', currency: 'NGN', side: 'debit', max_amount: '70.00', window: { rolling_seconds: 86_400 } };
  await audit.ledger.client.putDefinition({ tenantId, kind: 'limit', record: JSON.stringify(limit) });
  await reached((await due()).expiresMs!);
  await done(tenantId, spend('70.00'));
  expect((await eventsOf(tenantId)).filter((type) => type === 'hold.expired')).toHaveLength(5);
  expect(await audit.verified(tenant)).toEqual([]);
});

test('what is refused for other reasons stays refused, and then no hold that is not due expires', async () => {
  const { tenantId } = await tenantWith('100.00');
  const [due, lasting] = [await made(tenantId, hold('10.00', { expiresIn: 1n })), await made(tenantId, hold('10.00'))];
  await reached(due.expiresMs!);
  expect(refusedWith(await one(tenantId, spend('90.01')))).toEqual(['insufficient_funds', 'entries[0].account_code', 'purse']);
  await done(tenantId, spend('90.00'));
  expect((await holdOf(tenantId, lasting.holdId)).status).toBe('pending');
  expect((await holdOf(tenantId, due.holdId)).status).toBe('expired');
});

test('in an atomic call it expires before the commands, and a dry run sees its money', async () => {
  const { tenantId } = await tenantWith('100.00');
  const due = await made(tenantId, hold('60.00', { expiresIn: 1n }));
  await reached(due.expiresMs!);
  const [tried] = await submit(tenantId, [spend('100.00')], { dryRun: true });
  expect(tried!.refusal).toBeUndefined();
  const results = await submit(tenantId, [spend('50.00'), spend('50.00')], { atomic: true });
  expect(results.every(({ refusal }) => !refusal)).toBe(true);
  expect((await eventsOf(tenantId)).slice(1)).toEqual(['hold.created', 'hold.expired', 'transaction.posted', 'transaction.posted']);
});

test('it keeps no account open, and forbids no change of one', async () => {
  const { tenantId, tenant } = await tenantWith('0.00');
  const { client } = audit.ledger;
  await client.updateAccount({ tenantId, accountCode: 'purse', allowNegative: true });
  const due = await made(tenantId, hold('60.00', { expiresIn: 1n }));
  await reached(due.expiresMs!);
  await client.updateAccount({ tenantId, accountCode: 'purse', allowNegative: false });
  expect((await holdOf(tenantId, due.holdId)).status).toBe('expired');
  await done(tenantId, posting('bank debit 60.00 NGN', 'purse credit 60.00 NGN'));
  const other = await made(tenantId, hold('60.00', { expiresIn: 1n }));
  await reached(other.expiresMs!);
  await client.updateAccount({ tenantId, accountCode: 'shop', status: 'closed' });
  // The cached state of the writer is not used any more.
  await done(tenantId, posting('purse debit 60.00 NGN', 'bank credit 60.00 NGN'));
  expect(await audit.verified(tenant)).toEqual([]);
});

test('many that are due at once all make way, also more than expire in one turn', async () => {
  const { tenantId, tenant } = await tenantWith('600.00');
  const commands = Array.from({ length: 600 }, () => hold('1.00', { expiresIn: 2n }));
  const holds = await submit(tenantId, commands);
  await reached(holds.at(-1)!.hold!.expiresMs!);
  await done(tenantId, spend('600.00'));
  expect(await balanceOf(tenantId, 'purse')).toEqual(['0.00', '0.00', '0.00', '0.00', 1202n]);
  expect(await audit.verified(tenant)).toEqual([]);
});
