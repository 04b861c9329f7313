// Lines of a report along the chart: groups with the sums below them, folded at a depth, and totals. Pure.
import { currencies } from '../../platform/money.ts';
import { accountTypes, type AccountType } from '../templates.ts';
import type { Amounts, ReportLine, ReportTotal } from './report.ts';

/** What reports need of an account. */
export interface ChartAccount {
  /** UUID. */
  id: string;
  code: string;
  name: string;
  type: AccountType;
  parentCode: string | null;
  isGroup: boolean;
  /** The only currency, or null for all. */
  currency: string | null;
  /** JSON object as text. */
  metadata: string;
}

/** An account in the chart. */
export interface PlacedAccount extends ChartAccount {
  /** 1 at the top. */
  depth: number;
  /** UUID of the group above. */
  parent: string | null;
  position: number;
}

/** The chart, by UUID in the order of reports: by type, each account before those below it, siblings in order of creation. */
export type Chart = ReadonlyMap<string, PlacedAccount>;

/** Puts accounts in order. */
export function chartOf(accounts: ChartAccount[]): Chart {
  const children = Map.groupBy(accounts, ({ parentCode }) => parentCode);
  const chart = new Map<string, PlacedAccount>();
  const add = (parent: ChartAccount | null, depth: number) => {
    const siblings = (children.get(parent?.code ?? null) ?? []).toSorted(
      (one, other) => accountTypes.indexOf(one.type) - accountTypes.indexOf(other.type) || (one.id < other.id ? -1 : 1),
    );
    for (const account of siblings) {
      chart.set(account.id, { ...account, depth, parent: parent?.id ?? null, position: chart.size });
      if (account.isGroup) add(account, depth + 1);
    }
  };
  add(null, 1);
  return chart;
}

/** A top-level text, number or boolean of a JSON object as text; null where there is none. */
export function metadataText(metadata: string, key: string): string | null {
  if (metadata === '{}') return null;
  const values = JSON.parse(metadata) as Record<string, unknown>;
  const value = Object.hasOwn(values, key) ? values[key] : null;
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : null;
}

/** The amounts of one account, or of one computed line, before anything is folded. */
export interface Leaf {
  /** UUID; null for a computed line. */
  account: string | null;
  /** Of a computed line. */
  name?: string;
  section: string | null;
  group: string | null;
  currency: string;
  values: Amounts[];
}

/** How leaves become lines. */
export interface Layout {
  chart: Chart;
  depth: number;
  /** Whether lines without any amount are shown. Computed ones always are. */
  zero: boolean;
  sections: readonly (string | null)[];
  /** Currencies that have totals although they have no line. */
  currencies: readonly string[];
  amounts: readonly string[];
  columns: number;
}

/** Lines by currency, section, group (none last) and chart, and the totals of each currency and section. */
export function layOut(leaves: Leaf[], layout: Layout): { lines: ReportLine[]; totals: ReportTotal[] } {
  const shown = leaves.filter((leaf) => layout.zero || leaf.account === null || leaf.values.some(hasAmounts));
  const wanted = new Set([...layout.currencies, ...shown.map(({ currency }) => currency)]);
  const byCurrency = Map.groupBy(shown, ({ currency }) => currency);
  const lines: ReportLine[] = [];
  const totals: ReportTotal[] = [];
  for (const currency of currencies.filter((each) => wanted.has(each))) {
    const bySection = Map.groupBy(byCurrency.get(currency) ?? [], ({ section }) => section);
    for (const section of layout.sections) {
      const own = bySection.get(section) ?? [];
      const byGroup = Map.groupBy(own, ({ group }) => group);
      for (const group of [...byGroup.keys()].sort(textsFirst)) lines.push(...linesOf(byGroup.get(group) ?? [], layout));
      totals.push({ currency, section, values: own.reduce((sum, { values }) => added(sum, values), zeros(layout)) });
    }
  }
  return { lines, totals };
}

/** Texts in order, then null. */
function textsFirst(one: string | null, other: string | null): number {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  return one < other ? -1 : 1;
}

/** The lines of leaves that have section, group and currency in common. */
function linesOf(leaves: Leaf[], { chart, depth }: Layout): ReportLine[] {
  const ofAccounts = new Map<string, ReportLine>();
  const computed: ReportLine[] = [];
  for (const leaf of leaves) {
    if (leaf.account === null) {
      computed.push(computedLine(leaf));
      continue;
    }
    for (let id: string | null = leaf.account; id !== null;) {
      const account: PlacedAccount = chart.get(id) ?? missing(id);
      if (account.depth <= depth) {
        const line = ofAccounts.get(id);
        const isFolding = account.depth === depth && id !== leaf.account;
        if (line) line.values = added(line.values, leaf.values);
        else ofAccounts.set(id, accountLine(account, leaf, isFolding));
      }
      id = account.parent;
    }
  }
  const position = (id: string) => chart.get(id)?.position ?? 0;
  return [...[...ofAccounts].sort(([one], [other]) => position(one) - position(other)).map(([, line]) => line), ...computed];
}

function accountLine(account: PlacedAccount, leaf: Leaf, folded: boolean): ReportLine {
  const { code, name, type, parentCode, depth, isGroup } = account;
  const { section, group, currency, values } = leaf;
  return { accountCode: code, name, type, parentCode, depth, isGroup, folded, computed: false, section, group, currency, values };
}

function computedLine({ name = '', section, group, currency, values }: Leaf): ReportLine {
  const of = { accountCode: null, name, type: 'equity', parentCode: null, depth: 1, isGroup: false, folded: false, computed: true };
  return { ...of, section, group, currency, values };
}

function missing(id: string): never {
  throw new Error(`account ${id} is not in the chart`);
}

function hasAmounts(amounts: Amounts): boolean {
  return Object.values(amounts).some((amount) => amount !== 0n);
}

function zeros({ amounts, columns }: Layout): Amounts[] {
  return Array.from({ length: columns }, () => Object.fromEntries(amounts.map((name) => [name, 0n])));
}

/** Column by column, amount by amount. */
function added(some: Amounts[], others: Amounts[]): Amounts[] {
  return some.map((amounts, index) => {
    const more = others[index] as Amounts;
    return Object.fromEntries(Object.entries(amounts).map(([name, amount]) => [name, amount + (more[name] ?? 0n)]));
  });
}
