// The formats of reports other than JSON: their content types, and how each is written.
import type { Parameters, Report } from '../report.ts';
import { csvOf } from './csv.ts';
import type { Table } from './table.ts';
import { tableOf } from './tables.ts';

/** A file and its media type. Its parts are made while they are read. */
export interface ReportFile {
  contentType: string;
  parts: AsyncIterable<Uint8Array>;
}

const writers: Record<
  Exclude<Parameters['format'], 'json'>,
  { contentType: string; write: (table: Table) => AsyncIterable<Uint8Array> }
> = {
  csv: { contentType: 'text/csv; charset=utf-8; header=present', write: csvOf },
  xlsx: { contentType: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet', write: xlsxParts },
  pdf: { contentType: 'application/pdf', write: pdfParts },
};

/** A report as a file. Reading it throws Refusal `report_too_large` for XLSX of more than 50,000 rows. */
export function fileOf(report: Report, format: keyof typeof writers): ReportFile {
  const { contentType, write } = writers[format];
  return { contentType, parts: write(tableOf(report)) };
}

// Loaded on demand: their packages take 17 MiB.
async function* xlsxParts(table: Table): AsyncGenerator<Uint8Array> {
  const { xlsxOf } = await import('./xlsx.ts');
  yield await xlsxOf(table);
}

async function* pdfParts(table: Table): AsyncGenerator<Uint8Array> {
  const { pdfOf } = await import('./pdf.ts');
  yield* pdfOf(table);
}
