// The parameters of each report: what it takes, how they stand in the address, and their form.
import type { ReactElement } from 'react';
import { texts } from '../page-words.ts';
import { AccountFilter, SearchField } from '../parts/filter.tsx';
import { Checkbox, SelectField, TextField } from '../parts/form.tsx';
import { currencies } from '../parts/money.ts';
import { toDay } from '../parts/time.tsx';

const words = texts.report;

const ofAccounts = ['currency', 'depth', 'columns', 'compare', 'zero', 'group_by', 'known_sequence'] as const;
const names = ['account_code', 'period', 'from', 'to', 'as_of', ...ofAccounts] as const;

/** The name of a parameter in the address. */
export type Name = (typeof names)[number];

/** The parameters as they stand in the address. */
export type Parameters = Partial<Record<Name, string>>;

/** A report: how the client calls it, and what it takes. */
export interface Kind {
  method: 'trialBalance' | 'balanceSheet' | 'incomeStatement' | 'cashFlow' | 'accountStatement' | 'generalLedger' | 'journal';
  takes: readonly Name[];
  /** Where no period was chosen. */
  period: string;
}

/** How the client starts a report as a job. */
export const starts = {
  trialBalance: 'startTrialBalance',
  balanceSheet: 'startBalanceSheet',
  incomeStatement: 'startIncomeStatement',
  cashFlow: 'startCashFlow',
  accountStatement: 'startAccountStatement',
  generalLedger: 'startGeneralLedger',
  journal: 'startJournal',
} as const;

/** The reports by their name in the address. */
export const kinds: Record<string, Kind> = {
  'trial-balance': { method: 'trialBalance', takes: ['period', ...ofAccounts], period: 'year' },
  'balance-sheet': { method: 'balanceSheet', takes: ['as_of', ...ofAccounts], period: 'all' },
  'income-statement': { method: 'incomeStatement', takes: ['period', ...ofAccounts], period: 'year' },
  'cash-flow': { method: 'cashFlow', takes: ['period', ...ofAccounts], period: 'year' },
  'account-statement': { method: 'accountStatement', takes: ['account_code', 'period', 'currency', 'known_sequence'], period: 'month' },
  'general-ledger': { method: 'generalLedger', takes: ['account_code', 'period', 'currency', 'known_sequence'], period: 'month' },
  journal: { method: 'journal', takes: ['period', 'currency', 'known_sequence'], period: 'month' },
};

/** All names, for the address. */
export const parameterNames = names;

/** The first and the last day of a period's name, today being in the user's zone. */
export function daysOf(period: string, today = new Date()): { from?: string; to?: string } {
  const [year, month] = [today.getFullYear(), today.getMonth()];
  const days = (fromMonth: number, months: number) => ({
    from: toDay(new Date(year, fromMonth, 1)),
    to: toDay(new Date(year, fromMonth + months, 0)),
  });
  const spans: Record<string, [fromMonth: number, months: number]> = {
    ...{ month: [month, 1], 'last-month': [month - 1, 1], quarter: [month - (month % 3), 3] },
    ...{ year: [0, 12], 'last-year': [-12, 12] },
  };
  const span = spans[period];
  return span ? days(...span) : {};
}

/** What the API is asked, without what is empty. */
export function queryOf(kind: Kind, parameters: Parameters): Record<string, string | number | boolean> {
  const { period = kind.period, from, to, depth, zero, known_sequence: sequence, account_code: code, ...rest } = parameters;
  const days = !kind.takes.includes('period') ? {} : period === 'own' ? { from, to } : daysOf(period);
  const given = {
    ...rest,
    ...days,
    account_code: code,
    depth: depth === undefined ? undefined : Number(depth),
    zero: zero === 'true' ? true : undefined,
    known_sequence: sequence === undefined ? undefined : Number(sequence),
  };
  const takes = (name: string) => name === 'from' || name === 'to' || kind.takes.includes(name as Name);
  return Object.fromEntries(Object.entries(given).filter(([name, value]) => value !== undefined && value !== '' && takes(name))) as Record<
    string,
    string | number | boolean
  >;
}

const options = (texts: Record<string, string>): { id: string; label: string }[] =>
  Object.entries(texts).map(([id, label]) => ({ id, label }));

interface FormProps {
  kind: Kind;
  parameters: Parameters;
  set: (changed: Parameters) => void;
}

/** The form of the parameters. A change is shown at once. */
export function ParametersForm({ kind, parameters, set }: FormProps): ReactElement {
  const { takes } = kind;
  const period = parameters.period ?? kind.period;
  const choose = (name: Name) => (value: string) => set({ [name]: value });
  return (
    <div className="filters no-print" role="search" aria-label={words.title}>
      {takes.includes('account_code') && (
        <AccountFilter label={words.account} value={parameters.account_code ?? ''} onChange={choose('account_code')} />
      )}
      {takes.includes('period') && (
        <SelectField
          label={words.period}
          name="period"
          value={period}
          onChange={(value) => set(value === 'own' ? { ...daysOf(period), period: value } : { period: value, from: '', to: '' })}
          options={options(words.periods)}
        />
      )}
      {takes.includes('period') && period === 'own' && (
        <>
          <TextField label={texts.common.from} name="from" type="date" value={parameters.from ?? ''} onChange={choose('from')} />
          <TextField label={texts.common.to} name="to" type="date" value={parameters.to ?? ''} onChange={choose('to')} />
        </>
      )}
      {takes.includes('as_of') && (
        <TextField label={words.asOf} name="as_of" type="date" value={parameters.as_of ?? ''} onChange={choose('as_of')} />
      )}
      {takes.includes('currency') && (
        <SelectField
          label={texts.common.currency}
          name="currency"
          value={parameters.currency ?? 'all'}
          onChange={(value) => set({ currency: value === 'all' ? '' : value })}
          options={[{ id: 'all', label: texts.common.all }, ...currencies.map((id) => ({ id, label: id }))]}
        />
      )}
      {takes.includes('depth') && <AccountChoices parameters={parameters} set={set} />}
    </div>
  );
}

function AccountChoices({ parameters, set }: Omit<FormProps, 'kind'>): ReactElement {
  const levels = [1, 2, 3, 4].map((depth) => ({ id: String(depth), label: words.depths(depth) }));
  return (
    <>
      <SelectField
        label={words.depth}
        name="depth"
        value={parameters.depth ?? 'all'}
        onChange={(value) => set({ depth: value === 'all' ? '' : value })}
        options={[...levels, { id: 'all', label: words.allLevels }]}
      />
      <SelectField
        label={words.columns}
        name="columns"
        value={parameters.columns ?? 'total'}
        onChange={(value) => set({ columns: value === 'total' ? '' : value })}
        options={options(words.columnNames)}
      />
      <SelectField
        label={words.compare}
        name="compare"
        value={parameters.compare ?? 'none'}
        onChange={(value) => set({ compare: value === 'none' ? '' : value })}
        options={options(words.comparisons)}
      />
      <SearchField
        label={words.groupBy}
        name="group_by"
        value={parameters.group_by ?? ''}
        onChange={(value) => set({ group_by: value })}
        placeholder={words.groupHint}
        isMono
      />
      <Checkbox
        label={words.zero}
        isSelected={parameters.zero === 'true'}
        onChange={(isSelected) => set({ zero: isSelected ? 'true' : '' })}
      />
    </>
  );
}
