// Transactions as text of other programs: CSV, NDJSON, hledger, beancount.
import { stringify } from 'csv-stringify/sync';
import { toMinor, type Account, type Transaction } from '../../clients/typescript/ledger.ts';

/** Writes transactions, the accounts first. */
export interface Format {
  begin: (accounts: readonly Account[]) => string;
  transaction: (transaction: Transaction) => string;
}

const csvColumns = ['id', 'date', 'description', 'reference', 'account', 'debit', 'credit', 'commodity'];

const csv = (): Format => ({
  begin: () => stringify([csvColumns]),
  transaction: ({ transaction_id: id, effective_at: date, description, reference, entries }) =>
    stringify(
      entries.map(({ account_code: code, side, amount, currency }) => {
        const [debit, credit] = side === 'debit' ? [amount, ''] : ['', amount];
        return [id, date, safe(description), safe(reference ?? ''), code, debit, credit, currency];
      }),
    ),
});

// A spreadsheet would run such a text as a formula.
const safe = (text: string): string => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);

const ndjson = (): Format => ({
  begin: () => '',
  transaction: (transaction) => `${JSON.stringify(transaction)}\n`,
});

const hledgerTypes: Record<string, string> = { asset: 'A', liability: 'L', equity: 'E', revenue: 'R', expense: 'X' };

const hledger = (): Format => ({
  begin: (accounts) =>
    `${accounts.map(({ account_code: code, type }) => `account ${code}  ; type:${hledgerTypes[type] ?? ''}\n`).join('')}\n`,
  transaction: ({ transaction_id: id, effective_at: time, description, reference, entries }) => {
    // A semicolon begins a comment.
    const text = oneLine(description).replaceAll(';', ',');
    // Without a code, a text that begins as one or as a status would be read as that.
    const code = reference ? `(${oneLine(reference).replace(/[()]/g, '')}) ` : /^[(*!]/.test(text) ? '() ' : '';
    const lines = entries.map(
      ({ account_code: account, side, amount, currency }) => `    ${account}  ${signed(side, amount)} ${currency}\n`,
    );
    return `${time.slice(0, 10)} ${code}${text}  ; id:${id}, effective_at:${time}\n${lines.join('')}\n`;
  },
});

const beancountRoots: Record<string, string> = {
  asset: 'Assets',
  liability: 'Liabilities',
  equity: 'Equity',
  revenue: 'Income',
  expense: 'Expenses',
};

const beancount = (): Format => {
  const names = new Map<string, string>();
  const taken = new Set<string>();
  const name = ({ account_code: code, type }: Account): string => {
    const plain = `${beancountRoots[type] ?? 'Equity'}:${code.replace(/[^A-Za-z0-9-]/g, '-').replace(/^[a-z]/, (letter) => letter.toUpperCase())}`;
    let found = plain;
    for (let number = 2; taken.has(found); number += 1) found = `${plain}-${number}`;
    taken.add(found);
    names.set(code, found);
    return found;
  };
  return {
    begin: (accounts) =>
      `${accounts.map((account) => `1970-01-01 open ${name(account)}\n  code: ${quoted(account.account_code)}\n`).join('')}\n`,
    transaction: ({ transaction_id: id, effective_at: time, description, reference, entries }) => {
      const fields = Object.entries({ id, effective_at: time, ...(reference != null && { reference }) });
      const metadata = fields.map(([key, value]) => `  ${key}: ${quoted(value)}\n`).join('');
      const lines = entries.map(
        ({ account_code: code, side, amount, currency }) => `  ${names.get(code) ?? ''}  ${signed(side, amount)} ${currency}\n`,
      );
      return `${time.slice(0, 10)} * ${quoted(description)}\n${metadata}${lines.join('')}\n`;
    },
  };
};

/** The formats by name. */
export const formats = { csv, ndjson, hledger, beancount } satisfies Record<string, () => Format>;

/** Name of a format. */
export type FormatName = keyof typeof formats;

const oneLine = (text: string): string => text.replace(/\s+/g, ' ').trim();
const quoted = (text: string): string => `"${oneLine(text).replace(/["\\]/g, String.raw`\$&`)}"`;
const signed = (side: string, amount: string): string => (side === 'debit' || toMinor(amount) === 0n ? amount : `-${amount}`);
