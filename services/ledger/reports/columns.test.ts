// Columns of reports: periods by the calendar and those before.
import { instantOf } from '../../platform/calendar.ts';
import { columnsOf, fiscalYearStart } from './columns.ts';
import type { Parameters } from './report.ts';

type Wish = Partial<Pick<Parameters, 'columns' | 'compare' | 'count'>> & { timeZone?: string; fiscalYearEnd?: string };

function columns(from: string | null, to: string, { timeZone = 'UTC', fiscalYearEnd = '12-31', ...more }: Wish = {}): string[] {
  const fromMs = from === null ? null : instantOf(from, 'first', timeZone);
  const toMs = instantOf(to, 'last', timeZone) as number;
  const time = from === null ? 'at' : 'between';
  const wish = { time, fromMs, toMs, columns: 'total', compare: 'none', count: 1, ...more } as const;
  return columnsOf(wish, { timeZone, fiscalYearEnd }).map(({ key, fromMs: first, toMs: last }) => {
    expect(new Date(last).getUTCMilliseconds()).toBe(999);
    return first === null ? key : `${new Date(first).toISOString().replace('T00:00:00.000Z', '')}/${key}`;
  });
}

test('a period is split by the calendar, its ends cut', () => {
  expect(columns('2030-01-15', '2030-03-10', { columns: 'month' })).toEqual([
    ...['2030-01-15/2030-01-31', '2030-02-01/2030-02-28', '2030-03-01/2030-03-10'],
  ]);
  expect(columns('2030-02-01', '2030-07-31', { columns: 'quarter' })).toEqual([
    ...['2030-02-01/2030-03-31', '2030-04-01/2030-06-30', '2030-07-01/2030-07-31'],
  ]);
  expect(columns('2029-11-30', '2031-01-01', { columns: 'year' })).toEqual([
    ...['2029-11-30/2029-12-31', '2030-01-01/2030-12-31', '2031-01-01/2031-01-01'],
  ]);
});

test('balances are split from the beginning of the fiscal year', () => {
  expect(columns(null, '2030-03-10', { columns: 'month' })).toEqual(['2030-01-31', '2030-02-28', '2030-03-10']);
  expect(columns(null, '2030-03-10', { columns: 'month', fiscalYearEnd: '02-29' })).toEqual(['2030-03-10']);
});

test('the period before has as many whole months, else days', () => {
  const before = { compare: 'previous_period' } as const;
  expect(columns('2030-03-01', '2030-03-31', { ...before, count: 2 })).toEqual([
    ...['2030-03-01/2030-03-31', '2030-02-01/2030-02-28', '2030-01-01/2030-01-31'],
  ]);
  expect(columns('2030-01-01', '2030-06-30', before)).toEqual(['2030-01-01/2030-06-30', '2029-07-01/2029-12-31']);
  expect(columns('2030-03-05', '2030-03-11', { ...before, count: 2 })).toEqual([
    ...['2030-03-05/2030-03-11', '2030-02-26/2030-03-04', '2030-02-19/2030-02-25'],
  ]);
  // Summer time begins on March 31st: a week there is an hour short.
  const berlin = columns('2030-03-29', '2030-04-04', { ...before, timeZone: 'Europe/Berlin' });
  expect(berlin.map((each) => each.split('/')[1])).toEqual(['2030-04-04', '2030-03-28']);
  expect(columns(null, '2030-03-15', { ...before, count: 3 })).toEqual(['2030-03-15', '2030-02-28', '2030-01-31', '2029-12-31']);
  // Of a time that is no end of a day, the same time of those days.
  expect(columns('2030-03-02T06:00:00Z', '2030-03-03T05:59:59.999Z', before)).toEqual([
    ...['2030-03-02T06:00:00.000Z/2030-03-03', '2030-03-01T06:00:00.000Z/2030-03-02'],
  ]);
});

test('the year before ends where its months do', () => {
  const before = { compare: 'previous_year' } as const;
  expect(columns('2028-02-01', '2028-02-29', { ...before, count: 2 })).toEqual([
    ...['2028-02-01/2028-02-29', '2027-02-01/2027-02-28', '2026-02-01/2026-02-28'],
  ]);
  expect(columns(null, '2029-02-28', before)).toEqual(['2029-02-28', '2028-02-29']);
  expect(columns('2030-01-01', '2030-06-30', { ...before, columns: 'quarter' })).toEqual([
    ...['2030-01-01/2030-03-31', '2030-04-01/2030-06-30', '2029-01-01/2029-03-31', '2029-04-01/2029-06-30'],
  ]);
  // What is in both stands once.
  expect(columns('2029-01-01', '2030-12-31', { ...before, columns: 'year' })).toEqual([
    ...['2029-01-01/2029-12-31', '2030-01-01/2030-12-31', '2028-01-01/2028-12-31'],
  ]);
});

test('days are those of the books’ time zone', () => {
  const lagos = columns('2030-01-01', '2030-02-28', { columns: 'month', timeZone: 'Africa/Lagos' });
  expect(lagos).toEqual(['2029-12-31T23:00:00.000Z/2030-01-31', '2030-01-31T23:00:00.000Z/2030-02-28']);
});

test.each([
  ['2030-01-01', '12-31', '2030-01-01'],
  ['2030-12-31', '12-31', '2030-01-01'],
  ['2030-06-30', '06-30', '2029-07-01'],
  ['2030-07-01', '06-30', '2030-07-01'],
  ['2028-02-29', '02-29', '2027-03-01'],
  ['2028-03-01', '02-29', '2028-03-01'],
  ['2029-02-28', '02-29', '2028-03-01'],
])('on %s, the fiscal year that ends on %s began on %s', (day, fiscalYearEnd, start) => {
  for (const timeZone of ['UTC', 'America/New_York', 'Pacific/Auckland']) {
    const ms = instantOf(day, 'last', timeZone) as number;
    expect(fiscalYearStart(ms, { timeZone, fiscalYearEnd })).toBe(instantOf(start, 'first', timeZone));
  }
});
