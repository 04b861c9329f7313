// Reads CSV: a row a line of a transaction, as `hledger print -O csv` writes it, or a row a transaction.
import { createReadStream } from 'node:fs';
import { parse } from 'csv-parse';
import { currencyOf, dateOf, minorOf, signedLine, unitOf, Unreadable, type Line, type Reader, type Unit } from './unit.ts';

/** The columns by the names of this program. */
export const columnNames = [
  ...['id', 'txnidx', 'date', 'description', 'reference', 'account', 'debit', 'credit', 'amount', 'commodity'],
  ...['debit_account', 'credit_account'],
] as const;

type Row = Record<(typeof columnNames)[number], string>;

// As hledger and the export of this program call them.
const otherNames: Partial<Record<string, string[]>> = { commodity: ['currency'], reference: ['code'], account: ['account_code'] };

/** Reads a CSV file with a header. */
export const readCsv: Reader = async function* (path, { columns = {} }) {
  const rows = createReadStream(path).pipe(
    parse({ columns: true, bom: true, skip_empty_lines: true, relax_column_count: true, info: true, trim: true }),
  );
  let group: { key: string; line: number; rows: Row[] } | undefined;
  for await (const { record, info } of rows as AsyncIterable<{ record: Record<string, string>; info: { lines: number } }>) {
    const row = named(record, columns);
    const key = row.txnidx || row.id;
    if (group && key !== '' && group.key === key) {
      group.rows.push(row);
      continue;
    }
    if (group) yield transactionOf(group);
    group = { key, line: info.lines, rows: [row] };
  }
  if (group) yield transactionOf(group);
};

function named(record: Record<string, string>, columns: Record<string, string>): Row {
  const value = (name: string): string => {
    const theirs = columns[name];
    if (theirs !== undefined && !(theirs in record)) throw new Unreadable(`it has no column ${theirs}`);
    if (theirs !== undefined) return record[theirs] ?? '';
    const found = [name, ...(otherNames[name] ?? [])].find((each) => each in record);
    if (found === undefined && name === 'date')
      throw new Unreadable(
        `it has no column date, only ${Object.keys(record).join(', ')}. Give --columns date=<theirs>; commas separate columns`,
      );
    return found === undefined ? '' : (record[found] ?? '');
  };
  return Object.fromEntries(columnNames.map((name) => [name, value(name)])) as Row;
}

function transactionOf({ line, rows }: { line: number; rows: Row[] }): Unit {
  const where = `line ${line}`;
  return unitOf(where, () => {
    const [first] = rows;
    if (!first) throw new Unreadable('it has no rows');
    return {
      kind: 'posting',
      where,
      id: first.id || undefined,
      date: dateOf(first.date),
      description: unguarded(first.description),
      reference: unguarded(first.reference) || undefined,
      lines: rows.flatMap(linesOf),
    };
  });
}

// What exports put before a text that a spreadsheet would run.
const unguarded = (text: string): string => text.replace(/^'(?=[=+\-@])/, '');

function linesOf(row: Row): Line[] {
  const { account, debit, credit, amount, debit_account: from, credit_account: to } = row;
  const currency = currencyOf(row.commodity);
  if (from !== '' && to !== '') {
    const minor = minorOf(amount);
    return [signedLine(from, minor, currency), signedLine(to, -minor, currency)];
  }
  if (account === '') throw new Unreadable('a row has no account');
  if (/^[([].*[)\]]$/.test(account)) throw new Unreadable(`virtual postings such as ${account} have no other side`);
  if (debit === '' && credit === '') return [signedLine(account, minorOf(amount), currency)];
  return [signedLine(account, (debit === '' ? 0n : minorOf(debit)) - (credit === '' ? 0n : minorOf(credit)), currency)];
}
