// The seven reports as data: parameters, columns, lines, totals and statements. Amounts are bigint minor units.
import type { Currency } from '../../platform/money.ts';
import type { Side } from '../accounting.ts';

/** The reports by their names in paths. */
export const reportNames = [
  ...(['trial-balance', 'balance-sheet', 'income-statement', 'cash-flow'] as const),
  ...(['account-statement', 'general-ledger', 'journal'] as const),
] as const;

/** Name of a report. */
export type ReportName = (typeof reportNames)[number];

/** Formats of a report. */
export const formats = ['json', 'csv', 'xlsx', 'pdf'] as const;

/** What lines are split by: a key of the metadata of accounts, or an indexed one of transactions. */
export interface GroupBy {
  of: 'account' | 'transaction';
  key: string;
}

/** Parameters, checked, with their defaults. Times are milliseconds since the Unix epoch, bounds are inclusive. */
export interface Parameters {
  report: ReportName;
  /** `at`: balances at `toMs`; `between`: movements from `fromMs` (null: the beginning) to `toMs`. */
  time: 'at' | 'between';
  fromMs: number | null;
  toMs: number;
  currency: Currency | null;
  /** Only what was recorded up to this position of the log. */
  knownSequence: bigint;
  closing: 'include' | 'exclude';
  depth: number;
  zero: boolean;
  columns: 'total' | 'month' | 'quarter' | 'year';
  compare: 'none' | 'previous_period' | 'previous_year';
  /** How many periods are compared. */
  count: number;
  groupBy: GroupBy | null;
  format: (typeof formats)[number];
  order: 'effective' | 'posted';
  /** Account statement: exactly one. General ledger: empty means all. */
  accountCodes: string[];
  /** Lines on a page; null: all (jobs, and formats other than JSON). */
  limit: number | null;
  /** As it was sent; empty: from the beginning. */
  cursor: string;
}

/** The state of the log that a report reads. Before the first event: sequence 0 and nulls. */
export interface AsRecorded {
  sequence: bigint;
  hash: Uint8Array | null;
  /** When the event of `sequence` was recorded. */
  atMs: number | null;
  /** Whether the books are frozen: verification has found that something differs from the log. */
  frozen: boolean;
}

/** A column: a period, or a time. */
export interface Column {
  /** Its last day, `YYYY-MM-DD`. */
  key: string;
  /** Null: from the beginning. */
  fromMs: number | null;
  toMs: number;
}

/** Figures of a line in one column, under their names of REST. */
export type Amounts = Record<string, bigint>;

/** A line of a report by accounts. */
export interface ReportLine {
  accountCode: string | null;
  name: string;
  type: string;
  parentCode: string | null;
  /** 1 at the top of the chart. */
  depth: number;
  isGroup: boolean;
  /** A group that has taken in deeper lines. */
  folded: boolean;
  /** No account, but a result of others. */
  computed: boolean;
  section: string | null;
  /** The value of what the lines are split by; null where an account or transaction has none. */
  group: string | null;
  currency: string;
  /** One for each column. */
  values: Amounts[];
}

/** A sum of lines. */
export interface ReportTotal {
  currency: string;
  section: string | null;
  values: Amounts[];
}

/** An entry as an account's statement shows it. */
export interface StatementLine {
  /** TypeID. */
  transactionId: string;
  sequence: bigint;
  effectiveMs: number;
  createdMs: number;
  description: string;
  reference: string | null;
  side: Side;
  amount: bigint;
  /** In the account's normal direction. In posted order: `balance_after`. */
  runningBalance: bigint;
}

/** A statement of one account and currency. Its lines are read once, in order. */
export interface Statement {
  accountCode: string;
  name: string;
  type: string;
  currency: string;
  openingBalance: bigint;
  closingBalance: bigint;
  debits: bigint;
  credits: bigint;
  lines: AsyncIterable<StatementLine> | Iterable<StatementLine>;
}

/** A transaction in the journal. */
export interface JournalLine {
  transactionId: string;
  sequence: bigint;
  effectiveMs: number;
  createdMs: number;
  kind: string;
  description: string;
  reference: string | null;
  entries: { accountCode: string; name: string; side: Side; amount: bigint; currency: string }[];
}

interface Heading {
  parameters: Parameters;
  asRecorded: AsRecorded;
  /** Of the books: days of columns and of pages are days of this zone. */
  timeZone: string;
}

/** Trial balance, balance sheet, income statement, cash flow. */
export interface AccountsReport extends Heading {
  kind: 'accounts';
  columns: Column[];
  /** Names of the amounts, in the order in which they are shown. */
  amounts: string[];
  lines: ReportLine[];
  totals: ReportTotal[];
}

/** Account statement (exactly one statement) and general ledger. They are read once, in order. */
export interface StatementsReport extends Heading {
  kind: 'statements';
  statements: AsyncIterable<Statement> | Iterable<Statement>;
  /** Empty on the last page; known after the lines were read. */
  nextCursor: () => string;
}

/** The journal. Its lines are read once, in order. */
export interface JournalReport extends Heading {
  kind: 'journal';
  lines: AsyncIterable<JournalLine> | Iterable<JournalLine>;
  nextCursor: () => string;
}

/** Any report. */
export type Report = AccountsReport | StatementsReport | JournalReport;
