// Reports whose lines are entries: account statement, general ledger, journal.
import type { ReactElement } from 'react';
import { Link } from 'wouter';
import type { AccountStatement, JournalLine, StatementLine } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Amount } from '../parts/amount.tsx';
import { EffectiveTime } from '../parts/time.tsx';

const words = texts.report;

/** One account's entries in one currency, with the balances at both ends. `isComplete`: there are no further lines. */
export function StatementTable({ statement, isComplete = true }: { statement: AccountStatement; isComplete?: boolean }): ReactElement {
  const { account_code: code, name, currency, opening_balance: opening, closing_balance: closing, debits, credits, lines } = statement;
  return (
    <div className="sheet-frame" role="region" aria-label={`${code} ${currency}`} tabIndex={0}>
      <table className="sheet report">
        <caption>
          <Link href={`/accounts/${encodeURIComponent(code)}`}>{name}</Link> <code>{code}</code> {currency}
        </caption>
        <thead>
          <tr>
            <th scope="col">{words.date}</th>
            <th scope="col">{words.description}</th>
            <th scope="col">{words.reference}</th>
            <th scope="col" className="number">
              {words.debit}
            </th>
            <th scope="col" className="number">
              {words.credit}
            </th>
            <th scope="col" className="number">
              {words.balance}
            </th>
          </tr>
        </thead>
        <tbody>
          <BalanceRow label={words.opening} amount={opening} />
          {lines.map((line) => (
            <StatementRow key={`${line.sequence} ${line.side} ${line.running_balance ?? line.balance_after ?? ''}`} line={line} />
          ))}
          {isComplete && (
            <tr className="report-total">
              <th scope="row" colSpan={3}>
                {words.closing}
              </th>
              <td className="number">
                <Amount amount={debits} />
              </td>
              <td className="number">
                <Amount amount={credits} />
              </td>
              <td className="number">
                <Amount amount={closing} />
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

function BalanceRow({ label, amount }: { label: string; amount: string }): ReactElement {
  return (
    <tr className="report-group">
      <th scope="row" colSpan={5}>
        {label}
      </th>
      <td className="number">
        <Amount amount={amount} />
      </td>
    </tr>
  );
}

function StatementRow({ line }: { line: StatementLine }): ReactElement {
  const { side, amount, running_balance: running, balance_after: after } = line;
  return (
    <tr>
      <td>
        <EffectiveTime time={line.effective_at} />
      </td>
      <td>
        <Link href={`/transactions/${line.transaction_id}`}>{line.description || words.noDescription}</Link>
      </td>
      <td>{line.reference}</td>
      <td className="number">{side === 'debit' && <Amount amount={amount} />}</td>
      <td className="number">{side === 'credit' && <Amount amount={amount} />}</td>
      <td className="number">
        <Amount amount={running ?? after ?? ''} />
      </td>
    </tr>
  );
}

/** Transactions with their entries. */
export function JournalTable({ lines }: { lines: JournalLine[] }): ReactElement {
  return (
    <div className="sheet-frame" role="region" aria-label={words.names.journal} tabIndex={0}>
      <table className="sheet report journal">
        <thead>
          <tr>
            <th scope="col">{words.date}</th>
            <th scope="col">{words.account}</th>
            <th scope="col" className="number">
              {words.debit}
            </th>
            <th scope="col" className="number">
              {words.credit}
            </th>
          </tr>
        </thead>
        {lines.map((line) => (
          <tbody key={line.transaction_id}>
            <tr className="report-group">
              <td>
                <EffectiveTime time={line.effective_at} />
              </td>
              <th scope="rowgroup" colSpan={3}>
                <Link href={`/transactions/${line.transaction_id}`}>{line.description || words.noDescription}</Link>{' '}
                {line.reference !== null && <small>{line.reference}</small>}
              </th>
            </tr>
            {line.entries.map((entry, index) => (
              <tr key={index}>
                <td />
                <td data-depth={entry.side === 'debit' ? 1 : 2}>
                  {entry.name} <code className="report-code">{entry.account_code}</code>
                </td>
                <td className="number">{entry.side === 'debit' && <Amount amount={entry.amount} currency={entry.currency} />}</td>
                <td className="number">{entry.side === 'credit' && <Amount amount={entry.amount} currency={entry.currency} />}</td>
              </tr>
            ))}
          </tbody>
        ))}
      </table>
    </div>
  );
}
