// Makes a report of any kind and writes it in its format.
import type { Snapshot } from '../auditor/snapshot.ts';
import { accountsJson } from './json.ts';
import { fileOf } from './formats/files.ts';
import { makeAccountsReport, type ReportBounds } from './accounts-report.ts';
import { readHeading, type Heading } from './heading.ts';
import { pageLimits, type Asked } from './parameters.ts';
import type { Report, ReportName } from './report.ts';

type Maker = (snapshot: Snapshot, heading: Heading, bounds: ReportBounds) => Promise<Report>;

const makers: Partial<Record<ReportName, Maker>> = {
  'trial-balance': makeAccountsReport,
  'balance-sheet': makeAccountsReport,
  'income-statement': makeAccountsReport,
};

/** How a report is made. */
export interface Making extends ReportBounds {
  /** Where it ends if it names no time, milliseconds since the Unix epoch. */
  nowMs: number;
  /** Whether JSON of statements and journal comes in pages also where the request names no limit. */
  paged: boolean;
}

/** A report in its format. Its parts are read once, in the snapshot. */
export interface Rendered {
  contentType: string;
  parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** Makes a report of a snapshot. Throws Refusal, and BrokenIdentity where figures contradict each other. */
export async function renderReport(snapshot: Snapshot, asked: Asked, { nowMs, paged, ...bounds }: Making): Promise<Rendered> {
  const limit = asked.limit ?? (paged && asked.format === 'json' ? pageLimits.fallback : null);
  const heading = await readHeading(snapshot, { ...asked, limit }, nowMs);
  const maker = makers[asked.report];
  if (!maker) throw new Error(`${asked.report} cannot be made`);
  const report = await maker(snapshot, heading, bounds);
  if (asked.format !== 'json') return fileOf(report, asked.format);
  if (report.kind !== 'accounts') throw new Error(`${asked.report} has no JSON`);
  return { contentType: 'application/json; charset=utf-8', parts: chunksOf(accountsJson(report)) };
}

const chunkBytes = 64 << 10;

/** Texts as buffers of about 64 KiB. */
function* chunksOf(texts: Iterable<string>): Generator<Uint8Array> {
  let chunk = '';
  for (const text of texts) {
    chunk += text;
    if (chunk.length < chunkBytes) continue;
    yield Buffer.from(chunk);
    chunk = '';
  }
  yield Buffer.from(chunk);
}
