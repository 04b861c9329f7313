// Reports over REST: at once and as jobs, in all formats, in the time zone of the books.
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import { deposit, line, newWallet, type Customer } from '../test/customer.ts';
import { until } from '../test/polling.ts';
import { reportNames } from './fields.ts';
import { fileExamples } from './report-schemas.ts';

let cluster: CheckedCluster;
let customer: Customer;

beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newWallet(cluster);
  await cluster.rest('PATCH', customer.at('books'), { key: customer.key, body: { timezone: 'Africa/Lagos', indexed_metadata: ['order'] } });
  const fee = { entries: [line('SETTLEMENT-USD', 'debit', '7.00'), line('FEES-WITHDRAWAL', 'credit', '7.00')] };
  await customer.post('transactions/double-entry', deposit('100.00', { effective_at: '2025-01-31', metadata: { order: 'A' } }));
  await customer.post('transactions/double-entry', { ...fee, effective_at: '2025-01-31T22:59:59.999Z' });
  await customer.post('transactions/double-entry', { ...fee, effective_at: '2025-01-31T23:00:00.000Z', metadata: { order: 'B' } });
});

const read = async (path: string) => (await customer.get(`reports/${path}`))?.report;

test('an income statement ends with the day of the books’ time zone', async () => {
  const [january, february] = await Promise.all(
    [
      ['2025-01-01', '2025-01-31'],
      ['2025-02-01', '2025-02-28'],
    ].map(([from, to]) => read(`income-statement?from=${from}&to=${to}`)),
  );
  for (const report of [january, february]) {
    expect(report.totals).toEqual([
      { currency: 'USD', section: 'revenue', values: [{ amount: '7.00' }] },
      { currency: 'USD', section: 'expense', values: [{ amount: '0.00' }] },
      { currency: 'USD', section: 'net_income', values: [{ amount: '7.00' }] },
    ]);
  }
  expect(january.columns).toEqual([{ key: '2025-01-31', from: '2024-12-31T23:00:00.000Z', to: '2025-01-31T22:59:59.999Z' }]);
});

test('movements are split by indexed metadata of transactions, and what has none is the rest', async () => {
  const report = await until(
    () => read('trial-balance?from=2025-01-01&to=2025-12-31&group_by=transaction.order&depth=32'),
    (answer) => answer !== undefined,
  );
  const settled = report.lines.filter(({ account_code: code }: any) => code === 'SETTLEMENT-USD');
  expect(settled.map(({ group, values }: any) => [group, values])).toEqual(
    [
      ['A', '100.00'],
      ['B', '7.00'],
      [null, '7.00'],
    ].map(([group, amount]) => [group, [{ opening: '0.00', debits: amount, credits: '0.00', closing: amount }]]),
  );
});

test.each(reportNames)('%s is JSON, CSV, XLSX and PDF, at once and as a job', async (report) => {
  const period = report === 'balance-sheet' ? { as_of: '2025-12-31' } : { from: '2025-01-01', to: '2025-12-31' };
  const query = new URLSearchParams({ ...period, ...(report === 'account-statement' && { account_code: 'SETTLEMENT-USD' }) });
  const asked = `${report}?${query.toString()}`;
  const whole = await read(asked);
  const wish = { ...Object.fromEntries(query), known_sequence: whole.as_recorded.sequence };
  for (const [format, type] of [
    ['json', 'application/json'],
    ...Object.keys(fileExamples).map((each, index) => [['csv', 'xlsx', 'pdf'][index]!, each]),
  ]) {
    const answer = await fetch(`${cluster.url}${customer.at(`reports/${asked}&known_sequence=${wish.known_sequence}&format=${format}`)}`, {
      headers: { authorization: `Bearer ${customer.key}` },
    });
    expect([format, answer.status, answer.headers.get('content-type')?.split(';')[0]]).toEqual([format, 200, type]);
    const bytes = Buffer.from(await answer.arrayBuffer());
    if (format === 'json') expect(JSON.parse(bytes.toString()).data.report).toEqual(whole);
    const { status, body } = await customer.post(`reports/${report}`, { ...wish, format });
    expect([status, body.data.job.kind]).toEqual([202, report]);
    const { job } = await until(
      () => customer.get(`jobs/${body.data.job.id}`),
      (data) => data.job.finished_at !== null,
    );
    expect([job.status, job.error]).toEqual(['succeeded', null]);
    const result = await fetch(`${cluster.url}${customer.at(`jobs/${job.id}/result`)}`, {
      headers: { authorization: `Bearer ${customer.key}` },
    });
    const made = Buffer.from(await result.arrayBuffer());
    if (format === 'json') expect(JSON.parse(made.toString()).data.report.as_recorded).toEqual(whole.as_recorded);
    // A workbook holds the time at which it was made.
    else if (format !== 'xlsx') expect(made.equals(bytes)).toBe(true);
  }
});

describe('refused', () => {
  const refused = async (path: string, body?: object) => {
    const answer = await (body
      ? customer.post(`reports/${path}`, body)
      : cluster.rest('GET', customer.at(`reports/${path}`), { key: customer.key }));
    const { code, details = {} } = answer.body;
    return [answer.status, code, details.field, details.tag, details.value];
  };

  test('are parameters that another report takes, wrong ones, and those that exclude each other', async () => {
    expect(await refused('balance-sheet?from=2025-01-01')).toEqual([400, 'validation_failed', 'from', 'unknown', '2025-01-01']);
    expect(await refused('trial-balance?as_of=2025-02-30')).toEqual([400, 'validation_failed', 'as_of', 'datetime', '2025-02-30']);
    expect(await refused('trial-balance?as_of=2025-01-01&from=2025-01-01')).toEqual([
      ...[400, 'validation_failed', 'as_of', 'oneof', '2025-01-01'],
    ]);
    expect(await refused('journal?from=2025-02-01&to=2025-01-31')).toEqual([400, 'validation_failed', 'from', 'oneof', '2025-02-01']);
    expect(await refused('cash-flow?depth=33')).toEqual([400, 'validation_failed', 'depth', 'max', 33]);
    expect(await refused('income-statement?group_by=transaction.shop')).toEqual([
      ...[400, 'validation_failed', 'group_by', 'oneof', 'transaction.shop'],
    ]);
    expect(await refused('account-statement')).toEqual([400, 'validation_failed', 'account_code', 'required', '']);
    expect(await refused('account-statement?account_code=NONE&currency=USD')).toEqual([
      ...[404, 'account_not_found', undefined, undefined, undefined],
    ]);
    expect(await refused('general-ledger?account_code=SETTLEMENT&account_code=a%20b')).toEqual([
      ...[400, 'validation_failed', 'account_code[1]', 'code', 'a b'],
    ]);
    expect((await refused('profit')).slice(0, 2)).toEqual([404, 'route_not_found']);
  });

  test('is a job for the same reasons, before it is queued', async () => {
    const count = async () => ((await customer.get('jobs')).jobs as unknown[]).length;
    const before = await count();
    expect(await refused('trial-balance', { zero: 'true' })).toEqual([400, 'validation_failed', 'zero', 'type', 'true']);
    expect(await refused('trial-balance', { columns: 'month' })).toEqual([202, undefined, undefined, undefined, undefined]);
    expect(await refused('cash-flow', { columns: 'month' })).toEqual([400, 'validation_failed', 'from', 'required', '']);
    expect(await refused('cash-flow', { as_of: '2025-01-01' })).toEqual([400, 'validation_failed', 'as_of', 'unknown', '2025-01-01']);
    expect(await count()).toBe(before + 1);
  });
});
