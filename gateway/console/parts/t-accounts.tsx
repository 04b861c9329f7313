// T-accounts: each account of a transaction with its debits on the left and its credits on the right.
import type { ReactElement } from 'react';
import { Link } from 'wouter';
import { texts } from '../page-words.ts';
import { Amount } from './amount.tsx';

interface Line {
  account_code: string;
  side: 'debit' | 'credit';
  amount: string;
  currency: string;
}

/** The accounts in the order of the entries. */
export function TAccounts({ entries }: { entries: readonly Line[] }): ReactElement {
  const accounts = [...new Set(entries.map((entry) => `${entry.account_code} ${entry.currency}`))];
  return (
    <div className="t-accounts">
      {accounts.map((account) => (
        <TAccount key={account} lines={entries.filter((entry) => `${entry.account_code} ${entry.currency}` === account)} />
      ))}
    </div>
  );
}

function TAccount({ lines }: { lines: readonly Line[] }): ReactElement {
  const [{ account_code: code, currency } = { account_code: '', currency: '' }] = lines;
  return (
    <section className="t-account" aria-label={`${code} ${currency}`}>
      <h2>
        <Link href={`/accounts/${encodeURIComponent(code)}`}>{code}</Link> <small>{currency}</small>
      </h2>
      <div className="t-sides">
        {(['debit', 'credit'] as const).map((side) => (
          <div key={side} className="t-side">
            <small>{texts.transaction[side]}</small>
            {lines
              .filter((line) => line.side === side)
              .map((line, index) => (
                <Amount key={index} amount={line.amount} />
              ))}
          </div>
        ))}
      </div>
    </section>
  );
}
