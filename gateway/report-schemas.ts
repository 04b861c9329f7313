// The parameters of each report.
import { Type, type TObject } from 'typebox';
import {
  accountCode,
  closingChoices,
  currency,
  entryOrders,
  flag,
  instant,
  object,
  oneOf,
  optional,
  reportColumns,
  reportComparisons,
  reportFormats,
  type reportNames,
  whole,
} from './fields.ts';
import type { ErrorCode } from './errors.ts';

/** The formats other than JSON as examples, by media type. */
export const fileExamples = {
  'text/csv': 'account_code,name,…\r\nFEES-WITHDRAWAL,Withdrawal fees,…\r\n',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'PK…',
  'application/pdf': '%PDF-1.3…',
};

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
  format: choice(
    reportFormats,
    "What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.",
  ),
};

const byAccounts = {
  depth: whole(1, 32, { default: 32, description: 'Levels of the chart that are shown; deeper ones are folded into their group.' }),
  zero: Type.Unsafe<boolean>({ ...flag, default: false, description: 'Shows accounts without any amount as well.' }),
  columns: choice(
    reportColumns,
    'One column for the period, or one for each part of it by the calendar. Balances are split from the beginning of the fiscal year.',
  ),
  compare: choice(
    reportComparisons,
    'Further columns. `previous_period`: as many whole months before, else days; of `as_of` the end of the month before. `previous_year`: the same days a year before.',
  ),
  count: whole(1, 11, { default: 1, description: 'How many periods or years are compared.' }),
  group_by: Type.Unsafe<string>({
    type: 'string',
    maxLength: 1_000,
    description:
      'Splits lines by `account.<metadata key>` or, unless the report is a balance sheet, `transaction.<key>` for a key of `indexed_metadata`. At most 100 values.',
    example: 'account.unit',
  }),
};

const closing = choice(closingChoices, '`exclude` leaves out closing transactions of year ends and their reversals.');
const order = choice(
  entryOrders,
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
  report: (typeof reportNames)[number];
  /** Of the operation. */
  id: string;
  title: string;
  description: string;
  /** Parameters by name. */
  fields: Record<string, ReturnType<typeof Type.Unsafe>>;
  required?: readonly string[];
  /** Parameters of a job as an example. */
  body: Record<string, unknown>;
  /** Whether JSON comes in pages. */
  isPaged?: boolean;
  /** Whether it names accounts that may be unknown. */
  ofAccount?: boolean;
  /** Errors of `GET` besides those of every report. */
  errors?: ErrorCode[];
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
    body: { from: '2030-01-01', to: '2030-12-31', columns: 'quarter', format: 'xlsx' },
  },
  {
    report: 'balance-sheet',
    id: 'BalanceSheet',
    title: 'a balance sheet',
    description:
      'Assets, liabilities and equity. Equity has two computed lines for what no year end has closed yet: `earnings_prior` from before the fiscal year, `earnings_current` from within it. So it balances, closed or not.',
    fields: { as_of: timeFields.as_of, ...common, ...byAccounts },
    body: { as_of: '2030-12-31', compare: 'previous_year', depth: 2, format: 'pdf' },
  },
  {
    report: 'income-statement',
    id: 'IncomeStatement',
    title: 'an income statement',
    description: 'Revenue and expense of a period, and the total `net_income`. Closing transactions and their reversals are left out.',
    fields: { ...period, ...common, ...byAccounts },
    body: { from: '2030-01-01', to: '2030-12-31', columns: 'month' },
  },
  {
    report: 'cash-flow',
    id: 'CashFlow',
    title: 'a cash flow statement',
    description:
      'By the direct method: the entries next to one on `cash_accounts` of the books, in the same transaction and currency, by account. The sections `operating`, `investing` and `financing` follow `metadata.cash_flow` of the account; without it equity is financing and all else operating. Totals include `opening_cash` and `closing_cash`.',
    fields: { ...period, ...common, ...byAccounts },
    body: { from: '2030-01-01', to: '2030-12-31' },
  },
  {
    report: 'account-statement',
    id: 'AccountStatement',
    title: 'an account’s statement',
    description: 'Each entry of one account and currency with the balance after it, oldest first, and the balances at both ends.',
    fields: { account_code: Type.Unsafe<string>(accountCode), ...period, order, ...common, ...paging },
    required: ['account_code'],
    body: { account_code: 'CUSTOMER-WALLETS-USD', from: '2030-01-01', to: '2030-12-31', format: 'pdf' },
    isPaged: true,
    ofAccount: true,
    errors: ['account_is_group', 'currency_not_allowed'],
  },
  {
    report: 'general-ledger',
    id: 'GeneralLedger',
    title: 'a general ledger',
    description: 'A statement for each account and currency. Repeat `account_code` for several.',
    fields: { account_code: accountCodes, ...period, ...common, ...paging },
    body: { from: '2030-01-01', to: '2030-12-31', format: 'csv' },
    isPaged: true,
    ofAccount: true,
  },
  {
    report: 'journal',
    id: 'Journal',
    title: 'a journal',
    description: 'Transactions with their entries, oldest first.',
    fields: { ...period, order, ...common, ...paging },
    body: { from: '2030-01-01', to: '2030-12-31', format: 'csv' },
    isPaged: true,
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
