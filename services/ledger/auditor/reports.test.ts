// Reports over gRPC on a real book: figures against the log, and a refusal of every parameter of every report.
import { randomInt } from 'node:crypto';
import { startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { newTenant, refusal, startLedger, type RunningLedger } from '../../../test/ledger.ts';
import { until } from '../../../test/polling.ts';
import type { Refusal } from '../accounting.ts';
import { parameterNames } from '../reports/parameters.ts';
import { reportNames, type ReportName } from '../reports/report.ts';
import { makeNow } from './reports-rpc.ts';

let ledger: RunningLedger;
let auditor: RunningAuditor;
const { tenant, tenantId } = newTenant();
const types = ['asset', 'liability', 'equity', 'revenue', 'expense'] as const;

/** A report, as JSON. */
async function read(report: string, parameters: unknown = {}, of = tenantId): Promise<any> {
  const parts: Uint8Array[] = [];
  let contentType = '';
  const text = typeof parameters === 'string' ? parameters : JSON.stringify(parameters);
  for await (const part of auditor.client.getReport({ tenantId: of, report, parameters: text })) {
    contentType ||= part.contentType;
    parts.push(part.bytes);
  }
  expect(contentType).toBe('application/json; charset=utf-8');
  const { success, data } = JSON.parse(Buffer.concat(parts).toString()) as { success: boolean; data: { report: unknown } };
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
  });
  expect((await read('balance-sheet', { currency: 'USD' }, empty.tenantId)).totals.map(({ section }: any) => section)).toEqual([
    ...['assets', 'liabilities', 'equity'],
  ]);
});

describe('refused', () => {
  const day = '2030-02-30';
  /** What is wrong with each parameter: the value, the tag, and the field if it is another. */
  const wrong: Record<string, [value: unknown, tag: string, more?: object][]> = {
    as_of: [
      [day, 'datetime'],
      ['2030-01-01T00:00:00', 'datetime'],
      ['2030-01-01T00:00:00.0001Z', 'datetime'],
      [7, 'type'],
      ['2030-01-01', 'oneof', { from: '2030-01-01' }],
    ],
    from: [
      [day, 'datetime'],
      [true, 'type'],
      ['2030-01-02', 'oneof', { to: '2030-01-01' }],
    ],
    to: [
      [day, 'datetime'],
      ['yesterday', 'datetime'],
      [[], 'type'],
    ],
    known_at: [
      [day, 'datetime'],
      [1, 'type'],
      ['2030-01-01', 'oneof', { known_sequence: 1 }],
    ],
    known_sequence: [
      [-1, 'min'],
      [1.5, 'type'],
      ['1', 'type'],
      [2 ** 53 + 2, 'max'],
    ],
    currency: [
      ['XYZ', 'oneof'],
      ['usd', 'oneof'],
      [1, 'type'],
    ],
    closing: [
      ['none', 'oneof'],
      [true, 'type'],
    ],
    depth: [
      [0, 'min'],
      [33, 'max'],
      ['2', 'type'],
    ],
    zero: [
      ['true', 'type'],
      [1, 'type'],
    ],
    columns: [
      ['week', 'oneof'],
      [1, 'type'],
    ],
    compare: [
      ['last_year', 'oneof'],
      [false, 'type'],
    ],
    count: [
      [0, 'min', { compare: 'previous_year' }],
      [12, 'max', { compare: 'previous_year' }],
      ['1', 'type'],
    ],
    group_by: [
      ['account', 'oneof'],
      ['account.', 'oneof'],
      ['entry.x', 'oneof'],
      ['transaction.a b', 'oneof'],
      ['transaction.unknown', 'oneof'],
      [1, 'type'],
    ],
    format: [
      ['html', 'oneof'],
      [1, 'type'],
    ],
    order: [
      ['newest', 'oneof'],
      [1, 'type'],
    ],
    account_code: [
      ['a b', 'code'],
      [{}, 'type'],
    ],
    limit: [
      [0, 'min'],
      [101, 'max'],
      ['1', 'type'],
      [1, 'oneof', { format: 'csv' }],
    ],
    cursor: [
      [1, 'type'],
      ['x'.repeat(513), 'max'],
      ['x', 'oneof', { format: 'pdf' }],
    ],
  };
  const needed = (report: ReportName) => (report === 'account-statement' ? { account_code: 'asset-a' } : {});
  const refused = async (report: string, parameters: unknown) => {
    const { reason, field, tag, value } = await refusal(read(report, parameters));
    return { reason, field, tag, value };
  };

  test.each(reportNames)('is every wrong parameter of %s', async (report) => {
    for (const name of Object.keys(wrong)) {
      if (!parameterNames[report].includes(name)) {
        expect(await refused(report, { ...needed(report), [name]: 'x' })).toEqual({
          reason: 'validation_failed',
          field: name,
          tag: 'unknown',
          value: 'x',
        });
        continue;
      }
      for (const [value, tag, more = {}] of wrong[name]!) {
        if (!Object.keys(more).every((each) => parameterNames[report].includes(each))) continue;
        const sent = typeof value === 'string' ? value : JSON.stringify(value);
        expect({ name, ...(await refused(report, { ...needed(report), ...more, [name]: value })) }).toEqual({
          ...{ name, reason: 'validation_failed', field: name, tag, value: sent.slice(0, 1_000) },
        });
      }
    }
  });

  test('are what is no report or no object, columns without a beginning, and more than 24 of them', async () => {
    const of = async (report: string, parameters: unknown) => {
      const { field, tag } = await refused(report, parameters);
      return [field, tag];
    };
    expect(await of('profit', {})).toEqual(['report', 'oneof']);
    expect(await of('journal', '[]')).toEqual(['parameters', 'type']);
    expect(await of('journal', '{')).toEqual(['parameters', 'type']);
    expect(await of('journal', ' '.repeat(70_000))).toEqual(['parameters', 'max']);
    expect(await of('account-statement', {})).toEqual(['account_code', 'required']);
    expect(await of('general-ledger', { account_code: Array(51).fill('a') })).toEqual(['account_code', 'max']);
    expect(await of('general-ledger', { account_code: ['a', ''] })).toEqual(['account_code[1]', 'required']);
    expect(await of('balance-sheet', { group_by: 'transaction.order' })).toEqual(['group_by', 'oneof']);
    expect(await of('trial-balance', { to: '2025-01-01', columns: 'month' })).toEqual(['from', 'required']);
    expect(await of('income-statement', { compare: 'previous_year' })).toEqual(['from', 'required']);
    expect(await of('trial-balance', { from: '2024-01-01', to: '2026-01-31', columns: 'month' })).toEqual(['columns', 'max']);
    const twelve = { from: '2024-01-01', to: '2024-12-31', columns: 'month', compare: 'previous_year' };
    expect((await read('trial-balance', twelve)).columns).toHaveLength(24);
    expect(await of('trial-balance', { ...twelve, count: 2 })).toEqual(['count', 'max']);
  });

  test('is what is too long or takes too long, with the way to a job', async () => {
    const asked = { report: 'trial-balance', parameters: '{"as_of": "2025-12-31"}' };
    for (const bounds of [
      { maxLines: 3, milliseconds: 60_000 },
      { maxLines: 20_000, milliseconds: 0 },
    ]) {
      const { reason, message } = (await makeNow(auditor.pool, tenant, asked, bounds).catch((error: unknown) => error)) as Refusal;
      expect([reason, message]).toEqual(['report_too_large', expect.stringContaining('start it as a job, with POST on the same path')]);
    }
  });
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
