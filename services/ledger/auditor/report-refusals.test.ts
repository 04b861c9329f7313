// Refusals of reports: every parameter of every report.
import { reportBytes, startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { newTenant, refusal, startLedger, type RunningLedger } from '../../../test/ledger.ts';
import type { Refusal } from '../accounting.ts';
import { parameterNames } from '../reports/parameters.ts';
import { reportNames, type ReportName } from '../reports/report.ts';
import { makeNow } from './reports-rpc.ts';

let ledger: RunningLedger;
let auditor: RunningAuditor;
const { tenant, tenantId } = newTenant();

beforeAll(async () => {
  ledger = await startLedger();
  auditor = await startAuditor(ledger.database);
  const accounts = ['asset-a', 'asset-b'].map((accountCode) => ({ accountCode, name: accountCode, type: 'asset' }));
  await ledger.client.createAccounts({ tenantId, accounts });
  for (const currency of ['NGN', 'USD']) {
    const entries = [
      { accountCode: 'asset-a', side: 'debit', amount: '1.00', currency },
      { accountCode: 'asset-b', side: 'credit', amount: '1.00', currency },
    ];
    await ledger.client.postTransaction({ posting: { tenantId, entries } });
  }
});
afterAll(async () => {
  await auditor.end();
  await ledger.end();
});

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
const refused = async (report: string, parameters: object | string) => {
  const { reason, field, tag, value } = await refusal(reportBytes(auditor, tenantId, report, parameters));
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
  const of = async (report: string, parameters: object | string) => {
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
  const { bytes } = await reportBytes(auditor, tenantId, 'trial-balance', twelve);
  expect(JSON.parse(bytes.toString()).data.report.columns).toHaveLength(24);
  expect(await of('trial-balance', { ...twelve, count: 2 })).toEqual(['count', 'max']);
});

test('is what is too long or takes too long, with the way to a job', async () => {
  const asked = { report: 'trial-balance', parameters: '' };
  for (const bounds of [
    { maxLines: 3, milliseconds: 60_000 },
    { maxLines: 20_000, milliseconds: 0 },
  ]) {
    const { reason, message } = (await makeNow(auditor.pool, tenant, asked, bounds).catch((error: unknown) => error)) as Refusal;
    expect([reason, message]).toEqual(['report_too_large', expect.stringContaining('start it as a job, with POST on the same path')]);
  }
});
