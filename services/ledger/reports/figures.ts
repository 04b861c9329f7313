// Trial balance, balance sheet and income statement from totals of accounts. Pure; amounts are minor units.
import { net } from '../accounting.ts';
import type { Total, Totals } from '../totals.ts';
import { normalSide } from '../templates.ts';
import { layOut, metadataText, type Chart, type Leaf, type PlacedAccount } from './lines.ts';
import type { Amounts, Column, Parameters, ReportLine, ReportTotal } from './report.ts';

/** Totals of all accounts, or of the part of one value of `group_by`, at each time that the report needs. */
export interface Slice {
  group: string | null;
  /** By milliseconds since the Unix epoch. */
  at: ReadonlyMap<number, Totals>;
}

/** What a report is made of. */
export interface Source {
  parameters: Parameters;
  chart: Chart;
  columns: Column[];
  slices: Slice[];
  /** Of each column: where the fiscal year of its end begins. */
  yearStarts: readonly number[];
}

/** Lines and totals of a report, and the names of its amounts in order. */
export interface Figures {
  amounts: string[];
  lines: ReportLine[];
  totals: ReportTotal[];
}

/** The times at whose end a report needs totals: of columns, before them, and before their fiscal years. */
export function timesOf({ parameters, columns, yearStarts }: Pick<Source, 'parameters' | 'columns' | 'yearStarts'>): number[] {
  const times = columns.flatMap(({ fromMs, toMs }) => (fromMs === null ? [toMs] : [fromMs - 1, toMs]));
  const before = parameters.report === 'balance-sheet' ? yearStarts.map((ms) => ms - 1) : [];
  return [...new Set([...times, ...before])];
}

const trialAmounts = ['opening', 'debits', 'credits', 'closing', 'debit', 'credit'];

/** Opening, movements and closing of each account; a balance is positive where it is a debit. */
export function trialBalance(source: Source): Figures {
  // Which side a part of an account's transactions has left means nothing.
  const amounts = source.parameters.groupBy?.of === 'transaction' ? trialAmounts.slice(0, 4) : trialAmounts;
  const leaves = leavesOf(source, () => true).map(({ slice, key, ...leaf }): Leaf => {
    const values = source.columns.map(({ fromMs, toMs }): Amounts => {
      const [before, after] = [totalAt(slice, fromMs === null ? null : fromMs - 1, key), totalAt(slice, toMs, key)];
      const [opening, closing] = [before.debits - before.credits, after.debits - after.credits];
      const [debits, credits] = [after.debits - before.debits, after.credits - before.credits];
      const all = { opening, debits, credits, closing, debit: closing > 0n ? closing : 0n, credit: closing < 0n ? -closing : 0n };
      return pick(all, amounts);
    });
    return { ...leaf, section: null, values };
  });
  return figures(leaves, source, [null], amounts);
}

const sheetSections = { asset: 'assets', liability: 'liabilities', equity: 'equity' } as const;

/** Balances by section, and in equity what revenue and expense have left that no year end has closed: before the fiscal year, and in it. */
export function balanceSheet(source: Source): Figures {
  const { columns, parameters } = source;
  const leaves = leavesOf(source, ({ type }) => type in sheetSections).map(({ slice, key, ...leaf }): Leaf => {
    const { type } = accountOf(source.chart, leaf.account);
    const values = columns.map(({ toMs }) => ({ amount: growth(type, totalAt(slice, toMs, key)) }));
    return { ...leaf, section: sheetSections[type as keyof typeof sheetSections], values };
  });
  const used = usedCurrencies(source);
  for (const slice of source.slices) {
    for (const currency of used) {
      const earnings = source.yearStarts.map((yearStart, index) => {
        const prior = earningsAt(source.chart, slice.at.get(yearStart - 1), currency);
        return { prior, current: earningsAt(source.chart, slice.at.get((columns[index] as Column).toMs), currency) - prior };
      });
      const line = (name: 'prior' | 'current'): Leaf => {
        const values = earnings.map((each) => ({ amount: each[name] }));
        return { account: null, name: `earnings_${name}`, section: 'equity', group: slice.group, currency, values };
      };
      const both = [line('prior'), line('current')];
      const isShown = parameters.groupBy === null || both.some(({ values }) => values.some(({ amount }) => amount !== 0n));
      if (isShown) leaves.push(...both);
    }
  }
  return figures(leaves, source, Object.values(sheetSections), ['amount']);
}

/** Movements of revenue and expense, and the net income. */
export function incomeStatement(source: Source): Figures {
  const leaves = leavesOf(source, ({ type }) => isEarning(type)).map(({ slice, key, ...leaf }): Leaf => {
    const { type } = accountOf(source.chart, leaf.account);
    const values = source.columns.map(({ fromMs, toMs }) => ({
      amount: growth(type, totalAt(slice, toMs, key)) - growth(type, totalAt(slice, fromMs === null ? null : fromMs - 1, key)),
    }));
    return { ...leaf, section: type, values };
  });
  const made = figures(leaves, source, ['revenue', 'expense'], ['amount']);
  const totals = made.totals.flatMap((total): ReportTotal[] => {
    if (total.section === 'revenue') return [total];
    const revenue = made.totals.find(({ currency, section }) => section === 'revenue' && currency === total.currency);
    const values = total.values.map(({ amount = 0n }, index) => ({ amount: (revenue?.values[index]?.['amount'] ?? 0n) - amount }));
    return [total, { currency: total.currency, section: 'net_income', values }];
  });
  return { ...made, totals };
}

/** What revenue less expense have left in a currency. */
export function earningsAt(chart: Chart, totals: Totals | undefined, currency: string): bigint {
  return sumOf(chart, totals, currency, ({ type }) => isEarning(type));
}

/** Credits less debits of the accounts that fit, in a currency. */
export function sumOf(chart: Chart, totals: Totals | undefined, currency: string, fits: (account: PlacedAccount) => boolean): bigint {
  let sum = 0n;
  for (const [key, { debits, credits }] of totals ?? []) {
    const [id = '', of] = key.split(' ');
    if (of === currency && fits(accountOf(chart, id))) sum += credits - debits;
  }
  return sum;
}

/** The currencies of a report that have any totals, or the one that it asks for. */
export function usedCurrencies({ parameters, slices }: Pick<Source, 'parameters' | 'slices'>): string[] {
  if (parameters.currency !== null) return [parameters.currency];
  const used = new Set<string>();
  for (const { at } of slices) for (const totals of at.values()) for (const key of totals.keys()) used.add(key.slice(key.indexOf(' ') + 1));
  return [...used];
}

type Unvalued = Omit<Leaf, 'values' | 'section' | 'account'> & { account: string; slice: Slice; key: string };

/** Accounts with totals, once for each slice and currency, and with `zero` all others. */
function leavesOf(source: Source, fits: (account: PlacedAccount) => boolean): Unvalued[] {
  const { parameters, chart, slices } = source;
  const used = usedCurrencies(source);
  const seen = new Set<string>();
  const leaves: Unvalued[] = [];
  const add = (slice: Slice, keys: Iterable<string>) => {
    for (const key of keys) {
      const [account = '', currency = ''] = key.split(' ');
      if (used.includes(currency) && fits(accountOf(chart, account))) leaves.push({ account, group: slice.group, currency, slice, key });
    }
  };
  for (const slice of slices) {
    const keys = new Set([...slice.at.values()].flatMap((totals) => [...totals.keys()]));
    for (const key of keys) seen.add(key);
    add(slice, keys);
  }
  if (!parameters.zero) return leaves;
  for (const { key, metadata } of allKeys(chart, used)) {
    const { of, key: text = '' } = parameters.groupBy ?? {};
    if (!seen.has(key)) add({ group: of === 'account' ? metadataText(metadata, text) : null, at: new Map() }, [key]);
  }
  return leaves;
}

/** Every account in its currency, or in each that is used. */
function* allKeys(chart: Chart, used: string[]): Generator<{ key: string; metadata: string }> {
  for (const { id, isGroup, currency, metadata } of chart.values()) {
    if (!isGroup) for (const each of currency === null ? used : [currency]) yield { key: `${id} ${each}`, metadata };
  }
}

function figures(leaves: Leaf[], source: Source, sections: (string | null)[], amounts: string[]): Figures {
  const { chart, columns, parameters } = source;
  const { depth, zero } = parameters;
  const layout = { chart, depth, zero, sections, currencies: usedCurrencies(source), amounts, columns: columns.length };
  return { amounts, ...layOut(leaves, layout) };
}

const nothing: Total = { debits: 0n, credits: 0n };

function totalAt({ at }: Slice, ms: number | null, key: string): Total {
  return (ms === null ? undefined : at.get(ms)?.get(key)) ?? nothing;
}

function isEarning(type: string): boolean {
  return type === 'revenue' || type === 'expense';
}

/** The balance on the side on which accounts of a type grow: contra accounts are negative. */
function growth(type: PlacedAccount['type'], total: Total): bigint {
  return net({ normalBalance: normalSide(type) }, total);
}

function accountOf(chart: Chart, id: string | null): PlacedAccount {
  const account = chart.get(id ?? '');
  if (!account) throw new Error(`account ${id} is not in the chart`);
  return account;
}

function pick(all: Amounts, names: readonly string[]): Amounts {
  return Object.fromEntries(names.map((name) => [name, all[name] as bigint]));
}
