// Settings of books over gRPC: defaults, changes as events, versions, and what is refused.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { UpdateBooksRequestSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { entries, newTenant, refusal, startLedger, type RunningLedger } from '../../test/ledger.ts';

let ledger: RunningLedger;
beforeAll(async () => {
  ledger = await startLedger();
});
afterAll(() => ledger.end());

const by = { actor: 'key_of_the_test', requestId: 'request' };
type Change = Omit<MessageInitShape<typeof UpdateBooksRequestSchema>, '$typeName'>;
const update = async (tenantId: string, change: Change) => (await ledger.client.updateBooks({ tenantId, ...by, ...change })).books!;
const read = async (tenantId: string) => (await ledger.client.getBooks({ tenantId })).books!;
const events = async (tenantId: string) => (await ledger.client.listEvents({ tenantId, limit: 100 })).events;

async function tenantWithChart(): Promise<string> {
  const { tenantId } = newTenant();
  await ledger.client.setUpChart({ tenantId, businessType: 'wallet', ...by });
  return tenantId;
}

const defaults = {
  ...{ timezone: 'UTC', fiscalYearEnd: '12-31', retainedEarningsCode: 'RETAINED-EARNINGS', lateEntries: 'refuse', futureDays: 366 },
  ...{ cashAccounts: [], indexedMetadata: [], status: 'active', version: 0n },
};

test('a tenant has books before its first event, and what changes nothing makes no log', async () => {
  const { tenantId } = newTenant();
  expect(await read(tenantId)).toMatchObject(defaults);
  expect(await update(tenantId, {})).toMatchObject(defaults);
  expect(await update(tenantId, { timezone: 'UTC', futureDays: 366, version: 0n })).toMatchObject(defaults);
  expect(await events(tenantId)).toEqual([]);
  const { rows } = await ledger.pool.query('select from heads');
  expect(rows).toEqual([]);
  expect(await update(tenantId, { timezone: 'Africa/Lagos' })).toMatchObject({ ...defaults, timezone: 'Africa/Lagos', version: 1n });
  expect(await events(tenantId)).toMatchObject([{ type: 'books.updated', sequence: 1n, actor: by.actor, requestId: by.requestId }]);
});

test('each field changes by itself, and each change is an event with all settings', async () => {
  const tenantId = await tenantWithChart();
  const changes: Change[] = [
    { fiscalYearEnd: '02-29' },
    { retainedEarningsCode: 'SHARE-CAPITAL' },
    { lateEntries: 'next_open' },
    { futureDays: 0 },
    { cashAccounts: { items: ['OPERATING-CASH', 'ASSETS'] } },
    { indexedMetadata: { items: ['order_id', 'Order-2'] } },
    { cashAccounts: { items: [] }, version: 6n },
  ];
  for (const [index, change] of changes.entries()) {
    const after = await update(tenantId, change);
    expect(after).toMatchObject({ version: BigInt(index + 1), updatedMs: expect.any(BigInt) as bigint });
    expect(await read(tenantId)).toEqual(after);
    // Repeated it changes nothing.
    expect(await update(tenantId, { ...change, version: undefined })).toEqual(after);
  }
  const changed = (await events(tenantId)).filter(({ type }) => type === 'books.updated');
  expect(changed.map(({ data }) => JSON.parse((data.value as { record: string }).record) as object).at(-1)).toEqual({
    ...{ timezone: 'UTC', fiscal_year_end: '02-29', retained_earnings_code: 'SHARE-CAPITAL', late_entries: 'next_open' },
    ...{ future_days: 0, cash_accounts: [], indexed_metadata: ['order_id', 'Order-2'] },
  });
  expect(changed).toHaveLength(changes.length);
});

test('the writer uses new settings with the next posting, whatever it has cached', async () => {
  const tenantId = await tenantWithChart();
  const dated = () => {
    const moved = entries('OPERATING-CASH debit 1.00 NGN', 'SHARE-CAPITAL credit 1.00 NGN');
    return ledger.client.postTransaction({ posting: { tenantId, entries: moved, effectiveMs: BigInt(Date.now() + 86_400_000), ...by } });
  };
  await dated();
  await update(tenantId, { futureDays: 0 });
  expect(await refusal(dated())).toMatchObject({ reason: 'effective_at_out_of_range', field: 'effective_at' });
  await update(tenantId, { futureDays: 2 });
  await dated();
});

test('what is wrong is refused with its field, tag and value, and changes nothing', async () => {
  const tenantId = await tenantWithChart();
  await ledger.client.createAccount({ tenantId, accountCode: 'OLD', name: 'Old', type: 'equity', ...by });
  await ledger.client.updateAccount({ tenantId, accountCode: 'OLD', status: 'closed', ...by });
  const items = (count: number) => ({ items: Array.from({ length: count }, (_, index) => `k${index}`) });
  const wrong: [Change, string, string, string, string?][] = [
    [{ timezone: 'Lagos' }, 'timezone', 'timezone', 'Lagos'],
    [{ timezone: '+01:00' }, 'timezone', 'timezone', '+01:00'],
    [{ timezone: '' }, 'timezone', 'timezone', ''],
    [{ fiscalYearEnd: '02-30' }, 'fiscal_year_end', 'datetime', '02-30'],
    [{ fiscalYearEnd: '2-28' }, 'fiscal_year_end', 'datetime', '2-28'],
    [{ lateEntries: 'allow' }, 'late_entries', 'oneof', 'allow'],
    [{ futureDays: -1 }, 'future_days', 'min', '-1'],
    [{ futureDays: 3_661 }, 'future_days', 'max', '3661'],
    [{ retainedEarningsCode: '' }, 'retained_earnings_code', 'required', ''],
    [{ retainedEarningsCode: '-' }, 'retained_earnings_code', 'code', '-'],
    [{ cashAccounts: items(51) }, 'cash_accounts', 'max', '51'],
    [{ cashAccounts: { items: ['ASSETS', 'ASSETS'] } }, 'cash_accounts[1]', 'unique', 'ASSETS'],
    [{ indexedMetadata: items(17) }, 'indexed_metadata', 'max', '17'],
    [{ indexedMetadata: { items: ['a.b'] } }, 'indexed_metadata[0]', 'key', 'a.b'],
    [{ indexedMetadata: { items: ['ok', 'x'.repeat(65)] } }, 'indexed_metadata[1]', 'key', 'x'.repeat(65)],
    [{ version: -1n }, 'version', 'min', '-1'],
    [{ version: 3n, futureDays: 1 }, 'version', 'version_conflict', '3', 'version_conflict'],
    [{ retainedEarningsCode: 'NOBODY' }, 'retained_earnings_code', 'account_not_found', 'NOBODY', 'account_not_found'],
    [{ retainedEarningsCode: 'EQUITY' }, 'retained_earnings_code', 'account_is_group', 'EQUITY', 'account_is_group'],
    [{ retainedEarningsCode: 'SALARIES' }, 'retained_earnings_code', 'account_not_found', 'SALARIES', 'account_not_found'],
    [{ retainedEarningsCode: 'OLD' }, 'retained_earnings_code', 'account_closed', 'OLD', 'account_closed'],
    [{ cashAccounts: { items: ['ASSETS', 'NOBODY'] } }, 'cash_accounts[1]', 'account_not_found', 'NOBODY', 'account_not_found'],
    [{ cashAccounts: { items: ['SUSPENSE-NGN'] } }, 'cash_accounts[0]', 'account_is_system', 'SUSPENSE-NGN', 'account_is_system'],
  ];
  for (const [change, field, tag, value, reason = 'validation_failed'] of wrong) {
    expect(await refusal(update(tenantId, change))).toMatchObject({ reason, field, tag, value });
  }
  expect(await read(tenantId)).toMatchObject(defaults);
});
