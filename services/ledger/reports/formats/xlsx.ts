// XLSX of tables: one sheet with the rows, one with what the report is.
import { once } from 'node:events';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import writeXlsxFile, { type CellObject, type Row, type Sheet } from 'write-excel-file/node';
import { Refusal } from '../../accounting.ts';
import type { Cell, ColumnType, Table, TableRow } from './table.ts';

/** The file is built in memory. */
const maxRows = 50_000;
// A number of a spreadsheet is a double: beyond 15 digits it would be another one.
const maxDigits = 15;

/** A table as XLSX. The same table has the same bytes. Throws {@link Refusal} `report_too_large` beyond 50,000 rows. */
export async function xlsxOf(table: Table): Promise<Buffer> {
  const kept = table.columns.flatMap((column, index) => (column.isPrintOnly === true ? [] : [{ ...column, index }]));
  const data: Row[] = [kept.map(({ name, type }) => headerCell(name, type))];
  for await (const row of table.rows()) {
    if (row.kind === 'heading') continue;
    data.push(kept.map(({ type, index }) => cellOf(row.cells[index] ?? null, type, row)));
    if (data.length > maxRows) {
      const message = `the report has more than ${maxRows} rows: ask for csv`;
      throw new Refusal('report_too_large', message, { field: 'format', tag: 'report_too_large', value: 'xlsx' });
    }
  }
  const about: [string, string][] = [
    ['Report', table.title],
    ['Period', table.period],
    ...table.facts,
    ['Sequence', table.asRecorded.sequence],
    ['Hash', table.asRecorded.hash],
    ['Recorded at', table.asRecorded.at],
  ];
  return zipped([
    { data, sheet: table.title, stickyRowsCount: 1, columns: kept.map(({ name, type }) => ({ width: widthOf(name, type) })) },
    {
      data: about.map(([name, value]): Row => [{ value: name, fontWeight: 'bold' }, textOf(value)]),
      sheet: 'About',
      columns: [{ width: 16 }, { width: 70 }],
    },
  ]);
}

/** The file, made in a thread: for 20,000 rows it takes seconds in which nobody else would be answered. */
async function zipped(sheets: Sheet<unknown>[]): Promise<Buffer> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { sheets } });
  try {
    const [file] = (await once(worker, 'message')) as [Uint8Array];
    return withoutTimes(Buffer.from(file.buffer, file.byteOffset, file.length));
  } finally {
    await worker.terminate();
  }
}

if (!isMainThread && (workerData as { sheets?: unknown } | null)?.sheets !== undefined) {
  const { sheets } = workerData as { sheets: Sheet<never>[] };
  parentPort?.postMessage(await writeXlsxFile(sheets).toBuffer());
}

function widthOf(name: string, type: ColumnType): number {
  if (type === 'amount') return Math.max(16, name.length + 2);
  return type === 'text' ? Math.max(name.length + 2, /name|description/.test(name) ? 36 : 16) : name.length + 2;
}

function headerCell(value: string, type: ColumnType): CellObject {
  return { value, fontWeight: 'bold', backgroundColor: '#EEF2F6', ...(type === 'amount' && { align: 'right' }) };
}

function cellOf(value: Cell, type: ColumnType, { kind }: TableRow): CellObject | null {
  if (value === null) return null;
  const weight = kind === 'line' ? {} : ({ fontWeight: 'bold' } as const);
  if (typeof value !== 'string') return { value, ...weight };
  if (type !== 'amount') return { value: textOf(value), ...weight };
  if (value.replace(/\D/g, '').length > maxDigits) return { value, align: 'right', ...weight };
  return { value: Number(value), format: '#,##0.00', ...weight };
}

/** The library finds texts by the keys of an object, which has some of its own, like `constructor`; the last character it leaves out. */
function textOf(text: string): string {
  return text in Object.prototype ? `${text}\u0001` : text;
}

const [centralSize, endSize] = [46, 22];

/** Sets the times of all files of a ZIP archive without comment to the earliest that there is: they would be the time of now. */
function withoutTimes(zip: Buffer): Buffer {
  const end = zip.length - endSize;
  const earliest = 0x0021_0000;
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left--) {
    zip.writeUInt32LE(earliest, at + 12);
    zip.writeUInt32LE(earliest, zip.readUInt32LE(at + 42) + 10);
    at += centralSize + zip.readUInt16LE(at + 28) + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
  }
  return zip;
}
