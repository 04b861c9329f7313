// Days of time zones, months and fiscal years.
import fc from 'fast-check';
import { addDays, addMonths, dateOf, dayOf, fiscalYearEnd, instantOf, instantsOf, localDay } from './calendar.ts';

const day = (text: string) => dayOf(text) as number;

test('a day is a date that exists', () => {
  for (const text of ['2026-02-30', '2026-2-3', '26-02-03', '2026-02-03T00:00:00Z', '', '2025-02-29']) expect(dayOf(text)).toBeNull();
  expect(dateOf(day('2028-02-29'))).toBe('2028-02-29');
});

test('a day in Lagos ends at 22:59:59.999Z', () => {
  const { startMs, endMs } = instantsOf('Africa/Lagos', day('2026-01-31'));
  expect(new Date(startMs).toISOString()).toBe('2026-01-30T23:00:00.000Z');
  expect(new Date(endMs).toISOString()).toBe('2026-01-31T22:59:59.999Z');
});

test('a day that a zone skipped has no instants', () => {
  // Samoa went from 29 to 31 December 2011.
  const { startMs, endMs } = instantsOf('Pacific/Apia', day('2011-12-30'));
  expect(endMs).toBeLessThan(startMs);
});

test('days follow each other without gap or overlap, and each instant is on its day', () => {
  const zones = ['UTC', 'Africa/Lagos', 'America/New_York', 'Europe/London', 'Asia/Kolkata', 'Pacific/Apia', 'America/Sao_Paulo'];
  const days = fc.integer({ min: 0, max: 30_000 }).map((number) => number * 86_400_000);
  fc.assert(
    fc.property(fc.constantFrom(...zones), days, (zone, each) => {
      const { startMs, endMs } = instantsOf(zone, each);
      expect(instantsOf(zone, addDays(each, 1)).startMs).toBe(endMs + 1);
      if (endMs > startMs) expect([localDay(zone, startMs), localDay(zone, startMs - 1) < each]).toEqual([each, true]);
    }),
    { numRuns: 200 },
  );
});

test('months keep their end', () => {
  const cases = [
    ['2026-01-31', 1, '2026-02-28'],
    ['2026-02-28', 1, '2026-03-31'],
    ['2028-02-28', 12, '2029-02-28'],
    ['2026-03-30', -1, '2026-02-28'],
    ['2026-12-15', 1, '2027-01-15'],
  ] as const;
  for (const [from, months, to] of cases) expect(dateOf(addMonths(day(from), months))).toBe(to);
});

test('a fiscal year ends on its day, or on the last of February', () => {
  const cases = [
    ['2026-12-31', '12-31', '2026-12-31'],
    ['2026-04-01', '03-31', '2027-03-31'],
    ['2026-03-31', '03-31', '2026-03-31'],
    ['2027-03-01', '02-29', '2028-02-29'],
    ['2026-02-28', '02-29', '2026-02-28'],
  ] as const;
  for (const [at, end, last] of cases) expect(dateOf(fiscalYearEnd(day(at), end))).toBe(last);
});

test.each([
  ['2026-01-31', 'first', 'UTC', '2026-01-31T00:00:00.000Z'],
  ['2026-01-31', 'last', 'Africa/Lagos', '2026-01-31T22:59:59.999Z'],
  ['2026-01-31T12:00:00.5+01:00', 'last', 'Africa/Lagos', '2026-01-31T11:00:00.500Z'],
])('%s is, as the %s of %s, %s', (text, edge, timeZone, instant) => {
  expect(instantOf(text, edge as 'first', timeZone)).toBe(Date.parse(instant));
});

test.each([
  '2026-02-30',
  '2026-1-1',
  '2026-01-01T00:00:00',
  '2026-01-01T00:00:00.0001Z',
  '2026-02-30T00:00:00Z',
  '2026-01-01T24:00:00Z',
  '',
])('%s is no time', (text) => {
  expect(instantOf(text, 'first', 'UTC')).toBeNull();
});

test('a day that the zone skipped has no instant', () => {
  expect(instantOf('2011-12-30', 'first', 'Pacific/Apia')).toBeNull();
});
