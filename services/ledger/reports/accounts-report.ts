// Makes trial balance, balance sheet and income statement of one snapshot of the ledger's database.
import type { Client } from '../../platform/postgres.ts';
import type { Snapshot } from '../auditor/snapshot.ts';
import { Refusal } from '../accounting.ts';
import { invalid } from '../fields.ts';
import { totalsAt, type Total, type Totals } from '../totals.ts';
import { columnsOf, fiscalYearStart } from './columns.ts';
import { balanceSheet, incomeStatement, timesOf, trialBalance, type Figures, type Slice, type Source } from './figures.ts';
import type { Heading } from './heading.ts';
import { assertIdentities } from './identities.ts';
import { chartOf, metadataText, type Chart, type ChartAccount } from './lines.ts';
import { MovesOverTime, closingMoves, taggedMoves, without, type Move } from './moves.ts';
import type { AccountsReport, GroupBy } from './report.ts';

const figuresOf: Record<string, (source: Source) => Figures> = {
  'trial-balance': trialBalance,
  'balance-sheet': balanceSheet,
  'income-statement': incomeStatement,
};

/** Most values of what a report is split by. */
export const maxGroups = 100;

/** How large a report may become. */
export interface ReportBounds {
  maxLines: number;
}

/**
 * Makes a report. Throws {@link Refusal}: `validation_failed`, `index_building`, `report_too_large`; and BrokenIdentity where its figures
 * contradict each other.
 */
export async function makeAccountsReport(snapshot: Snapshot, heading: Heading, bounds: ReportBounds): Promise<AccountsReport> {
  const { client, tenant } = snapshot;
  const { parameters, asRecorded, timeZone, books } = heading;
  const fiscal = { timeZone, fiscalYearEnd: books.fiscal_year_end };
  const columns = columnsOf(parameters, fiscal);
  const yearStarts = columns.map(({ toMs }) => fiscalYearStart(toMs, fiscal));
  const times = timesOf({ parameters, columns, yearStarts });
  const chart = await readChart(client, tenant);
  const sequence = asRecorded.sequence;
  const whole = await totalsByTime(client, tenant, times, sequence, parameters.currency);
  const leavesOutClosing = parameters.report === 'income-statement' || parameters.closing === 'exclude';
  const leftOut = leavesOutClosing ? await closingMoves(client, tenant, sequence) : [];
  const kept = leftOut.length === 0 ? whole : without(whole, ofCurrency(totalsOfMoves(leftOut, times), parameters.currency));
  const slices = await slicesOf({ snapshot, heading, chart, times, leftOut }, kept);
  const source: Source = { parameters, chart, columns, slices, yearStarts };
  const figures = (figuresOf[parameters.report] as (source: Source) => Figures)(source);
  if (figures.lines.length > bounds.maxLines) throw tooLarge(`has more than ${bounds.maxLines} lines`);
  assertIdentities(figures, source, whole);
  return { kind: 'accounts', parameters, asRecorded, timeZone, columns, ...figures };
}

/** The refusal of a report that takes too long or is too long to be answered at once. */
export function tooLarge(what: string): Refusal {
  return new Refusal('report_too_large', `the report ${what}: start it as a job, with POST on the same path`);
}

/** All accounts in order. */
export async function readChart(client: Client, tenant: string): Promise<Chart> {
  const { rows } = await client.query<ChartAccount>(
    `select id, code, name, type, parent_code as "parentCode", is_group as "isGroup", currency, metadata from accounts where tenant_id = $1`,
    [tenant],
  );
  return chartOf(rows);
}

async function totalsByTime(
  client: Client,
  tenant: string,
  times: number[],
  sequence: bigint,
  currency: string | null,
): Promise<Map<number, Totals>> {
  const bounds = times.map((effectiveMs) => ({ effectiveMs, sequence }));
  const totals = await totalsAt(client, tenant, bounds);
  return ofCurrency(new Map(times.map((ms, index) => [ms, totals[index] as Totals])), currency);
}

function ofCurrency(byTime: Map<number, Totals>, currency: string | null): Map<number, Totals> {
  if (currency === null) return byTime;
  return new Map([...byTime].map(([ms, totals]) => [ms, new Map([...totals].filter(([key]) => key.endsWith(` ${currency}`)))]));
}

function totalsOfMoves(moves: readonly Move[], times: readonly number[]): Map<number, Totals> {
  const sums = new MovesOverTime(times);
  for (const move of moves) sums.add(move);
  return sums.totals();
}

interface Splitting {
  snapshot: Snapshot;
  heading: Heading;
  chart: Chart;
  times: number[];
  leftOut: Move[];
}

async function slicesOf(splitting: Splitting, kept: Map<number, Totals>): Promise<Slice[]> {
  const { groupBy } = splitting.heading.parameters;
  if (groupBy === null) return [{ group: null, at: kept }];
  const slices = groupBy.of === 'account' ? byAccounts(splitting.chart, groupBy.key, kept) : await byTransactions(splitting, groupBy, kept);
  return slices.length === 0 ? [{ group: null, at: kept }] : slices;
}

/** Totals by a text of the accounts' metadata. Throws {@link Refusal} beyond 100 of them. */
export function byAccounts(chart: Chart, key: string, kept: ReadonlyMap<number, Totals>): Slice[] {
  const slices = new Map<string | null, Map<number, Totals>>();
  for (const [ms, totals] of kept) {
    for (const [balance, total] of totals) {
      const group = metadataText(chart.get(balance.slice(0, balance.indexOf(' ')))?.metadata ?? '{}', key);
      const slice = slices.get(group) ?? new Map<number, Totals>();
      slices.set(group, slice);
      if (slices.size > maxGroups + Number(slices.has(null))) throw tooManyGroups({ of: 'account', key });
      const own = slice.get(ms) ?? new Map<string, Total>();
      slice.set(ms, own.set(balance, total));
    }
  }
  return [...slices].map(([group, at]) => ({ group, at }));
}

async function byTransactions(
  { snapshot, heading, times, leftOut }: Splitting,
  groupBy: GroupBy,
  kept: Map<number, Totals>,
): Promise<Slice[]> {
  const { client, tenant } = snapshot;
  const { parameters, asRecorded } = heading;
  const skipped = new Set(leftOut.map(({ sequence }) => sequence));
  const sums = new Map<string, MovesOverTime>();
  for await (const move of taggedMoves(client, tenant, groupBy.key, asRecorded.sequence)) {
    if (skipped.has(move.sequence)) continue;
    const sum = sums.get(move.value) ?? new MovesOverTime(times);
    sums.set(move.value, sum);
    if (sums.size > maxGroups) throw tooManyGroups(groupBy);
    sum.add(move);
  }
  const slices = [...sums].map(([group, sum]): Slice => ({ group, at: ofCurrency(sum.totals(), parameters.currency) }));
  const rest = slices.reduce((left, { at }) => without(left, at), kept);
  return [...slices, { group: null, at: rest }];
}

/** The refusal of too many values of what a report is split by. */
export function tooManyGroups({ of, key }: GroupBy): Refusal {
  return invalid('group_by', 'max', `${of}.${key}`, `group_by may have at most ${maxGroups} different values`);
}
