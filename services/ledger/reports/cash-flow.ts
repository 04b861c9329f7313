// The cash flow, direct: what moved with cash in the same transaction and currency, by account.
import { toUuid } from '../../platform/ids.ts';
import type { Snapshot } from '../auditor/snapshot.ts';
import { indexedTexts } from '../dated-writes.ts';
import { transactionsInOrder, type DatedTransaction } from '../effective-lines.ts';
import { totalsAt, type Totals } from '../totals.ts';
import { readChart, tooLarge, tooManyGroups, maxGroups, type ReportBounds } from './accounts-report.ts';
import { columnsOf } from './columns.ts';
import type { Heading } from './heading.ts';
import { mustHold } from './identities.ts';
import { layOut, metadataText, type Chart, type Leaf, type PlacedAccount } from './lines.ts';
import type { AccountsReport, Column, ReportLine, ReportTotal } from './report.ts';
import { isBelow, minorOf } from './statements.ts';

const sections = ['operating', 'investing', 'financing'] as const;

/** Makes the cash flow. Throws {@link Refusal}: `validation_failed`, `report_too_large`. */
export async function makeCashFlow(snapshot: Snapshot, heading: Heading, bounds: ReportBounds): Promise<AccountsReport> {
  const { client, tenant } = snapshot;
  const { parameters, asRecorded, timeZone, books } = heading;
  const columns = columnsOf(parameters, { timeZone, fiscalYearEnd: books.fiscal_year_end });
  const chart = await readChart(client, tenant);
  const cash = cashOf(chart, books.cash_accounts);
  const balances = await cashBalances(snapshot, heading, columns, cash);
  const flows = new Flows(heading, chart, columns);
  for await (const { transaction, currency } of cashTransactions(snapshot, heading, columns, balances))
    flows.add(transaction, currency, cash);
  const used =
    parameters.currency === null ? [...new Set([...balances.pairs].map((key) => key.split(' ')[1] as string))] : [parameters.currency];
  const leaves = [...flows.leaves(), ...(parameters.zero ? flows.zeros(used, cash) : [])];
  const layout = {
    chart,
    depth: parameters.depth,
    zero: parameters.zero,
    sections,
    currencies: used,
    amounts: ['amount'],
    columns: columns.length,
  };
  const { lines, totals } = layOut(leaves, layout);
  if (lines.length > bounds.maxLines) throw tooLarge(`has more than ${bounds.maxLines} lines`);
  const ofCash = used.flatMap((currency) => [
    cashTotal('opening_cash', currency, balances.opening),
    cashTotal('closing_cash', currency, balances.closing),
  ]);
  assertAddsUp(lines, [...totals, ...ofCash], columns);
  const inOrder = used.flatMap((currency) => [...totals, ...ofCash].filter((total) => total.currency === currency));
  return { kind: 'accounts', parameters, asRecorded, timeZone, columns, amounts: ['amount'], lines, totals: inOrder };
}

/** UUIDs of the accounts that are cash, or in a group that is. */
function cashOf(chart: Chart, codes: string[]): Set<string> {
  const roots = new Set([...chart.values()].filter(({ code }) => codes.includes(code)).map(({ id }) => id));
  return new Set([...chart.values()].filter((account) => !account.isGroup && isBelow(chart, account, roots)).map(({ id }) => id));
}

interface CashBalances {
  /** `<UUID> <currency>` of cash that has ever moved. */
  pairs: Set<string>;
  /** Cash by currency, for each column. */
  opening: Map<string, bigint>[];
  closing: Map<string, bigint>[];
}

async function cashBalances(
  { client, tenant }: Snapshot,
  { parameters }: Heading,
  columns: Column[],
  cash: Set<string>,
): Promise<CashBalances> {
  const at = (effectiveMs: number) => ({ effectiveMs, sequence: parameters.knownSequence });
  const ends = columns.flatMap(({ fromMs, toMs }) => [at(fromMs === null ? -1 : fromMs - 1), at(toMs)]);
  const totals = await totalsAt(client, tenant, ends, [...cash]);
  const fits = (key: string) => parameters.currency === null || key.endsWith(` ${parameters.currency}`);
  const pairs = new Set(totals.flatMap((each) => [...each.keys()]).filter(fits));
  const sums = totals.map(byCurrency);
  return { pairs, opening: sums.filter((_, index) => index % 2 === 0), closing: sums.filter((_, index) => index % 2 === 1) };
}

function byCurrency(totals: Totals): Map<string, bigint> {
  const sums = new Map<string, bigint>();
  for (const [key, { debits, credits }] of totals) {
    const currency = key.slice(key.indexOf(' ') + 1);
    sums.set(currency, (sums.get(currency) ?? 0n) + debits - credits);
  }
  return sums;
}

/** Each transaction once for each currency in which it moves cash, in the periods of the columns and between them. */
async function* cashTransactions(
  { client, tenant }: Snapshot,
  { parameters }: Heading,
  columns: Column[],
  { pairs }: CashBalances,
): AsyncGenerator<{ transaction: DatedTransaction; currency: string }> {
  const fromMs = Math.min(...columns.map((column) => column.fromMs ?? 0));
  const toMs = Math.max(...columns.map((column) => column.toMs));
  for (const pair of pairs) {
    const [id = '', currency = ''] = pair.split(' ');
    const range = { order: 'effective' as const, fromMs, toMs, sequence: parameters.knownSequence, account: { id, currency } };
    for await (const transaction of transactionsInOrder(client, tenant, range)) {
      const first = transaction.event.entries.find(
        (entry) => entry.currency === currency && pairs.has(`${toUuid('acc', entry.accountId)} ${currency}`),
      );
      if (toUuid('acc', first?.accountId ?? '') === id) yield { transaction, currency };
    }
  }
}

/** What moved with cash: by account, currency and value of `group_by`. */
class Flows {
  private readonly chart: Chart;
  private readonly columns: Column[];
  private readonly groupBy: Heading['parameters']['groupBy'];
  private readonly sums = new Map<string, Leaf>();
  private readonly groups = new Set<string | null>();

  constructor(heading: Heading, chart: Chart, columns: Column[]) {
    this.chart = chart;
    this.columns = columns;
    this.groupBy = heading.parameters.groupBy;
  }

  /** Counts the entries of a currency that are not cash: a credit next to cash has brought it in. */
  add({ event, effectiveMs }: DatedTransaction, currency: string, cash: ReadonlySet<string>): void {
    const indexes = this.columns.flatMap(({ fromMs, toMs }, index) => ((fromMs ?? 0) <= effectiveMs && effectiveMs <= toMs ? [index] : []));
    if (indexes.length === 0) return;
    for (const entry of event.entries) {
      const id = toUuid('acc', entry.accountId) ?? '';
      if (entry.currency !== currency || cash.has(id)) continue;
      const leaf = this.leafOf(id, currency, this.groupOf(id, event.metadata));
      const amount = entry.side === 'credit' ? minorOf(entry.amount) : -minorOf(entry.amount);
      for (const index of indexes) leaf.values[index] = { amount: (leaf.values[index]?.['amount'] ?? 0n) + amount };
    }
  }

  leaves(): Leaf[] {
    return [...this.sums.values()];
  }

  /** Those without any flow. */
  zeros(currencies: string[], cash: ReadonlySet<string>): Leaf[] {
    const moved = new Set(this.leaves().map(({ account, currency }) => `${account} ${currency}`));
    return [...this.chart.values()].flatMap(({ id, isGroup, currency, metadata }) => {
      if (isGroup || cash.has(id)) return [];
      const wanted = currencies.filter((each) => (currency === null || currency === each) && !moved.has(`${id} ${each}`));
      return wanted.map((each) => this.leafOf(id, each, this.groupBy?.of === 'account' ? metadataText(metadata, this.groupBy.key) : null));
    });
  }

  private groupOf(account: string, metadata: string): string | null {
    if (this.groupBy === null) return null;
    const { of, key } = this.groupBy;
    return of === 'account' ? metadataText(this.accountOf(account).metadata, key) : (indexedTexts(metadata, [key])[0]?.[1] ?? null);
  }

  private leafOf(account: string, currency: string, group: string | null): Leaf {
    const key = JSON.stringify([account, currency, group]);
    let leaf = this.sums.get(key);
    if (!leaf) {
      this.groups.add(group);
      if (this.groupBy && this.groups.size > maxGroups + Number(this.groups.has(null))) throw tooManyGroups(this.groupBy);
      const values = this.columns.map(() => ({ amount: 0n }));
      leaf = { account, currency, group, section: sectionOf(this.accountOf(account)), values };
      this.sums.set(key, leaf);
    }
    return leaf;
  }

  private accountOf(id: string): PlacedAccount {
    const account = this.chart.get(id);
    if (!account) throw new Error(`account ${id} is not in the chart`);
    return account;
  }
}

function sectionOf({ type, metadata }: PlacedAccount): (typeof sections)[number] {
  const own = metadataText(metadata, 'cash_flow');
  return sections.find((section) => section === own) ?? (type === 'equity' ? 'financing' : 'operating');
}

function cashTotal(section: string, currency: string, byColumn: Map<string, bigint>[]): ReportTotal {
  return { currency, section, values: byColumn.map((sums) => ({ amount: sums.get(currency) ?? 0n })) };
}

/** Lines are closing less opening cash, and the sections' totals are as well. */
function assertAddsUp(lines: ReportLine[], totals: ReportTotal[], columns: Column[]): void {
  for (const currency of new Set(totals.map((total) => total.currency))) {
    columns.forEach(({ key }, index) => {
      const sum = (values: (ReportLine | ReportTotal)[]) => values.reduce((all, each) => all + (each.values[index]?.['amount'] ?? 0n), 0n);
      const own = totals.filter((total) => total.currency === currency);
      const [opening, closing] = ['opening_cash', 'closing_cash'].map((section) =>
        sum(own.filter((total) => total.section === section)),
      ) as [bigint, bigint];
      const flow = sum(own.filter(({ section }) => section !== 'opening_cash' && section !== 'closing_cash'));
      const shown = sum(lines.filter((line) => line.currency === currency && (!line.isGroup || line.folded)));
      mustHold(flow === closing - opening && shown === flow, `cash does not change by its flows (${currency}, column ${key})`);
    });
  }
}
