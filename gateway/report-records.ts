// Reports in answers: their schemas and examples, for the OpenAPI document.
import { currencies } from '../services/platform/money.ts';
import { accountTypes, reportNames, sides, transactionKinds } from './fields.ts';
import { flag, id, integer, list, long, maybe, money, record, ref, string, time, word, type Schema } from './records.ts';

const heading = {
  report: word(reportNames),
  parameters: { type: 'object', description: 'As they were sent, with defaults filled in and dates resolved.' } as Schema,
  as_recorded: {
    ...record({ sequence: long, hash: maybe(string), at: maybe(time) }),
    description: 'The state of the log that the report reads: its last event. Sequence 0 and nulls before the first.',
  },
  frozen: { ...flag, description: 'Whether the books are frozen: verification has found that something differs from the log.' },
};

const values: Schema = {
  ...list({ type: 'object', additionalProperties: money }),
  description: 'For each column its amounts by name.',
};

const dated = { transaction_id: id('txn'), sequence: long, effective_at: time, created_at: time };
const statement = {
  account_code: string,
  name: string,
  type: word(accountTypes),
  currency: word(currencies),
  opening_balance: { ...money, description: 'In the account’s normal direction, as the others.' },
  closing_balance: money,
  debits: money,
  credits: money,
  lines: list(ref('StatementLine')),
};

/** The schemas by name. */
export const reportSchemas: Record<string, Schema> = {
  ReportColumn: record({
    key: { type: 'string', format: 'date', description: 'Its last day.' },
    from: { ...maybe(time), description: 'null: from the beginning.' },
    to: time,
  }),
  ReportLine: record({
    account_code: { ...maybe(string), description: 'null: a computed line.' },
    name: string,
    type: word(accountTypes),
    parent_code: maybe(string),
    depth: { ...integer, description: '1 at the top of the chart.' },
    is_group: { ...flag, description: 'Its amounts are the sums of the lines below it.' },
    folded: { ...flag, description: 'A group that has taken in deeper lines. Lines that are no group, or folded, add up to the totals.' },
    computed: flag,
    section: maybe(string),
    group: { ...maybe(string), description: 'The value of `group_by`; null: there is none.' },
    currency: word(currencies),
    values,
  }),
  ReportTotal: record({ currency: word(currencies), section: maybe(string), values }),
  AccountsReport: record({
    ...heading,
    columns: list(ref('ReportColumn')),
    lines: list(ref('ReportLine')),
    totals: list(ref('ReportTotal')),
  }),
  StatementLine: {
    ...record({
      ...dated,
      description: string,
      reference: maybe(string),
      side: word(sides),
      amount: money,
      running_balance: money,
      balance_after: money,
    }),
    description: 'In posted order it has `balance_after`, else `running_balance`.',
    required: [...Object.keys(dated), 'description', 'reference', 'side', 'amount'],
  },
  AccountStatementReport: record({ ...heading, ...statement }),
  GeneralLedgerReport: record({ ...heading, statements: list(record(statement)) }),
  JournalReport: record({
    ...heading,
    lines: list(
      record({
        ...{ ...dated, kind: word(transactionKinds), description: string, reference: maybe(string) },
        entries: list(record({ account_code: string, name: string, side: word(sides), amount: money, currency: word(currencies) })),
      }),
    ),
  }),
};

const asRecorded = {
  sequence: 1_000,
  hash: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  at: '2030-02-01T09:00:00.000Z',
};

const period = { from: '2030-01-01T00:00:00.000Z', to: '2030-01-31T23:59:59.999Z' };
const common = { currency: null, known_sequence: 1_000, format: 'json' };
const byAccounts = { depth: 32, zero: false, columns: 'total', compare: 'none', count: 0, group_by: null };

const line = {
  ...{ account_code: 'FEES-WITHDRAWAL', name: 'Withdrawal fees', type: 'revenue', parent_code: null, depth: 1, is_group: false },
  ...{ folded: false, computed: false, section: 'revenue', group: null, currency: 'USD' },
};

function accountsExample(
  report: string,
  own: Record<string, unknown>,
  section: string | null,
  amounts: Record<string, string>,
  totals: Record<string, string>,
): object {
  const column = { key: '2030-01-31', ...('from' in own ? period : { from: null, to: period.to }) };
  return {
    ...{ report, parameters: { ...own, ...common, ...byAccounts }, as_recorded: asRecorded, frozen: false, columns: [column] },
    lines: [{ ...line, section, values: [amounts] }],
    totals: Object.entries(totals).map(([name, amount]) => ({
      ...{ currency: 'USD', section: name === '' ? null : name, values: [name === '' ? { ...amounts, closing: amount } : { amount }] },
    })),
  };
}

const entry = {
  ...{ transaction_id: 'txn_01jd1zq5v8e6n9w2k4m7p3r5t8', sequence: 900, effective_at: '2030-01-31T12:00:00.000Z' },
  ...{ created_at: '2030-01-31T12:00:00.000Z', description: 'Deposit by card', reference: 'INV-1001' },
};
const exampleStatement = {
  ...{ account_code: 'CUSTOMER-WALLETS-USD', name: 'Customer wallet pool (USD)', type: 'liability', currency: 'USD' },
  ...{ opening_balance: '0.00', closing_balance: '100.00', debits: '0.00', credits: '100.00' },
  lines: [{ ...entry, side: 'credit', amount: '100.00', running_balance: '100.00' }],
};
const pagesOf = (report: string, own: object, content: object): object => ({
  ...{ report, parameters: { ...own, ...common }, as_recorded: asRecorded, frozen: false },
  ...content,
});
const entries = [
  { account_code: 'SETTLEMENT-USD', name: 'Settlement bank account (USD)', side: 'debit', amount: '100.00', currency: 'USD' },
  { account_code: 'CUSTOMER-WALLETS-USD', name: 'Customer wallet pool (USD)', side: 'credit', amount: '100.00', currency: 'USD' },
];

/** An example of each report. */
export const exampleReports: Record<string, object> = {
  'trial-balance': accountsExample(
    'trial-balance',
    { as_of: null, ...period, closing: 'include' },
    null,
    { opening: '0.00', debits: '0.00', credits: '120.00', closing: '-120.00', debit: '0.00', credit: '120.00' },
    { '': '0.00' },
  ),
  'balance-sheet': accountsExample(
    'balance-sheet',
    { as_of: period.to },
    'assets',
    { amount: '120.00' },
    { assets: '120.00', liabilities: '0.00', equity: '120.00' },
  ),
  'income-statement': accountsExample(
    'income-statement',
    period,
    'revenue',
    { amount: '120.00' },
    { revenue: '120.00', expense: '0.00', net_income: '120.00' },
  ),
  'cash-flow': accountsExample(
    'cash-flow',
    period,
    'operating',
    { amount: '120.00' },
    { operating: '120.00', investing: '0.00', financing: '0.00', opening_cash: '0.00', closing_cash: '120.00' },
  ),
  'account-statement': pagesOf(
    'account-statement',
    { account_code: 'CUSTOMER-WALLETS-USD', ...period, order: 'effective' },
    exampleStatement,
  ),
  'general-ledger': pagesOf('general-ledger', { account_code: [], ...period }, { statements: [exampleStatement] }),
  journal: pagesOf('journal', { ...period, order: 'effective' }, { lines: [{ ...entry, kind: 'double', entries }] }),
};
