// Reports whose lines are accounts: trial balance, balance sheet, income statement, cash flow. A table for each currency.
import type { ReactElement, ReactNode } from 'react';
import { Link } from 'wouter';
import type { AccountsReport, ReportLine, ReportTotal } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Amount } from '../parts/amount.tsx';
import { toMinor } from '../parts/money.ts';
import { Badge } from '../parts/page.tsx';
import { formatDay } from '../parts/time.tsx';

const words = texts.report;

/** The amounts of a line that are shown: by their place in the columns and their names. */
interface Shown {
  column: number;
  name: string;
  heading: ReactNode;
}

/** The names that a trial balance of one column shows. */
const ofTrialBalance = ['opening', 'debits', 'credits', 'debit', 'credit'] as const;

function shownOf({ report, columns }: AccountsReport): Shown[] {
  if (report === 'trial-balance' && columns.length === 1)
    return ofTrialBalance.map((name) => ({ column: 0, name, heading: words.amounts[name] }));
  const name = report === 'trial-balance' ? 'closing' : 'amount';
  return columns.map(({ key }, column) => ({ column, name, heading: formatDay(key) }));
}

/** The tables of a report. */
export function AccountsTables({ report }: { report: AccountsReport }): ReactElement {
  const currencies = [...new Set([...report.lines, ...report.totals].map(({ currency }) => currency))];
  return (
    <>
      {currencies.map((currency) => (
        <CurrencyTable key={currency} report={report} currency={currency} />
      ))}
    </>
  );
}

function CurrencyTable({ report, currency }: { report: AccountsReport; currency: string }): ReactElement {
  const shown = shownOf(report);
  const lines = report.lines.filter((line) => line.currency === currency);
  const totals = report.totals.filter((total) => total.currency === currency);
  const name = texts.report.names[report.report];
  return (
    <div className="sheet-frame" role="region" aria-label={`${name} ${currency}`} tabIndex={0}>
      <table className="sheet report">
        <caption>
          {currency} <Balanced report={report} totals={totals} />
        </caption>
        <thead>
          <tr>
            <th scope="col">{words.account}</th>
            {shown.map(({ column, name: amount, heading }) => (
              <th key={`${column}${amount}`} scope="col" className="number">
                {heading}
              </th>
            ))}
          </tr>
        </thead>
        {totals.map((total) => {
          const own = lines.filter(({ section }) => section === total.section);
          return (
            <tbody key={total.section}>
              {own.length > 0 && total.section !== null && report.report === 'cash-flow' && (
                <tr className="report-section">
                  <th scope="rowgroup" colSpan={shown.length + 1}>
                    {words.sections[total.section] ?? total.section}
                  </th>
                </tr>
              )}
              {own.map((line) => (
                <LineRow key={`${line.account_code ?? line.name} ${line.group ?? ''}`} line={line} shown={shown} />
              ))}
              <tr className="report-total">
                <th scope="row">{words.totals[total.section ?? ''] ?? total.section}</th>
                <Amounts values={total.values} shown={shown} />
              </tr>
            </tbody>
          );
        })}
      </table>
    </div>
  );
}

function LineRow({ line, shown }: { line: ReportLine; shown: Shown[] }): ReactElement {
  const { account_code: code, depth, is_group: isGroup, group, name } = line;
  return (
    <tr className={isGroup ? 'report-group' : undefined}>
      <th scope="row" data-depth={Math.min(depth, 8)}>
        {code === null ? name : <Link href={`/accounts/${encodeURIComponent(code)}`}>{name}</Link>}{' '}
        {code !== null && !isGroup && <code className="report-code">{code}</code>}
        {group !== null && <Badge>{group}</Badge>}
      </th>
      <Amounts values={line.values} shown={shown} />
    </tr>
  );
}

function Amounts({ values, shown }: { values: ReportLine['values']; shown: Shown[] }): ReactElement[] {
  return shown.map(({ column, name }) => {
    const amount = values[column]?.[name];
    return (
      <td key={`${column}${name}`} className="number">
        {amount === undefined ? null : toMinor(amount) === 0n ? <span className="nothing">–</span> : <Amount amount={amount} />}
      </td>
    );
  });
}

/** Whether the two sides of the report are equal, as they must be. */
function Balanced({ report, totals }: { report: AccountsReport; totals: ReportTotal[] }): ReactElement | null {
  const amount = (section: string | null, column: number, name: string) =>
    toMinor(totals.find((total) => total.section === section)?.values[column]?.[name] ?? '0') ?? 0n;
  const isEqual = (column: number): boolean => {
    if (report.report === 'trial-balance') return amount(null, column, 'debit') === amount(null, column, 'credit');
    return amount('assets', column, 'amount') === amount('liabilities', column, 'amount') + amount('equity', column, 'amount');
  };
  if (report.report !== 'trial-balance' && report.report !== 'balance-sheet') return null;
  const isBalanced = report.columns.every((_, column) => isEqual(column));
  return <Badge tone={isBalanced ? 'good' : 'bad'}>{isBalanced ? words.balanced : words.unbalanced}</Badge>;
}
