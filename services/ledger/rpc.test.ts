import { withClient } from '../../deploy/local/databases.ts';
import { entries, newTenant, refusal, startLedger } from '../../test/ledger.ts';
import { newId } from '../platform/ids.ts';

test('postings whose answer might not fit into a message are refused before any of them is posted', async () => {
  const ledger = await startLedger({ maxMessageBytes: 1 << 20 });
  try {
    const { tenantId } = newTenant();
    const [one, other] = ['a'.repeat(64), 'b'.repeat(64)];
    for (const accountCode of [one, other]) await ledger.client.createAccount({ tenantId, accountCode, name: 'n', type: 'asset' });
    const lines = Array.from({ length: 200 }, (_, place) => `${place % 2 === 0 ? `${one} debit` : `${other} credit`} 9999999999.99 NGN`);
    const metadata = JSON.stringify({ note: 'x'.repeat(12_000) });
    const post = (count: number) =>
      ledger.client.postTransactions({
        postings: Array.from({ length: count }, () => ({ tenantId, entries: entries(...lines), metadata })),
      });
    expect(await refusal(post(30))).toMatchObject({ reason: 'validation_failed', field: 'postings', tag: 'max', value: '30' });
    expect((await ledger.client.listTransactions({ tenantId })).transactions).toEqual([]);
    expect((await post(20)).results.map(({ outcome }) => outcome.case)).toEqual(Array.from({ length: 20 }, () => 'transaction'));
  } finally {
    await ledger.end();
  }
});

test('refused postings of a call are part of its answer', async () => {
  const ledger = await startLedger({ maxMessageBytes: 1 << 20 });
  try {
    const { tenantId } = newTenant();
    const [one, other] = ['a'.repeat(64), 'b'.repeat(64)];
    for (const accountCode of [one, other]) await ledger.client.createAccount({ tenantId, accountCode, name: 'n', type: 'asset' });
    const lines = Array.from({ length: 200 }, (_, place) => `${place % 2 === 0 ? `${one} debit` : `${other} credit`} 1.00 NGN`);
    const good = { tenantId, entries: entries(...lines) };
    const bad = { tenantId, entries: entries('a debit 1.00 NGN'), reference: 'ก'.repeat(1_000) };
    const post = (...counts: [number, number]) =>
      ledger.client.postTransactions({ postings: [good, bad].flatMap((each, place) => Array(counts[place]).fill(each)) });
    expect(await refusal(post(26, 150))).toMatchObject({ reason: 'validation_failed', field: 'postings', tag: 'max', value: '176' });
    expect((await ledger.client.listTransactions({ tenantId })).transactions).toEqual([]);
    const { results } = await post(15, 100);
    expect(results.map(({ outcome }) => outcome.case)).toEqual([...Array(15).fill('transaction'), ...Array(100).fill('refusal')]);
  } finally {
    await ledger.end();
  }
});

test('malformed postings count as refused in every call', async () => {
  const ledger = await startLedger();
  try {
    const { tenantId } = newTenant();
    const malformed = [{ tenantId: 'x' }, { tenantId, entries: entries('a debit 1.234 NGN') }];
    const { results } = await ledger.client.postTransactions({ postings: malformed });
    expect(results.map(({ outcome }) => outcome.case === 'refusal' && outcome.value.reason)).toEqual(Array(2).fill('validation_failed'));
    for (const posting of malformed)
      expect(await refusal(ledger.client.postTransaction({ posting }))).toMatchObject({ reason: 'validation_failed' });
    expect(await refusal(ledger.client.reverseTransaction({ tenantId: 'x' }))).toMatchObject({ reason: 'validation_failed' });
    const metrics = await ledger.metrics.metrics();
    expect(metrics).toContain('ledger_postings_total{outcome="validation_failed"} 5\n');
    // An alert compares it with 0.
    expect(metrics).toContain('ledger_postings_total{outcome="posted"} 0\n');
  } finally {
    await ledger.end();
  }
});

test('a repetition by transaction id alone is refused as posted under another key, even without funds', async () => {
  const ledger = await startLedger();
  try {
    const { tenantId } = newTenant();
    for (const [accountCode, allowNegative] of [
      ['a', true],
      ['purse', false],
    ] as const) {
      await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset', allowNegative });
    }
    const fill = { tenantId, entries: entries('purse debit 1.00 NGN', 'a credit 1.00 NGN') };
    const spend = { tenantId, entries: entries('a debit 1.00 NGN', 'purse credit 1.00 NGN') };
    await ledger.client.postTransaction({ posting: fill });
    const transactionId = newId('txn');
    await ledger.client.postTransaction({ posting: { ...spend, transactionId, idempotencyKey: 'one' } });
    const reused = { reason: 'idempotency_key_reused', field: 'transaction_id', value: transactionId };
    const again = { ...spend, transactionId };
    expect(await refusal(ledger.client.postTransaction({ posting: again }))).toMatchObject(reused);
    const { results } = await ledger.client.postTransactions({ postings: [spend, again, fill, again] });
    expect(results.map(({ outcome }) => (outcome.case === 'refusal' ? outcome.value.reason : outcome.case))).toEqual([
      'insufficient_funds',
      'idempotency_key_reused',
      'transaction',
      'idempotency_key_reused',
    ]);
    expect(results[1]?.outcome.value).toMatchObject(reused);
  } finally {
    await ledger.end();
  }
});

test('a change of a tenant whose head stays locked is refused, and nothing is changed', async () => {
  const ledger = await startLedger({ lockTimeout: '20ms' });
  try {
    const { tenantId, tenant } = newTenant();
    await ledger.client.createAccount({ tenantId, accountCode: 'till', name: 'till', type: 'asset' });
    await withClient(ledger.database.adminUrl, async (other) => {
      await other.query('begin');
      await other.query('select from heads where tenant_id = $1 for update', [tenant]);
      const locked = { reason: 'unavailable', message: 'the ledger is locked; nothing was changed', retryAfter: 1 };
      const safe = { tenantId, accountCode: 'safe', name: 'safe', type: 'asset' };
      expect(await refusal(ledger.client.createAccount(safe))).toMatchObject(locked);
      expect(await refusal(ledger.client.updateAccount({ tenantId, accountCode: 'till', name: 'Till' }))).toMatchObject(locked);
      expect(await refusal(ledger.client.setUpChart({ tenantId, businessType: 'other' }))).toMatchObject(locked);
    });
    expect((await ledger.client.listEvents({ tenantId })).events.map(({ type }) => type)).toEqual(['account.created']);
  } finally {
    await ledger.end();
  }
});
