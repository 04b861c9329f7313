// Whole and partial reversals against the transactions that they reverse.
import type { TransactionPosted } from '../../../proto/gen/ledger/v1/events_pb.js';
import { openAudit, type Audit } from '../../../test/audit.ts';
import { entries, newTenant } from '../../../test/ledger.ts';

let audit: Audit;
beforeAll(async () => {
  audit = await openAudit();
});
afterAll(() => audit.end());

/** A tenant of which a transaction of these lines was reversed in parts. */
async function reversed(lines: string[], ...parts: string[][]): Promise<{ tenant: string; id: string }> {
  const { tenant, tenantId } = newTenant();
  const { client } = audit.ledger;
  for (const accountCode of ['a', 'b']) await client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  const { transaction } = await client.postTransaction({ posting: { tenantId, entries: entries(...lines) } });
  const { transactionId } = transaction!;
  for (const part of parts) {
    const { results } = await client.submit({
      tenantId,
      commands: [{ command: { case: 'reversal', value: { transactionId, entries: entries(...part) } } }],
    });
    expect(results[0]!.refusal).toBeUndefined();
  }
  return { tenant, id: transactionId };
}

const findingsOf = async (tenant: string) => [await audit.verified(tenant), await audit.checked(tenant)];

const lines = ['a debit 3.00 NGN', 'a debit 2.00 NGN', 'b credit 5.00 NGN'];
const [first, second] = [
  ['b debit 4.00 NGN', 'a credit 4.00 NGN'],
  ['a credit 1.00 NGN', 'b debit 1.00 NGN'],
];

test('parts in any order that add up to the whole are no finding, and rebuild restores their numbers', async () => {
  const { tenant } = await reversed(lines, first, second);
  expect(await findingsOf(tenant)).toEqual([[], []]);
  await audit.change(tenant, 'update parts set sequence = sequence + 100 where tenant_id = $1 and number = 2');
  const wrong = expect.stringMatching(/parts \(of \S+, number 2\): sequence is "105", by the log "5"$/);
  expect(await findingsOf(tenant)).toEqual([[wrong], [wrong]]);
  expect(await audit.rebuilt(tenant)).toEqual([expect.stringContaining('repaired: parts')]);
  expect(await findingsOf(tenant)).toEqual([[], []]);
  // Reversed at once, though not in the order of the lines.
  const whole = await reversed(lines, ['b debit 5.00 NGN', 'a credit 5.00 NGN']);
  expect(await findingsOf(whole.tenant)).toEqual([[], []]);
});

test.each<[what: string, edit: (message: TransactionPosted) => void, finding: RegExp]>([
  [
    'says that more is left',
    ({ unreversed }) => (unreversed!.amounts[1] = '1.01'),
    /leaves 0.00, 1.01, 1.00 of \S+ to reverse, not 0.00, 1.00, 1.00$/,
  ],
  ['says that nothing is left', (message) => delete message.unreversed, /leaves nothing of \S+ to reverse, not 0.00, 1.00, 1.00$/],
  ['takes more than there was', ({ entries: [entry] }) => (entry!.amount = '5.01'), /is not the mirror of txn_/],
  ['takes from the same side', ({ entries: [entry] }) => (entry!.side = 'credit'), /is not the mirror of txn_/],
  ['counts before it', (message) => (message.effectiveMs = 1n), /counts before txn_\w+, which it reverses/],
  ['takes from no line', ({ entries: [entry] }) => (entry!.currency = 'USD'), /is not the mirror of txn_/],
])('a part that %s is found', async (_what, edit, finding) => {
  const { tenant } = await reversed(lines, first);
  await audit.forge(tenant, edit);
  expect((await findingsOf(tenant))[0]).toContainEqual(expect.stringMatching(finding));
});

test('the last part takes no more than the parts before it have left', async () => {
  const { tenant } = await reversed(lines, first, second);
  await audit.forge(tenant, ({ entries: all }) => all.forEach((entry) => (entry.amount = '1.01')));
  expect((await findingsOf(tenant))[0]).toContainEqual(expect.stringMatching(/is not the mirror of txn_/));
  const other = await reversed(lines, first, second);
  await audit.forge(other.tenant, ({ entries: all }) => all.forEach((entry) => (entry.amount = '0.99')));
  expect((await findingsOf(other.tenant))[0]).toContainEqual(
    expect.stringMatching(/leaves nothing of \S+ to reverse, not 0.00, 0.01, 0.01$/),
  );
});

test('a reversal must mirror the counter-entry of its original, and reverses no reversal', async () => {
  const { tenant, tenantId } = newTenant();
  const { client } = audit.ledger;
  for (const accountCode of ['a', 'b']) await client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  const { transaction } = await client.postTransaction({ posting: { tenantId, entries: entries('a debit 1.00 NGN') } });
  const reversal = await client.reverseTransaction({ tenantId, transactionId: transaction!.transactionId });
  expect(await findingsOf(tenant)).toEqual([[], []]);
  await audit.forge(tenant, (message) => message.entries.forEach((entry) => (entry.counter = !entry.counter)));
  expect((await findingsOf(tenant))[0]).toContainEqual(expect.stringMatching(/transaction txn_\w+ is not the mirror of txn_\w+/));
  await audit.forge(tenant, (message) => (message.reverses = reversal.transaction!.transactionId));
  expect((await findingsOf(tenant))[0]).toContainEqual(expect.stringMatching(/transaction txn_\w+ is not the mirror of txn_\w+/));
});
