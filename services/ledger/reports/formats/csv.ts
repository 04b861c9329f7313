// CSV of tables (RFC 4180) that is safe to open in spreadsheets.
import { setImmediate } from 'node:timers/promises';
import { stringify } from 'csv-stringify/sync';
import type { Cell, ColumnType, Table } from './table.ts';

const chunkRows = 500;
// A spreadsheet would run it as a formula.
const formula = /^[=+\-@\t\r]/;

/** One line of CSV with its CRLF. Texts that a spreadsheet would run as a formula get `'` in front, amounts and other cells never. */
export function csvLine(cells: readonly Cell[], types: readonly ColumnType[]): string {
  const safe = cells.map((cell, index) => {
    if (typeof cell !== 'string') return cell === null ? '' : String(cell);
    return types[index] === 'text' && formula.test(cell) ? `'${cell}` : cell;
  });
  return stringify([safe], { record_delimiter: 'windows' });
}

/** A table as CSV: names as header, then a row per line. Headings and totals are left out, so that rows add up. */
export async function* csvOf({ columns, rows }: Table): AsyncGenerator<Buffer> {
  const kept = columns.flatMap((column, index) => (column.isPrintOnly === true ? [] : [{ ...column, index }]));
  const types = kept.map(({ type }) => type);
  let chunk = csvLine(
    kept.map(({ name }) => name),
    types.map(() => 'text'),
  );
  let count = 0;
  for await (const row of rows()) {
    if (row.kind === 'heading' || row.kind === 'total') continue;
    chunk += csvLine(
      kept.map(({ index }) => row.cells[index] ?? null),
      types,
    );
    if (++count % chunkRows === 0) {
      yield Buffer.from(chunk);
      chunk = '';
      await setImmediate();
    }
  }
  yield Buffer.from(chunk);
}
