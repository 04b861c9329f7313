// Reports: the parameters of each, and the schemas of their answers for the OpenAPI document.
import { Type, type TObject } from 'typebox';
import { accountCode, accountTypes, currency, flag, instant, object, oneOf, optional, patterned, whole } from './fields.ts';
import { flag as flagSchema, integer, list, long, maybe, maybeWord, money, record, string, time, word, type Schema } from './records.ts';
import { currencies } from '../services/platform/money.ts';

/** The reports by accounts, whose lines have figures by column. */
export const accountsReports = ['trial-balance', 'balance-sheet', 'income-statement', 'cash-flow'] as const;

/** Formats of reports and their media types. */
export const reportFormats = {
  json: 'application/json',
  csv: 'text/csv',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  pdf: 'application/pdf',
} as const;

const when = (description: string, example: string) => Type.Unsafe<string>({ ...instant, description, example });
const choice = (words: readonly string[], description: string) => oneOf(words, { default: words[0], description });

const timeFields = {
  as_of: when('Balances at the end of this day, or at this time; absent: now.', '2030-01-31'),
  from: when('The first day or time of the period; absent, or before 1970: from the beginning.', '2030-01-01'),
  to: when('The last day or time of the period; absent: now.', '2030-01-31'),
};

const common = {
  currency: Type.Unsafe<string>({ ...currency, description: 'Absent: each currency by itself, never added up.' }),
  known_at: when('Only what was recorded by then; absent: all.', '2030-02-28'),
  known_sequence: whole(0, Number.MAX_SAFE_INTEGER, {
    description: 'Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.',
    example: 1_000,
  }),
  format: choice(Object.keys(reportFormats), 'What the answer is.'),
};

const byAccounts = {
  depth: whole(1, 32, { default: 32, description: 'Levels of the chart that are shown; deeper ones are folded into their group.' }),
  zero: Type.Unsafe<boolean>({ ...flag, default: false, description: 'Shows accounts without any amount as well.' }),
  columns: choice(
    ['total', 'month', 'quarter', 'year'],
    'One column for the period, or one for each part of it by the calendar. Balances are split from the beginning of the fiscal year.',
  ),
  compare: choice(
    ['none', 'previous_period', 'previous_year'],
    'Further columns. `previous_period`: as many whole months before, else days; of `as_of` the end of the month before. `previous_year`: the same days a year before.',
  ),
  count: whole(1, 11, { default: 1, description: 'How many periods or years are compared.' }),
  group_by: patterned('oneof', '^(account\\.[^]{1,255}|transaction\\.[A-Za-z0-9_-]{1,64})$', {
    description:
      'Splits lines by `account.<metadata key>` or, where the report is of movements, `transaction.<key>` for a key of `indexed_metadata`. At most 100 values.',
    'x-published': { pattern: '^(account|transaction)\\..+$' },
    example: 'account.unit',
  }),
};

const closing = choice(['include', 'exclude'], '`exclude` leaves out closing transactions of year ends and their reversals.');
const order = choice(
  ['effective', 'posted'],
  'By the time at which postings count, or at which they were recorded; `from` and `to` are on the same time.',
);
const paging = {
  limit: whole(1, 100, { default: 50, description: 'Lines on a page of JSON.' }),
  cursor: Type.Unsafe<string>({
    type: 'string',
    maxLength: 512,
    description: '`next_cursor` of the previous page, with the same parameters.',
    example: 'RECaCTthAZND-5docaqeCmSh7DwXSA',
  }),
};
const accountCodes = Type.Unsafe<string[]>({
  type: 'array',
  items: accountCode,
  maxItems: 50,
  description: 'Accounts, of a group all below it; absent: all.',
  example: ['CUSTOMER-WALLETS'],
});

const period = { from: timeFields.from, to: timeFields.to };

/** A report as its routes need it. */
export interface ReportRoute {
  /** Last part of the path. */
  report: string;
  /** Of the operation. */
  id: string;
  title: string;
  description: string;
  /** Parameters by name. */
  fields: Record<string, ReturnType<typeof Type.Unsafe>>;
  required?: readonly string[];
}

/** All reports. */
export const reportRoutes: ReportRoute[] = [
  {
    report: 'trial-balance',
    id: 'TrialBalance',
    title: 'a trial balance',
    description:
      'Each account’s `opening`, `debits`, `credits` and `closing`, of `from` to `to`, or up to `as_of`. A balance is positive where it is a debit; `debit` and `credit` show the closing on its side.',
    fields: { as_of: timeFields.as_of, ...period, closing, ...common, ...byAccounts },
  },
  {
    report: 'balance-sheet',
    id: 'BalanceSheet',
    title: 'a balance sheet',
    description:
      'Assets, liabilities and equity. Equity has two computed lines for what no year end has closed yet: `earnings_prior` from before the fiscal year, `earnings_current` from within it. So it balances, closed or not.',
    fields: { as_of: timeFields.as_of, ...common, ...byAccounts },
  },
  {
    report: 'income-statement',
    id: 'IncomeStatement',
    title: 'an income statement',
    description:
      'Revenue and expense of a period, and the total `net_income`. Closing transactions and their reversals are left out.',
    fields: { ...period, ...common, ...byAccounts },
  },
  {
    report: 'cash-flow',
    id: 'CashFlow',
    title: 'a cash flow statement',
    description:
      'By the direct method: the entries next to one on `cash_accounts` of the books, in the same transaction and currency, by account. The sections `operating`, `investing` and `financing` follow `metadata.cash_flow` of the account; without it equity is financing and all else operating. Totals include `opening_cash` and `closing_cash`.',
    fields: { ...period, ...common, ...byAccounts },
  },
  {
    report: 'account-statement',
    id: 'AccountStatement',
    title: 'an account’s statement',
    description: 'Each entry of one account and currency with the balance after it, oldest first, and the balances at both ends.',
    fields: { account_code: Type.Unsafe<string>(accountCode), ...period, order, ...common, ...paging },
    required: ['account_code'],
  },
  {
    report: 'general-ledger',
    id: 'GeneralLedger',
    title: 'a general ledger',
    description: 'A statement for each account and currency. Repeat `account_code` for several.',
    fields: { account_code: accountCodes, ...period, ...common, ...paging },
  },
  {
    report: 'journal',
    id: 'Journal',
    title: 'a journal',
    description: 'Transactions with their entries, oldest first.',
    fields: { ...period, order, ...common, ...paging },
  },
];

/** The query of a report. */
export function reportQuery({ fields, required = [] }: ReportRoute): TObject {
  return object(
    Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, required.includes(name) ? field : Type.Optional(field)])),
  );
}

/** The same as a body, in which null counts as absent. */
export function reportBody({ fields, required = [] }: ReportRoute): TObject {
  return object(
    Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, required.includes(name) ? field : optional(field)])),
  );
}

const heading = {
  report: word(reportRoutes.map(({ report }) => report)),
  parameters: { type: 'object', description: 'As they were sent, with defaults filled in and dates resolved.' } as Schema,
  as_recorded: {
    ...record({ sequence: long, hash: maybe(string), at: maybe(time) }),
    description: 'The state of the log that the report reads: its last event. Sequence 0 and nulls before the first.',
  },
};

const values: Schema = {
  ...list({ type: 'object', additionalProperties: money }),
  description: 'For each column its amounts by name.',
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
    is_group: { ...flagSchema, description: 'Its amounts are the sums of the lines below it.' },
    folded: { ...flagSchema, description: 'A group that has taken in deeper lines. Lines that are no group, or folded, add up to the totals.' },
    computed: flagSchema,
    section: maybe(string),
    group: { ...maybe(string), description: 'The value of `group_by`; null: there is none.' },
    currency: word(currencies),
    values,
  }),
  ReportTotal: record({ currency: word(currencies), section: maybe(string), values }),
  AccountsReport: record({
    ...heading,
    columns: list({ $ref: '#/components/schemas/ReportColumn' }),
    lines: list({ $ref: '#/components/schemas/ReportLine' }),
    totals: list({ $ref: '#/components/schemas/ReportTotal' }),
  }),
};
void maybeWord;

const asRecorded = {
  sequence: 1_000,
  hash: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  at: '2030-02-01T09:00:00.000Z',
};

/** A report as an example. */
export const exampleReport = {
  report: 'income-statement',
  parameters: {
    ...{ from: '2030-01-01T00:00:00.000Z', to: '2030-01-31T23:59:59.999Z', currency: null, known_sequence: 1_000, format: 'json' },
    ...{ depth: 32, zero: false, columns: 'total', compare: 'none', count: 0, group_by: null },
  },
  as_recorded: asRecorded,
  columns: [{ key: '2030-01-31', from: '2030-01-01T00:00:00.000Z', to: '2030-01-31T23:59:59.999Z' }],
  lines: [
    {
      ...{ account_code: 'FEES-WITHDRAWAL', name: 'Withdrawal fees', type: 'revenue', parent_code: null, depth: 1, is_group: false },
      ...{ folded: false, computed: false, section: 'revenue', group: null, currency: 'USD', values: [{ amount: '120.00' }] },
    },
  ],
  totals: [
    { currency: 'USD', section: 'revenue', values: [{ amount: '120.00' }] },
    { currency: 'USD', section: 'expense', values: [{ amount: '0.00' }] },
    { currency: 'USD', section: 'net_income', values: [{ amount: '120.00' }] },
  ],
};
