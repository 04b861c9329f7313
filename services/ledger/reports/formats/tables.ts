// Reports as tables: which columns and rows CSV, XLSX and PDF have.
import { dateOf, localDay } from '../../../platform/calendar.ts';
import { toDecimal } from '../../../platform/money.ts';
import type { AccountsReport, JournalReport, Parameters, Report, ReportLine, Statement, StatementsReport } from '../report.ts';
import type { Cell, Table, TableColumn, TableRow } from './table.ts';

/** A report as a table. Its rows can be read as often as the report's lines. */
export function tableOf(report: Report): Table {
  const { parameters, asRecorded, timeZone } = report;
  return {
    title: titleOf(parameters.report),
    period: periodOf(parameters, timeZone),
    facts: factsOf(parameters, timeZone),
    asRecorded: {
      sequence: asRecorded.sequence.toString(),
      hash: asRecorded.hash === null ? '' : Buffer.from(asRecorded.hash).toString('hex'),
      at: timeOf(asRecorded.atMs ?? 0),
    },
    ...(report.kind === 'accounts' ? accountsTable(report) : report.kind === 'statements' ? statementsTable(report) : journalTable(report)),
  };
}

type Content = Pick<Table, 'columns' | 'rows'>;

/** `balance-sheet` is `Balance sheet`. */
function titleOf(name: string): string {
  const text = name.replaceAll(/[-_]/g, ' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function dayText(ms: number, timeZone: string): string {
  return dateOf(localDay(timeZone, ms));
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}

function periodOf({ time, fromMs, toMs }: Parameters, timeZone: string): string {
  const to = dayText(toMs, timeZone);
  if (time === 'at') return `As of ${to}`;
  return fromMs === null ? `Until ${to}` : `${dayText(fromMs, timeZone)} to ${to}`;
}

/** Parameters that are not the default. */
function factsOf(parameters: Parameters, timeZone: string): [string, string][] {
  const { currency, closing, depth, columns, compare, count, groupBy, order, accountCodes } = parameters;
  const facts: [string, string | false][] = [
    ['Time zone', timeZone],
    ['Currency', currency ?? false],
    ['Accounts', accountCodes.length > 0 && accountCodes.join(', ')],
    ['Closing entries', closing === 'exclude' && 'left out'],
    ['Depth', depth < 32 && String(depth)],
    ['Columns', columns !== 'total' && `each ${columns}`],
    ['Compared with', compare !== 'none' && `${compare.replace('_', ' ')}${count > 1 ? `, ${count} times` : ''}`],
    ['Grouped by', groupBy !== null && `${groupBy.of}.${groupBy.key}`],
    ['Order', order === 'posted' && 'as posted'],
  ];
  return facts.filter((fact): fact is [string, string] => fact[1] !== false);
}

const lineColumns: TableColumn[] = [
  { name: 'account_code', label: 'Code', type: 'text', width: 96 },
  { name: 'account', label: 'Account', type: 'text', isIndented: true, isPrintOnly: true },
  ...['name', 'type', 'parent_code'].map((name): TableColumn => ({ name, type: 'text' })),
  { name: 'depth', type: 'number' },
  ...['is_group', 'folded', 'computed'].map((name): TableColumn => ({ name, type: 'boolean' })),
  { name: 'section', type: 'text' },
  { name: 'group', type: 'text' },
  { name: 'currency', type: 'text' },
];

const computedNames: Record<string, string> = {
  earnings_prior: 'Earnings of prior years',
  earnings_current: 'Earnings of this fiscal year',
};

function accountsTable({ columns, amounts, lines, totals, parameters }: AccountsReport): Content {
  const isGrouped = parameters.groupBy !== null;
  const figures = columns.flatMap(({ key }) =>
    amounts.map((amount): TableColumn => {
      const name = `${key}.${amount}`;
      if (amounts.length === 1) return { name, label: columns.length === 1 ? 'Amount' : key, type: 'amount' };
      return { name, label: titleOf(amount), type: 'amount', ...(columns.length > 1 && { over: key }) };
    }),
  );
  const figuresOf = (values: ReportLine['values']): Cell[] =>
    columns.flatMap((_, index) => amounts.map((amount) => decimalOf(values[index]?.[amount])));
  const lineCells = (line: ReportLine): Cell[] => [
    line.accountCode,
    line.computed ? (computedNames[line.name] ?? titleOf(line.name)) : line.name,
    ...[
      line.name,
      line.type,
      line.parentCode,
      line.depth,
      line.isGroup,
      line.folded,
      line.computed,
      line.section,
      line.group,
      line.currency,
    ],
    ...figuresOf(line.values),
  ];
  return {
    columns: [
      ...lineColumns.map((column) => (column.name === 'group' && isGrouped ? { ...column, label: 'Group', width: 90 } : column)),
      ...figures,
    ],
    *rows() {
      for (const currency of new Set([...lines, ...totals].map((each) => each.currency))) {
        yield headingRow(currency, 0);
        const own = lines.filter((line) => line.currency === currency);
        const sums = totals.filter((total) => total.currency === currency);
        const sections = new Set(own.map(({ section }) => section));
        const total = (section: string | null) =>
          sums.filter((sum) => sum.section === section).map((sum) => totalRow(sum.section, currency, figuresOf(sum.values)));
        yield* total('opening_cash');
        for (const section of sections) {
          if (section !== null) yield headingRow(titleOf(section), 1);
          for (const line of own.filter((each) => each.section === section)) {
            const isSum = line.isGroup && !line.folded;
            yield { kind: isSum ? 'group' : 'line', cells: lineCells(line), depth: line.depth - 1 };
          }
          yield* total(section);
        }
        for (const { section } of sums) {
          if (section !== 'opening_cash' && !sections.has(section)) yield* total(section);
        }
      }
    },
  };
}

function totalRow(section: string | null, currency: string, figures: Cell[]): TableRow {
  const isSum = !section?.includes('_');
  const name = section === null ? 'Total' : `${isSum ? 'Total ' : ''}${isSum ? section : titleOf(section)}`;
  return { kind: 'total', cells: [null, name, name, null, null, null, null, null, null, section, null, currency, ...figures], depth: 0 };
}

function headingRow(text: string, depth: number): TableRow {
  return { kind: 'heading', cells: [text], depth };
}

function decimalOf(minor: bigint | null | undefined): string | null {
  return minor === null || minor === undefined ? null : toDecimal(minor);
}

function statementsTable({ parameters, statements, timeZone }: StatementsReport): Content {
  const running = parameters.order === 'posted' ? 'balance_after' : 'running_balance';
  return {
    columns: [
      { name: 'account_code', type: 'text' },
      { name: 'currency', type: 'text' },
      { name: 'transaction_id', type: 'text' },
      { name: 'date', label: 'Date', type: 'text', width: 58, isPrintOnly: true },
      { name: 'sequence', label: 'No.', type: 'number', width: 48 },
      { name: 'effective_at', type: 'text' },
      { name: 'created_at', type: 'text' },
      { name: 'text', label: 'Description', type: 'text', isPrintOnly: true },
      { name: 'description', type: 'text' },
      { name: 'reference', type: 'text' },
      { name: 'side', type: 'text' },
      { name: 'amount', type: 'amount' },
      { name: 'debit', label: 'Debit', type: 'amount', isPrintOnly: true },
      { name: 'credit', label: 'Credit', type: 'amount', isPrintOnly: true },
      { name: running, label: 'Balance', type: 'amount', width: 86 },
    ],
    async *rows() {
      for await (const statement of statements) yield* statementRows(statement, parameters, timeZone);
    },
  };
}

async function* statementRows(statement: Statement, { order, fromMs }: Parameters, timeZone: string): AsyncGenerator<TableRow> {
  const { accountCode, name, currency, openingBalance, closingBalance, debits, credits } = statement;
  const sum = (
    text: string,
    figures: [debit: bigint | null, credit: bigint | null, balance: bigint],
    date: string | null = null,
  ): TableRow => ({
    kind: 'total',
    cells: [accountCode, currency, null, date, null, null, null, text, text, null, null, null, ...figures.map(decimalOf)],
    depth: 0,
  });
  yield headingRow(`${accountCode} · ${name} · ${currency}`, 0);
  yield sum('Opening balance', [null, null, openingBalance], fromMs === null ? null : dayText(fromMs, timeZone));
  for await (const line of statement.lines) {
    const amount = toDecimal(line.amount);
    yield {
      kind: 'line',
      cells: [
        ...[accountCode, currency, line.transactionId, dayText(order === 'posted' ? line.createdMs : line.effectiveMs, timeZone)],
        ...[Number(line.sequence), timeOf(line.effectiveMs), timeOf(line.createdMs), textOf(line), line.description, line.reference],
        ...[
          line.side,
          amount,
          line.side === 'debit' ? amount : null,
          line.side === 'credit' ? amount : null,
          toDecimal(line.runningBalance),
        ],
      ],
      depth: 0,
    };
  }
  yield sum('Closing balance', [debits, credits, closingBalance]);
}

function textOf({ description, reference }: { description: string; reference: string | null }): string {
  return [description, reference].filter((text) => text !== null && text !== '').join(' · ');
}

function journalTable({ parameters, lines, timeZone }: JournalReport): Content {
  return {
    columns: [
      ...['transaction_id'].map((name): TableColumn => ({ name, type: 'text' })),
      { name: 'sequence', type: 'number' },
      ...['effective_at', 'created_at', 'kind', 'description', 'reference'].map((name): TableColumn => ({ name, type: 'text' })),
      { name: 'account_code', label: 'Code', type: 'text', width: 110 },
      { name: 'name', label: 'Account', type: 'text', isIndented: true },
      { name: 'side', type: 'text' },
      { name: 'amount', type: 'amount' },
      { name: 'currency', label: 'Currency', type: 'text', width: 52 },
      { name: 'debit', label: 'Debit', type: 'amount', isPrintOnly: true },
      { name: 'credit', label: 'Credit', type: 'amount', isPrintOnly: true },
    ],
    async *rows() {
      for await (const line of lines) {
        const day = dayText(parameters.order === 'posted' ? line.createdMs : line.effectiveMs, timeZone);
        yield headingRow([day, `No. ${line.sequence}`, line.kind, textOf(line)].filter((text) => text !== '').join(' · '), 1);
        const own = [line.transactionId, Number(line.sequence), timeOf(line.effectiveMs), timeOf(line.createdMs)];
        for (const { accountCode, name, side, amount: minor, currency } of line.entries) {
          const amount = toDecimal(minor);
          yield {
            kind: 'line',
            cells: [
              ...[...own, line.kind, line.description, line.reference, accountCode, name, side, amount, currency],
              ...[side === 'debit' ? amount : null, side === 'credit' ? amount : null],
            ],
            depth: side === 'credit' ? 1 : 0,
          };
        }
      }
    },
  };
}
