// An amount of money, aligned with the amounts above and below it.
import type { ReactElement } from 'react';
import { formatAmount } from './money.ts';

/** `amount`: decimal text. Figures have one width, so that columns align; put it into a cell of class `number`. */
export function Amount({ amount, currency }: { amount: string; currency?: string }): ReactElement {
  return (
    <span className={amount.startsWith('-') ? 'amount negative' : 'amount'}>
      {currency !== undefined && <span className="currency">{currency} </span>}
      {formatAmount(amount)}
    </span>
  );
}
