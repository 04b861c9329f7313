// Reports over gRPC on a real book: figures against the log, before and after a year end, and as jobs.
import { randomInt } from 'node:crypto';
import { reportBytes, startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { newTenant, refusal, startLedger, type RunningLedger } from '../../../test/ledger.ts';
import { until } from '../../../test/polling.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { readHeading } from '../reports/heading.ts';
import { checkedParameters } from '../reports/parameters.ts';
import { inSnapshot } from './snapshot.ts';

let ledger: RunningLedger;
let auditor: RunningAuditor;
const { tenant, tenantId } = newTenant();
const types = ['asset', 'liability', 'equity', 'revenue', 'expense'] as const;

/** A report, as JSON. */
async function read(report: string, parameters: object = {}, of = tenantId): Promise<any> {
  const { contentType, bytes } = await reportBytes(auditor, of, report, parameters);
  expect(contentType).toBe('application/json; charset=utf-8');
  const { success, data } = JSON.parse(bytes.toString()) as { success: boolean; data: { report: unknown } };
  expect(success).toBe(true);
  return data.report;
}

async function post(debit: string, credit: string, amount: string, day?: string, more: object = {}): Promise<string> {
  const entries = [
    { accountCode: debit, side: 'debit', amount, currency: 'USD' },
    { accountCode: credit, side: 'credit', amount, currency: 'USD' },
  ];
  const effectiveMs = day === undefined ? {} : { effectiveMs: BigInt(Date.parse(`${day}T12:00:00Z`)) };
  const { transaction } = await ledger.client.postTransaction({ posting: { tenantId, entries, ...effectiveMs, ...more } });
  return transaction!.transactionId;
}

beforeAll(async () => {
  ledger = await startLedger();
  auditor = await startAuditor(ledger.database);
  const accounts = types.flatMap((type) => [
    { accountCode: `${type}s`, name: type, type, isGroup: true },
    { accountCode: `${type}-inner`, name: type, type, isGroup: true, parentCode: `${type}s` },
    { accountCode: `${type}-a`, name: type, type, parentCode: `${type}-inner`, metadata: '{"unit": "north"}' },
    { accountCode: `${type}-b`, name: type, type, parentCode: `${type}s`, metadata: '{"unit": "south"}' },
  ]);
  await ledger.client.createAccounts({ tenantId, accounts });
  const codes = types.flatMap((type) => [`${type}-a`, `${type}-b`]);
  for (let round = 0; round < 120; round++) {
    const [debit, credit] = [codes[randomInt(10)]!, codes[randomInt(10)]!];
    const day = randomInt(4) === 0 ? undefined : new Date(Date.UTC(2024, randomInt(24), randomInt(1, 29))).toISOString().slice(0, 10);
    await post(debit, credit, (randomInt(1, 1_000_000) / 100).toFixed(2), day);
  }
});
afterAll(async () => {
  await auditor.end();
  await ledger.end();
});

/** Cents of the entries of a type in a range of days, debits less credits. */
async function journalSum(type: string, from: string, to: string): Promise<number> {
  let sum = 0;
  for (let cursor = ''; ;) {
    const page = await ledger.client.listTransactions({ tenantId, limit: 100, cursor });
    for (const { createdMs, effectiveMs = createdMs, entries } of page.transactions) {
      const day = new Date(Number(effectiveMs)).toISOString().slice(0, 10);
      if (day < from || day > to) continue;
      const own = entries.filter(({ accountCode }) => accountCode.startsWith(`${type}-`));
      for (const { side, amount } of own) sum += (side === 'debit' ? 1 : -1) * Number(amount.replace('.', ''));
    }
    cursor = page.nextCursor;
    if (cursor === '') return sum;
  }
}

const cents = (amount: string) => Number(amount.replace('.', ''));
const totalOf = (report: any, section: string | null, column = 0) =>
  report.totals.find((each: any) => each.section === section).values[column];

describe('the figures', () => {
  test('of all three reports are those of the journal', async () => {
    const trial = await read('trial-balance', { from: '2024-03-01', to: '2025-02-28', currency: 'USD' });
    for (const type of types) {
      const line = trial.lines.find((each: any) => each.account_code === `${type}s`);
      expect(cents(line.values[0].opening)).toBe(await journalSum(type, '1970-01-01', '2024-02-29'));
      expect(cents(line.values[0].debits) - cents(line.values[0].credits)).toBe(await journalSum(type, '2024-03-01', '2025-02-28'));
    }
    const income = await read('income-statement', { from: '2024-03-01', to: '2024-12-31' });
    const earned = -(await journalSum('revenue', '2024-03-01', '2024-12-31')) - (await journalSum('expense', '2024-03-01', '2024-12-31'));
    expect(cents(totalOf(income, 'net_income').amount)).toBe(earned);
    const sheet = await read('balance-sheet', { as_of: '2025-01-01' });
    expect(cents(totalOf(sheet, 'assets').amount)).toBe(await journalSum('asset', '1970-01-01', '2025-01-01'));
  });

  test('of a balance sheet balance on January 1st, with last year’s earnings not closed', async () => {
    const sheet = await read('balance-sheet', { as_of: '2025-01-01', compare: 'previous_period' });
    const computed = (name: string) => sheet.lines.find((each: any) => each.name === name).values.map(({ amount }: any) => cents(amount));
    const earned = async (from: string, to: string) =>
      0 - (await journalSum('revenue', from, to)) - (await journalSum('expense', from, to));
    expect(sheet.columns.map(({ key }: any) => key)).toEqual(['2025-01-01', '2024-12-31']);
    expect(computed('earnings_prior')).toEqual([await earned('1970-01-01', '2024-12-31'), 0]);
    expect(computed('earnings_current')).toEqual([await earned('2025-01-01', '2025-01-01'), await earned('2024-01-01', '2024-12-31')]);
    for (const column of [0, 1]) {
      const [assets, liabilities, equity] = ['assets', 'liabilities', 'equity'].map((each) => cents(totalOf(sheet, each, column).amount));
      expect(assets).toBe(liabilities! + equity!);
    }
  });

  test('are the same for ever by the sequence of a report', async () => {
    const wish = { from: '2024-01-01', to: '2025-12-31', columns: 'quarter', depth: 2 };
    const first = await read('trial-balance', wish);
    const known = { ...wish, known_sequence: first.as_recorded.sequence };
    expect(first.as_recorded).toMatchObject({ hash: expect.stringMatching(/^[0-9a-f]{64}$/), at: expect.any(String) });
    await Promise.all(Array.from({ length: 1_000 }, (_, index) => post('asset-a', 'revenue-b', '1.00', `2024-0${(index % 9) + 1}-15`)));
    expect((await read('trial-balance', wish)).lines).not.toEqual(first.lines);
    expect(await read('trial-balance', known)).toEqual(first);
    expect(await read('trial-balance', { ...wish, known_at: first.as_recorded.at })).toEqual(first);
    expect((await read('trial-balance', { known_sequence: 0 })).as_recorded).toEqual({ sequence: 0, hash: null, at: null });
  });

  test('of totals are the same whatever is folded or grouped, and lines add up to them', async () => {
    for (const [report, period] of [
      ['trial-balance', { from: '2024-02-01', to: '2024-12-31' }],
      ['balance-sheet', { as_of: '2024-12-31' }],
      ['income-statement', { from: '2024-02-01', to: '2024-12-31' }],
    ] as const) {
      const { totals } = await read(report, period);
      for (const more of [{ depth: 1 }, { depth: 2, zero: true }, { group_by: 'account.unit' }]) {
        const made = await read(report, { ...period, ...more });
        expect(made.totals).toEqual(totals);
        if ('depth' in more) expect(Math.max(...made.lines.map(({ depth }: any) => depth))).toBe(more.depth);
        else expect(new Set(made.lines.map(({ group }: any) => group))).toEqual(new Set(['north', 'south']));
      }
    }
  });

  test('of a column are those of its period alone', async () => {
    const wish = { from: '2025-01-01', to: '2025-12-31' };
    const both = await read('income-statement', { ...wish, compare: 'previous_year', zero: true });
    const alone = await read('income-statement', { from: '2024-01-01', to: '2024-12-31', zero: true });
    expect(both.lines.map(({ values }: any) => values[1])).toEqual(alone.lines.map(({ values }: any) => values[0]));
    const months = await read('income-statement', { ...wish, columns: 'month' });
    const sum = Array.from({ length: 12 }, (_, index) => cents(totalOf(months, 'net_income', index).amount)).reduce(
      (one, other) => one + other,
    );
    expect(sum).toBe(cents(totalOf(both, 'net_income').amount));
    expect(months.columns[1]).toEqual({ key: '2025-02-28', from: '2025-02-01T00:00:00.000Z', to: '2025-02-28T23:59:59.999Z' });
  });
});

test('a year end moves no net income, and leaves a balance sheet with nothing to earn', async () => {
  const year = { from: '2024-01-01', to: '2024-12-31' };
  const asked: [report: string, parameters: object][] = [
    ['income-statement', year],
    ['trial-balance', { ...year, closing: 'exclude' }],
    ['trial-balance', { as_of: '2025-06-30', closing: 'exclude' }],
  ];
  const figures = async () =>
    Promise.all(asked.map(async ([report, parameters]) => ((each) => [each.lines, each.totals])(await read(report, parameters))));
  const earnings = async () =>
    (await read('balance-sheet', { as_of: '2024-12-31' })).lines
      .filter((each: any) => each.computed || each.account_code === 'RETAINED-EARNINGS')
      .map((each: any) => [each.account_code ?? each.name, each.values[0].amount]);
  const open = await figures();
  const [, [, earned]] = await earnings();
  await ledger.client.createAccount({ tenantId, accountCode: 'RETAINED-EARNINGS', name: 'Retained earnings', type: 'equity' });
  const { period } = await ledger.client.closePeriod({ tenantId, through: '2024-12-31', yearEnd: true, actor: 'test', requestId: 'r-1' });
  expect(await figures()).toEqual(open);
  const zero = [
    ['earnings_prior', '0.00'],
    ['earnings_current', '0.00'],
  ];
  expect(await earnings()).toEqual([['RETAINED-EARNINGS', earned], ...zero]);
  const closed = await read('trial-balance', year);
  expect(closed.lines.filter(({ type }: any) => type === 'revenue').map(({ values }: any) => values[0].closing)).toEqual(
    Array(4).fill('0.00'),
  );
  // What reverses a closing is none of the year's income either.
  await ledger.client.reopenPeriod({ tenantId, reason: 'test', actor: 'test', requestId: 'r-2' });
  expect(period!.closingTransactions).toHaveLength(1);
  await ledger.client.reverseTransaction({ tenantId, transactionId: period!.closingTransactions[0]! });
  expect(await figures()).toEqual(open);
  expect(await earnings()).toEqual([
    ['earnings_prior', '0.00'],
    ['earnings_current', earned],
  ]);
});

test('what was recorded by a clock that is ahead is in a report that ends now', async () => {
  const ends = await inSnapshot(auditor.pool, tenant, { statementMs: 5_000 }, async (snapshot) => {
    const { parameters } = await readHeading(snapshot, checkedParameters('journal', ''), 0);
    return [parameters.toMs, snapshot.head.atMs];
  });
  expect(ends[0]).toBe(ends[1]);
});

test('transactions are grouped by a key of their metadata when its index is ready', async () => {
  await ledger.client.updateBooks({ tenantId, indexedMetadata: { items: ['shop'] } });
  const grouped = { from: '2024-01-01', to: '2025-12-31', group_by: 'transaction.shop' };
  await until(
    async () => (await ledger.client.getBooks({ tenantId })).books!.readyIndexes,
    (ready) => ready.includes('shop'),
  );
  const before = await read('income-statement', grouped);
  for (const shop of ['x', 'y']) await post('asset-a', 'revenue-a', '5.00', '2024-02-02', { metadata: JSON.stringify({ shop }) });
  const after = await read('income-statement', grouped);
  const ofGroup = (report: any, group: string | null) => report.lines.filter((each: any) => each.group === group);
  expect(ofGroup(after, null)).toEqual(ofGroup(before, null));
  expect(ofGroup(after, 'x').map((each: any) => [each.account_code, each.values[0].amount])).toEqual(
    ['revenues', 'revenue-inner', 'revenue-a'].map((code) => [code, '5.00']),
  );
  const { totals } = await read('income-statement', { ...grouped, group_by: null });
  expect(after.totals).toEqual(totals);
  // While it is built anew the lines would miss some.
  await inTransaction(auditor.pool, [tenant], async (client) => {
    await client.query(`select pg_advisory_xact_lock(hashtextextended('index ' || $1, 0))`, [tenant]);
    await inTransaction(auditor.pool, [tenant], (other) => other.query(`update search_indexes set through = 0 where name = 'shop'`));
    expect(await refusal(read('income-statement', grouped))).toMatchObject({
      ...{ reason: 'index_building', field: 'group_by', tag: 'index_building', value: 'transaction.shop' },
    });
  });
  for (let shop = 0; shop <= 100; shop++) await post('asset-a', 'revenue-a', '1.00', undefined, { metadata: JSON.stringify({ shop }) });
  await until(
    async () => (await ledger.client.getBooks({ tenantId })).books!.readyIndexes,
    (ready) => ready.includes('shop'),
  );
  expect(await refusal(read('income-statement', grouped))).toMatchObject({ field: 'group_by', tag: 'max', value: 'transaction.shop' });
});

test('nothing counts before 1970: a report from then on is one from the beginning', async () => {
  const report = await read('income-statement', { from: '0001-01-01', to: '2025-12-31' });
  expect(report.parameters.from).toBeNull();
  expect(report.totals).toEqual((await read('income-statement', { to: '2025-12-31' })).totals);
  expect((await read('balance-sheet', { as_of: '0001-01-01', compare: 'previous_year', count: 11 })).lines).toEqual([]);
});

test('a report of an empty book has nothing but its parameters, resolved', async () => {
  const empty = newTenant();
  const report = await read('trial-balance', { as_of: '2030-01-31' }, empty.tenantId);
  expect(report).toEqual({
    report: 'trial-balance',
    parameters: {
      ...{ as_of: '2030-01-31T23:59:59.999Z', from: null, to: null, closing: 'include', currency: null, known_sequence: 0 },
      ...{ format: 'json', depth: 32, zero: false, columns: 'total', compare: 'none', count: 0, group_by: null },
    },
    as_recorded: { sequence: 0, hash: null, at: null },
    columns: [{ key: '2030-01-31', from: null, to: '2030-01-31T23:59:59.999Z' }],
    lines: [],
    totals: [],
    frozen: false,
  });
  expect((await read('balance-sheet', { currency: 'USD' }, empty.tenantId)).totals.map(({ section }: any) => section)).toEqual([
    ...['assets', 'liabilities', 'equity'],
  ]);
});

test('a job makes the same report, without its bounds and in its format', async () => {
  const asked = { from: '2024-01-01', to: '2025-12-31', compare: 'previous_period', group_by: 'account.unit' };
  const parameters = JSON.stringify(asked);
  const { job } = await auditor.client.startJob({ tenantId, kind: 'income-statement', parameters, actor: 'test', requestId: 'r-1' });
  expect(job).toMatchObject({ kind: 'income-statement', scope: 'reports:read' });
  const { job: done } = await until(
    () => auditor.client.getJob({ tenantId, jobId: job!.id }),
    (answer) => answer.job!.status === 'succeeded',
  );
  const parts = await Array.fromAsync(auditor.client.readJobResult({ tenantId, jobId: job!.id }), ({ bytes }) => bytes);
  expect(JSON.parse(Buffer.concat(parts).toString())).toEqual({ success: true, data: { report: await read('income-statement', asked) } });
  expect(done!.result!.contentType).toBe('application/json; charset=utf-8');
  const start = (wrong: object) => auditor.client.startJob({ tenantId, kind: 'income-statement', parameters: JSON.stringify(wrong) });
  expect(await refusal(start({ depth: 0 }))).toMatchObject({ field: 'depth', tag: 'min' });
  expect(await refusal(start({ columns: 'month' }))).toMatchObject({ field: 'from', tag: 'required' });
});
