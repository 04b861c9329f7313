// Reads a file of beancount, by its bean-query.
import { parse } from 'csv-parse/sync';
import { readByProgram } from './program.ts';
import { currencyOf, dateOf, minorOf, signedLine, unitOf, Unreadable, type Reader, type Unit } from './unit.ts';

const query = `select id, date, payee, narration, account, number, currency, cost_number, price, links,
  entry_meta('id') as ours, entry_meta('effective_at') as time, entry_meta('reference') as reference,
  getitem(open_meta(account), 'code') as code,
  entry_meta('filename') as file, entry_meta('lineno') as line where type = 'transaction' order by date, id, lineno`;

type Row = Record<
  | 'id'
  | 'date'
  | 'payee'
  | 'narration'
  | 'account'
  | 'number'
  | 'currency'
  | 'cost_number'
  | 'price'
  | 'links'
  | 'ours'
  | 'time'
  | 'reference'
  | 'code'
  | 'file'
  | 'line',
  string
>;

const types: Record<string, string> = {
  Assets: 'asset',
  Liabilities: 'liability',
  Equity: 'equity',
  Income: 'revenue',
  Expenses: 'expense',
};

/** Reads a file with its includes. */
export const readBeancount: Reader = async function* (path) {
  const install = 'Install it with: pip install beancount beanquery';
  const text = await readByProgram('bean-query', ['-f', 'csv', path, query], install);
  const rows: Row[] = parse(text, { columns: true, trim: true, skip_empty_lines: true });
  const seen = new Set<string>();
  const transactions = Map.groupBy(rows, ({ id, file, line }) => `${id} ${file} ${line}`);
  for (const { account, code } of rows) {
    if (seen.has(account)) continue;
    seen.add(account);
    yield { kind: 'account', name: code || account, type: types[account.split(':')[0] ?? ''] };
  }
  for (const lines of transactions.values()) yield transactionOf(lines);
};

function transactionOf(rows: Row[]): Unit {
  const [first] = rows;
  const where = `transaction of ${first?.date ?? ''} (${first?.narration ?? ''})`;
  return unitOf(where, () => {
    if (!first) throw new Unreadable('it has no lines');
    return {
      kind: 'posting',
      where,
      // Its own is the same for two transactions that are alike.
      id: first.ours || undefined,
      date: dateOf(first.time || first.date),
      description: [first.payee, first.narration].filter(Boolean).join(' | '),
      reference: first.reference || first.links || undefined,
      lines: rows.map(({ account, code, number, currency, cost_number: cost, price }) => {
        if (cost !== '' || price !== '')
          throw new Unreadable(`costs and prices such as that of ${currency} in ${account} are no amounts of money`);
        return signedLine(code || account, minorOf(number), currencyOf(currency));
      }),
    };
  });
}
