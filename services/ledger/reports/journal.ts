// The journal: transactions between two times with their entries.
import type { Snapshot } from '../auditor/snapshot.ts';
import type { Side } from '../accounting.ts';
import { toUuid } from '../../platform/ids.ts';
import { transactionsInOrder, type DatedTransaction, type LinePlace } from '../effective-lines.ts';
import { totalsAt, type Totals } from '../totals.ts';
import { readChart, tooLarge, type ReportBounds } from './accounts-report.ts';
import type { Heading } from './heading.ts';
import { mustHold } from './identities.ts';
import type { Chart } from './lines.ts';
import type { Pages } from './pages.ts';
import type { JournalLine, JournalReport, Parameters } from './report.ts';
import { edgesOf, minorOf, rangeOf } from './statements.ts';

/** Makes the journal. */
export async function makeJournal(snapshot: Snapshot, heading: Heading, bounds: ReportBounds, pages: Pages): Promise<JournalReport> {
  const { parameters, asRecorded, timeZone } = heading;
  const reader = new JournalReader(snapshot, parameters, bounds, pages);
  const chart = await readChart(snapshot.client, snapshot.tenant);
  return { kind: 'journal', parameters, asRecorded, timeZone, lines: reader.lines(chart), nextCursor: () => reader.nextCursor };
}

/** Debits and credits by currency, minor units. */
type Sums = Map<string, { debits: bigint; credits: bigint }>;

class JournalReader {
  nextCursor = '';
  private readonly snapshot: Snapshot;
  private readonly parameters: Parameters;
  private readonly bounds: ReportBounds;
  private readonly pages: Pages;

  constructor(snapshot: Snapshot, parameters: Parameters, bounds: ReportBounds, pages: Pages) {
    this.snapshot = snapshot;
    this.parameters = parameters;
    this.bounds = bounds;
    this.pages = pages;
  }

  async *lines(chart: Chart): AsyncGenerator<JournalLine> {
    const { client, tenant } = this.snapshot;
    const { currency, limit } = this.parameters;
    let after: LinePlace | null = this.pages.start?.after ?? null;
    const range = { ...rangeOf(this.parameters), after: after ?? undefined, ...(limit !== null && { pageSize: limit + 1 }) };
    const sums: Sums = new Map();
    let count = 0;
    for await (const each of transactionsInOrder(client, tenant, range)) {
      const line = lineOf(each, chart, currency);
      if (line.entries.length === 0) continue;
      if (count === limit) {
        this.nextCursor = this.pages.cursorAt(this.parameters, { statement: null, after, running: 0n });
        return;
      }
      if (++count > this.bounds.maxLines) throw tooLarge(`has more than ${this.bounds.maxLines} transactions`);
      addEntries(sums, line);
      after = { effectiveMs: each.effectiveMs, sequence: each.sequence, position: each.event.entries.length };
      yield line;
    }
    if (this.pages.start === null) await this.assertComplete(sums);
  }

  /** What the journal moves is what the trial balance does. */
  private async assertComplete(sums: Sums): Promise<void> {
    const { client, tenant } = this.snapshot;
    const { before, until } = await edgesOf(client, tenant, this.parameters);
    const [end, begin] = (await totalsAt(client, tenant, before === null ? [until] : [until, before])).map(byCurrency);
    for (const [currency, { debits, credits }] of end as Sums) {
      if (this.parameters.currency !== null && currency !== this.parameters.currency) continue;
      const opening = begin?.get(currency) ?? { debits: 0n, credits: 0n };
      const own = sums.get(currency) ?? { debits: 0n, credits: 0n };
      const isSame = own.debits === debits - opening.debits && own.credits === credits - opening.credits;
      mustHold(isSame, `the journal does not move what the trial balance does (${currency})`);
    }
  }
}

function lineOf({ event, sequence, effectiveMs, createdMs }: DatedTransaction, chart: Chart, currency: string | null): JournalLine {
  const { transactionId, kind, description, reference = null } = event;
  const entries = event.entries.flatMap((entry) => {
    if (currency !== null && entry.currency !== currency) return [];
    const name = chart.get(toUuid('acc', entry.accountId) ?? '')?.name ?? '';
    return [{ accountCode: entry.accountCode, name, side: entry.side as Side, amount: minorOf(entry.amount), currency: entry.currency }];
  });
  return { transactionId, sequence, effectiveMs, createdMs, kind, description, reference, entries };
}

function addEntries(sums: Sums, { entries }: JournalLine): void {
  for (const { currency, side, amount } of entries) {
    const sum = sums.get(currency) ?? { debits: 0n, credits: 0n };
    sum[side === 'debit' ? 'debits' : 'credits'] += amount;
    sums.set(currency, sum);
  }
}

function byCurrency(totals: Totals): Sums {
  const sums: Sums = new Map();
  for (const [key, { debits, credits }] of totals) {
    const currency = key.slice(key.indexOf(' ') + 1);
    const sum = sums.get(currency) ?? { debits: 0n, credits: 0n };
    sums.set(currency, { debits: sum.debits + debits, credits: sum.credits + credits });
  }
  return sums;
}
