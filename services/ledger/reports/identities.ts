// What must hold in every report, or it is not given out. Pure.
import type { Totals } from '../totals.ts';
import { earningsAt, sumOf, usedCurrencies, type Figures, type Source } from './figures.ts';
import type { Amounts, ReportTotal } from './report.ts';

/** Thrown where figures contradict each other: the log or a table is damaged. */
export class BrokenIdentity extends Error {
  constructor(what: string) {
    super(`a report contradicts itself: ${what}`);
    this.name = 'BrokenIdentity';
  }
}

/** Throws {@link BrokenIdentity} unless it holds. */
export function mustHold(holds: boolean, what: string): void {
  if (!holds) throw new BrokenIdentity(what);
}

/**
 * Checks a report by accounts. `whole`: totals by time of all that is recorded, with closing transactions. Throws {@link BrokenIdentity}.
 */
export function assertIdentities(figures: Figures, source: Source, whole: ReadonlyMap<number, Totals>): void {
  assertBalanced(whole);
  assertAddsUp(figures, source);
  const { report } = source.parameters;
  for (const { currency, section, values } of figures.totals) {
    values.forEach((amounts, index) => {
      const at = `${currency}, column ${source.columns[index]?.key}`;
      if (report === 'trial-balance') assertTrialBalance(amounts, at);
      if (report === 'balance-sheet' && section === 'assets') {
        const amount = (name: string) => amountOf(figures.totals, currency, name, index);
        mustHold(amount('assets') === amount('liabilities') + amount('equity'), `assets are not liabilities and equity (${at})`);
      }
    });
  }
  if (report === 'income-statement') assertEquityChange(figures, source, whole);
}

/** All that is recorded balances, at every time. */
function assertBalanced(whole: ReadonlyMap<number, Totals>): void {
  for (const [ms, totals] of whole) {
    const differences = new Map<string, bigint>();
    for (const [key, { debits, credits }] of totals) {
      const currency = key.slice(key.indexOf(' ') + 1);
      differences.set(currency, (differences.get(currency) ?? 0n) + debits - credits);
    }
    for (const [currency, difference] of differences) {
      mustHold(difference === 0n, `debits and credits differ (${currency}, ${new Date(ms).toISOString()})`);
    }
  }
}

/** Lines that are no group, and folded groups, add up to the totals. */
function assertAddsUp({ lines, totals, amounts }: Figures, { columns }: Source): void {
  const sums = new Map<string, bigint>();
  for (const { currency, section, isGroup, folded, values } of lines) {
    if (isGroup && !folded) continue;
    values.forEach((each, index) => {
      for (const name of amounts) {
        const key = `${currency} ${section} ${index} ${name}`;
        sums.set(key, (sums.get(key) ?? 0n) + (each[name] as bigint));
      }
    });
  }
  for (const { currency, section, values } of totals) {
    if (section === 'net_income') continue;
    columns.forEach(({ key }, index) => {
      for (const name of amounts) {
        const sum = sums.get(`${currency} ${section} ${index} ${name}`) ?? 0n;
        mustHold(
          sum === values[index]?.[name],
          `lines do not add up to the total (${currency}, ${section ?? 'all'}, column ${key}, ${name})`,
        );
      }
    });
  }
}

function assertTrialBalance({ opening = 0n, debits = 0n, credits = 0n, closing = 0n, debit = 0n, credit = 0n }: Amounts, at: string): void {
  mustHold(debits === credits, `debits and credits of the period differ (${at})`);
  mustHold(opening + debits - credits === closing, `opening and movements are not the closing (${at})`);
  mustHold(opening === 0n && closing === 0n, `balances do not cancel out (${at})`);
  mustHold(debit === credit, `debit and credit balances differ (${at})`);
}

/** Equity changes by the net income and by what else was posted to equity: closing transactions move between the two. */
function assertEquityChange(figures: Figures, source: Source, whole: ReadonlyMap<number, Totals>): void {
  const { chart, columns, slices } = source;
  const isEquity = ({ type }: { type: string }) => type === 'equity';
  for (const currency of usedCurrencies({ parameters: source.parameters, slices: [{ group: null, at: whole }] })) {
    columns.forEach(({ fromMs, toMs, key }, index) => {
      const change = (of: (ms: number) => bigint) => of(toMs) - (fromMs === null ? 0n : of(fromMs - 1));
      const equity = change((ms) => sumOf(chart, whole.get(ms), currency, isEquity) + earningsAt(chart, whole.get(ms), currency));
      const posted = slices.reduce((sum, { at }) => sum + change((ms) => sumOf(chart, at.get(ms), currency, isEquity)), 0n);
      const income = amountOf(figures.totals, currency, 'net_income', index);
      mustHold(
        equity === income + posted,
        `equity does not change by the net income and what was posted to it (${currency}, column ${key})`,
      );
    });
  }
}

function amountOf(totals: ReportTotal[], currency: string, section: string, index: number): bigint {
  return totals.find((total) => total.currency === currency && total.section === section)?.values[index]?.['amount'] ?? 0n;
}
