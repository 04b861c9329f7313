// Makes a report of any kind and writes it in its format.
import type { Snapshot } from '../auditor/snapshot.ts';
import { accountsJson } from './json.ts';
import { makeAccountsReport, type ReportBounds } from './accounts-report.ts';
import { makeCashFlow } from './cash-flow.ts';
import { fileOf } from './formats/files.ts';
import { readHeading, type Heading } from './heading.ts';
import { makeJournal } from './journal.ts';
import { Pages } from './pages.ts';
import { pageLimits, type Asked } from './parameters.ts';
import { journalJson, statementsJson } from './statements-json.ts';
import { makeStatements } from './statements.ts';
import type { Report, ReportName } from './report.ts';

type Maker = (snapshot: Snapshot, heading: Heading, bounds: ReportBounds, pages: Pages) => Promise<Report>;

const makers: Record<ReportName, Maker> = {
  'trial-balance': makeAccountsReport,
  'balance-sheet': makeAccountsReport,
  'income-statement': makeAccountsReport,
  'cash-flow': makeCashFlow,
  'account-statement': makeStatements,
  'general-ledger': makeStatements,
  journal: makeJournal,
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
  const pages = new Pages(snapshot.tenant, asked);
  const heading = await readHeading(snapshot, { ...pages.pin(asked), limit }, nowMs);
  const report = await makers[asked.report](snapshot, heading, bounds, pages);
  if (asked.format !== 'json') return fileOf(report, asked.format);
  return { contentType: 'application/json; charset=utf-8', parts: chunksOf(jsonOf(report)) };
}

function jsonOf(report: Report): AsyncIterable<string> | Iterable<string> {
  if (report.kind === 'accounts') return accountsJson(report);
  return report.kind === 'statements' ? statementsJson(report) : journalJson(report);
}

const chunkBytes = 64 << 10;

/** Texts as buffers of about 64 KiB. */
async function* chunksOf(texts: AsyncIterable<string> | Iterable<string>): AsyncGenerator<Uint8Array> {
  let chunk = '';
  for await (const text of texts) {
    chunk += text;
    if (chunk.length < chunkBytes) continue;
    yield Buffer.from(chunk);
    chunk = '';
  }
  yield Buffer.from(chunk);
}
