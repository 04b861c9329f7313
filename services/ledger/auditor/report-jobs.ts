// Reports as jobs: the same as when they are answered at once, but for their bounds.
import { columnsOf } from '../reports/columns.ts';
import { readHeading } from '../reports/heading.ts';
import { checkedParameters } from '../reports/parameters.ts';
import { renderReport } from '../reports/render.ts';
import { reportNames, type ReportName } from '../reports/report.ts';
import type { JobKind, JobKinds } from './job-kinds.ts';
import { inSnapshot } from './snapshot.ts';

// Of one statement, and of the writer of results, which may wait for its disk.
const [statementMs, idleMs] = [10 * 60_000, 10 * 60_000];

/** A job for each report. */
export const reportJobs: JobKinds = Object.fromEntries(reportNames.map((report) => [report, jobOf(report)]));

function jobOf(report: ReportName): JobKind {
  return {
    scope: 'reports:read',
    isReadOnly: true,
    async check(connections, tenant, parameters) {
      const asked = checkedParameters(report, parameters);
      await inSnapshot(connections, tenant, { statementMs: 5_000 }, async (snapshot) => {
        const { parameters: resolved, timeZone, books } = await readHeading(snapshot, asked, Date.now());
        columnsOf(resolved, { timeZone, fiscalYearEnd: books.fiscal_year_end });
      });
    },
    async run({ tenant, parameters, connections, signal, write }) {
      const asked = checkedParameters(report, parameters);
      const making = { nowMs: Date.now(), paged: false, maxLines: Infinity };
      return inSnapshot(connections, tenant, { statementMs, idleMs }, async (snapshot) => {
        const { contentType, parts } = await renderReport(snapshot, asked, making);
        for await (const bytes of parts) {
          signal.throwIfAborted();
          await write(bytes);
        }
        return contentType;
      });
    },
  };
}
