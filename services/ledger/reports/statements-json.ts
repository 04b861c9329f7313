// Statements, general ledger and journal as the JSON of REST, part by part.
import { toDecimal } from '../../platform/money.ts';
import { headingJson, timeText } from './json.ts';
import type { JournalLine, JournalReport, Parameters, Statement, StatementLine, StatementsReport } from './report.ts';

/** The answer of REST: of an account statement its figures, of the general ledger a list of statements. */
export async function* statementsJson(report: StatementsReport): AsyncGenerator<string> {
  const { parameters, statements, nextCursor } = report;
  const isOne = parameters.report === 'account-statement';
  yield `{"success":true,"data":{"report":{${headingJson(report)},${isOne ? '' : '"statements":['}`;
  let isFirst = true;
  for await (const statement of statements) {
    const head = figuresOf(statement);
    yield isOne ? `${head},"lines":[` : `${isFirst ? '' : ','}{${head},"lines":[`;
    yield* listed(statement.lines, (line) => statementLine(line, parameters));
    yield isOne ? ']' : ']}';
    isFirst = false;
  }
  yield `${isOne ? '' : ']'}}${paginationOf(parameters, nextCursor())}}}`;
}

/** The answer of REST. */
export async function* journalJson(report: JournalReport): AsyncGenerator<string> {
  yield `{"success":true,"data":{"report":{${headingJson(report)},"lines":[`;
  yield* listed(report.lines, journalLine);
  yield `]}${paginationOf(report.parameters, report.nextCursor())}}}`;
}

async function* listed<Line>(lines: AsyncIterable<Line> | Iterable<Line>, recordOf: (line: Line) => object): AsyncGenerator<string> {
  let comma = '';
  for await (const line of lines) {
    yield comma + JSON.stringify(recordOf(line));
    comma = ',';
  }
}

function paginationOf({ limit }: Parameters, nextCursor: string): string {
  if (limit === null) return '';
  const pagination = { limit, next_cursor: nextCursor === '' ? null : nextCursor, has_more: nextCursor !== '' };
  return `,"pagination":${JSON.stringify(pagination)}`;
}

/** The fields of a statement without its lines, as JSON without braces. */
function figuresOf({ accountCode, name, type, currency, openingBalance, closingBalance, debits, credits }: Statement): string {
  const amounts = { opening_balance: openingBalance, closing_balance: closingBalance, debits, credits };
  const decimals = Object.fromEntries(Object.entries(amounts).map(([key, minor]) => [key, toDecimal(minor)]));
  return JSON.stringify({ account_code: accountCode, name, type, currency, ...decimals }).slice(1, -1);
}

function dated({ transactionId, sequence, effectiveMs, createdMs }: JournalLine | StatementLine): object {
  const times = { effective_at: timeText(effectiveMs), created_at: timeText(createdMs) };
  return { transaction_id: transactionId, sequence: Number(sequence), ...times };
}

function statementLine(line: StatementLine, { order }: Parameters): object {
  const { description, reference, side, amount, runningBalance } = line;
  const balance = { [order === 'posted' ? 'balance_after' : 'running_balance']: toDecimal(runningBalance) };
  return { ...dated(line), description, reference, side, amount: toDecimal(amount), ...balance };
}

function journalLine(line: JournalLine): object {
  const { kind, description, reference, entries } = line;
  const records = entries.map(({ accountCode, name, side, amount, currency }) => ({
    ...{ account_code: accountCode, name, side, amount: toDecimal(amount), currency },
  }));
  return { ...dated(line), kind, description, reference, entries: records };
}
