// Postings that count at another time than they are recorded: what is refused, and what is written.
import { entries, newTenant, refusal, startLedger } from '../../test/ledger.ts';
import { newId } from '../platform/ids.ts';
import { withClient } from '../../deploy/local/databases.ts';
import { defaultDateRules, effectiveTime } from './effective-time.ts';

const dayMs = 86_400_000;
const rules = { ...defaultDateRules, openFromMs: 10 * dayMs };

describe('the time that a posting asks for', () => {
  const now = 20 * dayMs;
  const of = (asked: number | 'original' | null, original: { kind: string; effectiveMs: number } | null = null, more = {}) => {
    try {
      return effectiveTime(asked, original, now, { ...rules, ...more });
    } catch (error) {
      return (error as { reason: string }).reason;
    }
  };

  test('is that of its recording where it asks for none', () => {
    expect([of(null), of(now), of(null, { kind: 'double', effectiveMs: now - 1 })]).toEqual([null, null, null]);
    expect(of(null, { kind: 'double', effectiveMs: now + 5 })).toEqual({ atMs: now + 5, requestedMs: null });
  });

  test('has bounds', () => {
    expect([of(-1), of(now + 366 * dayMs + 1), of(now + 1, null, { futureDays: 0 })]).toEqual(Array(3).fill('effective_at_out_of_range'));
    expect(of(now + 366 * dayMs)).toEqual({ atMs: now + 366 * dayMs, requestedMs: null });
  });

  test('is in an open period, or moved to the first open millisecond', () => {
    expect(of(10 * dayMs - 1)).toBe('period_closed');
    expect(of(10 * dayMs)).toEqual({ atMs: 10 * dayMs, requestedMs: null });
    expect(of(5 * dayMs, null, { lateEntries: 'next_open' })).toEqual({ atMs: 10 * dayMs, requestedMs: 5 * dayMs });
  });

  test('of a reversal is not before that of the original, and of a closing transaction always that', () => {
    const original = { kind: 'double', effectiveMs: 15 * dayMs };
    expect([of('original', original), of(14 * dayMs, original)]).toEqual([
      { atMs: 15 * dayMs, requestedMs: null },
      'effective_before_original',
    ]);
    expect(of(null, { kind: 'closing', effectiveMs: 12 * dayMs })).toEqual({ atMs: 12 * dayMs, requestedMs: null });
    expect(of(null, { kind: 'closing', effectiveMs: 9 * dayMs }, { lateEntries: 'next_open' })).toBe('period_closed');
  });
});

describe('a ledger', () => {
  let ledger: Awaited<ReturnType<typeof startLedger>>;
  beforeAll(async () => {
    ledger = await startLedger();
  });
  afterAll(() => ledger.end());

  async function tenantWithPool() {
    const { tenantId, tenant } = newTenant();
    for (const accountCode of ['cash', 'pool']) {
      await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset', allowNegative: accountCode === 'cash' });
    }
    return { tenantId, tenant };
  }
  const move = entries('pool debit 10.00 NGN', 'cash credit 10.00 NGN');
  const back = entries('pool credit 4.00 NGN', 'cash debit 4.00 NGN');
  const rows = (text: string, values: unknown[]) =>
    withClient(ledger.database.adminUrl, async (client) => (await client.query(text, values)).rows as unknown[]);

  test('writes running sums of shifted postings in the order of the log, and sums by month', async () => {
    const { tenantId, tenant } = await tenantWithPool();
    const post = async (text: string, of = move) =>
      (await ledger.client.postTransaction({ posting: { tenantId, entries: of, effectiveMs: BigInt(Date.parse(text)) } })).transaction!;
    const first = await post('2026-03-05T00:00:00Z');
    expect(first.effectiveMs).toBe(BigInt(Date.parse('2026-03-05T00:00:00Z')));
    await post('2026-01-31T23:59:59.999Z');
    await post('2026-03-01T00:00:00Z', back);
    const pool = `(select id from accounts where tenant_id = $1 and code = 'pool')`;
    const running = `select running_debits::int as debits, running_credits::int as credits from shifted_entries
      where tenant_id = $1 and account_id = ${pool} order by sequence`;
    expect(await rows(running, [tenant])).toEqual([
      { debits: 1000, credits: 0 },
      { debits: 2000, credits: 0 },
      { debits: 2000, credits: 400 },
    ]);
    const months = `select month::text, debits::int, credits::int from shifted_months where tenant_id = $1 and account_id = ${pool} order by month`;
    expect(await rows(months, [tenant])).toEqual([
      { month: '2026-01-01', debits: 1000, credits: 0 },
      { month: '2026-03-01', debits: 1000, credits: 400 },
    ]);
    const read = await ledger.client.getTransaction({ tenantId, transactionId: first.transactionId });
    expect(read.transaction?.effectiveMs).toBe(first.effectiveMs);
  });

  test('a plain posting writes nothing of it, also beside a shifted one in one call', async () => {
    const { tenantId, tenant } = await tenantWithPool();
    const postings = [{}, { effectiveMs: 1n }].map((more) => ({ tenantId, entries: move, ...more }));
    const { results } = await ledger.client.postTransactions({ postings });
    expect(results.map(({ outcome }) => outcome.case)).toEqual(['transaction', 'transaction']);
    expect(
      await rows('select effective_at = to_timestamp(0.001) as same from shifted_transactions where tenant_id = $1', [tenant]),
    ).toEqual([{ same: true }]);
  });

  test('one in the future raises no account that may not go below zero, but may lower it, and a reversal may', async () => {
    const { tenantId } = await tenantWithPool();
    const ahead = BigInt(Date.now() + 10 * 60_000);
    const dated = (of = move, effectiveMs = ahead) => ledger.client.postTransaction({ posting: { tenantId, entries: of, effectiveMs } });
    expect(await refusal(dated())).toMatchObject({ reason: 'future_dated', field: 'entries[0].account_code', value: 'pool' });
    await dated(move, BigInt(Date.now()));
    const lowered = (await dated(back)).transaction!;
    const reversed = await ledger.client.reverseTransaction({ tenantId, transactionId: lowered.transactionId });
    expect(reversed.transaction?.effectiveMs).toBe(ahead);
  });

  test('one key with another time is another request, and one of before replays', async () => {
    const { tenantId } = await tenantWithPool();
    const key = newId('txn');
    const post = (more: object) => ledger.client.postTransaction({ posting: { tenantId, entries: move, idempotencyKey: key, ...more } });
    await post({ effectiveMs: 5n });
    expect((await post({ effectiveMs: 5n })).replayed).toBe(true);
    expect(await refusal(post({ effectiveMs: 6n }))).toMatchObject({ reason: 'idempotency_key_reused' });
    expect(await refusal(post({}))).toMatchObject({ reason: 'idempotency_key_reused' });
  });
});
